/* resize.c - what comes between the steps of a resize: pins, frees, allocations, a device that fails, a map without nodes. */
#include "tap.h"

#include "move_world.h"
#include "between.h"

static snug_handle buffer; /* the one that is resized */
static snug_handle taken;
static void       *address;

static void finish(void) {
    between_clear();
    close_pool();
}

static uint64_t size_of(snug_handle handle) {
    snug_handle_info info = {.struct_size = sizeof info};
    if (snug_handle_info_get(pool, handle, &info) != SNUG_OK)
        return 0;
    return info.size / G;
}

static uint64_t word_bits(snug_handle handle) {
    return atomic_load(&snug__handles_at(&pool->handles, snug__handle_index(handle))->word) &
           (SNUG__MOVING | SNUG__FROZEN | SNUG__PINS);
}

/* ------------------------------------------------------------------------------------------------ pins, frees */

static void pin_before_freeze(void) {
    between.freeze = NULL;
    if (snug_resolve(c.stream, &buffer, 1, NULL, &address) != SNUG_OK)
        ok(false, "the hook's resolve");
}

static void unpin_at_third_yield(void) {
    if (between.yields == 3 && snug_release(c.stream, &buffer, 1, NULL) != SNUG_OK)
        ok(false, "the hook's release");
}

static void free_at_third_yield(void) {
    if (between.yields == 3)
        drop(buffer);
}

/* buffer 10 | hole 10 | 5 */
static void scene_in_place(uint64_t pin_wait_ns) {
    open_pool(25);
    buffer           = put(10);
    snug_handle hole = put(10);
    put(5);
    drop(hole);
    between_clear();
    pool->pin_wait_ns = pin_wait_ns;
}

#define FOR_EVER UINT64_C(60000000000)

static void a_pin_comes_before_the_freeze(uint64_t granules, const char *name) {
    scene_in_place(FOR_EVER);
    between.freeze = pin_before_freeze;
    between.yield  = unpin_at_third_yield;
    is_status(snug_resize(pool, buffer, granules * G), SNUG_OK, "%s, pinned just before it is frozen: retried", name);
    is_u64(between.yields, 3, "  until it was released");
    is_u64(size_of(buffer), granules, "  the size");
    is_hex(word_bits(buffer), 0, "  neither moving nor frozen nor pinned");
    ok(holds(buffer, granules < 10 ? granules : 10), "  contents");
    is_u64(stats_of(pool).free_bytes, (20 - granules) * G, "  the rest is free");
    finish();
}

static void a_pin_that_stays_is_respected(void) {
    scene_in_place(1000000);
    between.freeze = pin_before_freeze;
    is_status(snug_resize(pool, buffer, 15 * G), SNUG_BUSY, "a pin that comes just before the freeze, and stays");
    is_u64(size_of(buffer), 10, "  the size is what it was");
    is_hex(word_bits(buffer), 1, "  it is pinned, and neither moving nor frozen");
    succeeds(snug_release(c.stream, &buffer, 1, NULL));
    ok(holds(buffer, 10), "  contents");
    finish();
}

static void a_free_while_its_pin_is_waited_for(void) {
    scene_in_place(FOR_EVER);
    snug_resolve(c.stream, &buffer, 1, NULL, &address);
    between.yield = free_at_third_yield;
    is_status(snug_resize(pool, buffer, 15 * G), SNUG_STALE, "freed while the resize waits for its pin");
    is_u64(stats_of(pool).pending_bytes, 10 * G, "  the bytes are pending");
    succeeds(snug_release(c.stream, &buffer, 1, NULL));
    is_u64(stats_of(pool).free_bytes, 20 * G, "  then free");
    finish();
}

/* ------------------------------------------------------------------------------------------------ neighbours */

static void free_buffer(uint64_t to, uint64_t from, uint64_t bytes) {
    (void)to, (void)from, (void)bytes;
    hooks.before_move = NULL;
    drop(buffer);
}

static void take_hole(uint64_t to, uint64_t from, uint64_t bytes) {
    (void)to, (void)from, (void)bytes;
    hooks.before_move = NULL;
    taken             = must_alloc(pool, 5);
}

static void write_neighbour(uint64_t to, uint64_t from, uint64_t bytes) {
    (void)to, (void)from, (void)bytes;
    hooks.before_move = NULL;
    if (snug_resolve(c.stream, &victim, 1, NULL, &address) != SNUG_OK ||
        snug_release(c.stream, &victim, 1, NULL) != SNUG_OK)
        ok(false, "the hook's resolve and release");
}

