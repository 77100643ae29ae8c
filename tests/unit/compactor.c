/* compactor.c - when and how much: steps and their budgets, thresholds and back-off of the background thread, trim, jumble. */
#include "tap.h"

#include "compactor.h"
#include "fixture.h"

enum { G = SNUG_GRANULE, UNIT = 64 };

static snug_pool  *pool;
static client      c;
static snug_handle handles[256];

static void lay_out_with(const char *text, snug_pool_options options) {
    pool = pool_laid_out(text, UNIT, options, handles);
    c    = client_make(pool);
}

static void lay_out(const char *text) {
    lay_out_with(text, (snug_pool_options){0});
}

static void close_pool(void) {
    succeeds(snug_compactor_stop(pool));
    succeeds(snug_pool_check(pool));
    client_end(c);
    succeeds(snug_pool_destroy(pool));
}

static snug_compact_result step(snug_budget budget) {
    snug_compact_result r = {.struct_size = sizeof r};
    if (snug_compact(pool, &budget, &r) != SNUG_OK)
        bail_out("a step failed");
    return r;
}

static const snug_budget unbounded;

/* ------------------------------------------------------------------------------------------------ steps */

static void steps_go_on_until_done(void) {
    lay_out("f4 l1 f4 l2 f4 l3 f4 l40");
    snug_compact_result r;
    unsigned            steps = 0;
    do
        r = step((snug_budget){.moves_max = 1});
    while (r.state == SNUG_COMPACT_MORE && ++steps < 100);
    ok(steps >= 3 && steps < 100, "one move a step: %u steps", steps);
    is_i64(r.state, SNUG_COMPACT_DONE, "done");
    is_u64(r.moves, 0, "the last one found nothing to do");
    is_u64(r.largest_hole_bytes, 16 * UNIT * G, "one hole of all that is free");
    is_u64(r.free_bytes, 16 * UNIT * G, "which it tells");
    is_u64(stats_of(pool).steps, steps + 1, "steps are counted");
    close_pool();
}

static void a_full_or_whole_pool_is_done_at_once(void) {
    lay_out("l4 l4");
    is_i64(step(unbounded).state, SNUG_COMPACT_DONE, "nothing is free");
    close_pool();
    lay_out("f4 l4");
    is_i64(step(unbounded).state, SNUG_COMPACT_DONE, "all that is free is one hole");
    close_pool();
}

static void a_step_keeps_its_budget(void) {
    lay_out("f4 l1 f4 l2 f4 l3 f4 l1 f4 l2 f4 l3 f4 l1 f4 l2 f4 l60");
    uint64_t over = 0, steps = 0;
    for (snug_compact_result r = {.state = SNUG_COMPACT_MORE}; r.state == SNUG_COMPACT_MORE && steps < 200; steps++) {
        r = step((snug_budget){.bytes_max = 3 * UNIT * G, .moves_max = 2});
        over += r.moved_bytes > 3 * UNIT * G || r.moves > 2;
    }
    is_u64(over, 0, "no step moved more than two buffers or three units");
    ok(steps < 200, "it ended after %" PRIu64 " steps", steps);
    is_u64(stats_of(pool).holes, 1, "with one hole");
    close_pool();
}

static void a_step_without_a_result_is_legal(void) {
    lay_out("f4 l1 f4 l4");
    succeeds(snug_compact(pool, NULL, NULL));
    is_u64(stats_of(pool).moves, 1, "it moves all the same");
    snug_compact_result bad = {.struct_size = 1};
    is_status(snug_compact(pool, NULL, &bad), SNUG_INVALID, "a result without its size isn't");
    close_pool();
}

static void a_budget_too_small_for_a_slide_says_what_it_needs(void) {
    lay_out("l5 f4 l10 f4 l10");
    snug_compact_result r = step((snug_budget){.bytes_max = 9 * UNIT * G});
    is_i64(r.state, SNUG_COMPACT_BLOCKED, "blocked");
    is_u64(r.moves, 0, "nothing is moved");
    is_u64(r.needs_bytes, 10 * UNIT * G, "it needs ten units");
    r = step((snug_budget){.bytes_max = r.needs_bytes});
    is_u64(r.moves, 1, "with which it goes on");
    is_u64(r.largest_hole_bytes, 8 * UNIT * G, "to one hole");
    close_pool();
}

