/* move.c - the mover on a real pool: contents through evacuations and slides, cancelled moves, late moves. */
#include "tap.h"

#include "move_world.h"

/* ------------------------------------------------------------------------------------------------ contents */

static void evacuations_keep_contents(void) {
    enum { N = 64, SIZE = 16 };
    snug_handle handles[N], large;
    open_pool(N * SIZE);
    for (unsigned i = 0; i < N; i++)
        handles[i] = put(SIZE);
    for (unsigned i = 0; i < N; i += 2)
        drop(handles[i]);
    uint64_t moves = snug_moves(pool);
    is_status(snug_alloc(pool, N / 2 * SIZE * G, NULL, &large), SNUG_OK, "half the pool in one piece out of scattered holes");
    ok(snug_moves(pool) != moves, "snug_moves says that addresses have changed");
    unsigned wrong = 0;
    for (unsigned i = 1; i < N; i += 2)
        wrong += !holds(handles[i], SIZE);
    is_u64(wrong, 0, "all contents are what they were");
    is_u64(stats_of(pool).moves, N / 4, "a quarter of the buffers were moved");
    is_u64(stats_of(pool).moved_bytes, N / 4 * SIZE * G, "and their bytes counted");
    is_u64(hooks.moves, N / 4, "by as many copies");
    close_pool();
}

/* Sizes from one granule to more than the bounce buffer (256 granules), shifts from one granule to more than the size. */
static void slides_keep_contents(bool up) {
    const uint32_t sizes[] = {1, 2, 3, 64, 255, 256, 257, 700, 1500}, shifts[] = {1, 2, 37, 255, 256, 300, 1600};
    unsigned       wrong = 0, cases = 0, unsound = 0, slides = 0;
    open_pool(3200);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (unsigned j = 0; j < sizeof shifts / sizeof *shifts; j++, cases++) {
            uint32_t    rest = 3200 - sizes[i] - shifts[j];
            snug_handle hole = 0, a = 0, tail = 0;
            if (up) {
                hole = put(shifts[j]);
                a    = put(sizes[i]);
                tail = rest ? put(rest) : 0;
            } else {
                tail = rest ? put(rest) : 0;
                a    = put(sizes[i]);
                hole = put(shifts[j]);
            }
            uint64_t before = offset_of(pool, a);
            drop(hole);
            slides += slide(up, 1).moves;
            wrong += offset_of(pool, a) != (up ? before - shifts[j] : before + shifts[j]);
            wrong += !holds(a, sizes[i]);
            wrong += tail && !holds(tail, rest);
            unsound += snug_pool_check(pool) != SNUG_OK;
            drop(a);
            drop(tail);
        }
    is_u64(slides, cases, "%s: each of %u cases was a slide", up ? "down" : "up", cases);
    is_u64(wrong, 0, "all came to the right place with their contents");
    is_u64(unsound, 0, "and left a sound pool");
    ok(stats_of(pool).slides > 0 && stats_of(pool).slides < cases, "some overlapped themselves, some didn't");
    close_pool();
}

static void a_chain_of_slides_keeps_contents(void) {
    open_pool(1000);
    snug_handle hole = put(7), handles[60], large;
    for (unsigned i = 0; i < 60; i++)
        handles[i] = put(16);
    uint64_t left = (1000 - 7 - 960);
    drop(hole);
    is_status(snug_alloc(pool, (left + 7) * G, NULL, &large), SNUG_OK, "the hole is carried over sixty buffers to the other one");
    unsigned wrong = 0;
    for (unsigned i = 0; i < 60; i++)
        wrong += !holds(handles[i], 16);
    is_u64(wrong, 0, "all contents are what they were");
    close_pool();
}