/* buffer 10 | victim 5 | hole 10: the hole is carried down to the buffer, over its neighbour. */
static void scene_neighbour(void) {
    open_pool(25);
    buffer           = put(10);
    victim           = put(5);
    snug_handle hole = put(10);
    drop(hole);
    between_clear();
}

static void a_neighbour_steps_aside(void) {
    scene_neighbour();
    is_status(snug_resize(pool, buffer, 20 * G), SNUG_OK, "a neighbour steps aside");
    is_u64(offset_of(pool, buffer), 0, "  the buffer stays");
    is_u64(offset_of(pool, victim), 20, "  the neighbour lies behind it");
    ok(holds(buffer, 10) && holds(victim, 5), "  contents");
    finish();
}

static void a_neighbour_that_is_written_steps_aside_the_next_time(void) {
    scene_neighbour();
    pool->pin_wait_ns = FOR_EVER;
    hooks.before_move = write_neighbour;
    is_status(snug_resize(pool, buffer, 20 * G), SNUG_OK, "a neighbour that is written while it steps aside");
    is_u64(stats_of(pool).cancelled_moves, 1, "  does so the next time");
    is_u64(offset_of(pool, victim), 20, "  and lies behind the buffer");
    ok(holds(buffer, 10) && holds(victim, 5), "  contents");
    finish();
}

static void a_free_while_a_neighbour_steps_aside(void) {
    scene_neighbour();
    hooks.before_move = free_buffer;
    is_status(snug_resize(pool, buffer, 20 * G), SNUG_STALE, "freed while its neighbour steps aside");
    is_u64(stats_of(pool).free_bytes, 20 * G, "  all its bytes are free");
    is_u64(stats_of(pool).in_flight_bytes, 0, "  nothing is in flight");
    ok(holds(victim, 5), "  the neighbour keeps its contents");
    finish();
}

static void a_copy_fails_while_a_neighbour_steps_aside(void) {
    scene_neighbour();
    atomic_store(&hooks.fail_move, 1);
    is_status(snug_resize(pool, buffer, 20 * G), SNUG_DEVICE, "a copy fails while its neighbour steps aside");
    is_u64(size_of(buffer), 10, "  the size is what it was");
    is_u64(offset_of(pool, victim), 10, "  the neighbour is where it was");
    is_u64(stats_of(pool).in_flight_bytes, 0, "  nothing is in flight");
    is_status(snug_resize(pool, buffer, 20 * G), SNUG_OK, "  the next try succeeds");
    ok(holds(buffer, 10) && holds(victim, 5), "  contents");
    finish();
}

/* hole 5 | buffer 10 | victim 5 | hole 5: it needs both. */
static void scene_both_sides(void) {
    open_pool(25);
    snug_handle low = put(5), high;
    buffer          = put(10);
    victim          = put(5);
    high            = put(5);
    drop(low);
    drop(high);
    between_clear();
}

static void holes_on_both_sides_are_used(void) {
    scene_both_sides();
    is_status(snug_resize(pool, buffer, 20 * G), SNUG_OK, "holes on both sides are used");
    is_u64(offset_of(pool, buffer), 0, "  the buffer has slid down");
    ok(holds(buffer, 10) && holds(victim, 5), "  contents");
    finish();
}

static void a_hole_is_taken_meanwhile(void) {
    scene_both_sides();
    hooks.before_move = take_hole;
    is_status(snug_resize(pool, buffer, 20 * G), SNUG_CAPACITY, "one of two holes is taken meanwhile");
    is_u64(offset_of(pool, taken), 0, "  by another buffer");
    is_u64(size_of(buffer), 10, "  the size is what it was");
    is_u64(stats_of(pool).free_bytes, 5 * G, "  the other hole is free");
    ok(holds(buffer, 10) && holds(victim, 5), "  contents");
    is_status(snug_resize(pool, buffer, 15 * G), SNUG_OK, "  what is left can be had");
    ok(holds(buffer, 10), "  contents");
    finish();
}

