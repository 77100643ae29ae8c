/* csv.c - the input as a CSV file of any kind that the tools read: refused with a reason, or taken, and then sound; its
 * figures are those of a plain walk, before and after scaling. */
#define _GNU_SOURCE 1 /* memfd_create */

#include "fuzz/fuzz.h"

#include "../tools/trace_csv.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GRANULE = 256 };

/* One file in memory for all inputs; trace_read opens it by name. */
static const char *file_of(const uint8_t *data, size_t size) {
    static int  file = -1;
    static char path[64];
    if (file < 0) {
        file = memfd_create("trace", MFD_CLOEXEC);
        EXPECT(file >= 0, "no file in memory");
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    EXPECT(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size, "the file in memory");
    return path;
}

static uint64_t plus(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

FUZZ_MODEL static void model_events(const trace *t, const trace_figures *figures) {
    bool    *live = calloc(t->n_buffers, 1), *seen = calloc(t->n_buffers, 1);
    uint64_t peak;
    EXPECT(t->n_blocks == 0 && t->n_segments == 0 && t->n_buffers > 0, "blocks of no heap map");
    EXPECT(t->n_events >= t->n_buffers && t->n_events <= 2 * t->n_buffers, "%zu events", t->n_events);
    for (size_t i = 0; i < t->n_events; i++) {
        uint32_t b = t->events[i].buffer;
        EXPECT(b < t->n_buffers, "event %zu", i);
        EXPECT(live[b] != t->events[i].is_alloc && (!t->events[i].is_alloc || !seen[b]), "event %zu: out of turn", i);
        live[b] = t->events[i].is_alloc;
        seen[b] = true;
    }
    for (size_t i = 0; i < t->n_buffers; i++) {
        EXPECT(seen[i], "buffer %zu is never allocated", i);
        EXPECT(t->buffers[i].line >= 2 && (i == 0 || t->buffers[i].line > t->buffers[i - 1].line), "line of buffer %zu",
               i);
        EXPECT(!live[i] || t->kind == TRACE_ALLOC, "a lifetime without an end");
    }
    /* with sums in 128 bits, which can't wrap */
    unsigned __int128 sum = 0, most = 0;
    for (size_t i = 0; i < t->n_events; i++) {
        uint64_t size = t->buffers[t->events[i].buffer].size;
        uint64_t full = plus(size, GRANULE - 1) / GRANULE * GRANULE;
        sum           = t->events[i].is_alloc ? sum + full : sum - full;
        most          = sum > most ? sum : most;
    }
    peak = most > UINT64_MAX ? UINT64_MAX : (uint64_t)most;
    EXPECT(figures->peak_bytes == peak, "peak %llu, not %llu", (unsigned long long)figures->peak_bytes,
           (unsigned long long)peak);
    EXPECT(figures->buffers == t->n_buffers && figures->capacity_bytes == 0 && figures->holes == 0, "figures");
    free(live);
    free(seen);
}

FUZZ_MODEL static void model_blocks(const trace *t, const trace_figures *figures) {
    uint64_t total = 0, live = 0, hole = 0, largest = 0, holes = 0, lives = 0;
    EXPECT(t->n_buffers == 0 && t->n_events == 0, "buffers of a heap map");
    EXPECT(t->n_segments_dropped <= t->n_segments, "segments");
    for (size_t i = 0; i < t->n_blocks; i++) {
        uint64_t size = t->blocks[i].size;
        EXPECT(size > 0, "block %zu is empty", i);
        EXPECT(total <= UINT64_MAX - size, "the blocks add up to more than 2^64 - 1");
        total += size;
        lives += t->blocks[i].live;
        live += t->blocks[i].live ? size : 0;
        holes += !t->blocks[i].live && hole == 0;
        hole    = t->blocks[i].live ? 0 : hole + size;
        largest = hole > largest ? hole : largest;
    }
    EXPECT(figures->capacity_bytes == total && figures->peak_bytes == live && figures->buffers == lives, "sums");
    EXPECT(figures->holes == holes && figures->largest_hole_bytes == largest, "holes");
}

FUZZ_MODEL static void model_figures(const trace *t) {
    trace_figures figures;
    trace_measure(t, GRANULE, &figures);
    if (t->kind == TRACE_HEAPMAP)
        model_blocks(t, &figures);
    else
        model_events(t, &figures);
}

static uint64_t model_ratio(uint64_t value, uint32_t numerator, uint32_t denominator, bool up) {
    unsigned __int128 whole = (unsigned __int128)value * numerator;
    unsigned __int128 q     = whole / denominator + (up && whole % denominator);
    return q > UINT64_MAX ? UINT64_MAX : (uint64_t)q;
}

/* Chosen by the input, so that the same file always does the same. */
static void scale(trace *t, const uint8_t *data, size_t size) {
    static const uint32_t terms[] = {1, 2, 3, 7, 16, 1000, 65537, UINT32_MAX};
    static const uint64_t units[] = {1, 4, 512, 1024, UINT64_C(1) << 20, UINT64_C(1) << 40, UINT64_MAX, 999};
    uint32_t              hash    = 2166136261u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ data[i]) * 16777619u;
    uint32_t numerator = terms[hash & 7], denominator = terms[hash >> 3 & 7];
    uint64_t unit = units[hash >> 6 & 7], first = t->n_buffers ? t->buffers[0].size : 0;
    size_t   blocks = t->n_blocks, vanished = t->n_blocks_vanished;
    trace_scale(t, unit, numerator, denominator, GRANULE);
    EXPECT(t->n_blocks + t->n_blocks_vanished == blocks + vanished, "blocks");
    for (size_t i = 0; i < t->n_blocks; i++)
        EXPECT(t->blocks[i].size % GRANULE == 0, "a block that isn't of granules");
    if (t->n_buffers) {
        unsigned __int128 product = (unsigned __int128)first * unit;
        uint64_t          of      = product > UINT64_MAX ? UINT64_MAX : (uint64_t)product;
        EXPECT(t->buffers[0].size == model_ratio(of, numerator, denominator, true), "buffer 0: %llu",
               (unsigned long long)t->buffers[0].size);
    }
    EXPECT(trace_ratio(first, numerator, denominator, false) == model_ratio(first, numerator, denominator, false),
           "ratio");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    trace       got, untouched;
    trace_fault fault = {0, ""};
    uint64_t    lines = 1;
    memset(&got, 0x5a, sizeof got);
    memset(&untouched, 0x5a, sizeof untouched);
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n';
    if (!trace_read(file_of(data, size), &got, &fault)) {
        EXPECT(memcmp(&got, &untouched, sizeof got) == 0, "refused, and written");
        EXPECT(fault.reason[0] && strlen(fault.reason) < TRACE_REASON_MAX, "no reason");
        EXPECT(fault.line <= lines + 1, "line %llu of %llu", (unsigned long long)fault.line, (unsigned long long)lines);
        for (const char *c = fault.reason; *c; c++)
            EXPECT((unsigned char)*c >= 0x20 && *c != 0x7f, "a control character in the reason");
        return 0;
    }
    model_figures(&got);
    scale(&got, data, size);
    model_figures(&got);
    trace_release(&got);
    EXPECT(!got.buffers && !got.events && !got.blocks, "not released");
    return 0;
}