/* A gap that leaves a leftover at each of many alignments. */
static void a_slide_may_leave_many_leftovers(void) {
    open_pool(16 * 8192);
    snug_alloc_options low = snug_alloc_options_default();
    snug_handle        first, hole = 0, handles[12];
    low.flags = SNUG_ALLOC_IMMOVABLE;
    snug_alloc(pool, G, &low, &first);
    hole = must_alloc(pool, 8191);
    for (unsigned i = 0; i < 12; i++) {
        snug_alloc_options o = snug_alloc_options_default();
        o.alignment          = (uint64_t)(2u << i) * G;
        if (snug_alloc(pool, 8192 * G, &o, &handles[i]) != SNUG_OK || offset_of(pool, handles[i]) != (i + 1) * 8192)
            bail_out("not laid out as meant");
    }
    drop(hole);
    slide(true, 12);
    is_u64(stats_of(pool).moves, 12, "twelve steps");
    succeeds(snug_pool_check(pool));
    close_pool();
}

/* ------------------------------------------------------------------------------------------------ in the middle of a move */

static void hook_write(uint64_t to, uint64_t from, uint64_t bytes) {
    void *address;
    (void)to, (void)from, (void)bytes;
    hooks.before_move = NULL;
    if (snug_resolve(c.stream, &victim, 1, NULL, &address) != SNUG_OK || snug_release(c.stream, &victim, 1, NULL) != SNUG_OK)
        ok(false, "the hook's resolve and release");
}

static void hook_fill(uint64_t to, uint64_t from, uint64_t bytes) {
    (void)to, (void)from;
    hooks.before_move = NULL;
    buffer_fill(c, victim, bytes, 4711);
}

static void hook_read(uint64_t to, uint64_t from, uint64_t bytes) {
    void       *address;
    snug_access access = SNUG_READ;
    (void)to, (void)from, (void)bytes;
    hooks.before_move = NULL;
    if (snug_resolve(c.stream, &victim, 1, &access, &address) != SNUG_OK ||
        snug_release(c.stream, &victim, 1, &access) != SNUG_OK)
        ok(false, "the hook's resolve and release");
}

static void hook_free(uint64_t to, uint64_t from, uint64_t bytes) {
    (void)to, (void)from, (void)bytes;
    hooks.before_move = NULL;
    drop(victim);
}

static void hook_pin(uint64_t to, uint64_t from, uint64_t bytes) {
    void *address;
    (void)to, (void)from, (void)bytes;
    hooks.before_move = NULL;
    if (snug_resolve(c.stream, &victim, 1, NULL, &address) != SNUG_OK)
        ok(false, "the hook's resolve");
}

/* hole 20 | victim 10 | fixed 5 | hole 10 | rest: a step moves the victim to the second hole. */
static snug_compact_result step_with(void (*hook)(uint64_t to, uint64_t from, uint64_t bytes)) {
    snug_compact_result result = {.struct_size = sizeof result};
    open_pool(100);
    snug_handle hole = put(20), between, hole2, rest;
    victim           = put(10);
    between          = put(5);
    hole2            = put(10);
    rest             = put(55);
    drop(hole);
    drop(hole2);
    hooks.before_move = hook;
    is_status(snug_compact(pool, NULL, &result), SNUG_OK, "a step");
    ok(holds(between, 5) && holds(rest, 55), "the others keep their contents");
    succeeds(snug_pool_check(pool));
    return result;
}

static void nothing_in_between(void) {
    snug_compact_result r = step_with(NULL);
    ok(r.moves >= 1, "undisturbed, it is moved");
    ok(holds(victim, 10), "contents");
    is_u64(r.largest_hole_bytes, 30 * G, "one hole");
    close_pool();
}

static void a_write_in_between_cancels(void) {
    snug_compact_result r = step_with(hook_write);
    is_u64(r.cancelled, 1, "a resolve and release for writing during the copy cancels the move");
    is_u64(offset_of(pool, victim), 20, "the buffer is where it was");
    ok(holds(victim, 10), "contents");
    is_u64(stats_of(pool).free_bytes, 30 * G, "both holes are free again");
    is_u64(stats_of(pool).in_flight_bytes, 0, "nothing is in flight");
    is_u64(stats_of(pool).cancelled_moves, 1, "counted");
    snug_compact_result again = {.struct_size = sizeof again};
    snug__order_drain(&pool->order, false, 0); /* the copy that was thrown away too: else the step may choose another way */
    snug_compact(pool, NULL, &again);
    ok(again.moves >= 1 && offset_of(pool, victim) != 20, "the next step moves it");
    ok(holds(victim, 10), "contents again");
    close_pool();
}