static void a_free_between_its_two_slides(void) {
    scene_both_sides();
    hooks.before_move = free_buffer;
    is_status(snug_resize(pool, buffer, 20 * G), SNUG_STALE, "freed before its own slide, with holes on both sides");
    is_u64(stats_of(pool).moves, 1, "  only its neighbour has moved");
    is_u64(stats_of(pool).free_bytes, 20 * G, "  all its bytes are free");
    is_u64(stats_of(pool).in_flight_bytes, 0, "  nothing is in flight");
    ok(holds(victim, 5), "  the neighbour keeps its contents");
    finish();
}

static snug_handle below, behind;

/* The hole below the buffer merges with the place before it, and its node comes to be that of a hole above. */
static void move_node_above(uint64_t to, uint64_t from, uint64_t bytes) {
    (void)to, (void)from, (void)bytes;
    hooks.before_move = NULL;
    taken             = must_alloc(pool, 5);
    drop(below);
    drop(taken);
    snug_handle above = must_alloc(pool, 3);
    behind            = must_alloc(pool, 1);
    drop(above);
}

/* below 5 | hole 5 | buffer 10 | victim 5 | hole 5 | fixed 1 | hole 7 */
static void its_hole_becomes_another_meanwhile(void) {
    open_pool(38);
    snug_handle low, high, fixed, tail;
    below  = put(5);
    low    = put(5);
    buffer = put(10);
    victim = put(5);
    high   = put(5);
    fixed  = put(1);
    tail   = put(7);
    snug_compaction_set(pool, 0); /* else it would be brought to the low end */
    succeeds(snug_pin(pool, &fixed, 1, &address));
    snug_compaction_set(pool, 1);
    drop(low);
    drop(high);
    drop(tail);
    between_clear();
    uint32_t node     = map_at(&pool->map, 5);
    hooks.before_move = move_node_above;
    is_status(snug_resize(pool, buffer, 20 * G), SNUG_OK, "the node of its hole becomes that of another meanwhile");
    is_u64(snug__range_at(&pool->map, node)->offset, 31, "  above, where a buffer was");
    is_u64(offset_of(pool, behind), 34, "  before another one");
    is_u64(stats_of(pool).largest_hole_bytes, 5 * G, "  the hole below is used all the same");
    ok(holds(buffer, 10) && holds(victim, 5), "  contents");
    succeeds(snug_unpin(pool, &fixed, 1, NULL, 0));
    finish();
}

static void its_own_slide_fails(void) {
    scene_both_sides();
    atomic_store(&hooks.fail_move, 2);
    is_status(snug_resize(pool, buffer, 20 * G), SNUG_DEVICE,
              "the neighbour has stepped aside, then its own slide fails");
    is_u64(offset_of(pool, buffer), 5, "  it is where it was");
    is_u64(size_of(buffer), 10, "  and of the size that it had");
    is_hex(word_bits(buffer), 0, "  neither moving nor frozen");
    ok(holds(buffer, 10) && holds(victim, 5), "  contents");
    is_status(snug_resize(pool, buffer, 20 * G), SNUG_OK, "  the next try succeeds");
    ok(holds(buffer, 10) && holds(victim, 5), "  contents");
    finish();
}

/* ------------------------------------------------------------------------------------------------ others take what it makes */

static unsigned grown; /* times */

/* Whatever the arena grows by is gone before the resize has the lock again. */
static void take_what_has_grown(pthread_mutex_t *mutex) {
    snug_handle handle;
    if (mutex != &pool->lock || hooks.commits == grown || pool->map.granules[SNUG__RANGE_FREE] == 0)
        return;
    grown = (unsigned)hooks.commits;
    if (snug_alloc(pool, snug__bytes(pool->map.granules[SNUG__RANGE_FREE]), NULL, &handle) != SNUG_OK)
        ok(false, "the hook's alloc");
}

static void it_gives_in_to_others_that_take_what_it_makes(void) {
    const uint64_t MiB = UINT64_C(1) << 20;
    pool               = pool_make((snug_pool_options){.capacity = 400 * MiB, .commit_bytes = 2 * MiB});
    c                  = client_make(pool);
    buffer             = put(2 * MiB / G);
    hooks.commits      = 0;
    grown              = 0;
    between_clear();
    between.lock = take_what_has_grown;
    is_status(snug_resize(pool, buffer, 4 * MiB), SNUG_BUSY, "whatever the arena grows by, others take");
    ok(grown > 16 && grown <= 64, "  it gave in after %u times", grown);
    between_clear();
    is_u64(size_of(buffer), 2 * MiB / G, "  the size is what it was");
    ok(holds(buffer, 2 * MiB / G), "  contents");
    is_status(snug_resize(pool, buffer, 4 * MiB), SNUG_OK, "  left alone it succeeds");
    ok(holds(buffer, 2 * MiB / G), "  contents");
    finish();
}

