/* move_between.c - pins, writes and frees at the points between a move's steps where only luck would bring them. */
#include "tap.h"

#include "move_world.h"
#include "between.h"

#define FOR_EVER UINT64_C(60000000000)

static snug_access access_of_victim;

static uint32_t pins_of(snug_handle handle) {
    snug_handle_info info = {.struct_size = sizeof info};
    snug_handle_info_get(pool, handle, &info);
    return info.pins;
}

static uint64_t word_bits(snug_handle handle) {
    return atomic_load(&snug__handles_at(&pool->handles, snug__handle_index(handle))->word) &
           (SNUG__MOVING | SNUG__FROZEN | SNUG__DYING);
}

/* ------------------------------------------------------------------------------------------------ what others do */

static void pin_victim(void) {
    void *address;
    if (snug_resolve(c.stream, &victim, 1, &access_of_victim, &address) != SNUG_OK)
        ok(false, "the hook's resolve");
}

static void unpin_victim(void) {
    if (snug_release(c.stream, &victim, 1, &access_of_victim) != SNUG_OK)
        ok(false, "the hook's release");
}

static void pin_during_copy(uint64_t to, uint64_t from, uint64_t bytes) {
    (void)to, (void)from, (void)bytes;
    hooks.before_move = NULL;
    pin_victim();
}

static void write_during_copy(uint64_t to, uint64_t from, uint64_t bytes) {
    pin_during_copy(to, from, bytes);
    unpin_victim();
}

static void unpin_at_third_yield(void) {
    if (between.yields == 3)
        unpin_victim();
}

static void free_at_third_yield(void) {
    if (between.yields == 3)
        drop(victim);
}

static void pin_before_begin(void) {
    between.begin = NULL;
    pin_victim();
}

static void pin_before_freeze(void) {
    between.freeze = NULL;
    pin_victim();
}

static void free_before_begin(void) {
    between.begin = NULL;
    drop(between.begins);
}

static void free_before_freeze(void) {
    between.freeze = NULL;
    drop(victim);
}

static void finish(void) {
    between_clear();
    close_pool();
}

/* ------------------------------------------------------------------------------------------------ items */

/* hole 20 | victim 10 | 5 | hole 10 | rest: a step moves the victim to the second hole. */
static void scene(snug_access access, uint64_t pin_wait_ns) {
    open_pool(100);
    snug_handle hole = put(20), hole2;
    victim           = put(10);
    put(5);
    hole2 = put(10);
    put(55);
    drop(hole);
    drop(hole2);
    between_clear();
    access_of_victim  = access;
    pool->pin_wait_ns = pin_wait_ns;
}

static snug_compact_result step(void) {
    snug_compact_result result = {.struct_size = sizeof result};
    is_status(snug_compact(pool, NULL, &result), SNUG_OK, "a step");
    return result;
}

static void a_reader_that_stays_is_respected(void) {
    scene(SNUG_READ, 1000000);
    hooks.before_move     = pin_during_copy;
    snug_compact_result r = step();
    is_u64(r.moves, 0, "a reader comes during the copy and stays: nothing is published");
    is_u64(r.cancelled, 1, "  the move is given up");
    is_i64(r.state, SNUG_COMPACT_BLOCKED, "  the step is blocked");
    is_u64(offset_of(pool, victim), 20, "  the buffer stays where the reader found it");
    is_hex(word_bits(victim), 0, "  no bit of the move is left");
    is_u64(stats_of(pool).in_flight_bytes, 0, "  nothing is in flight");
    unpin_victim();
    ok(holds(victim, 10), "  contents");
    finish();
}

static void a_reader_that_goes_is_waited_for(void) {
    scene(SNUG_READ, FOR_EVER);
    hooks.before_move     = pin_during_copy;
    between.yield         = unpin_at_third_yield;
    snug_compact_result r = step();
    is_u64(r.moves, 1, "a reader comes during the copy and goes: the move is published");
    is_u64(r.cancelled, 0, "  none is given up");
    is_u64(between.yields, 3, "  it was waited for");
    ok(offset_of(pool, victim) != 20 && holds(victim, 10), "  contents");
    finish();
}