static void what_is_written_in_between_is_kept(void) {
    step_with(hook_fill);
    ok(buffer_holds(c, victim, 10 * G, 4711), "the bytes written during the copy are there afterwards");
    close_pool();
}

static void a_read_in_between_does_not_cancel(void) {
    snug_compact_result r = step_with(hook_read);
    is_u64(r.moves, 1, "a resolve and release for reading during the copy doesn't");
    is_u64(r.cancelled, 0, "nothing is cancelled");
    ok(holds(victim, 10), "contents");
    close_pool();
}

static void a_free_in_between_gives_both_ranges_back(void) {
    snug_compact_result r = step_with(hook_free);
    is_u64(r.moves, 0, "freed during the copy it isn't moved");
    is_u64(stats_of(pool).free_bytes, 40 * G, "its place and the target are free");
    is_u64(stats_of(pool).in_flight_bytes, 0, "nothing is in flight");
    is_u64(stats_of(pool).handles_live, 2, "two are live");
    is_status(snug_free(pool, victim), SNUG_STALE, "it is dead");
    close_pool();
}

static void a_pin_in_between_is_respected(void) {
    snug_compact_result r = step_with(hook_pin);
    is_u64(r.moves, 0, "pinned during the copy it isn't moved");
    is_u64(offset_of(pool, victim), 20, "it is where the pin found it");
    drop(victim);
    is_u64(stats_of(pool).pending_bytes, 10 * G, "freed while pinned: pending");
    snug_release(c.stream, &victim, 1, NULL);
    is_u64(stats_of(pool).pending_bytes, 0, "until the release");
    is_u64(stats_of(pool).free_bytes, 40 * G, "then free");
    close_pool();
}

static void *free_victim(void *argument) {
    (void)argument;
    return (void *)(uintptr_t)snug_free(pool, victim);
}

static pthread_t free_thread;

static void hook_free_elsewhere(uint64_t to, uint64_t from, uint64_t bytes) {
    (void)to, (void)from, (void)bytes;
    hooks.before_move = NULL;
    pthread_create(&free_thread, NULL, free_victim, NULL);
    nap_us(5000);
}

static void a_free_during_a_slide_waits_for_the_enqueuing_only(void) {
    void *status;
    open_pool(100);
    snug_handle hole = put(5);
    victim           = put(20);
    snug_handle rest = put(75);
    drop(hole);
    hooks.before_move = hook_free_elsewhere;
    slide(true, 1);
    pthread_join(free_thread, &status);
    is_status((snug_status)(uintptr_t)status, SNUG_OK, "a free that meets a frozen buffer succeeds");
    ok(holds(rest, 75), "the rest keeps its contents");
    is_u64(stats_of(pool).free_bytes, 25 * G, "all of it is free");
    close_pool();
}

/* ------------------------------------------------------------------------------------------------ late moves */

/* hole 40 | victim 30 | fixed 5 | hole 30 | rest; a budget of 8 granules. */
static void late_scene(void) {
    open_pool(200);
    snug_handle hole = put(40), hole2;
    victim           = put(30);
    put(5);
    hole2 = put(30);
    put(95);
    drop(hole);
    drop(hole2);
}

static snug_compact_result late_step(uint64_t granules) {
    snug_compact_result result = {.struct_size = sizeof result};
    snug_budget         budget = {.bytes_max = granules * G};
    is_status(snug_compact(pool, &budget, &result), SNUG_OK, "a step of %" PRIu64 " granules", granules);
    ok(hooks.longest_move <= granules * G, "no copy is larger");
    succeeds(snug_pool_check(pool));
    return result;
}

