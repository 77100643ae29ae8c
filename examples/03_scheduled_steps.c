/* 03: a runtime that schedules compaction itself: no background thread, one bounded step whenever it has nothing to do. */
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

int main(void) {
    enum { N = 256, BYTES = 128 << 10 };
    static unsigned char seen[BYTES];
    snug_pool_options    options = snug_pool_options_default();
    options.capacity             = (uint64_t)N * BYTES;
    snug_pool        *pool;
    snug_host_stream *native;
    snug_stream      *stream;
    check(snug_pool_create(&options, &pool), "pool");
    check(snug_host_stream_create(&native), "stream");
    check(snug_stream_attach(pool, native, &stream), "attach");

    /* Fill the pool to the last byte, then free every other buffer: half is free, in holes of one buffer each. */
    snug_handle handles[N];
    for (int i = 0; i < N; i++) {
        check(snug_alloc(pool, BYTES, NULL, &handles[i]), "alloc");
        check(snug_fill(stream, handles[i], 0, i, BYTES), "fill");
    }
    for (int i = 0; i < N; i += 2)
        check(snug_free(pool, handles[i]), "free");

    /* An idle moment is worth at most 2 MiB of copies; the copies run on the device while the runtime goes on. */
    const snug_budget   budget = {.bytes_max = 2 << 20};
    snug_compact_result result = {.struct_size = sizeof result};
    int                 steps  = 0;
    do {
        check(snug_compact(pool, &budget, &result), "compact");
        printf("step %d: %u moves, largest hole %llu of %llu free\n", ++steps, result.moves,
               (unsigned long long)result.largest_hole_bytes, (unsigned long long)result.free_bytes);
    } while (result.state == SNUG_COMPACT_MORE && steps < 100);

    snug_handle half;
    check(snug_alloc(pool, (uint64_t)N / 2 * BYTES, NULL, &half), "half the pool in one piece");
    for (int i = 1; i < N; i += 2) {
        check(snug_read(stream, handles[i], 0, seen, BYTES), "read");
        check(snug_stream_sync(stream), "sync");
        for (int byte = 0; byte < BYTES; byte++)
            if (seen[byte] != (unsigned char)i) {
                fprintf(stderr, "buffer %d changed\n", i);
                return 1;
            }
        check(snug_free(pool, handles[i]), "free");
    }
    check(snug_free(pool, half), "free");
    check(snug_pool_destroy(pool), "destroy");
    check(snug_host_stream_destroy(native), "destroy stream");
    printf("half the pool was one hole after %d steps\n", steps);
    return 0;
}
