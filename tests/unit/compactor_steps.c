/* compactor_steps.c - steps that must stop or wait, and the background thread where it meets one: a full queue, a device that
 * fails, buffers that rest, options that are none. */
#include "tap.h"

#include "move_world.h"

#include <math.h>

static snug_compact_result step(uint64_t bytes_max) {
    snug_compact_result result = {.struct_size = sizeof result};
    snug_budget         budget = {.bytes_max = bytes_max};
    is_status(snug_compact(pool, &budget, &result), SNUG_OK, "a step of %" PRIu64 " bytes", bytes_max);
    return result;
}

/* ------------------------------------------------------------------------------------------------ steps */

static void a_budget_below_a_granule(void) {
    open_pool(100);
    snug_handle hole = put(20), a = put(10), hole2 = put(10);
    put(60);
    is_i64(step(100).state, SNUG_COMPACT_DONE, "nothing is free: done, whatever the budget");
    drop(hole);
    is_i64(step(100).state, SNUG_COMPACT_DONE, "one hole: done");
    drop(hole2);
    snug_compact_result r = step(100);
    is_i64(r.state, SNUG_COMPACT_BLOCKED, "two holes: blocked");
    is_u64(r.needs_bytes, G, "  for want of a granule at least");
    ok(holds(a, 10), "  contents");
    close_pool();
}

/* hole 40 | victim 30 | 5 | hole 30 | rest */
static void scene_late(uint64_t victim_size) {
    open_pool(victim_size * 2 + 145);
    snug_handle hole = put(victim_size + 10), hole2;
    victim           = put(victim_size);
    put(5);
    hole2 = put(victim_size);
    put(130 - victim_size);
    drop(hole);
    drop(hole2);
}

static void a_budget_below_a_granule_leaves_a_late_move_alone(void) {
    scene_late(30);
    is_u64(step(8 * G).moved_bytes, 8 * G, "a late move begins");
    snug_compact_result r = step(G - 1);
    ok(r.moved_bytes == 0 && r.moves == 0 && r.cancelled == 0, "a budget below a granule moves none of it");
    ok(pool->late.active && pool->late.copied == 8, "  it is still under way");
    for (unsigned i = 0; i < 3; i++)
        step(8 * G);
    is_u64(stats_of(pool).moves, 1, "  and comes to its end");
    ok(holds(victim, 30), "  contents");
    close_pool();
}

/* Its source is written by what is held up, so that the mover's stream must wait; the device can't. */
static void a_late_move_whose_wait_fails_does_not_begin(void) {
    gate                g = {0};
    void               *address;
    snug_budget         budget = {.bytes_max = 8 * G};
    snug_compact_result result = {.struct_size = sizeof result};
    scene_late(30);
    snug_resolve(c.stream, &victim, 1, NULL, &address);
    gate_put(&g, c.native);
    snug_release(c.stream, &victim, 1, NULL);
    atomic_store(&hooks.fail_wait, 1);
    is_status(snug_compact(pool, &budget, &result), SNUG_DEVICE, "the wait for its writer fails");
    ok(!pool->late.active, "  no late move is under way");
    is_u64(hooks.moves, 0, "  nothing is copied");
    is_u64(stats_of(pool).in_flight_bytes, 0, "  nothing is in flight");
    is_u64(step(8 * G).moved_bytes, 8 * G, "  the next step begins it");
    gate_open(&g);
    for (unsigned i = 0; i < 3; i++)
        step(8 * G);
    is_u64(stats_of(pool).moves, 1, "  and it comes to its end");
    ok(holds(victim, 30), "  contents");
    close_pool();
}

