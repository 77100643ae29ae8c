/* property_model.h - the naive model of property.c: which buffers there are, and what follows from it for every figure and
 * verdict. One thread, no clever data structure: sums over an array. After tap.h and client.h, in one file. */
#ifndef SNUG_TESTS_PROPERTY_MODEL_H
#define SNUG_TESTS_PROPERTY_MODEL_H

#include "client.h"

enum {
    JUMBLE     = 1,
    WRAP       = 2,
    TINY       = 4,
    BACKGROUND = 8,
    SHORT_PINS = 16,
    LONG_PINS  = 32,
    ALIGNED    = 64,
    COMMIT     = 128,
    FULL       = 256
};
enum { BUFFERS_MAX = 160, STREAMS = 3, ISSUED_MAX = 4096 };

typedef struct buffer {
    snug_handle handle;
    uint64_t    size, valid, version; /* the first `valid` bytes are those of `version` */
    uint64_t    alignment;
    unsigned    users; /* streams with work on it that the next use must wait for */
    unsigned    pins, pin_stream, long_pins;
    char       *address; /* while pinned either way */
    bool        immovable;
} buffer;

typedef struct world {
    client_random     random;
    unsigned          flags;
    snug_pool_options options;
    snug_pool        *pool;
    snug_host_stream *native[STREAMS];
    snug_stream      *stream[STREAMS];
    buffer            live[BUFFERS_MAX], dying[BUFFERS_MAX]; /* dying: freed while held */
    unsigned          live_count, dying_count;
    uint64_t          capacity, bounce; /* capacity in granules, bounce in bytes */
    uint64_t          largest_request, granted, versions;
    snug_handle       issued[ISSUED_MAX];
    unsigned          issued_count, step;
    const char       *doing;
} world;

/* ------------------------------------------------------------------------------------------------ expectations */

static bool fault(const world *w, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static bool fault(const world *w, int line, const char *condition, const char *format, ...) {
    char    text[400];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    diag("line %d, step %u, %s: false: %s: %s", line, w->step, w->doing, condition, text);
    return false;
}

#define EXPECT(condition, ...)                                                                                         \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return fault(w, __LINE__, #condition, __VA_ARGS__);                                                        \
    } while (0)
