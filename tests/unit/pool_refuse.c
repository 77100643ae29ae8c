/* pool_refuse.c - the six verdicts and their figures, how long a request waits, and that a quote tells what then happens.
 * DEVICE needs a device that refuses: tests/cases.c. */
#include "tap.h"

#include "client.h"

/* Eight buffers of 4 granules fill a pool of 32; every other one is freed, so that no hole is larger than 4. */
typedef struct comb {
    client      c;
    snug_handle h[8];
} comb;

static comb comb_open_with(snug_pool_options options) {
    options.capacity = GRANULES(32);
    comb b           = {.c = client_open_with(options)};
    for (unsigned i = 0; i < 8; i++)
        if (snug_alloc(b.c.pool, GRANULES(4) - 10, NULL, &b.h[i]) != SNUG_OK ||
            client_fill(b.c.stream, b.c.native, b.h[i], GRANULES(4) - 10, i) != SNUG_OK)
            bail_out("no comb");
    return b;
}

static comb comb_open(void) {
    return comb_open_with(snug_pool_options_default());
}

static void comb_thin(comb *b) {
    for (unsigned i = 0; i < 8; i += 2)
        if (snug_free(b->c.pool, b->h[i]) != SNUG_OK)
            bail_out("no hole");
}

static void comb_close(comb *b, const char *name) {
    for (unsigned i = 1; i < 8; i += 2)
        client_check(b->c.stream, b->c.native, b->h[i], GRANULES(4) - 10, i);
    snug_stream_sync(b->c.stream);
    is_u64(atomic_load(&client_faults), 0, "%s: contents", name);
    is_status(client_close(&b->c), SNUG_OK, "%s: invariants hold", name);
}

/* The figures of a comb with 16 free granules in 4 holes. */
static void check_figures(const comb *b, snug_status verdict, uint64_t bytes, const char *name) {
    snug_refusal r      = client_refusal();
    uint64_t     bounce = client_stats(b->c.pool).bounce_bytes;
    is_u64(r.verdict, verdict, "%s: verdict %s", name, snug_status_name(r.verdict));
    is_u64(r.request_bytes, bytes, "%s: request", name);
    is_u64(r.alignment, SNUG_GRANULE, "%s: alignment", name);
    is_u64(r.live_bytes, GRANULES(16) - 40, "%s: live", name);
    is_u64(r.padding_bytes, 40, "%s: padding", name);
    is_u64(r.free_bytes, GRANULES(16), "%s: free", name);
    is_u64(r.pending_bytes + r.in_flight_bytes, 0, "%s: pending, in flight", name);
    is_u64(r.committed_bytes, GRANULES(32) + bounce, "%s: committed", name);
    is_u64(r.limit_bytes, GRANULES(32) + bounce, "%s: limit", name);
    is_u64(r.largest_hole_bytes, GRANULES(4), "%s: largest hole", name);
    is_u64(r.holes, 4, "%s: holes", name);
    is_u64(r.largest_request_bytes, bytes, "%s: largest request", name);
    ok(r.device_total_bytes >= r.device_free_bytes && r.device_total_bytes > 0, "%s: the device's own figures", name);
}

static void test_limit_and_capacity(void) {
    snug_pool_options off = snug_pool_options_default();
    off.compaction_off    = 1; /* so that the holes stay as they are */
    comb        b         = comb_open_with(off);
    snug_handle h         = 77;
    comb_thin(&b);
    is_status(snug_alloc(b.c.pool, GRANULES(16) + 1, NULL, &h), SNUG_CAPACITY, "a byte more than is free");
    check_figures(&b, SNUG_CAPACITY, GRANULES(16) + 1, "capacity");
    is_status(snug_alloc(b.c.pool, GRANULES(32) + 1, NULL, &h), SNUG_LIMIT, "a byte more than there is");
    check_figures(&b, SNUG_LIMIT, GRANULES(32) + 1, "limit");
    is_status(snug_resize(b.c.pool, b.h[1], GRANULES(32) + 1), SNUG_LIMIT, "by resize");
    snug_stats s = client_stats(b.c.pool);
    is_u64(s.refused[SNUG_LIMIT], 2, "LIMIT counted");
    is_u64(s.refused[SNUG_CAPACITY], 1, "CAPACITY counted");
    is_u64(s.requests, s.granted + 3, "requests = granted + refused");
    is_u64(h, 77, "no handle written");
    comb_close(&b, "limit and capacity");
}