/* ------------------------------------------------------------------------------------------------ a map without nodes */

/* buffer | 10 | hole 10 | rest, and no node to cut the hole with */
static uint32_t scene_without_nodes(uint64_t size) {
    open_pool(400);
    buffer = put(size);
    put(10);
    snug_handle hole = put(10);
    put(10);
    uint32_t max = nodes_use_up(pool);
    must_alloc(pool, stats_of(pool).largest_hole_bytes / G);
    drop(hole);
    between_clear();
    return max;
}

static void no_node_for(uint64_t from, uint64_t to, const char *name) {
    uint32_t max = scene_without_nodes(from);
    is_status(snug_resize(pool, buffer, to * G), SNUG_NO_MEMORY, "%s without a node", name);
    is_u64(size_of(buffer), from, "  the size is what it was");
    is_hex(word_bits(buffer), 0, "  neither moving nor frozen");
    is_u64(stats_of(pool).free_bytes, 10 * G, "  the hole is still free");
    succeeds(snug_pool_check(pool));
    nodes_give(pool, max);
    is_status(snug_resize(pool, buffer, to * G), SNUG_OK, "  with one it succeeds");
    is_u64(size_of(buffer), to, "  the size");
    ok(!from || holds(buffer, from < to ? from : to), "  contents");
    finish();
}

/* ------------------------------------------------------------------------------------------------ verdicts */

/* Refused, with nothing changed. */
static void is_refused(uint64_t granules, snug_status verdict, const char *name) {
    uint64_t     size = size_of(buffer), offset = offset_of(pool, buffer);
    snug_refusal r = {.struct_size = sizeof r};
    is_status(snug_resize(pool, buffer, granules * G), verdict, "%s", name);
    is_u64(size_of(buffer), size, "  the size is what it was");
    is_u64(offset_of(pool, buffer), offset, "  and the place");
    if (verdict > SNUG_DEVICE)
        return;
    snug_refusal_get(&r);
    ok(r.verdict == verdict && r.request_bytes == granules * G, "  the refusal says so");
}

static void an_immovable_buffer_grows_in_place_only(void) {
    snug_alloc_options o = snug_alloc_options_default();
    o.flags              = SNUG_ALLOC_IMMOVABLE;
    open_pool(50);
    succeeds(snug_alloc(pool, 10 * G, &o, &buffer));
    buffer_fill(c, buffer, 10 * G, buffer);
    snug_handle next = put(10);
    is_refused(20, SNUG_PINNED, "an immovable buffer has no room to grow");
    is_u64(stats_of(pool).pinned_bytes, 10 * G, "  ten granules are pinned");
    drop(next);
    is_status(snug_resize(pool, buffer, 20 * G), SNUG_OK, "with room behind it it grows");
    is_u64(stats_of(pool).pinned_bytes, 20 * G, "  twenty are pinned");
    is_u64(offset_of(pool, buffer), 0, "  it hasn't moved");
    is_status(snug_resize(pool, buffer, 5 * G), SNUG_OK, "it shrinks");
    is_u64(stats_of(pool).pinned_bytes, 5 * G, "  five are pinned");
    ok(holds(buffer, 5), "  contents");
    drop(buffer);
    is_u64(stats_of(pool).pinned_bytes, 0, "  freed, none is");
    finish();
}

static void one_that_is_pinned_for_long_does_not_move(void) {
    open_pool(50);
    buffer = put(10);
    put(10);
    succeeds(snug_pin(pool, &buffer, 1, &address));
    pool->pin_wait_ns = 1000;
    is_refused(20, SNUG_BUSY, "one that is pinned for long has no room to grow");
    succeeds(snug_unpin(pool, &buffer, 1, NULL, 0));
    is_status(snug_resize(pool, buffer, 20 * G), SNUG_OK, "unpinned it grows elsewhere");
    ok(holds(buffer, 10), "  contents");
    finish();
}