#define EXPECT_OK(call)                                                                                                \
    do {                                                                                                               \
        snug_status expect_status = (call);                                                                            \
        EXPECT(expect_status == SNUG_OK, "%s: %s", #call, snug_status_name(expect_status));                            \
    } while (0)

/* ------------------------------------------------------------------------------------------------ the sums */

typedef struct sums {
    uint64_t live_bytes, live, pending, free, pinned; /* granules but for the first */
    uint64_t slack;                                   /* what larger alignments may waste */
    unsigned held, long_held;                         /* buffers pinned short, pinned long or immovable */
} sums;

static sums model(const world *w) {
    sums s = {0};
    for (unsigned i = 0; i < w->live_count; i++) {
        const buffer *b = &w->live[i];
        s.live_bytes += b->size;
        s.live += granules_of(b->size);
        s.slack += b->size ? b->alignment / SNUG_GRANULE - 1 : 0;
        s.held += b->pins > 0;
        s.long_held += b->long_pins || b->immovable;
        s.pinned += b->long_pins || b->immovable ? granules_of(b->size) : 0;
    }
    for (unsigned i = 0; i < w->dying_count; i++)
        s.pending += granules_of(w->dying[i].size);
    s.free = w->capacity - s.live - s.pending;
    return s;
}

static bool check_stats(world *w) {
    sums       s = model(w);
    snug_stats t = client_stats(w->pool);
    EXPECT(t.live_bytes == s.live_bytes, "%" PRIu64 ", model %" PRIu64, t.live_bytes, s.live_bytes);
    EXPECT(t.padding_bytes == GRANULES(s.live) - s.live_bytes, "%" PRIu64, t.padding_bytes);
    EXPECT(t.pending_bytes == GRANULES(s.pending), "%" PRIu64 ", model %" PRIu64, t.pending_bytes, GRANULES(s.pending));
    EXPECT(t.committed_bytes <= t.limit_bytes && t.limit_bytes == GRANULES(w->capacity) + w->bounce, "%" PRIu64,
           t.committed_bytes);
    EXPECT(t.free_bytes + t.in_flight_bytes + t.limit_bytes - t.committed_bytes == GRANULES(s.free),
           "free %" PRIu64 " in flight %" PRIu64 ", model %" PRIu64, t.free_bytes, t.in_flight_bytes, GRANULES(s.free));
    EXPECT(t.live_bytes + t.padding_bytes + t.free_bytes + t.pending_bytes + t.in_flight_bytes + t.bounce_bytes ==
               t.committed_bytes,
           "I3, committed %" PRIu64, t.committed_bytes);
    EXPECT(t.pinned_bytes == GRANULES(s.pinned), "%" PRIu64 ", model %" PRIu64, t.pinned_bytes, GRANULES(s.pinned));
    EXPECT(t.handles_live == w->live_count, "%" PRIu64 ", model %u", t.handles_live, w->live_count);
    EXPECT(t.buffers.current == w->live_count && t.buffers.allocated - t.buffers.freed == w->live_count, "%" PRIu64,
           t.buffers.current);
    EXPECT(t.bytes.current == s.live_bytes && t.bytes.allocated - t.bytes.freed == s.live_bytes, "%" PRIu64,
           t.bytes.current);
    EXPECT(t.granted == w->granted, "%" PRIu64 ", model %" PRIu64, t.granted, w->granted);
    EXPECT(t.largest_request_bytes == w->largest_request, "%" PRIu64 ", model %" PRIu64, t.largest_request_bytes,
           w->largest_request);
    EXPECT(t.largest_hole_bytes <= t.free_bytes && t.unsettled_bytes <= t.free_bytes, "%" PRIu64, t.largest_hole_bytes);
    EXPECT((t.holes == 0) == (t.free_bytes == 0), "%" PRIu64 " holes", t.holes);
    EXPECT(atomic_load(&client_faults) == 0, "%" PRIu64 " buffers with wrong bytes", atomic_load(&client_faults));
    if (w->capacity <= 1024 || w->step % 16 == 0)
        EXPECT_OK(snug_pool_check(w->pool));
    return true;
}

static bool check_refusal(world *w, snug_status verdict, uint64_t size, uint64_t alignment) {
    sums         s = model(w);
    snug_refusal r = client_refusal();
    EXPECT(r.verdict == verdict, "%s, returned %s", snug_status_name(r.verdict), snug_status_name(verdict));
    EXPECT(r.request_bytes == size, "%" PRIu64 " of %" PRIu64, r.request_bytes, size);
    EXPECT(r.alignment == alignment, "%" PRIu64 " of %" PRIu64, r.alignment, alignment);
    EXPECT(r.live_bytes == s.live_bytes, "%" PRIu64 ", model %" PRIu64, r.live_bytes, s.live_bytes);
    EXPECT(r.padding_bytes == GRANULES(s.live) - s.live_bytes, "%" PRIu64, r.padding_bytes);
    EXPECT(r.pending_bytes == GRANULES(s.pending), "%" PRIu64 ", model %" PRIu64, r.pending_bytes, GRANULES(s.pending));
    EXPECT(r.in_flight_bytes == 0 || verdict == SNUG_LIMIT, "%" PRIu64, r.in_flight_bytes);
    EXPECT(r.free_bytes + r.in_flight_bytes + r.limit_bytes - r.committed_bytes == GRANULES(s.free),
           "free %" PRIu64 ", model %" PRIu64, r.free_bytes, GRANULES(s.free));
    EXPECT(r.limit_bytes == GRANULES(w->capacity) + w->bounce, "%" PRIu64, r.limit_bytes);
    EXPECT(r.pinned_bytes == GRANULES(s.pinned), "%" PRIu64 ", model %" PRIu64, r.pinned_bytes, GRANULES(s.pinned));
    EXPECT(r.largest_request_bytes == w->largest_request, "%" PRIu64 ", model %" PRIu64, r.largest_request_bytes,
           w->largest_request);
    EXPECT(verdict != SNUG_PINNED || s.held + s.long_held + s.pending > 0, "PINNED without a pin");
    if (verdict != SNUG_PINNED)
        return true;
    EXPECT(r.blocking_pins <= s.long_held, "%u of %u", r.blocking_pins, s.long_held);
    for (unsigned i = 0; i < r.blocking_pins && i < 8; i++) {
        bool known = false;
        for (unsigned k = 0; k < w->live_count; k++)
            known |= w->live[k].handle == r.blocking[i] && (w->live[k].long_pins || w->live[k].immovable);
        EXPECT(known, "blocking %" PRIx64, r.blocking[i]);
    }
    return true;
}

static int by_offset(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* The most free granules between two neighbouring long pins (or the arena's ends): what sliding alone can bring together. */
static uint64_t stretch_free(world *w) {
    static uint64_t at[BUFFERS_MAX][3];
    unsigned        n     = 0;
    uint64_t        start = 0, live = 0, most = 0;
    for (unsigned i = 0; i < w->live_count; i++) {
        const buffer *b = &w->live[i];
        if (!b->size)
            continue;
        at[n][0]   = client_info(w->pool, b->handle).offset / SNUG_GRANULE;
        at[n][1]   = granules_of(b->size);
        at[n++][2] = b->long_pins || b->immovable;
    }
    qsort(at, n, sizeof at[0], by_offset);
    for (unsigned i = 0; i <= n; i++) {
        uint64_t end = i < n ? at[i][0] : w->capacity;
        if (i == n || at[i][2]) {
            if (end - start - live > most)
                most = end - start - live;
            start = i < n ? end + at[i][1] : end;
            live  = 0;
        } else {
            live += at[i][1];
        }
    }
    return most;
}

/* Was a request for so many more granules answered rightly? slack: what its own alignment may waste. */
static bool check_verdict(world *w, snug_status status, uint64_t need, uint64_t slack) {
    sums s     = model(w);
    bool exact = s.slack + slack == 0;
    if (s.free < need) {
        EXPECT(status == (s.free + s.pending >= need ? SNUG_PENDING : SNUG_CAPACITY),
               "%s: need %" PRIu64 ", free %" PRIu64 ", pending %" PRIu64, snug_status_name(status), need, s.free,
               s.pending);
    } else if (status != SNUG_OK) {
        EXPECT(s.held + s.long_held + s.pending > 0 || s.free < need + s.slack + slack,
               "it fits: need %" PRIu64 ", free %" PRIu64 ", slack %" PRIu64 ", but %s", need, s.free, s.slack + slack,
               snug_status_name(status));
        EXPECT(status == SNUG_PINNED || (status == SNUG_PENDING && s.pending) || (status == SNUG_CAPACITY && !exact),
               "%s: need %" PRIu64 ", free %" PRIu64 ", pending %" PRIu64, snug_status_name(status), need, s.free,
               s.pending);
    }
    return true;
}

#endif