static void test_fragmented(void) {
    snug_pool_options off = snug_pool_options_default();
    off.compaction_off    = 1;
    comb           b      = comb_open_with(off);
    snug_handle    h;
    snug_quotation q = {.struct_size = sizeof q};
    comb_thin(&b);
    is_status(snug_alloc(b.c.pool, GRANULES(5), NULL, &h), SNUG_FRAGMENTED, "scattered, with compaction off");
    check_figures(&b, SNUG_FRAGMENTED, GRANULES(5), "compaction off");
    succeeds(snug_quote(b.c.pool, GRANULES(5), &q));
    is_u64(q.verdict, SNUG_FRAGMENTED, "the quote agrees");
    snug_compact_result result = {.struct_size = sizeof result};
    succeeds(snug_compact(b.c.pool, NULL, &result));
    ok(result.state == SNUG_COMPACT_DONE && result.moves == 0, "a step does nothing and says DONE");
    succeeds(snug_compaction_set(b.c.pool, 1));
    succeeds(snug_alloc(b.c.pool, GRANULES(16), NULL, &h));
    comb_close(&b, "compaction off");

    snug_pool_options tight = snug_pool_options_default();
    tight.demand_bytes_max  = GRANULES(3);
    b                       = comb_open_with(tight);
    comb_thin(&b);
    is_status(snug_alloc(b.c.pool, GRANULES(5), NULL, &h), SNUG_FRAGMENTED, "out of budget");
    check_figures(&b, SNUG_FRAGMENTED, GRANULES(5), "out of budget");
    is_u64(client_stats(b.c.pool).moves, 0, "nothing was moved for it");
    comb_close(&b, "out of budget");
}

static void test_pending(void) {
    comb           b = comb_open();
    snug_handle    h;
    void          *address;
    snug_quotation q = {.struct_size = sizeof q};
    succeeds(snug_resolve(b.c.stream, &b.h[0], 1, NULL, &address));
    succeeds(snug_free(b.c.pool, b.h[0]));
    is_status(snug_alloc(b.c.pool, GRANULES(4), NULL, &h), SNUG_PENDING, "freed while resolved");
    snug_refusal r = client_refusal();
    is_u64(r.pending_bytes, GRANULES(4), "the figures: pending");
    is_u64(r.free_bytes + r.holes + r.largest_hole_bytes, 0, "the figures: nothing is free");
    succeeds(snug_quote(b.c.pool, GRANULES(4), &q));
    is_u64(q.verdict, SNUG_PENDING, "the quote agrees");
    is_status(snug_alloc(b.c.pool, GRANULES(5), NULL, &h), SNUG_CAPACITY, "more than the pending bytes");
    succeeds(snug_release(b.c.stream, &b.h[0], 1, NULL));
    succeeds(snug_alloc(b.c.pool, GRANULES(4), NULL, &h));
    comb_close(&b, "pending");
}

static void test_settled(void) {
    comb              b = comb_open();
    snug_host_stream *native;
    snug_stream      *stalled;
    snug_handle       h;
    client_gate       gate;
    succeeds(snug_host_stream_create(&native));
    succeeds(snug_stream_attach(b.c.pool, native, &stalled));
    succeeds(snug_stream_sync(b.c.stream));
    gate_shut(&gate, native);
    succeeds(client_launch(stalled, native, b.h[2], (client_job){.put = 1, .after = 2}));
    succeeds(snug_free(b.c.pool, b.h[2]));
    uint64_t moves = snug_moves(b.c.pool);
    is_status(client_alloc(b.c.pool, GRANULES(4), 0, SNUG_ALLOC_SETTLED, &h), SNUG_PENDING,
              "SETTLED behind a stalled stream");
    is_u64(client_refusal().free_bytes, GRANULES(4), "its bytes are free, though");
    is_u64(client_stats(b.c.pool).unsettled_bytes, GRANULES(4), "but not settled");
    succeeds(snug_alloc(b.c.pool, GRANULES(4), NULL, &h)); /* with the fence */
    succeeds(snug_free(b.c.pool, h));
    gate_open(&gate);
    succeeds(snug_stream_sync(stalled));
    succeeds(client_alloc(b.c.pool, GRANULES(4), 0, SNUG_ALLOC_SETTLED, &h));
    is_u64(client_stats(b.c.pool).unsettled_bytes, 0, "once the stream has run it is granted");
    succeeds(snug_free(b.c.pool, h));
    succeeds(snug_free(b.c.pool, b.h[0]));
    succeeds(snug_free(b.c.pool, b.h[4]));
    succeeds(snug_stream_sync(b.c.stream));
    is_status(client_alloc(b.c.pool, GRANULES(12), 0, SNUG_ALLOC_SETTLED, &h), SNUG_FRAGMENTED,
              "SETTLED moves nothing for it");
    is_u64(snug_moves(b.c.pool), moves, "and nothing has moved");
    succeeds(snug_stream_detach(stalled));
    succeeds(snug_host_stream_destroy(native));
    comb_close(&b, "settled");
}