/* On demand the mover waits for pins before it begins. */
static void a_pin_before_the_move_is_waited_for(void) {
    snug_handle large;
    scene(SNUG_WRITE, FOR_EVER);
    pin_victim();
    between.yield = unpin_at_third_yield;
    is_status(snug_alloc(pool, 30 * G, NULL, &large), SNUG_OK, "the only buffer that could go is pinned, and released");
    is_u64(between.yields, 3, "  it was waited for");
    is_u64(stats_of(pool).cancelled_moves, 0, "  nothing was cancelled");
    ok(holds(victim, 10), "  contents");
    finish();
}

static void a_free_while_the_pin_is_waited_for(void) {
    snug_handle large;
    scene(SNUG_WRITE, 1000000);
    pin_victim();
    between.yield = free_at_third_yield;
    is_status(snug_alloc(pool, 30 * G, NULL, &large), SNUG_PENDING,
              "the only buffer that could go is freed, but stays pinned: refused");
    is_u64(stats_of(pool).pending_bytes, 10 * G, "  its bytes are pending");
    is_u64(stats_of(pool).in_flight_bytes, 0, "  nothing is in flight");
    unpin_victim();
    is_status(snug_alloc(pool, 30 * G, NULL, &large), SNUG_OK, "  then there is room");
    finish();
}

/* 20 + 10 free, 30 wanted: the victim goes to the second hole, the second time. */
static void an_allocation_tries_again_when_its_move_is_cancelled(void) {
    snug_handle large;
    scene(SNUG_WRITE, FOR_EVER);
    hooks.before_move = write_during_copy;
    is_status(snug_alloc(pool, 30 * G, NULL, &large), SNUG_OK, "an allocation whose move a writer cancels");
    is_u64(stats_of(pool).cancelled_moves, 1, "  one was cancelled");
    is_u64(stats_of(pool).moves, 1, "  the next one wasn't");
    is_u64(stats_of(pool).demand_plans, 2, "  by a second plan");
    ok(holds(victim, 10), "  contents");
    finish();
}

/* ------------------------------------------------------------------------------------------------ slides */

/* hole | victim | rest */
static snug_handle scene_slide(uint64_t hole_size, uint64_t size, snug_access access) {
    open_pool(100);
    snug_handle hole = put(hole_size), rest;
    victim           = put(size);
    rest             = put(100 - hole_size - size);
    drop(hole);
    between_clear();
    access_of_victim = access;
    return rest;
}

static void a_reader_stays_during_a_step_over_a_hole(void) {
    snug_handle rest  = scene_slide(20, 10, SNUG_READ);
    hooks.before_move = pin_during_copy;
    snug__run run     = slide(true, 1);
    is_u64(run.moves, 0, "a reader comes while a buffer steps over a hole, and stays: it isn't published");
    is_u64(run.busy, 1, "  for want of the pin");
    is_u64(run.cancelled, 1, "  and given up");
    is_u64(offset_of(pool, victim), 20, "  the buffer is where it was");
    is_hex(word_bits(victim), 0, "  no bit of the move is left");
    unpin_victim();
    ok(holds(victim, 10) && holds(rest, 70), "  contents");
    finish();
}

static void a_reader_goes_during_a_step_over_a_hole(void) {
    snug_handle rest  = scene_slide(20, 10, SNUG_READ);
    hooks.before_move = pin_during_copy;
    between.yield     = unpin_victim;
    snug__run run     = slide(true, 1);
    ok(run.moves == 1 && run.busy == 0, "a reader comes while a buffer steps over a hole, and goes: published");
    is_u64(between.yields, 1, "  after one look more");
    is_u64(offset_of(pool, victim), 0, "  the buffer is below the hole");
    ok(holds(victim, 10) && holds(rest, 70), "  contents");
    finish();
}