/* Granule by granule, while the mover's stream is held up, until its queue is full. */
static void a_late_move_waits_for_its_queue(void) {
    gate                g     = {0};
    unsigned            steps = 0;
    snug_compact_result r;
    scene_late(120);
    snug__order_poll(&pool->order);
    gate_put(&g, pool->order.mover[SNUG__BACKGROUND]->native);
    pool->backlog[SNUG__BACKGROUND].ops = SNUG__OPS_MAX - 50;
    for (r.state = SNUG_COMPACT_MORE; r.state == SNUG_COMPACT_MORE && steps < 130; steps++) {
        snug_budget budget = {.bytes_max = G};
        r                  = (snug_compact_result){.struct_size = sizeof r};
        if (snug_compact(pool, &budget, &r) != SNUG_OK)
            bail_out("a step failed");
    }
    is_i64(r.state, SNUG_COMPACT_BLOCKED, "the queue is full after %u steps: blocked", steps);
    ok(steps > 40 && steps <= 51, "  when it had to be");
    ok(pool->late.active && pool->step_waits, "  the move is under way, and waits");
    ok(r.moved_bytes == 0 && r.cancelled == 0, "  the last step did nothing");
    gate_open(&g);
    is_status(snug_compaction_set(pool, 0), SNUG_OK, "given up");
    is_u64(stats_of(pool).in_flight_bytes, 0, "  nothing is in flight");
    ok(holds(victim, 120), "  contents");
    close_pool();
}

static void a_late_move_does_not_begin_on_a_full_queue(void) {
    gate g = {0};
    scene_late(30);
    gate_put(&g, pool->order.mover[SNUG__BACKGROUND]->native);
    pool->backlog[SNUG__BACKGROUND].ops = SNUG__OPS_MAX;
    snug_compact_result r               = step(8 * G);
    is_i64(r.state, SNUG_COMPACT_BLOCKED, "the queue is full: blocked");
    ok(!pool->late.active && pool->step_waits, "  no late move begins, the step waits");
    is_u64(stats_of(pool).in_flight_bytes, 0, "  nothing is in flight");
    gate_open(&g);
    pool->backlog[SNUG__BACKGROUND].ops = 0;
    is_u64(step(8 * G).moved_bytes, 8 * G, "  once there is room it begins");
    ok(holds(victim, 30), "  contents");
    close_pool();
}

/* ------------------------------------------------------------------------------------------------ options */