typedef struct later {
    client     *c;
    snug_handle handle;
    bool        unpins;
} later;

static void *release_later(void *argument) {
    later *l = argument;
    usleep(30000);
    if (l->unpins)
        snug_unpin(l->c->pool, &l->handle, 1, NULL, 0);
    else
        snug_release(l->c->stream, &l->handle, 1, NULL);
    return NULL;
}

static void test_wait(void) {
    comb               b = comb_open();
    snug_handle        h;
    void              *address;
    pthread_t          thread;
    later              l       = {&b.c, b.h[0], false};
    snug_alloc_options options = snug_alloc_options_default();
    succeeds(snug_resolve(b.c.stream, &b.h[0], 1, NULL, &address));
    succeeds(snug_free(b.c.pool, b.h[0]));
    options.wait_ns = 20000000;
    uint64_t began  = client_now_ns();
    is_status(snug_alloc(b.c.pool, GRANULES(4), &options, &h), SNUG_PENDING, "wait_ns passes without a release");
    ok(client_now_ns() - began >= 20000000, "not before its time: %" PRIu64 " ns", client_now_ns() - began);
    options.wait_ns = UINT64_C(5000000000);
    began           = client_now_ns();
    is_status(snug_alloc(b.c.pool, GRANULES(5), &options, &h), SNUG_CAPACITY, "CAPACITY isn't waited for");
    ok(client_now_ns() - began < UINT64_C(2500000000), "that comes at once: %" PRIu64 " ns", client_now_ns() - began);
    options.wait_ns = 10000000000;
    pthread_create(&thread, NULL, release_later, &l);
    is_status(snug_alloc(b.c.pool, GRANULES(4), &options, &h), SNUG_OK, "PENDING until another thread releases");
    pthread_join(thread, NULL);
    succeeds(snug_free(b.c.pool, h));
    succeeds(snug_free(b.c.pool, b.h[2]));
    succeeds(snug_pin(b.c.pool, &b.h[1], 1, &address));
    l               = (later){&b.c, b.h[1], true};
    options.wait_ns = 0;
    snug_refusal r;
    if (client_info(b.c.pool, b.h[1]).offset == GRANULES(4)) { /* it wasn't brought low: it lies between the two */
        is_status(snug_alloc(b.c.pool, GRANULES(8), &options, &h), SNUG_PINNED, "pinned between two holes");
        r = client_refusal();
        is_u64(r.blocking_pins, 1, "one pin blocks");
        is_hex(r.blocking[0], b.h[1], "that one");
    } else {
        skip(3, "the pinned buffer was brought to the low end");
    }
    options.wait_ns = 10000000000;
    pthread_create(&thread, NULL, release_later, &l);
    is_status(snug_alloc(b.c.pool, GRANULES(8), &options, &h), SNUG_OK, "PINNED until another thread unpins");
    pthread_join(thread, NULL);
    comb_close(&b, "waiting");
}

