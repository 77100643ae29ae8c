/* 01: allocate, resolve, launch, release. The whole idea of snug on one page, on the host device. */
#include <snug.h>
#include <snug_host.h>
#include <stdio.h>
#include <stdlib.h>

static void check(snug_status status, const char *what) {
    if (status == SNUG_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, snug_status_string(status));
    exit(1);
}

/* A "kernel": runs on the stream's own thread, after this program has gone on. */
struct add {
    float       *sum;
    const float *a, *b;
    size_t       n;
};

static void add_kernel(void *arguments) {
    struct add *k = arguments;
    for (size_t i = 0; i < k->n; i++)
        k->sum[i] = k->a[i] + k->b[i];
}

int main(void) {
    enum { N = 1 << 20 };
    static float a[N], b[N], sum[N];
    for (int i = 0; i < N; i++) {
        a[i] = (float)i;
        b[i] = 1;
    }

    snug_pool_options options = snug_pool_options_default();
    options.capacity          = 64 << 20;
    snug_pool        *pool;
    snug_host_stream *native;
    snug_stream      *stream;
    check(snug_pool_create(&options, &pool), "pool");
    check(snug_host_stream_create(&native), "stream");
    check(snug_stream_attach(pool, native, &stream), "attach");
    check(snug_compactor_start(pool, NULL), "compactor"); /* moves what is idle, from here on */

    snug_handle handles[3]; /* sum, a, b */
    for (int i = 0; i < 3; i++)
        check(snug_alloc(pool, sizeof a, NULL, &handles[i]), "alloc");
    check(snug_write(stream, handles[1], 0, a, sizeof a), "write a");
    check(snug_write(stream, handles[2], 0, b, sizeof b), "write b");

    /* Addresses are good from resolve to release, and mean nothing outside. */
    static const snug_access access[3] = {SNUG_WRITE, SNUG_READ, SNUG_READ};
    void                    *at[3];
    check(snug_resolve(stream, handles, 3, access, at), "resolve");
    check(snug_host_launch(native, add_kernel, &(struct add){at[0], at[1], at[2], N}, sizeof(struct add)), "launch");
    check(snug_release(stream, handles, 3, access), "release");

    check(snug_read(stream, handles[0], 0, sum, sizeof sum), "read");
    check(snug_stream_sync(stream), "sync");
    for (int i = 0; i < 3; i++)
        check(snug_free(pool, handles[i]), "free"); /* legal at any moment, work queued or not */
    check(snug_stream_detach(stream), "detach");
    check(snug_pool_destroy(pool), "destroy");
    check(snug_host_stream_destroy(native), "destroy stream");

    for (int i = 0; i < N; i++)
        if (sum[i] != a[i] + b[i]) {
            fprintf(stderr, "sum[%d] is %f\n", i, (double)sum[i]);
            return 1;
        }
    printf("%d sums are right\n", (int)N);
    return 0;
}
