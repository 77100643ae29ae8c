/* receipt.c - each run of compaction leaves a receipt that adds up with the statistics; what a reader sees of the ring. */
#include "tap.h"

#include "client.h"

static snug_receipt receipt_of(snug_pool *pool, uint64_t number) {
    snug_receipt r = {.struct_size = sizeof r};
    if (snug_receipt_get(pool, number, &r) != SNUG_OK)
        bail_out("no receipt from %" PRIu64 " on", number);
    return r;
}

static bool is_empty(snug_pool *pool, uint64_t number) {
    snug_receipt r = {.struct_size = sizeof r};
    return snug_receipt_get(pool, number, &r) == SNUG_UNKNOWN;
}

/* Eight buffers of two granules that fill the pool; the even ones freed. */
static client comb(snug_handle *h) {
    client c = client_open(GRANULES(16));
    for (int i = 0; i < 8; i++)
        succeeds(snug_alloc(c.pool, GRANULES(2), NULL, &h[i]));
    for (int i = 0; i < 8; i += 2)
        succeeds(snug_free(c.pool, h[i]));
    return c;
}

static void an_allocation_leaves_one(void) {
    snug_handle h[8], large;
    client      c = comb(h);
    ok(is_empty(c.pool, 0), "none before anything has moved");
    succeeds(snug_alloc(c.pool, GRANULES(2), NULL, &large));
    succeeds(snug_free(c.pool, large));
    ok(is_empty(c.pool, 0), "nor for what fits as it is");
    succeeds(snug_alloc(c.pool, GRANULES(4), NULL, &large));
    snug_receipt r = receipt_of(c.pool, 0);
    snug_stats   s = client_stats(c.pool);
    is_u64(r.number, 1, "the first");
    is_u64(r.kind, SNUG_RECEIPT_DEMAND, "on demand");
    is_status(r.outcome, SNUG_OK, "granted");
    is_u64(r.asked_bytes, GRANULES(4), "so much was asked for");
    is_u64(r.bound_bytes, GRANULES(2), "one buffer lies in every stretch of that length");
    is_u64(r.moved_bytes, s.moved_bytes, "moved so much");
    is_u64(r.moves, s.moves, "in so many moves");
    ok(r.moved_bytes >= r.bound_bytes, "no less than the bound");
    is_u64(r.largest_before_bytes, GRANULES(2), "the largest hole before");
    ok(r.largest_after_bytes >= GRANULES(4), "and with the room that was made");
    is_u64(r.cancelled + r.busy, 0, "nothing in the way");
    ok(r.waited_ns <= r.spent_ns, "waited %" PRIu64 " of %" PRIu64 " ns", r.waited_ns, r.spent_ns);
    ok(is_empty(c.pool, 2), "no other");
    is_status(snug_receipt_get(c.pool, 0, NULL), SNUG_INVALID, "nowhere to put it");
    succeeds(client_close(&c));
    is_status(snug_receipt_get(c.pool, 0, &r), SNUG_GONE, "of a pool that is gone");
}

static void pins_are_told(void) {
    snug_handle h[8], large;
    void       *addresses[4];
    client      c = comb(h);
    for (int i = 0; i < 4; i++)
        succeeds(snug_resolve(c.stream, &h[2 * i + 1], 1, NULL, &addresses[i]));
    is_status(snug_alloc(c.pool, GRANULES(4), NULL, &large), SNUG_PINNED, "everything is pinned");
    snug_receipt r = receipt_of(c.pool, 1);
    is_status(r.outcome, SNUG_PINNED, "the receipt says so too");
    ok(r.busy > 0 && r.moves == 0, "%u moves not made", r.busy);
    ok(r.waited_ns > 0 && r.waited_ns <= r.spent_ns, "waited for it: %" PRIu64 " of %" PRIu64 " ns", r.waited_ns,
       r.spent_ns);
    for (int i = 0; i < 4; i++)
        succeeds(snug_release(c.stream, &h[2 * i + 1], 1, NULL));
    succeeds(client_close(&c));
}