/* Pinned while the pool is full, so that nothing could be brought to the low end: pins at known places. */
static void test_pinned(void) {
    snug_pool_options options = snug_pool_options_default();
    comb              b       = comb_open_with(options);
    snug_handle       h;
    void             *address[8];
    snug_quotation    q = {.struct_size = sizeof q};
    succeeds(snug_pin(b.c.pool, b.h, 8, address)); /* full: nothing can be brought anywhere */
    usleep(2000);
    for (unsigned i = 0; i < 8; i += 2)
        succeeds(snug_unpin(b.c.pool, &b.h[i], 1, NULL, 0));
    comb_thin(&b); /* holes of 4, each behind a pin */
    is_status(snug_alloc(b.c.pool, GRANULES(5), NULL, &h), SNUG_PINNED, "a pin after every hole");
    check_figures(&b, SNUG_PINNED, GRANULES(5), "pinned");
    snug_refusal r = client_refusal();
    is_u64(r.pinned_bytes, GRANULES(16), "pinned bytes");
    is_u64(r.blocking_pins, 3, "three pins lie between the holes, the fourth behind the last");
    ok(r.oldest_pin_ns >= 2000000 && r.oldest_pin_ns < UINT64_C(1000000000000), "the oldest is %" PRIu64 " ns old",
       r.oldest_pin_ns);
    unsigned named = 0;
    for (unsigned k = 0; k < 3; k++)
        named += r.blocking[k] == b.h[2 * k + 1];
    is_u64(named, 3, "they are named, in order of address");
    is_hex(r.blocking[3], SNUG_HANDLE_NONE, "and none else");
    succeeds(snug_quote(b.c.pool, GRANULES(5), &q));
    is_u64(q.verdict, SNUG_PINNED, "the quote agrees");
    is_u64(q.blocking_pins, 3, "and names as many");
    succeeds(snug_unpin(b.c.pool, &b.h[3], 1, NULL, 0));
    succeeds(snug_alloc(b.c.pool, GRANULES(5), NULL, &h)); /* that one moves */
    comb_close(&b, "pinned");
}

/* [free 1][live 3][pin 1][live 3][free 2]: the pin lies between the free bytes, though beside none of them. */
static void test_pinned_not_beside_a_hole(void) {
    client      c = client_open(GRANULES(10));
    snug_handle first, left, pinned, right, last, h;
    void       *address;
    succeeds(snug_alloc(c.pool, GRANULES(1), NULL, &first));
    succeeds(snug_alloc(c.pool, GRANULES(3), NULL, &left));
    succeeds(snug_alloc(c.pool, GRANULES(1), NULL, &pinned));
    succeeds(snug_alloc(c.pool, GRANULES(3), NULL, &right));
    succeeds(snug_alloc(c.pool, GRANULES(2), NULL, &last));
    succeeds(snug_pin(c.pool, &pinned, 1, &address));
    is_u64(client_info(c.pool, pinned).offset, GRANULES(4), "in the middle");
    succeeds(snug_free(c.pool, first));
    succeeds(snug_free(c.pool, last));
    is_status(snug_alloc(c.pool, GRANULES(3), NULL, &h), SNUG_PINNED,
              "three granules are free, on both sides of a pin");
    snug_refusal r = client_refusal();
    is_u64(r.blocking_pins, 1, "the pin is counted");
    is_hex(r.blocking[0], pinned, "and named");
    succeeds(client_close(&c));
}

static void test_pinned_short(void) {
    comb        b = comb_open();
    snug_handle h;
    void       *address[8];
    comb_thin(&b);
    snug_handle held[4] = {b.h[1], b.h[3], b.h[5], b.h[7]};
    succeeds(snug_resolve(b.c.stream, held, 4, NULL, address));
    is_status(snug_alloc(b.c.pool, GRANULES(5), NULL, &h), SNUG_PINNED, "all that would have to move is resolved");
    check_figures(&b, SNUG_PINNED, GRANULES(5), "resolved");
    is_u64(client_refusal().pinned_bytes, 0, "none of it for long");
    succeeds(snug_release(b.c.stream, held, 1, NULL));
    succeeds(snug_alloc(b.c.pool, GRANULES(8), NULL, &h));
    succeeds(snug_release(b.c.stream, held + 1, 3, NULL));
    comb_close(&b, "resolved");
}