static void a_pin_comes_before_the_freeze(void) {
    snug_handle rest = scene_slide(5, 20, SNUG_READ);
    between.freeze   = pin_before_freeze;
    snug__run run    = slide(true, 1);
    is_u64(run.busy, 1, "pinned just before it is frozen, a buffer doesn't slide over itself");
    ok(run.moves == 0 && run.error == SNUG_OK, "  which is no error");
    is_u64(hooks.moves, 0, "  no byte was copied");
    is_u64(offset_of(pool, victim), 5, "  it is where it was");
    is_hex(word_bits(victim), 0, "  neither moving nor frozen");
    is_u64(pins_of(victim), 1, "  pinned once");
    unpin_victim();
    is_u64(slide(true, 1).moves, 1, "  released, it slides");
    ok(holds(victim, 20) && holds(rest, 75), "  contents");
    finish();
}

static void a_free_comes_before_the_freeze(void) {
    snug_handle rest = scene_slide(5, 20, SNUG_READ);
    between.freeze   = free_before_freeze;
    is_u64(slide(true, 1).moves, 0, "freed just before it is frozen, it doesn't slide either");
    is_u64(hooks.moves, 0, "  no byte was copied");
    is_u64(stats_of(pool).free_bytes, 25 * G, "  its place and the hole are free");
    is_u64(stats_of(pool).in_flight_bytes, 0, "  nothing is in flight");
    ok(holds(rest, 75), "  the rest keeps its contents");
    finish();
}

/* ------------------------------------------------------------------------------------------------ late moves */

/* hole 40 | victim 30 | 5 | hole 30 | rest */
static void scene_late(snug_access access) {
    open_pool(200);
    snug_handle hole = put(40), hole2;
    victim           = put(30);
    put(5);
    hole2 = put(30);
    put(95);
    drop(hole);
    drop(hole2);
    between_clear();
    access_of_victim = access;
}

static snug_compact_result late_step(uint64_t granules) {
    snug_compact_result result = {.struct_size = sizeof result};
    snug_budget         budget = {.bytes_max = granules * G};
    is_status(snug_compact(pool, &budget, &result), SNUG_OK, "a step of %" PRIu64 " granules", granules);
    return result;
}

static void a_pin_comes_before_a_late_move_begins(void) {
    scene_late(SNUG_WRITE);
    between.begin         = pin_before_begin;
    snug_compact_result r = late_step(8);
    is_i64(r.state, SNUG_COMPACT_BLOCKED, "pinned just before its late move begins: the step is blocked");
    ok(!pool->late.active, "  no move is under way");
    is_u64(hooks.moves, 0, "  nothing was copied");
    is_u64(stats_of(pool).in_flight_bytes, 0, "  what was kept for it is free again");
    is_u64(stats_of(pool).free_bytes, 70 * G, "  all of it");
    unpin_victim();
    late_step(8);
    ok(pool->late.active, "  released, it begins");
    ok(holds(victim, 30), "  contents");
    finish();
}

static void a_reader_stays_when_a_late_move_ends(void) {
    scene_late(SNUG_READ);
    for (unsigned i = 0; i < 3; i++)
        is_u64(late_step(8).moved_bytes, 8 * G, "a piece");
    hooks.before_move     = pin_during_copy;
    snug_compact_result r = late_step(8);
    is_u64(r.moved_bytes, 6 * G, "the last piece is copied");
    ok(r.moves == 0 && r.cancelled == 1, "a reader that came with it and stays: the move is given up");
    ok(!pool->late.active, "  it is over");
    is_u64(offset_of(pool, victim), 40, "  the buffer is where it was");
    is_u64(stats_of(pool).in_flight_bytes, 0, "  nothing is in flight");
    unpin_victim();
    ok(holds(victim, 30), "  contents");
    finish();
}