static void steps_resizes_and_trims_leave_theirs(void) {
    snug_handle h[8];
    client      c    = comb(h);
    uint64_t    next = 1, moves = 0, bytes = 0;
    succeeds(snug_compact(c.pool, &(snug_budget){.moves_max = 1}, NULL));
    snug_receipt r = receipt_of(c.pool, next++);
    is_u64(r.kind, SNUG_RECEIPT_STEP, "a step");
    is_u64(r.moves, 1, "of one move");
    moves += r.moves, bytes += r.moved_bytes;
    succeeds(snug_resize(c.pool, h[1], GRANULES(6)));
    for (; !is_empty(c.pool, next); next++) {
        r = receipt_of(c.pool, next);
        ok(r.kind == SNUG_RECEIPT_RESIZE || r.kind == SNUG_RECEIPT_DEMAND, "a resize");
        moves += r.moves, bytes += r.moved_bytes;
    }
    ok(next > 2 && moves == client_stats(c.pool).moves, "all moves are on receipts");
    succeeds(snug_free(c.pool, h[3]));
    succeeds(snug_trim(c.pool, 0, NULL));
    for (; !is_empty(c.pool, next); next++) {
        r = receipt_of(c.pool, next);
        is_u64(r.kind, SNUG_RECEIPT_PACK, "a trim");
        moves += r.moves, bytes += r.moved_bytes;
    }
    is_u64(moves, client_stats(c.pool).moves, "all moves are on receipts");
    is_u64(bytes, client_stats(c.pool).moved_bytes, "all bytes too");
    succeeds(client_close(&c));
}

/* The copies wait for a client's write on the device: its stream is named. */
static void streams_waited_for_are_told(void) {
    snug_handle h[8], large;
    client      c      = comb(h);
    char        byte   = 1;
    snug_stats  before = client_stats(c.pool);
    for (int i = 1; i < 8; i += 2)
        succeeds(snug_write(c.stream, h[i], 0, &byte, 1));
    succeeds(snug_alloc(c.pool, GRANULES(4), NULL, &large));
    snug_receipt r = receipt_of(c.pool, 1);
    ok((r.waited_streams != 0) == (client_stats(c.pool).device_waits > before.device_waits),
       "streams waited for: %" PRIx64, r.waited_streams);
    ok(!(r.waited_streams >> 62), "not the pool's own");
    succeeds(client_close(&c));
}

static void the_ring_keeps_the_last(void) {
    snug_pool_options o = snug_pool_options_default();
    o.capacity          = GRANULES(64);
    o.jumble            = 1;
    client      c       = client_open_with(o);
    snug_handle h;
    succeeds(snug_alloc(c.pool, GRANULES(2), NULL, &h));
    unsigned failed = 0;
    for (int i = 0; i < 10000 && is_empty(c.pool, 300); i++)
        failed += snug_compact(c.pool, NULL, NULL) != SNUG_OK;
    is_u64(failed, 0, "steps enough for three hundred receipts");
    snug_receipt first = receipt_of(c.pool, 0), last = first;
    uint64_t     count = 1;
    for (; !is_empty(c.pool, last.number + 1); count++) {
        snug_receipt r = receipt_of(c.pool, last.number + 1);
        if (r.number != last.number + 1 || r.began_ns < last.began_ns)
            ok(false, "%" PRIu64 " comes after %" PRIu64, r.number, last.number);
        last = r;
    }
    is_u64(count, 256, "so many are kept");
    is_u64(last.number, 300, "the last of them");
    is_u64(first.number, 45, "the oldest of them");
    is_u64(receipt_of(c.pool, 7).number, 45, "an older one gives the oldest");
    struct {
        size_t   struct_size;
        uint64_t kind_outcome, number, beyond;
    } shorter = {offsetof(snug_receipt, began_ns), 0, 0, 42};
    succeeds(snug_receipt_get(c.pool, 300, (snug_receipt *)(void *)&shorter));
    ok(shorter.number == 300 && shorter.beyond == 42, "a shorter struct gets its part");
    succeeds(client_close(&c));
}

int main(void) {
    an_allocation_leaves_one();
    pins_are_told();
    steps_resizes_and_trims_leave_theirs();
    streams_waited_for_are_told();
    the_ring_keeps_the_last();
    return done_testing();
}