/* A quote is what the allocation then does: by evacuation, by slide, by none. */
static void test_quote(void) {
    for (uint64_t need = 1; need <= 17; need++) {
        comb           b = comb_open();
        snug_quotation q = {.struct_size = sizeof q};
        snug_handle    h;
        comb_thin(&b);
        uint64_t moves = snug_moves(b.c.pool);
        succeeds(snug_quote(b.c.pool, GRANULES(need), &q));
        is_u64(snug_moves(b.c.pool), moves, "the quote moves nothing");
        snug_status status = snug_alloc(b.c.pool, GRANULES(need), NULL, &h);
        snug_stats  s      = client_stats(b.c.pool);
        is_status(status, need <= 16 ? SNUG_OK : SNUG_CAPACITY, "%" PRIu64 " granules", need);
        is_u64(q.verdict, status, "as quoted");
        is_u64(q.move_bytes, s.moved_bytes, "so many bytes moved");
        is_u64(q.moves, s.moves, "in so many moves");
        ok((q.time_ns > 0) == (q.move_bytes > 0), "in so much time: %" PRIu64 " ns", q.time_ns);
        comb_close(&b, "quote");
    }
    client         c = client_open(1 * MiB);
    snug_quotation q = {.struct_size = sizeof q};
    succeeds(snug_quote(c.pool, 0, &q));
    ok(q.verdict == SNUG_OK && q.moves == 0, "of nothing");
    succeeds(snug_quote(c.pool, 1 * MiB + 1, &q));
    is_u64(q.verdict, SNUG_LIMIT, "of too much");
    is_status(snug_quote(c.pool, 1, NULL), SNUG_INVALID, "nowhere to put it");
    q.struct_size = 0;
    is_status(snug_quote(c.pool, 1, &q), SNUG_INVALID, "without its size");
    succeeds(client_close(&c));
}

/* Of an arena that is committed in part: what compacting makes of that part, what growing alone does, and both together. */
static void test_quote_while_growing(void) {
    static const struct {
        uint64_t kib;
        bool     moves;
    } sizes[] = {{512, true}, {2048, false}, {14 * 1024, false}, {14 * 1024 + 512, true}, {15 * 1024, true}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        snug_pool_options o = snug_pool_options_default();
        o.capacity          = 16 * MiB;
        o.commit_bytes      = 2 * MiB;
        client         c    = client_open_with(o);
        snug_handle    h[8], large;
        snug_quotation q    = {.struct_size = sizeof q};
        uint64_t       size = sizes[i].kib * KiB;
        for (int k = 0; k < 8; k++)
            succeeds(snug_alloc(c.pool, 256 * KiB, NULL, &h[k]));
        is_u64(client_stats(c.pool).committed_bytes - client_stats(c.pool).bounce_bytes, 2 * MiB, "full as committed");
        for (int k = 0; k < 8; k += 2)
            succeeds(snug_free(c.pool, h[k]));
        succeeds(snug_quote(c.pool, size, &q));
        is_u64(client_stats(c.pool).committed_bytes - client_stats(c.pool).bounce_bytes, 2 * MiB,
               "a quote commits nothing");
        is_u64(q.verdict, SNUG_OK, "%" PRIu64 " KiB can be had", sizes[i].kib);
        succeeds(snug_alloc(c.pool, size, NULL, &large));
        is_u64(q.move_bytes, client_stats(c.pool).moved_bytes, "so many bytes moved");
        ok((q.moves > 0) == sizes[i].moves, "%u moves", q.moves);
        succeeds(client_close(&c));
    }
}

static void *other_thread(void *argument) {
    *(snug_status *)argument = client_refusal().verdict;
    return NULL;
}

static void test_record(void) {
    client      c = client_open(GRANULES(1));
    snug_handle h;
    pthread_t   thread;
    snug_status theirs = SNUG_GONE;
    is_status(snug_alloc(c.pool, GRANULES(2), NULL, &h), SNUG_LIMIT, "refused to this thread");
    pthread_create(&thread, NULL, other_thread, &theirs);
    pthread_join(thread, NULL);
    is_status(theirs, SNUG_OK, "not to that one");
    succeeds(snug_alloc(c.pool, 1, NULL, &h));
    is_u64(client_refusal().verdict, SNUG_LIMIT, "a later success leaves the record");
    struct {
        size_t      struct_size;
        snug_status verdict;
        uint64_t    beyond;
    } shorter = {offsetof(snug_refusal, request_bytes), SNUG_OK, 42};
    succeeds(snug_refusal_get((snug_refusal *)(void *)&shorter));
    ok(shorter.verdict == SNUG_LIMIT && shorter.beyond == 42, "a shorter struct gets its part");
    is_status(snug_refusal_get(NULL), SNUG_INVALID, "nowhere to put it");
    succeeds(client_close(&c));
}

int main(void) {
    is_u64(client_refusal().verdict, SNUG_OK, "nothing has been refused yet");
    test_limit_and_capacity();
    test_fragmented();
    test_pending();
    test_settled();
    test_wait();
    test_pinned();
    test_pinned_not_beside_a_hole();
    test_pinned_short();
    test_quote();
    test_quote_while_growing();
    test_record();
    return done_testing();
}