static void pins_block_a_step(void) {
    lay_out("f4 x2 f4 x2 f4");
    snug_compact_result r = step(unbounded);
    is_i64(r.state, SNUG_COMPACT_BLOCKED, "between immovable buffers nothing can be done");
    is_u64(r.needs_bytes, 0, "and no budget would help");
    close_pool();
    lay_out("f4 l2 f4 l30");
    void *address;
    snug_resolve(c.stream, handles, 1, NULL, &address);
    r = step(unbounded);
    is_i64(r.state, SNUG_COMPACT_BLOCKED, "a resolved buffer");
    is_u64(r.moves, 0, "isn't moved");
    snug_release(c.stream, handles, 1, NULL);
    r = step(unbounded);
    is_u64(r.moves, 1, "but once it is released");
    close_pool();
}

static void a_step_smaller_than_the_largest_buffer_gets_there(void) {
    lay_out("f20 l16 f4 l3 f20 l16 f4 l40");
    buffer_fill(c, handles[0], 16 * UNIT * G, 1);
    buffer_fill(c, handles[2], 16 * UNIT * G, 2);
    snug_compact_result r     = {0};
    unsigned            steps = 0;
    do
        r = step((snug_budget){.bytes_max = 2 * UNIT * G});
    while (r.state == SNUG_COMPACT_MORE && ++steps < 500);
    ok(stats_of(pool).moves >= 1, "buffers of eight budgets were moved");
    ok(r.largest_hole_bytes >= 24 * UNIT * G, "the largest hole has grown to %d units", (int)(r.largest_hole_bytes / UNIT / G));
    ok(steps < 500, "in %u steps", steps);
    ok(buffer_holds(c, handles[0], 16 * UNIT * G, 1) && buffer_holds(c, handles[2], 16 * UNIT * G, 2), "contents");
    close_pool();
}

static void random_pools_are_tidied_to_one_hole(uint64_t seed) {
    uint64_t endless = 0, scattered = 0, torn = 0, unsound = 0, rounds = tap_scaled(60);
    for (uint64_t round = 0; round < rounds; round++) {
        dice     d    = {seed + round};
        uint64_t size[120];
        unsigned n = 0, steps = 0;
        pool = pool_of(3000);
        c    = client_make(pool);
        while (n < 120 && snug_alloc(pool, (size[n] = 1 + dice_below(&d, 60)) * G, NULL, &handles[n]) == SNUG_OK)
            n++;
        for (unsigned i = 0; i < n; i++)
            if (dice_below(&d, 2)) {
                snug_free(pool, handles[i]);
                handles[i] = 0;
            } else {
                buffer_fill(c, handles[i], size[i] * G, i);
            }
        snug_compact_result r;
        do
            r = step((snug_budget){.bytes_max = dice_below(&d, 3) ? (1 + dice_below(&d, 100)) * (uint64_t)G : 0,
                                   .moves_max = dice_below(&d, 4)});
        while ((r.state == SNUG_COMPACT_MORE || (r.state == SNUG_COMPACT_BLOCKED && steps < 10)) && ++steps < 3000);
        endless += steps == 3000;
        /* BLOCKED: the mover's own copies may have to run first */
        for (steps = 0; steps < 500 && step(unbounded).state != SNUG_COMPACT_DONE; steps++)
            nap_us(100);
        scattered += stats_of(pool).holes > 1 || steps == 500;
        unsound += snug_pool_check(pool) != SNUG_OK;
        for (unsigned i = 0; i < n; i++)
            torn += handles[i] && !buffer_holds(c, handles[i], size[i] * G, i);
        if (endless || scattered || torn || unsound) {
            diag("round %" PRIu64 " of seed %" PRIu64 ": %d holes after %u steps", round, seed, (int)stats_of(pool).holes, steps);
            rounds = round;
        }
        client_end(c);
        snug_pool_destroy(pool);
    }
    is_u64(endless, 0, "steps of random budgets come to an end");
    is_u64(scattered, 0, "unbounded ones leave one hole");
    is_u64(torn, 0, "contents are kept");
    is_u64(unsound, 0, "the pools are sound");
}

static void a_demand_is_never_given_more_than_its_bound(void) {
    snug_handle large;
    lay_out_with("f4 l8 f4 l4 f4 l2 f4 x1 f14 x1", (snug_pool_options){.demand_bytes_max = 13 * UNIT * G});
    snug_status status = snug_alloc(pool, 25 * UNIT * G, NULL, &large);
    ok(status == SNUG_OK || status == SNUG_FRAGMENTED, "granted, or refused for want of budget");
    ok(stats_of(pool).moved_bytes <= 13 * UNIT * G, "no more than 13 units are moved for it: %d",
       (int)(stats_of(pool).moved_bytes / UNIT / G));
    close_pool();
}