static void options_that_are_none(void) {
    open_pool(100);
    const struct {
        const char *name;
        double      start, stop, duty;
    } wrong[] = {{"a negative start", -0.1, 0.1, 0.5},
                 {"a start above one", 1.1, 0.1, 0.5},
                 {"a start that isn't a number", NAN, 0.1, 0.5},
                 {"a negative stop", 0.3, -0.1, 0.5},
                 {"a stop above one", 0.3, 1.5, 0.5},
                 {"a stop that isn't a number", 0.3, NAN, 0.5},
                 {"a negative share", 0.3, 0.1, -1},
                 {"a share above one", 0.3, 0.1, 1.001},
                 {"a share that isn't a number", 0.3, 0.1, NAN}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snug_compactor_options o = snug_compactor_options_default();
        o.start_fragmentation    = wrong[i].start;
        o.stop_fragmentation     = wrong[i].stop;
        o.duty_max               = wrong[i].duty;
        is_status(snug_compactor_start(pool, &o), SNUG_INVALID, "%s", wrong[i].name);
    }
    snug_compactor_options o = snug_compactor_options_default();
    o.struct_size            = 1;
    is_status(snug_compactor_start(pool, &o), SNUG_INVALID, "options of no size");
    ok(!pool->compactor.running, "no thread runs");
    o                     = snug_compactor_options_default();
    o.start_fragmentation = 0.05;
    o.step.time_max_ns    = 12345;
    is_status(snug_compactor_start(pool, &o), SNUG_OK, "a start below the usual stop");
    ok(pool->compactor.options.stop_fragmentation == 0.05, "  is the stop too");
    is_u64(pool->compactor.options.step.time_max_ns, 12345, "  a time that is given is kept");
    is_u64(pool->compactor.options.step.moves_max, 64, "  what isn't given is the default");
    succeeds(snug_compactor_stop(pool));
    is_status(snug_compactor_start(pool, NULL), SNUG_OK, "all defaults");
    ok(pool->compactor.options.start_fragmentation == 0.30 && pool->compactor.options.stop_fragmentation == 0.10,
       "  as the manual says");
    succeeds(snug_compactor_stop(pool));
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

static bool reaches_hole(uint64_t granules) {
    for (unsigned i = 0; i < 20000 && stats_of(pool).largest_hole_bytes < granules * G; i++)
        nap_us(500);
    return stats_of(pool).largest_hole_bytes == granules * G;
}

static void finish(void) {
    succeeds(snug_compactor_stop(pool));
    close_pool();
}

/* A hole below many small buffers, and the mover's stream held up: the queue fills, the pass goes on once it has run. */
static void a_pass_goes_on_after_a_full_queue(void) {
    enum { MANY = 300 };
    gate                   g = {0};
    snug_handle            handles[MANY];
    unsigned               wrong = 0;
    snug_compactor_options o     = fast();
    o.step.time_max_ns           = UINT64_C(10000000000);
    open_pool(MANY * 10 + 18);
    snug_handle hole = put(9);
    for (unsigned i = 0; i < MANY; i++)
        handles[i] = put(10);
    drop(hole);
    snug__order_poll(&pool->order);
    gate_put(&g, pool->order.mover[SNUG__BACKGROUND]->native);
    snug_compactor_start(pool, &o);
    for (unsigned i = 0; i < 20000 && hooks.moves < 100; i++)
        nap_us(500);
    uint64_t moves = 0, before = 1;
    for (unsigned i = 0; i < 200 && moves != before; i++) {
        before = moves;
        nap_us(5000);
        moves = stats_of(pool).moves;
    }
    ok(moves > 0 && moves < MANY, "the queue is full after %" PRIu64 " moves", moves);
    is_u64(stats_of(pool).background_passes, 1, "  in one pass");
    is_u64(stats_of(pool).back_offs, 0, "  without a back-off");
    gate_open(&g);
    ok(reaches_hole(18), "once it has run the pass goes on, to one hole");
    is_u64(stats_of(pool).moves, MANY, "  every buffer moved once");
    for (unsigned i = 0; i < MANY; i++)
        wrong += !holds(handles[i], 10);
    is_u64(wrong, 0, "  contents");
    finish();
}

static void a_step_that_fails_is_tried_again_later(void) {
    snug_compactor_options o = fast();
    open_pool(100);
    snug_handle hole = put(20), rest;
    victim           = put(10);
    rest             = put(60);
    drop(hole);
    snug_compaction_set(pool, 0); /* until the failure is in place */
    atomic_store(&hooks.fail_move, 1);
    snug_compactor_start(pool, &o);
    snug_compaction_set(pool, 1);
    for (unsigned i = 0; i < 20000 && stats_of(pool).back_offs == 0; i++)
        nap_us(500);
    ok(stats_of(pool).back_offs >= 1, "a step whose copy fails makes it back off");
    for (unsigned i = 0; i < 40; i++) /* ends the back-off */
        snug_free(pool, must_alloc(pool, 1));
    ok(reaches_hole(30), "then it succeeds");
    ok(holds(victim, 10) && holds(rest, 60), "  contents");
    finish();
}

/* 4 | hole 1 | victim 2 | hole 4 | fixed: the victim has just moved, and is the only one that helps. */
static void a_buffer_that_rests_is_moved_after_its_rest(void) {
    void                  *address;
    snug_compactor_options o = fast();
    o.cooldown_ns            = 200000000;
    open_pool(111);
    snug_handle four = put(40), one = put(10), hole, fixed;
    victim = put(20);
    hole   = put(40);
    fixed  = put(1);
    snug_compaction_set(pool, 0);
    succeeds(snug_pin(pool, &fixed, 1, &address));
    snug_compaction_set(pool, 1);
    drop(one);
    drop(hole);
    is_u64(step(0).moves, 1, "a step moves it");
    uint64_t moved_at = pool->moved_at_ns;
    ok(offset_of(pool, victim) == 40 && moved_at > 0, "  down");
    drop(four);
    snug_compactor_start(pool, &o);
    ok(reaches_hole(90), "it is moved again");
    ok(pool->moved_at_ns - moved_at >= o.cooldown_ns, "  after its rest of 200 ms: %" PRIu64 " us",
       (pool->moved_at_ns - moved_at) / 1000);
    is_u64(stats_of(pool).moves, 2, "  once");
    is_u64(offset_of(pool, victim), 0, "  down to the end");
    ok(holds(victim, 20), "  contents");
    finish();
    (void)fixed;
}

static void a_lost_pool_is_left_alone(void) {
    snug_compactor_options o = fast();
    static char            line[256];
    open_pool(100);
    pool->log.context = line;
    put(10);
    snug_compactor_start(pool, &o);
    atomic_store(&hooks.lost, 1);
    for (unsigned i = 0; i < 20000 && atomic_load(&pool->state) == SNUG__POOL_OPEN; i++)
        nap_us(500);
    is_u64(atomic_load(&pool->state), SNUG__POOL_LOST, "the thread's next look finds that the device is lost");
    nap_us(5000); /* the look that was under way */
    uint64_t queries = atomic_load(&pool->order.queries);
    nap_us(20000); /* many times the interval */
    is_u64(atomic_load(&pool->order.queries), queries, "  from then on it asks no more");
    is_status(snug_compactor_stop(pool), SNUG_OK, "  and can be stopped");
    ok(!pool->compactor.running, "  it is");
    is_string(line, "pool lost: lost on purpose", "  the device's words are in the log");
    atomic_store(&hooks.lost, 0);
    client_end(c);
    is_status(snug_pool_destroy(pool), SNUG_LOST, "  destroy says LOST");
}

static void *stop_it(void *argument) {
    (void)argument;
    return (void *)(uintptr_t)snug_compactor_stop(pool);
}

/* The thread can't end while a test holds the lock that it is about to take. */
static void two_may_stop_it(void) {
    snug_compactor_options o = fast();
    pthread_t              first;
    void                  *status;
    bool                   stopping = false;
    open_pool(10);
    pthread_mutex_lock(&pool->mover);
    succeeds(snug_compactor_start(pool, &o));
    if (pthread_create(&first, NULL, stop_it, NULL) != 0)
        bail_out("no thread");
    for (unsigned i = 0; i < 20000 && !stopping; i++) {
        nap_us(200);
        pthread_mutex_lock(&pool->compactor.mutex);
        stopping = pool->compactor.stop;
        pthread_mutex_unlock(&pool->compactor.mutex);
    }
    ok(stopping, "one thread stops it");
    is_status(snug_compactor_stop(pool), SNUG_OK, "  another may do so meanwhile, and needn't wait");
    pthread_mutex_unlock(&pool->mover);
    pthread_join(first, &status);
    is_status((snug_status)(uintptr_t)status, SNUG_OK, "  the first has waited for its end");
    ok(!pool->compactor.running, "  which has come");
    is_status(snug_compactor_start(pool, &o), SNUG_OK, "  it can be started again");
    finish();
}

int main(void) {
    a_budget_below_a_granule();
    a_budget_below_a_granule_leaves_a_late_move_alone();
    a_late_move_whose_wait_fails_does_not_begin();
    a_late_move_waits_for_its_queue();
    a_late_move_does_not_begin_on_a_full_queue();
    options_that_are_none();
    a_pass_goes_on_after_a_full_queue();
    a_step_that_fails_is_tried_again_later();
    a_buffer_that_rests_is_moved_after_its_rest();
    a_lost_pool_is_left_alone();
    two_may_stop_it();
    return done_testing();
}
