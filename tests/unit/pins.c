/* pins.c - long pins: what comes between their steps, and what they do without. */
#include "tap.h"

#include "move_world.h"
#include "between.h"

static void *mark; /* what an address holds that nobody has written */

static void finish(void) {
    between_clear();
    close_pool();
}

static snug_handle_info info_of(snug_handle handle) {
    snug_handle_info info = {.struct_size = sizeof info};
    if (snug_handle_info_get(pool, handle, &info) != SNUG_OK)
        info.pins = UINT32_MAX;
    return info;
}

/* ------------------------------------------------------------------------------------------------ the low end */

static void free_victim_during_copy(uint64_t to, uint64_t from, uint64_t bytes) {
    (void)to, (void)from, (void)bytes;
    hooks.before_move = NULL;
    drop(victim);
}

/* hole 5 | low 5 | 10 | hole 5 | victim 8 | rest: the low one makes place for the victim. */
static snug_handle scene_low(void) {
    open_pool(100);
    snug_handle hole = put(5), low = put(5), hole2;
    put(10);
    hole2  = put(5);
    victim = put(8);
    put(67);
    drop(hole);
    drop(hole2);
    between_clear();
    return low;
}

static void it_is_brought_to_the_low_end(void) {
    void       *address = NULL;
    snug_handle low     = scene_low();
    succeeds(snug_pin(pool, &victim, 1, &address));
    is_u64(offset_of(pool, victim), 0, "a buffer that is pinned for long is brought to the low end");
    is_pointer(address, pool->base, "  where its address is");
    is_u64(offset_of(pool, low), 20, "  what was there has made place");
    succeeds(snug_unpin(pool, &victim, 1, NULL, 0));
    ok(holds(victim, 8) && holds(low, 5), "  contents");
    finish();
}

static void a_free_while_place_is_made_for_it(void) {
    void       *address = &mark;
    snug_handle low     = scene_low();
    hooks.before_move   = free_victim_during_copy;
    is_status(snug_pin(pool, &victim, 1, &address), SNUG_STALE, "freed while place is made for it");
    is_pointer(address, &mark, "  no address is written");
    is_u64(stats_of(pool).pinned_bytes, 0, "  nothing is pinned");
    is_u64(stats_of(pool).free_bytes, 18 * G, "  its bytes are free");
    ok(holds(low, 5), "  contents of the other");
    finish();
}

/* hole 10 | 5 | victim 5 | rest, and no node to cut the hole with */
static void without_a_node_it_stays(void) {
    void *address = NULL;
    open_pool(400);
    snug_handle hole = put(10);
    put(5);
    victim       = put(5);
    uint32_t max = nodes_use_up(pool);
    must_alloc(pool, stats_of(pool).largest_hole_bytes / G);
    drop(hole);
    is_status(snug_pin(pool, &victim, 1, &address), SNUG_OK, "a long pin that finds no node");
    is_u64(offset_of(pool, victim), 15, "  holds the buffer where it is");
    is_pointer(address, pool->base + 15 * G, "  and tells that address");
    is_u64(stats_of(pool).free_bytes, 10 * G, "  the hole is still free");
    succeeds(snug_pool_check(pool));
    succeeds(snug_unpin(pool, &victim, 1, NULL, 0));
    nodes_give(pool, max);
    is_status(snug_pin(pool, &victim, 1, &address), SNUG_OK, "with one");
    is_u64(offset_of(pool, victim), 0, "  it is brought to the low end");
    succeeds(snug_unpin(pool, &victim, 1, NULL, 0));
    ok(holds(victim, 5), "  contents");
    finish();
}

/* ------------------------------------------------------------------------------------------------ between its steps */

static void free_before_lock(pthread_mutex_t *mutex) {
    if (mutex != &pool->lock)
        return;
    between.lock = NULL;
    drop(victim);
}

/* Without compaction the first lock is taken once the buffer has its pin. */
static void a_free_between_its_pin_and_the_account(void) {
    void *address = NULL;
    open_pool(20);
    victim = put(10);
    snug_compaction_set(pool, 0);
    between_clear();
    between.lock = free_before_lock;
    is_status(snug_pin(pool, &victim, 1, &address), SNUG_OK, "freed just after it was pinned");
    is_pointer(address, pool->base, "  the address holds");
    is_u64(stats_of(pool).pending_bytes, 10 * G, "  until it is unpinned its bytes are pending");
    is_u64(stats_of(pool).pinned_bytes, 0, "  of live ones none is pinned");
    is_status(snug_free(pool, victim), SNUG_STALE, "  the handle is dead");
    is_status(snug_unpin(pool, &victim, 1, NULL, 0), SNUG_OK, "  the pin can be taken back");
    is_u64(stats_of(pool).free_bytes, 20 * G, "  then they are free");
    is_status(snug_unpin(pool, &victim, 1, NULL, 0), SNUG_STALE, "  once");
    finish();
}