/* ------------------------------------------------------------------------------------------------ the background thread */

static snug_compactor_options fast(void) {
    snug_compactor_options o = snug_compactor_options_default();
    o.interval_ns            = 20000;
    o.duty_max               = 1;
    o.cooldown_ns            = 1;
    o.floor_bytes            = 1;
    o.stop_fragmentation     = 0.001;
    return o;
}

static uint64_t looks(void) { /* each asks the mover streams' two main events */
    return stats_of(pool).device_queries / 2;
}

static void let_it_look(uint64_t n) {
    uint64_t until = looks() + n;
    for (unsigned i = 0; i < 20000 && looks() < until; i++)
        nap_us(500);
    if (looks() < until)
        bail_out("the compactor doesn't look");
}

static bool reaches_one_hole(void) {
    for (unsigned i = 0; i < 4000 && stats_of(pool).holes > 1; i++)
        nap_us(500);
    return stats_of(pool).holes <= 1;
}

static void it_tidies_above_the_start_threshold(void) {
    snug_compactor_options o = fast();
    lay_out("f4 l1 f4 l2 f4 l3 f4 l40");
    succeeds(snug_compactor_start(pool, &o));
    is_status(snug_compactor_start(pool, &o), SNUG_INVALID, "a second start");
    ok(reaches_one_hole(), "fragmented by 75 %%, it is tidied to one hole");
    let_it_look(50);
    succeeds(snug_compactor_stop(pool));
    succeeds(snug_compactor_stop(pool));
    is_u64(stats_of(pool).background_passes, 1, "in one pass");
    ok(stats_of(pool).moves >= 3, "all three were moved");
    close_pool();
}

static void it_leaves_alone_what_is_below(void) {
    snug_compactor_options o = fast();
    lay_out("f30 l2 f10 l20"); /* 1 - 30 / 40 = 0.25 */
    snug_compactor_start(pool, &o);
    let_it_look(200);
    is_u64(stats_of(pool).moves, 0, "below the start threshold nothing moves");
    snug_compactor_stop(pool);
    o.start_fragmentation = 0.2;
    snug_compactor_start(pool, &o);
    ok(reaches_one_hole(), "with a lower one it does");
    close_pool();
}

static void it_stops_below_the_stop_threshold(void) {
    snug_compactor_options o = fast();
    o.start_fragmentation    = 0.5;
    o.stop_fragmentation     = 0.4;
    o.step.moves_max         = 1;
    lay_out("f8 l1 f8 l1 f8 l1 f8 l1 f8 l1 f8 l1 f8 l1 f8 l40");
    snug_compactor_start(pool, &o);
    for (unsigned i = 0; i < 2000 && stats_of(pool).fragmentation > 0.4; i++)
        nap_us(500);
    let_it_look(200);
    double fragmentation = stats_of(pool).fragmentation;
    ok(fragmentation <= 0.4 && fragmentation > 0.1, "it ends at %.2f: below 0.4, and no further than that takes", fragmentation);
    close_pool();
}

static void it_ignores_what_is_below_the_floor(void) {
    snug_compactor_options o = fast();
    o.floor_bytes            = 17 * UNIT * G;
    lay_out("f4 l1 f4 l2 f4 l3 f4 l40");
    snug_compactor_start(pool, &o);
    let_it_look(200);
    is_u64(stats_of(pool).moves, 0, "sixteen free units are below a floor of seventeen");
    snug_compactor_stop(pool);
    o.floor_bytes = 16 * UNIT * G;
    snug_compactor_start(pool, &o);
    ok(reaches_one_hole(), "and not below one of sixteen");
    close_pool();
}

static void padding_starts_no_pass(void) {
    snug_compactor_options o = fast();
    snug_alloc_options     a = snug_alloc_options_default();
    pool = pool_of(64 * 100);
    c    = client_make(pool);
    a.alignment = 64 * G;
    for (unsigned i = 0; i < 100; i++)
        if (snug_alloc(pool, 40 * G, &a, &handles[i]) != SNUG_OK)
            bail_out("not laid out");
    snug_compactor_start(pool, &o);
    let_it_look(1000);
    is_u64(stats_of(pool).background_passes, 0, "24 granules behind each of a hundred aligned buffers start no pass in a thousand looks");
    is_u64(stats_of(pool).moves, 0, "and no move");
    ok(stats_of(pool).steps <= 2, "hardly a step: %" PRIu64, stats_of(pool).steps);
    close_pool();
}