/* A late move is under way when a hole is carried up to it: to the next but one, past a buffer that its alignment holds. */
static void a_slide_stops_at_a_late_move(void) {
    scene_late(SNUG_READ);
    late_step(8);
    ok(pool->late.active, "a late move is under way");
    is_u64(slide(true, UINT32_MAX).moves, 0, "a hole that is carried up stops at it");
    snug_alloc_options o = snug_alloc_options_default();
    snug_handle        low, aligned;
    o.alignment = 32 * G;
    low         = put(3);
    is_u64(offset_of(pool, low), 0, "a buffer below");
    is_status(snug_alloc(pool, 8 * G, &o, &aligned), SNUG_OK, "an aligned one between");
    is_u64(offset_of(pool, aligned), 32, "next to the late one");
    is_u64(slide(true, UINT32_MAX).moves, 0, "nor does a hole pass it beyond a buffer that can't step");
    is_u64(stats_of(pool).holes, 1, "it stays one hole");
    is_u64(offset_of(pool, victim), 40, "the late one is where it was");
    for (unsigned i = 0; i < 3; i++)
        late_step(8);
    is_u64(stats_of(pool).moves, 1, "then it ends as it would have");
    ok(holds(victim, 30) && holds(low, 3), "contents");
    finish();
}

/* ------------------------------------------------------------------------------------------------ on demand */

/* hole | live, so many times, and the first to move will be freed just before. */
static void scene_holes(uint64_t n, const uint64_t sizes[][2]) {
    snug_handle holes[10];
    uint64_t    all = 0;
    for (uint64_t i = 0; i < n; i++)
        all += sizes[i][0] + sizes[i][1];
    open_pool(all);
    for (uint64_t i = 0; i < n; i++) {
        holes[i] = put(sizes[i][0]);
        if (sizes[i][1])
            put(sizes[i][1]);
    }
    for (uint64_t i = 0; i < n; i++)
        drop(holes[i]);
    between_clear();
    between.begin     = free_before_begin;
    access_of_victim  = SNUG_READ;
    pool->pin_wait_ns = FOR_EVER;
}

/* The bytes are there, and nothing stands in the way: it is for the next plan to find out where. */
static void a_free_before_the_first_move_is_no_want_of_room(void) {
    snug_handle large;
    scene_holes(4, (uint64_t[][2]){{1, 2}, {1, 2}, {1, 2}, {1, 2}}); /* larger than any hole: they can only slide */
    is_status(snug_alloc(pool, 4 * G, NULL, &large), SNUG_OK, "the first buffer to slide is freed just before");
    is_u64(stats_of(pool).free_bytes, 2 * G, "  its bytes are free");
    finish();
    scene_holes(4, (uint64_t[][2]){{2, 3}, {2, 3}, {2, 12}, {3, 0}}); /* one goes to the last hole; then the other slides */
    is_status(snug_alloc(pool, 9 * G, NULL, &large), SNUG_OK, "all that the first of several steps moves is freed just before");
    is_u64(stats_of(pool).free_bytes, 3 * G, "  its bytes are free");
    finish();
    scene(SNUG_READ, FOR_EVER);
    between.begin = free_before_begin;
    is_status(snug_alloc(pool, 30 * G, NULL, &large), SNUG_OK, "the one that is to make room is freed just before");
    finish();
}

int main(void) {
    a_reader_that_stays_is_respected();
    a_reader_that_goes_is_waited_for();
    a_pin_before_the_move_is_waited_for();
    a_free_while_the_pin_is_waited_for();
    an_allocation_tries_again_when_its_move_is_cancelled();
    a_reader_stays_during_a_step_over_a_hole();
    a_reader_goes_during_a_step_over_a_hole();
    a_pin_comes_before_the_freeze();
    a_free_comes_before_the_freeze();
    a_pin_comes_before_a_late_move_begins();
    a_reader_stays_when_a_late_move_ends();
    a_slide_stops_at_a_late_move();
    a_free_before_the_first_move_is_no_want_of_room();
    return done_testing();
}