/* first 10 and second 10 lie in memory whose earlier user is held up. */
static void its_wait_for_the_contents_fails(void) {
    gate  g            = {0};
    void *addresses[2] = {&mark, &mark};
    open_pool(20);
    client      d     = client_make(pool);
    snug_handle whole = must_alloc(pool, 20), pair[2];
    snug_resolve(d.stream, &whole, 1, NULL, addresses);
    gate_put(&g, d.native);
    snug_release(d.stream, &whole, 1, NULL);
    drop(whole);
    addresses[0] = &mark;
    pair[0]      = must_alloc(pool, 10);
    pair[1]      = must_alloc(pool, 10);
    atomic_store(&hooks.fail_sync, 1);
    is_status(snug_pin(pool, pair, 2, addresses), SNUG_DEVICE, "the wait for what still uses the memory fails");
    ok(addresses[0] == &mark && addresses[1] == &mark, "  no address is written");
    is_u64(info_of(pair[0]).pins + info_of(pair[1]).pins, 0, "  neither is pinned");
    is_u64(info_of(pair[0]).long_pins + info_of(pair[1]).long_pins, 0, "  for long either");
    is_u64(stats_of(pool).pinned_bytes, 0, "  or counted");
    gate_open(&g);
    is_status(snug_pin(pool, pair, 2, addresses), SNUG_OK, "  the next try succeeds");
    is_u64(stats_of(pool).pinned_bytes, 20 * G, "  both are counted");
    succeeds(snug_unpin(pool, pair, 2, &d.stream, 1));
    client_end(d);
    finish();
}

static void its_wait_fails_when_it_is_freed_meanwhile(void) {
    gate  g       = {0};
    void *address = &mark;
    open_pool(20);
    client d = client_make(pool);
    victim   = must_alloc(pool, 20);
    snug_resolve(d.stream, &victim, 1, NULL, &address);
    gate_put(&g, d.native);
    snug_release(d.stream, &victim, 1, NULL);
    drop(victim);
    address = &mark;
    victim  = must_alloc(pool, 20);
    snug_compaction_set(pool, 0);
    between.lock = free_before_lock;
    atomic_store(&hooks.fail_sync, 1);
    is_status(snug_pin(pool, &victim, 1, &address), SNUG_DEVICE, "freed just after it was pinned, and the wait fails");
    is_pointer(address, &mark, "  no address is written");
    is_u64(stats_of(pool).free_bytes, 20 * G, "  the pin that was taken back was the last: the bytes are free");
    is_status(snug_unpin(pool, &victim, 1, NULL, 0), SNUG_STALE, "  there is nothing to unpin");
    gate_open(&g);
    client_end(d);
    finish();
}

/* ------------------------------------------------------------------------------------------------ unpinning */

static void unpin_goes_through_its_whole_list(void) {
    void *address;
    open_pool(40);
    client      d    = client_make(pool);
    snug_handle dead = must_alloc(pool, 1), idle = must_alloc(pool, 1), held = must_alloc(pool, 1);
    drop(dead);
    succeeds(snug_pin(pool, &held, 1, &address));
    snug_handle list[3] = {idle, dead, held};
    is_status(snug_unpin(pool, list, 3, NULL, 0), SNUG_NOT_PINNED, "of two errors the first is told");
    is_u64(info_of(held).pins, 0, "  and the last one is unpinned");
    snug_handle unborn = dead + (UINT64_C(1) << SNUG__INDEX_BITS); /* the next generation */
    is_status(snug_unpin(pool, &unborn, 1, NULL, 0), SNUG_UNKNOWN, "a handle that hasn't been issued yet");
    is_status(snug_unpin(pool, &dead, 1, NULL, 0), SNUG_STALE, "one that has been freed");
    succeeds(snug_pin(pool, &held, 1, &address));
    client_end(d);
    snug_stream *streams[2] = {d.stream, c.stream};
    uint64_t     records    = hooks.records;
    is_status(snug_unpin(pool, &held, 1, streams, 2), SNUG_GONE, "with a stream that is detached");
    is_u64(hooks.records, records, "  none is recorded");
    is_u64(info_of(held).long_pins, 1, "  and nothing unpinned");
    is_status(snug_unpin(pool, NULL, 1, NULL, 0), SNUG_INVALID, "no handles");
    is_status(snug_unpin(pool, &held, 1, NULL, 1), SNUG_INVALID, "no streams");
    is_status(snug_unpin(pool, NULL, 0, NULL, 0), SNUG_OK, "none of nothing");
    is_status(snug_unpin(pool, &held, 1, &c.stream, 1), SNUG_OK, "as it should be");
    is_u64(hooks.records, records + 1, "  one record");
    finish();
}

static void pin_refuses(void) {
    void *address = &mark;
    open_pool(10);
    snug_handle a = must_alloc(pool, 1);
    is_status(snug_pin(pool, NULL, 1, &address), SNUG_INVALID, "a pin of no handles");
    is_status(snug_pin(pool, &a, 1, NULL), SNUG_INVALID, "or to no addresses");
    is_status(snug_pin(pool, NULL, 0, NULL), SNUG_OK, "none of nothing");
    is_status(snug_pin(NULL, &a, 1, &address), SNUG_INVALID, "of no pool");
    is_u64(info_of(a).pins, 0, "nothing is pinned");
    is_pointer(address, &mark, "no address is written");
    finish();
}

int main(void) {
    it_is_brought_to_the_low_end();
    a_free_while_place_is_made_for_it();
    without_a_node_it_stays();
    a_free_between_its_pin_and_the_account();
    its_wait_for_the_contents_fails();
    its_wait_fails_when_it_is_freed_meanwhile();
    unpin_goes_through_its_whole_list();
    pin_refuses();
    return done_testing();
}