static void it_backs_off_until_the_map_changes(void) {
    snug_compactor_options o = fast();
    lay_out("f4 x2 f4 x2 f4 x2 f4 l20");
    snug_compactor_start(pool, &o);
    let_it_look(500);
    uint64_t steps = stats_of(pool).steps;
    ok(steps >= 1 && steps <= 3, "%" PRIu64 " steps found that nothing can be done", steps);
    is_u64(stats_of(pool).background_passes, 0, "which is no pass");
    for (unsigned i = 0; i < 40; i++) {
        snug_handle handle = must_alloc(pool, 1);
        snug_free(pool, handle);
    }
    let_it_look(200);
    ok(stats_of(pool).steps > steps, "once the map has changed it tries again");
    close_pool();
}

static void a_moved_buffer_rests(void) {
    snug_compactor_options o = fast();
    o.cooldown_ns            = UINT64_C(60000000000);
    lay_out("f4 l2 f4 l40");
    snug_compactor_start(pool, &o);
    ok(reaches_one_hole(), "tidied");
    snug_compactor_stop(pool);
    is_u64(stats_of(pool).moves, 1, "by one move");
    snug__goal goal = {.size = 1, .idle_only = true, .cooldown_ns = o.cooldown_ns, .now_ns = snug__pool_now(pool)};
    uint32_t   node = snug__handles_at(&pool->handles, snug__handle_index(handles[0]))->range;
    ok(!snug__plan_movable(snug__pool_planner(pool), &goal, node), "the moved buffer rests for a minute");
    close_pool();
}

static void work_in_progress_is_left_alone(void) {
    snug_compactor_options o = fast();
    gate                   g = {0};
    void                  *address;
    lay_out("f4 l1 f4 l40");
    snug_resolve(c.stream, handles, 1, NULL, &address);
    gate_put(&g, c.native);
    snug_release(c.stream, handles, 1, NULL);
    snug_compactor_start(pool, &o);
    let_it_look(200);
    is_u64(stats_of(pool).moves, 0, "a buffer that queued work still writes isn't moved in the background");
    gate_open(&g);
    snug_stream_sync(c.stream);
    let_it_look(3);                   /* settles it */
    for (unsigned i = 0; i < 40; i++) /* ends the back-off */
        snug_free(pool, must_alloc(pool, 1));
    ok(reaches_one_hole(), "but once that has run");
    close_pool();
}

/* ------------------------------------------------------------------------------------------------ switched off and on */

static void off_stops_all_moves(void) {
    snug_compactor_options o = fast();
    snug_handle            large;
    lay_out("f4 l1 f4 l2 f4 l3 f4 l40");
    succeeds(snug_compaction_set(pool, 0));
    snug_compactor_start(pool, &o);
    let_it_look(100);
    snug_compact_result r = step(unbounded);
    is_i64(r.state, SNUG_COMPACT_DONE, "a step says DONE");
    is_status(snug_alloc(pool, 16 * UNIT * G, NULL, &large), SNUG_FRAGMENTED, "an allocation is refused");
    is_u64(stats_of(pool).moves, 0, "nothing has moved");
    succeeds(snug_compaction_set(pool, 1));
    is_status(snug_alloc(pool, 16 * UNIT * G, NULL, &large), SNUG_OK, "on again it is granted");
    close_pool();
}

static void off_gives_up_a_late_move(void) {
    lay_out("f20 l16 x4 f16 l40");
    buffer_fill(c, handles[0], 16 * UNIT * G, 5);
    step((snug_budget){.bytes_max = UNIT * G});
    ok(pool->late.active, "a late move is under way");
    succeeds(snug_compaction_set(pool, 0));
    ok(!pool->late.active, "off gives it up");
    is_u64(stats_of(pool).in_flight_bytes, 0, "nothing is in flight");
    ok(buffer_holds(c, handles[0], 16 * UNIT * G, 5), "contents");
    close_pool();
}

/* ------------------------------------------------------------------------------------------------ trim, jumble */