static void a_large_buffer_moves_late(void) {
    unsigned steps = 0, moved = 0;
    late_scene();
    put(0);
    uint64_t before = offset_of(pool, victim);
    for (; steps < 20 && stats_of(pool).moves == 0; steps++) {
        snug_compact_result r = late_step(8);
        moved += (unsigned)(r.moved_bytes / G);
        ok(r.moved_bytes <= 8 * G, "the step keeps its budget");
    }
    is_u64(steps, 4, "thirty granules by eight take four steps");
    is_u64(moved, 30, "which report thirty granules in all");
    ok(offset_of(pool, victim) != before, "then it is elsewhere");
    ok(holds(victim, 30), "with its contents");
    close_pool();
}

static void a_writer_cancels_a_late_move(void) {
    late_scene();
    late_step(8);
    late_step(8);
    ok(pool->late.active, "half way");
    is_u64(stats_of(pool).in_flight_bytes, 30 * G, "the target is in flight");
    buffer_fill(c, victim, 30 * G, victim);
    late_step(8);
    is_u64(stats_of(pool).cancelled_moves, 1, "the next step finds it cancelled");
    ok(holds(victim, 30), "contents");
    close_pool();
}

static void a_reader_does_not_cancel_a_late_move(void) {
    late_scene();
    late_step(8);
    ok(holds(victim, 30), "read in the middle");
    for (unsigned i = 0; i < 5 && stats_of(pool).moves == 0; i++)
        late_step(8);
    is_u64(stats_of(pool).moves, 1, "it is moved all the same");
    is_u64(stats_of(pool).cancelled_moves, 0, "without starting anew");
    ok(holds(victim, 30), "contents");
    close_pool();
}

static void a_free_ends_a_late_move(void) {
    late_scene();
    late_step(8);
    drop(victim);
    is_u64(stats_of(pool).in_flight_bytes, 60 * G, "freed in the middle: both ranges are in flight");
    late_step(8);
    is_u64(stats_of(pool).in_flight_bytes, 0, "after the next step neither");
    is_u64(stats_of(pool).free_bytes, 100 * G, "all is free");
    close_pool();
}

static void an_allocation_takes_over_from_a_late_move(void) {
    snug_handle large;
    late_scene();
    late_step(8);
    is_status(snug_alloc(pool, 70 * G, NULL, &large), SNUG_OK, "an allocation of all that is free");
    ok(!pool->late.active, "the late move is given up");
    ok(holds(victim, 30), "contents");
    close_pool();
}

static void a_budget_below_a_granule_moves_nothing_and_loses_nothing(void) {
    snug_budget         budget = {.bytes_max = 100};
    snug_compact_result result = {.struct_size = sizeof result};
    open_pool(400);
    snug_handle handles[20];
    for (unsigned i = 0; i < 20; i++)
        handles[i] = put(20);
    for (unsigned i = 0; i < 20; i += 2)
        drop(handles[i]);
    for (unsigned i = 0; i < 4; i++)
        is_status(snug_compact(pool, &budget, &result), SNUG_OK, "a step of 100 bytes");
    is_status(snug_pool_check(pool), SNUG_OK, "the pool is sound between such steps");
    snug_handle large;
    is_status(snug_alloc(pool, 200 * G, NULL, &large), SNUG_OK, "and nothing of it is lost to an allocation");
    unsigned wrong = 0;
    for (unsigned i = 1; i < 20; i += 2)
        wrong += !holds(handles[i], 20);
    is_u64(wrong, 0, "contents");
    close_pool();
}

int main(void) {
    evacuations_keep_contents();
    slides_keep_contents(true);
    slides_keep_contents(false);
    a_chain_of_slides_keeps_contents();
    a_slide_may_leave_many_leftovers();
    nothing_in_between();
    a_write_in_between_cancels();
    what_is_written_in_between_is_kept();
    a_read_in_between_does_not_cancel();
    a_free_in_between_gives_both_ranges_back();
    a_pin_in_between_is_respected();
    a_free_during_a_slide_waits_for_the_enqueuing_only();
    a_large_buffer_moves_late();
    a_writer_cancels_a_late_move();
    a_reader_does_not_cancel_a_late_move();
    a_free_ends_a_late_move();
    an_allocation_takes_over_from_a_late_move();
    a_budget_below_a_granule_moves_nothing_and_loses_nothing();
    return done_testing();
}
