/* 02: two streams and a fence. A buffer is freed while its stream still works on it; the memory goes to another stream at
 * once. Nobody waits on the host: the second stream waits on the device, for exactly that. */
#include <snug.h>
#include <snug_host.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void check(snug_status status, const char *what) {
    if (status == SNUG_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, snug_status_string(status));
    exit(1);
}

struct fill {
    unsigned char *at;
    size_t         bytes;
    int            value;
    unsigned       delay_us;
};

static void slow_fill(void *arguments) {
    struct fill *k = arguments;
    usleep(k->delay_us);
    memset(k->at, k->value, k->bytes);
}

static void launch_fill(snug_stream *stream, snug_host_stream *native, snug_handle handle, struct fill fill) {
    void *at;
    check(snug_resolve(stream, &handle, 1, NULL, &at), "resolve");
    fill.at = at;
    check(snug_host_launch(native, slow_fill, &fill, sizeof fill), "launch");
    check(snug_release(stream, &handle, 1, NULL), "release");
}

int main(void) {
    enum { BYTES = 8 << 20 };
    static unsigned char seen[BYTES];
    snug_pool_options    options = snug_pool_options_default();
    options.capacity             = BYTES; /* room for one buffer: the second must take the first one's place */
    snug_pool        *pool;
    snug_host_stream *native[2];
    snug_stream      *stream[2];
    check(snug_pool_create(&options, &pool), "pool");
    for (int i = 0; i < 2; i++) {
        check(snug_host_stream_create(&native[i]), "stream");
        check(snug_stream_attach(pool, native[i], &stream[i]), "attach");
    }

    snug_handle first, second;
    check(snug_alloc(pool, BYTES, NULL, &first), "first");
    launch_fill(stream[0], native[0], first, (struct fill){.bytes = BYTES, .value = 1, .delay_us = 50000});
    check(snug_free(pool, first), "free"); /* the fill has hardly begun */

    check(snug_alloc(pool, BYTES, NULL, &second), "second"); /* returns at once, with the same bytes and their fence */
    launch_fill(stream[1], native[1], second, (struct fill){.bytes = BYTES, .value = 2});
    check(snug_read(stream[1], second, 0, seen, BYTES), "read");
    check(snug_stream_sync(stream[1]), "sync");

    for (size_t i = 0; i < BYTES; i++)
        if (seen[i] != 2) {
            fprintf(stderr, "byte %zu is %d: the first stream wrote into the second buffer\n", i, seen[i]);
            return 1;
        }
    check(snug_free(pool, second), "free");
    check(snug_pool_destroy(pool), "destroy");
    for (int i = 0; i < 2; i++)
        check(snug_host_stream_destroy(native[i]), "destroy stream");
    printf("the second stream waited for the first\n");
    return 0;
}