static void trim_returns_the_tail(void) {
    const uint64_t MiB = 1 << 20;
    uint64_t       returned = 1;
    pool = pool_make((snug_pool_options){.capacity = 64 * MiB});
    c    = client_make(pool);
    for (unsigned i = 0; i < 64; i++)
        snug_alloc(pool, MiB, NULL, &handles[i]);
    for (unsigned i = 0; i < 64; i++)
        if (i % 8 == 7)
            buffer_fill(c, handles[i], MiB, i);
        else
            snug_free(pool, handles[i]);
    succeeds(snug_trim(pool, 16 * MiB, &returned));
    is_u64(returned, 48 * MiB, "all but what it was to keep");
    is_u64(stats_of(pool).committed_bytes - stats_of(pool).bounce_bytes, 16 * MiB, "is committed no more");
    succeeds(snug_trim(pool, 0, &returned));
    is_u64(returned, 8 * MiB, "eight buffers of 1 MiB need eight");
    succeeds(snug_trim(pool, 0, &returned));
    is_u64(returned, 0, "then there is nothing to return");
    unsigned wrong = 0;
    for (unsigned i = 7; i < 64; i += 8)
        wrong += !buffer_holds(c, handles[i], MiB, i);
    is_u64(wrong, 0, "contents");
    snug_handle again[56];
    for (unsigned i = 0; i < 56; i++) {
        wrong += snug_alloc(pool, MiB, NULL, &again[i]) != SNUG_OK;
        buffer_fill(c, again[i], MiB, 100 + i);
    }
    for (unsigned i = 0; i < 56; i++)
        wrong += !buffer_holds(c, again[i], MiB, 100 + i);
    is_u64(wrong, 0, "the tail grows again and can be written and read");
    close_pool();
}

static void trim_waits_for_what_uses_the_tail(void) {
    const uint64_t MiB = 1 << 20;
    uint64_t       returned = 0;
    pool = pool_make((snug_pool_options){.capacity = 16 * MiB});
    c    = client_make(pool);
    snug_handle all = 0;
    snug_alloc(pool, 16 * MiB, NULL, &all);
    for (unsigned i = 0; i < 40; i++)
        snug_fill(c.stream, all, 0, (int)i, 16 * MiB);
    snug_free(pool, all);
    succeeds(snug_trim(pool, 0, &returned)); /* what still ran would fault */
    is_u64(returned, 16 * MiB, "everything");
    is_status(snug_stream_sync(c.stream), SNUG_OK, "the stream has run");
    close_pool();
}

static void jumble_moves_everything(void) {
    uint64_t offsets[20], still = 0, torn = 0;
    lay_out_with("f9 l1 l2 l3 f3 l4 l1 l2 f4 l3 l1 l2 x2 l3 f20", (snug_pool_options){.jumble = 1});
    const uint64_t sizes[] = {1, 2, 3, 4, 1, 2, 3, 1, 2, 2, 3};
    for (unsigned i = 0; i < 11; i++)
        buffer_fill(c, handles[i], sizes[i] * UNIT * G, i);
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 11; i++)
            offsets[i] = offset_of(pool, handles[i]);
        snug_compact_result r = step(unbounded);
        ok(r.moves >= 5, "a step of jumbling moves %u buffers", r.moves);
        still += offset_of(pool, handles[9]) != offsets[9];
        for (unsigned i = 0; i < 11; i++)
            torn += !buffer_holds(c, handles[i], sizes[i] * UNIT * G, i);
    }
    is_u64(still, 0, "the immovable one stays");
    is_u64(torn, 0, "contents");
    close_pool();
}

int main(int argc, char **argv) {
    uint64_t seed = fixture_seed(argc, argv);
    steps_go_on_until_done();
    a_full_or_whole_pool_is_done_at_once();
    a_step_keeps_its_budget();
    a_step_without_a_result_is_legal();
    a_budget_too_small_for_a_slide_says_what_it_needs();
    pins_block_a_step();
    a_step_smaller_than_the_largest_buffer_gets_there();
    random_pools_are_tidied_to_one_hole(seed);
    a_demand_is_never_given_more_than_its_bound();
    it_tidies_above_the_start_threshold();
    it_leaves_alone_what_is_below();
    it_stops_below_the_stop_threshold();
    it_ignores_what_is_below_the_floor();
    padding_starts_no_pass();
    it_backs_off_until_the_map_changes();
    a_moved_buffer_rests();
    work_in_progress_is_left_alone();
    off_stops_all_moves();
    off_gives_up_a_late_move();
    trim_returns_the_tail();
    trim_waits_for_what_uses_the_tail();
    jumble_moves_everything();
    return done_testing();
}
