/* copies.c - (e) how fast a compaction copies, beside a plain memcpy of the same bytes.
 *
 * 512 MiB of the host device in equal buffers, every second one freed, and an allocation for which the buffers of a window
 * have to go to the holes elsewhere. The time runs from the call to the end of the last copy: planning, enqueuing and the
 * mover's wake-up are in it. One mover thread copies; beside it one thread copies the same bytes by memcpy from the same
 * places to the same places of the same memory. A walk through other memory precedes each, so that neither finds the
 * other's bytes in the caches. */
#include "harness.h"

#include "pool.h"

#include <snug_host.h>

#include <stdlib.h>
#include <string.h>

#define CAPACITY (UINT64_C(512) << 20)
#define SCRUB    (UINT64_C(96) << 20)

static const struct buffer_kind {
    const char *name;
    uint64_t    bytes, gap; /* of one; to be made */
} kinds[] = {{"buffers of 4 KiB", 4096, UINT64_C(64) << 20},
             {"buffers of 64 KiB", 65536, UINT64_C(128) << 20},
             {"buffers of 16 MiB", UINT64_C(16) << 20, UINT64_C(128) << 20}};

enum { KINDS = 3 };

typedef struct ground {
    snug_pool        *pool;
    snug_host_stream *native;
    snug_stream      *stream;
    snug_handle      *handles;
    uint64_t         *from, *to; /* offsets of each buffer, before and after */
    char             *scrub;
} ground;

typedef struct copy_rates {
    series compaction, plain, call_us;
} copy_rates;

static uint64_t offset_of(const ground *g, snug_handle handle) {
    snug_handle_info info = {.struct_size = sizeof info};
    need(snug_handle_info_get(g->pool, handle, &info), "where a buffer lies");
    return info.offset;
}

static void scrub(ground *g) {
    memset(g->scrub, g->scrub[0] + 1, SCRUB);
    consume(g->scrub);
}

/* Every second buffer stays; its first word says which it is. Returns how many stay. */
static size_t alternate(ground *g, uint64_t bytes) {
    size_t count = CAPACITY / bytes;
    for (size_t i = 0; i < count; i++)
        need(snug_alloc(g->pool, bytes, NULL, &g->handles[i]), "filling the arena");
    for (size_t i = 0; i < count / 2; i++) {
        need(snug_free(g->pool, g->handles[2 * i + 1]), "free");
        g->handles[i] = g->handles[2 * i];
        g->from[i]    = offset_of(g, g->handles[i]);
        memcpy(g->pool->base + g->from[i], &i, sizeof i);
    }
    if (pool_stats(g->pool).largest_hole_bytes != bytes)
        need(SNUG_CORRUPT, "holes as large as the buffers");
    return count / 2;
}

/* How many have moved; those come first in from and to. */
static size_t moved_list(bench *b, ground *g, size_t count, const char *name) {
    size_t moved = 0, lost = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t to = offset_of(g, g->handles[i]);
        lost += memcmp(g->pool->base + to, &i, sizeof i) != 0;
        g->from[moved] = g->from[i];
        g->to[moved]   = to;
        moved += g->to[moved] != g->from[moved];
    }
    if (lost)
        bench_fault(b, "e: %s: %zu don't hold what they held", name, lost);
    return moved;
}

static double plain_run(ground *g, size_t moved, uint64_t bytes) {
    scrub(g);
    double began = clock_ns();
    for (size_t i = 0; i < moved; i++)
        memcpy(g->pool->base + g->to[i], g->pool->base + g->from[i], bytes);
    double ns = clock_ns() - began;
    consume(g->pool->base);
    return ns;
}

static void kind_run(bench *b, ground *g, const struct buffer_kind *kind, copy_rates *rates) {
    snug_handle made;
    void       *address;
    snug_access access = SNUG_WRITE;
    size_t      count  = alternate(g, kind->bytes);
    snug_stats  before = pool_stats(g->pool);
    scrub(g);
    double began = clock_ns();
    need(snug_alloc(g->pool, kind->gap, NULL, &made), "making a gap");
    double called = clock_ns() - began;
    need(snug_resolve(g->stream, &made, 1, &access, &address), "resolve");
    need(snug_release(g->stream, &made, 1, &access), "release");
    need(snug_stream_sync(g->stream), "waiting for the copies"); /* the stream waits for them, this thread for it */
    double     ns    = clock_ns() - began;
    snug_stats after = pool_stats(g->pool);
    size_t     moved = moved_list(b, g, count, kind->name);
    uint64_t   bytes = after.moved_bytes - before.moved_bytes;
    if (bytes != moved * kind->bytes || after.slides != before.slides)
        bench_fault(b, "e: %s: %llu bytes were moved, %llu of them for good; slides: %llu", kind->name,
                    (unsigned long long)bytes, (unsigned long long)(moved * kind->bytes),
                    (unsigned long long)(after.slides - before.slides));
    double plain = plain_run(g, moved, kind->bytes);
    if (rates) {
        series_add(&rates->compaction, (double)bytes / ns);
        series_add(&rates->plain, (double)bytes / plain);
        series_add(&rates->call_us, called / 1e3);
    }
    need(snug_free(g->pool, made), "free");
    for (size_t i = 0; i < count; i++)
        need(snug_free(g->pool, g->handles[i]), "free");
    need(snug_stream_sync(g->stream), "waiting for the stream");
}

static void ground_open(ground *g) {
    size_t most = CAPACITY / kinds[0].bytes;
    *g          = (ground){.pool = pool_with_bytes(CAPACITY, true)};
    need(snug_host_stream_create(&g->native), "a stream");
    need(snug_stream_attach(g->pool, g->native, &g->stream), "attaching a stream");
    g->handles = need_memory(most, sizeof g->handles[0]);
    g->from    = need_memory(most, sizeof g->from[0]);
    g->to      = need_memory(most, sizeof g->to[0]);
    g->scrub   = need_memory(SCRUB, 1);
    memset(g->pool->base, 1, CAPACITY); /* the first touch of a page isn't what is measured */
}

static void ground_close(ground *g) {
    need(snug_pool_destroy(g->pool), "destroying a pool");
    need(snug_host_stream_destroy(g->native), "destroying a stream");
    free(g->handles);
    free(g->from);
    free(g->to);
    free(g->scrub);
}

void bench_copies(bench *b) {
    static copy_rates rates[KINDS];
    unsigned          repeats = bench_repeats(b, 11, 3);
    ground            g;
    results_section(&b->results, 'e', "copy rate of a compaction, host device, beside memcpy");
    progress_start(&b->progress, "e: copies");
    ground_open(&g);
    for (unsigned r = 0; r <= repeats; r++)
        for (unsigned k = 0; k < KINDS; k++) {
            progress_update(&b->progress, r * KINDS + k, (repeats + 1) * KINDS, "runs");
            kind_run(b, &g, &kinds[k], r > 0 ? &rates[k] : NULL); /* the first warms up */
        }
    progress_end(&b->progress);
    ground_close(&g);
    for (unsigned k = 0; k < KINDS; k++) {
        results_row(&b->results, "GB/s", &rates[k].plain, NULL, "%s, memcpy", kinds[k].name);
        results_row(&b->results, "GB/s", &rates[k].compaction, (ratio[]){{"memcpy", &rates[k].plain}, {0}},
                    "%s, compaction", kinds[k].name);
        results_row(&b->results, "us", &rates[k].call_us, NULL, "%s, of that until the call returns", kinds[k].name);
    }
}