static void one_without_bytes_may_be_pinned_too(void) {
    open_pool(50);
    buffer            = must_alloc(pool, 0);
    pool->pin_wait_ns = 1000;
    succeeds(snug_resolve(c.stream, &buffer, 1, NULL, &address));
    is_pointer(address, NULL, "a buffer without bytes is resolved");
    is_status(snug_resize(pool, buffer, 10 * G), SNUG_BUSY, "  so it can't get any");
    is_u64(size_of(buffer), 0, "  the size is what it was");
    is_u64(stats_of(pool).free_bytes, 50 * G, "  nothing is taken");
    succeeds(snug_release(c.stream, &buffer, 1, NULL));
    is_status(snug_resize(pool, buffer, 10 * G), SNUG_OK, "released it can");
    finish();
}

static void one_that_is_pinned_does_not_go_elsewhere(void) {
    open_pool(50);
    buffer = put(10);
    put(10);
    pool->pin_wait_ns = 1000;
    succeeds(snug_resolve(c.stream, &buffer, 1, NULL, &address));
    is_refused(20, SNUG_BUSY, "one that is resolved doesn't go elsewhere");
    is_u64(stats_of(pool).in_flight_bytes, 0, "  nothing is in flight");
    succeeds(snug_release(c.stream, &buffer, 1, NULL));
    is_status(snug_resize(pool, buffer, 20 * G), SNUG_OK, "released it does");
    is_u64(offset_of(pool, buffer), 20, "  behind its neighbour");
    ok(holds(buffer, 10), "  contents");
    finish();
}

static void without_compaction_it_is_fragmented(void) {
    scene_both_sides();
    snug_compaction_set(pool, 0);
    is_refused(20, SNUG_FRAGMENTED, "holes on both sides, and compaction is off");
    is_u64(stats_of(pool).moves, 0, "  nothing has moved");
    is_refused(21, SNUG_CAPACITY, "one granule more than is free");
    snug_compaction_set(pool, 1);
    is_refused(21, SNUG_CAPACITY, "  which compaction couldn't change");
    is_status(snug_resize(pool, buffer, 20 * G), SNUG_OK, "what is free can be had");
    ok(holds(buffer, 10) && holds(victim, 5), "  contents");
    finish();
}

static void more_than_the_pool_may_be(void) {
    scene_both_sides();
    is_refused(26, SNUG_LIMIT, "more than the pool has");
    is_status(snug_resize(pool, buffer, SNUG_SIZE_MAX + 1), SNUG_TOO_LARGE, "more than can be expressed");
    finish();
}

static void the_arena_cannot_grow(void) {
    const uint64_t MiB = UINT64_C(1) << 20;
    pool               = pool_make((snug_pool_options){.capacity = 16 * MiB, .commit_bytes = 2 * MiB});
    c                  = client_make(pool);
    buffer             = put(2 * MiB / G);
    atomic_store(&hooks.fail_commit, 1);
    is_refused(4 * MiB / G, SNUG_DEVICE, "the arena can't grow for it");
    is_status(snug_resize(pool, buffer, 4 * MiB), SNUG_OK, "the next time it can");
    ok(holds(buffer, 2 * MiB / G), "  contents");
    finish();
}

int main(void) {
    a_pin_comes_before_the_freeze(15, "a growth in place");
    a_pin_comes_before_the_freeze(5, "a shrinking");
    a_pin_that_stays_is_respected();
    a_free_while_its_pin_is_waited_for();
    a_neighbour_steps_aside();
    a_neighbour_that_is_written_steps_aside_the_next_time();
    a_free_while_a_neighbour_steps_aside();
    a_copy_fails_while_a_neighbour_steps_aside();
    holes_on_both_sides_are_used();
    a_hole_is_taken_meanwhile();
    a_free_between_its_two_slides();
    its_hole_becomes_another_meanwhile();
    its_own_slide_fails();
    it_gives_in_to_others_that_take_what_it_makes();
    no_node_for(0, 7, "a growth from nothing");
    no_node_for(5, 7, "a growth elsewhere");
    no_node_for(5, 3, "a shrinking");
    an_immovable_buffer_grows_in_place_only();
    one_that_is_pinned_for_long_does_not_move();
    one_without_bytes_may_be_pinned_too();
    one_that_is_pinned_does_not_go_elsewhere();
    without_compaction_it_is_fragmented();
    more_than_the_pool_may_be();
    the_arena_cannot_grow();
    return done_testing();
}
