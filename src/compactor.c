/* compactor.c: see compactor.h. */
#include "compactor.h"

#include "receipt.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

/* SETBACKS: of plans of several steps, of which a later one finds more to do than the first had left. They can undo each other's
 * work for ever; then comes a plan of one step. */
enum { ATTEMPTS_MAX = 64, SETBACKS_MAX = 2, JUMBLE_MOVES = 64, JUMBLE_SLIDES = 4 };

static snug__run run_demand(snug_pool *pool) {
    return (snug__run){
        .pool = pool, .which = SNUG__DEMAND, .may_wait = true, .deadline_ns = snug__pool_now(pool) + pool->pin_wait_ns};
}

static snug__goal goal_demand(snug_pool *pool, snug__fit fit) {
    return (snug__goal){.size         = fit.size,
                        .alignment    = fit.alignment,
                        .granules_max = pool->demand_granules_max,
                        .step_max     = UINT64_MAX,
                        .moves_max    = UINT32_MAX,
                        .overhead     = (uint32_t)snug__granules(pool->row->copy_overhead_bytes(pool->device))};
}

/* ------------------------------------------------------------------------------------------------ room on demand */

void snug__compactor_plan(snug_pool *pool, snug__fit fit, uint64_t granules_max, bool whole) {
    snug__goal goal   = goal_demand(pool, fit);
    goal.granules_max = granules_max;
    goal.whole        = whole;
    goal.idle_only    = true;
    snug__plan_room(snug__pool_planner(pool), &goal, &pool->plan);
    if (pool->plan.kind != SNUG__PLAN_NONE)
        return;
    goal.idle_only = false;
    snug__plan_room(snug__pool_planner(pool), &goal, &pool->plan);
}

/* With the lock held, as it returns. */
static void plan_execute(snug__run *run) {
    snug_pool  *pool = run->pool;
    snug__plan *plan = &pool->plan;
    pool->demand_plans++;
    if (plan->kind == SNUG__PLAN_EVACUATE) {
        pthread_mutex_unlock(&pool->lock);
        snug__move_items(run, plan->items, plan->count, plan->first != SNUG__NONE);
        pthread_mutex_lock(&pool->lock);
    } else {
        snug__slide slide = {.gap          = plan->first,
                             .up           = !plan->up,
                             .size         = plan->size,
                             .alignment    = plan->alignment,
                             .beside       = SNUG__NONE,
                             .granules_max = UINT64_MAX,
                             .moves_max    = UINT32_MAX};
        snug__move_slide(run, &slide);
    }
    snug__plan_gaps_free(snug__pool_planner(pool));
}

/* Alignments above the granule can make a planned slide fall short of what it promised. Then everything slides down as far
 * as it goes: what remains between is padding. Nothing moves where that has been done before. */
static void slide_all(snug__run *run, snug__fit fit) {
    snug_pool *pool = run->pool;
    uint32_t   offset, node = snug__map_find_low(&pool->map, (snug__fit){1, 1, false}, SNUG__NONE, &offset);
    if (node == SNUG__NONE)
        return;
    snug__range_set_kind(&pool->map, node, SNUG__RANGE_GAP);
    snug__slide slide = {.gap          = node,
                         .up           = true,
                         .size         = fit.size,
                         .alignment    = fit.alignment,
                         .beside       = SNUG__NONE,
                         .granules_max = UINT64_MAX,
                         .moves_max    = UINT32_MAX};
    snug__move_slide(run, &slide);
    snug__plan_gaps_free(snug__pool_planner(pool));
}

/* Why there is no room, as the map stands. */
static snug_status verdict_of(snug_pool *pool, snug__fit fit) {
    uint64_t free = pool->map.granules[SNUG__RANGE_FREE], pending = pool->map.granules[SNUG__RANGE_PENDING];
    if (free < fit.size)
        return free + pending + pool->map.limit - pool->map.committed >= fit.size ? SNUG_PENDING : SNUG_CAPACITY;
    uint32_t offset;
    if (fit.settled && snug__map_find(&pool->map, (snug__fit){fit.size, fit.alignment, false}, &offset) != SNUG__NONE)
        return SNUG_PENDING;
    if (!pool->compaction_on || fit.settled || pool->demand_granules_max != UINT64_MAX)
        return SNUG_FRAGMENTED;
    if (pool->pinned_granules)
        return SNUG_PINNED;
    return pending ? SNUG_PENDING : SNUG_CAPACITY; /* the last: its alignment needs more than the free bytes */
}

/* With the lock held, as it returns. */
static snug_status room_make(snug_pool *pool, snug__fit fit, snug_receipt *receipt, uint32_t *node, uint32_t *offset) {
    uint64_t deadline = 0, left = pool->demand_granules_max;
    uint64_t expected = UINT64_MAX; /* granules still to be moved by what was planned last */
    unsigned setbacks = 0;
    for (unsigned attempt = 0;; attempt++) {
        snug__pool_bury_dead(pool);
        if ((*node = snug__map_find(&pool->map, fit, offset)) != SNUG__NONE)
            return SNUG_OK;
        snug__run   run     = run_demand(pool);
        snug_status verdict = verdict_of(pool, fit);
        if (verdict == SNUG_CAPACITY && pool->map.granules[SNUG__RANGE_FREE] < fit.size)
            return verdict;
        bool may        = pool->compaction_on && !fit.settled && pool->map.granules[SNUG__RANGE_FREE] >= fit.size;
        pool->plan.kind = SNUG__PLAN_NONE;
        if (may)
            snug__compactor_plan(pool, fit, left, setbacks >= SETBACKS_MAX);
        if (pool->plan.kind != SNUG__PLAN_NONE) {
            setbacks += pool->plan.granules > expected;
            expected = pool->plan.granules;
            snug__receipt_plan(receipt, &pool->plan);
            plan_execute(&run);
            if (left != UINT64_MAX)
                left -= run.moved_granules < left ? run.moved_granules : left;
            expected -= run.moved_granules < expected ? run.moved_granules : expected;
            if (!run.busy && !run.cancelled && !pool->plan.cut && pool->demand_granules_max == UINT64_MAX &&
                snug__map_find(&pool->map, fit, offset) == SNUG__NONE)
                slide_all(&run, fit);
            snug__receipt_run(receipt, &run);
            if ((*node = snug__map_find(&pool->map, fit, offset)) != SNUG__NONE)
                return SNUG_OK;
            if (run.error != SNUG_OK)
                return run.error;
            verdict =
                run.busy || run.cancelled ? SNUG_PINNED : verdict_of(pool, fit); /* others may have freed meanwhile */
            if (!run.busy && !run.cancelled && !run.moves)
                return snug__map_ready(&pool->map) ? verdict : SNUG_NO_MEMORY;
        } else if (verdict != SNUG_PENDING || !may) {
            return !may || snug__map_ready(&pool->map) ? verdict : SNUG_NO_MEMORY;
        }
        /* somebody's short pins are in the way, or others are as quick to take what is made */
        if (verdict == SNUG_CAPACITY && pool->map.granules[SNUG__RANGE_FREE] >= fit.size)
            verdict = SNUG_PINNED;
        uint64_t now = snug__pool_now(pool);
        deadline     = deadline ? deadline : now + pool->pin_wait_ns;
        if (now >= deadline && (run.moves == 0 || attempt >= ATTEMPTS_MAX))
            return verdict;
        pthread_mutex_unlock(&pool->lock);
        sched_yield();
        pthread_mutex_lock(&pool->lock);
        receipt->waited_ns += snug__pool_now(pool) - now;
    }
}

snug_status snug__compactor_room(snug_pool *pool, snug__fit fit, uint32_t *node, uint32_t *offset) {
    snug__late_cancel(pool);
    pthread_mutex_lock(&pool->lock);
    snug_receipt receipt = snug__receipt_begin(pool, SNUG_RECEIPT_DEMAND, fit.size);
    snug_status  status  = room_make(pool, fit, &receipt, node, offset);
    snug__receipt_end(pool, &receipt, status);
    return status;
}

uint32_t snug__compactor_room_low(snug_pool *pool, snug__fit fit, uint32_t limit, uint64_t granules_max,
                                  uint32_t *offset) {
    snug__goal goal   = goal_demand(pool, fit);
    goal.granules_max = granules_max < goal.granules_max ? granules_max : goal.granules_max;
    goal.idle_only    = true;
    snug__late_cancel(pool);
    pthread_mutex_lock(&pool->lock);
    snug__pool_bury_dead(pool);
    if (pool->compaction_on) {
        snug__plan_low(snug__pool_planner(pool), &goal, limit, &pool->plan);
        if (pool->plan.kind == SNUG__PLAN_EVACUATE) {
            snug_receipt receipt = snug__receipt_begin(pool, SNUG_RECEIPT_LOW, fit.size);
            snug__run    run     = run_demand(pool);
            snug__receipt_plan(&receipt, &pool->plan);
            plan_execute(&run);
            snug__receipt_run(&receipt, &run);
            snug__receipt_end(pool, &receipt, run.error);
        }
    }
    return snug__map_find_low(&pool->map, fit, limit, offset);
}

/* ------------------------------------------------------------------------------------------------ steps */

static uint64_t budget_granules(uint64_t bytes) {
    return bytes ? bytes / SNUG_GRANULE : UINT64_MAX;
}

static snug__goal goal_tidy(snug_pool *pool, const snug__tidy *tidy) {
    return (snug__goal){.alignment    = 1,
                        .granules_max = UINT64_MAX,
                        .step_max     = budget_granules(tidy->budget.bytes_max),
                        .moves_max    = tidy->budget.moves_max ? tidy->budget.moves_max : UINT32_MAX,
                        .overhead     = (uint32_t)snug__granules(pool->row->copy_overhead_bytes(pool->device)),
                        .idle_only    = true,
                        .settled_only = true, /* at first */
                        .now_ns       = snug__pool_now(pool),
                        .cooldown_ns  = tidy->cooldown_ns};
}

/* Asks for the whole goal, then for less and less, down to the least gain. */
static bool plan_tidy(snug_pool *pool, const snug__tidy *tidy, snug__goal *goal) {
    uint64_t free = pool->map.granules[SNUG__RANGE_FREE], largest = snug__map_largest(&pool->map);
    uint64_t want  = free - (uint64_t)(tidy->stop_fragmentation * (double)free);
    uint64_t gain  = tidy->gain_min ? tidy->gain_min : 1;
    uint64_t least = 0;
    for (; want >= largest + gain; want = largest + (want - largest) / 2) {
        goal->size = (uint32_t)want;
        snug__plan_room(snug__pool_planner(pool), goal, &pool->plan);
        if (pool->plan.kind != SNUG__PLAN_NONE)
            return true;
        if (pool->plan.least && (!least || pool->plan.least < least))
            least = pool->plan.least;
        if (want == largest + gain)
            break;
    }
    pool->plan.least = least;
    return false;
}

/* Nothing fits the budget: begins to bring the smallest item over piece by piece. */
static void step_late(snug__run *run, snug__goal *goal) {
    snug_pool *pool     = run->pool;
    uint64_t   granules = goal->step_max;
    goal->step_max      = pool->plan.least;
    goal->moves_max     = 1;
    snug__plan_gaps_free(snug__pool_planner(pool));
    snug__plan_room(snug__pool_planner(pool), goal, &pool->plan);
    if (pool->plan.kind != SNUG__PLAN_EVACUATE || pool->plan.count != 1) {
        snug__plan_undo(snug__pool_planner(pool), &pool->plan);
        return;
    }
    snug__plan_gaps_free(snug__pool_planner(pool));
    pthread_mutex_unlock(&pool->lock);
    snug__late_begin(run, &pool->plan.items[0]);
    if (pool->late.active)
        snug__late_step(run, granules);
    pthread_mutex_lock(&pool->lock);
}

static void step_plan(snug__run *run, snug__goal *goal) {
    snug_pool  *pool = run->pool;
    snug__plan *plan = &pool->plan;
    if (plan->kind == SNUG__PLAN_SLIDE) {
        snug__slide slide = {.gap          = plan->first,
                             .up           = !plan->up,
                             .settled_only = goal->settled_only,
                             .size         = goal->size,
                             .alignment    = 1,
                             .beside       = SNUG__NONE,
                             .granules_max = goal->step_max,
                             .moves_max    = goal->moves_max};
        snug__move_slide(run, &slide);
    } else if (plan->count) {
        pthread_mutex_unlock(&pool->lock);
        snug__move_items(run, plan->items, plan->count, plan->first != SNUG__NONE);
        pthread_mutex_lock(&pool->lock);
    } else {
        step_late(run, goal);
    }
    snug__plan_gaps_free(snug__pool_planner(pool));
}

static void step_jumble(snug__run *run, snug__goal *goal) {
    snug_pool *pool    = run->pool;
    goal->settled_only = false;
    goal->cooldown_ns  = 0;
    uint32_t moves_max = goal->moves_max;
    if (goal->moves_max > JUMBLE_MOVES)
        goal->moves_max = JUMBLE_MOVES;
    uint32_t hole = SNUG__NONE;
    snug__plan_jumble(snug__pool_planner(pool), goal, &pool->jumble_cursor, &pool->plan);
    pthread_mutex_unlock(&pool->lock);
    snug__move_items(run, pool->plan.items, pool->plan.count, false);
    pthread_mutex_lock(&pool->lock);
    uint32_t node = snug__map_find_low(&pool->map, (snug__fit){1, 1, false}, SNUG__NONE, &hole);
    if (node == SNUG__NONE)
        return;
    snug__range_set_kind(&pool->map, node, SNUG__RANGE_GAP);
    uint32_t    left  = moves_max - pool->plan.count;
    snug__slide slide = {.gap          = node,
                         .up           = pool->steps % 2 == 0,
                         .alignment    = 1,
                         .beside       = SNUG__NONE,
                         .granules_max = goal->step_max - pool->plan.granules,
                         .moves_max    = left < JUMBLE_SLIDES ? left : JUMBLE_SLIDES};
    snug__move_slide(run, &slide);
    snug__plan_gaps_free(snug__pool_planner(pool));
}

static void step_report(const snug__run *run, snug_compact_state state, snug_compact_result *result) {
    snug_pool *pool  = run->pool;
    pool->step_waits = run->full;
    pool->steps++;
    *result = (snug_compact_result){.struct_size        = sizeof *result,
                                    .state              = state,
                                    .moves              = run->moves,
                                    .cancelled          = run->cancelled,
                                    .moved_bytes        = snug__bytes(run->moved_granules),
                                    .largest_hole_bytes = snug__bytes(snug__map_largest(&pool->map)),
                                    .free_bytes         = snug__bytes(pool->map.granules[SNUG__RANGE_FREE])};
    if (state == SNUG_COMPACT_BLOCKED)
        result->needs_bytes = snug__bytes(pool->plan.least);
}

static bool tidy_enough(snug_pool *pool, const snug__tidy *tidy) {
    double   free = (double)pool->map.granules[SNUG__RANGE_FREE];
    uint64_t gain = tidy->gain_min ? tidy->gain_min : 1;
    return (double)(snug__map_largest(&pool->map) + gain) > (1 - tidy->stop_fragmentation) * free;
}

/* Under lock, dropped between: what a step does beside going on with a late move. */
static snug_compact_state step_move(snug__run *run, const snug__tidy *tidy, snug__goal *goal) {
    snug_pool *pool  = run->pool;
    pool->plan.least = 0;
    if (goal->step_max == 0) { /* a budget below a granule */
        pool->plan.least = 1;
        return tidy_enough(pool, tidy) && !pool->late.active ? SNUG_COMPACT_DONE : SNUG_COMPACT_BLOCKED;
    }
    if (pool->jumble) {
        step_jumble(run, goal);
        return SNUG_COMPACT_MORE;
    }
    if (pool->late.active || run->moved_granules)
        return run->moved_granules ? SNUG_COMPACT_MORE : SNUG_COMPACT_BLOCKED;
    bool planned       = plan_tidy(pool, tidy, goal);
    goal->settled_only = tidy->settled_only;
    if (!planned && !goal->settled_only)
        planned = plan_tidy(pool, tidy, goal);
    if (!planned)
        return tidy_enough(pool, tidy) ? SNUG_COMPACT_DONE : SNUG_COMPACT_BLOCKED;
    if (tidy->budget.time_max_ns) /* from here on: else a step shorter than its planning would never move anything */
        run->stop_ns = snug__pool_now(pool) + tidy->budget.time_max_ns;
    step_plan(run, goal);
    return run->moved_granules ? SNUG_COMPACT_MORE : SNUG_COMPACT_BLOCKED;
}

snug_status snug__compactor_step(snug_pool *pool, const snug__tidy *tidy, snug_compact_result *result) {
    snug__goal  goal   = goal_tidy(pool, tidy);
    snug__run   run    = {.pool = pool, .which = SNUG__BACKGROUND, .deadline_ns = goal.now_ns + pool->pin_wait_ns};
    snug_status polled = snug__pool_notice(pool, snug__order_poll(&pool->order));
    if (polled != SNUG_OK)
        return polled;
    if (pool->late.active && goal.step_max)
        snug__late_step(&run, goal.step_max);
    pthread_mutex_lock(&pool->lock);
    snug__pool_bury_dead(pool);
    bool               background = tidy->settled_only; /* else somebody's call */
    snug_receipt       receipt = snug__receipt_begin(pool, background ? SNUG_RECEIPT_BACKGROUND : SNUG_RECEIPT_STEP, 0);
    snug_compact_state state   = step_move(&run, tidy, &goal);
    receipt.asked_bytes        = snug__bytes(goal.size);
    snug__receipt_plan(&receipt, &pool->plan);
    snug__receipt_run(&receipt, &run);
    snug__receipt_end(pool, &receipt, run.error);
    step_report(&run, state, result);
    pthread_mutex_unlock(&pool->lock);
    return run.error;
}

/* ------------------------------------------------------------------------------------------------ packing */

static bool pack_items(snug__run *run) {
    snug_pool *pool = run->pool;
    snug__goal goal = goal_demand(pool, (snug__fit){1, 1, false});
    goal.moves_max  = SNUG__BATCH_MAX;
    snug__plan_pack(snug__pool_planner(pool), &goal, &pool->plan);
    if (pool->plan.kind == SNUG__PLAN_NONE)
        return false;
    pthread_mutex_unlock(&pool->lock);
    snug__move_items(run, pool->plan.items, pool->plan.count, false);
    pthread_mutex_lock(&pool->lock);
    return run->moves > 0;
}

static bool pack_slide(snug__run *run, uint32_t *from) {
    snug_pool *pool = run->pool;
    uint32_t   offset, node = pool->map.first;
    while (node != SNUG__NONE && (snug__range_at(&pool->map, node)->offset < *from ||
                                  snug__range_at(&pool->map, node)->kind != SNUG__RANGE_FREE))
        node = snug__range_at(&pool->map, node)->next;
    if (node == SNUG__NONE || node == pool->map.last)
        return false;
    snug__range_set_kind(&pool->map, node, SNUG__RANGE_GAP);
    snug__slide slide = {.gap          = node,
                         .up           = true,
                         .alignment    = 1,
                         .beside       = SNUG__NONE,
                         .granules_max = UINT64_MAX,
                         .moves_max    = UINT32_MAX};
    snug__move_slide(run, &slide);
    offset = snug__range_at(&pool->map, slide.gap)->offset;
    snug__plan_gaps_free(snug__pool_planner(pool));
    *from = offset + 1; /* past what stopped it */
    return true;
}

snug_status snug__compactor_pack(snug_pool *pool) {
    snug__late_cancel(pool);
    snug_status error = SNUG_OK;
    uint32_t    from  = 0;
    pthread_mutex_lock(&pool->lock);
    snug__pool_bury_dead(pool);
    snug_receipt receipt = snug__receipt_begin(pool, SNUG_RECEIPT_PACK, 0);
    for (bool more = pool->compaction_on; more && error == SNUG_OK;) {
        snug__run run = run_demand(pool);
        more          = pack_items(&run) || pack_slide(&run, &from);
        error         = run.error;
        snug__receipt_run(&receipt, &run);
    }
    snug__receipt_end(pool, &receipt, error);
    pthread_mutex_unlock(&pool->lock);
    return error;
}

/* ------------------------------------------------------------------------------------------------ background thread */

static snug_compactor_options options_filled(const snug_pool *pool, const snug_compactor_options *given) {
    snug_compactor_options o = snug_compactor_options_default();
    if (given)
        snug__struct_take(&o, sizeof o, given);
    if (o.start_fragmentation == 0)
        o.start_fragmentation = 0.30;
    if (o.stop_fragmentation == 0)
        o.stop_fragmentation = o.start_fragmentation < 0.10 ? o.start_fragmentation : 0.10;
    if (!o.floor_bytes)
        o.floor_bytes = pool->capacity / 256;
    if (!o.step.bytes_max)
        o.step.bytes_max = UINT64_C(16) << 20;
    if (!o.step.moves_max)
        o.step.moves_max = 64;
    if (!o.step.time_max_ns)
        o.step.time_max_ns = 200000;
    if (!o.interval_ns)
        o.interval_ns = 1000000;
    if (o.duty_max == 0)
        o.duty_max = 0.25;
    if (!o.cooldown_ns)
        o.cooldown_ns = 100000000;
    return o;
}

/* Worth starting (or going on with) a pass? Free bytes behind pins and in flight aren't counted as free in the first place. */
static bool tidy_wanted(snug_pool *pool) {
    snug__compactor *c = &pool->compactor;
    pthread_mutex_lock(&pool->lock);
    uint64_t free = pool->map.granules[SNUG__RANGE_FREE], largest = snug__map_largest(&pool->map);
    uint64_t changes = pool->map.changes, ranges = pool->map.count[SNUG__RANGE_LIVE];
    pthread_mutex_unlock(&pool->lock);
    if (!free || snug__bytes(free) < c->options.floor_bytes)
        return false;
    bool settled = c->fruitless_epoch && atomic_load(&pool->order.floor) >= c->fruitless_epoch;
    bool rested  = c->fruitless_until_ns && snug__pool_now(pool) >= c->fruitless_until_ns;
    if (c->back_off && !settled && !rested && changes - c->fruitless_changes < 16 + ranges / 16)
        return false;
    double fragmentation = 1 - (double)largest / (double)free;
    return fragmentation > (c->in_pass ? c->options.stop_fragmentation : c->options.start_fragmentation);
}

static void pass_step(snug_pool *pool) {
    snug__compactor    *c      = &pool->compactor;
    snug__tidy          tidy   = {.budget             = c->options.step,
                                  .stop_fragmentation = c->options.stop_fragmentation,
                                  .gain_min           = pool->map.limit / 4096,
                                  .cooldown_ns        = c->options.cooldown_ns,
                                  .settled_only       = true};
    snug_compact_result result = {.state = SNUG_COMPACT_DONE};
    uint64_t began = snug__pool_now(pool); /* planning takes a while: who rested then may have rested enough by now */
    snug_status status = snug__compactor_step(pool, &tidy, &result);
    pthread_mutex_lock(&pool->lock);
    if (status == SNUG_OK && (result.state == SNUG_COMPACT_MORE || pool->step_waits)) {
        pool->background_passes += !c->in_pass;
        c->in_pass  = true;
        c->back_off = 0;
    } else {
        c->in_pass            = false;
        c->fruitless_changes  = pool->map.changes;
        uint64_t epoch        = atomic_load(&pool->order.epoch) - 1;
        c->fruitless_epoch    = atomic_load(&pool->order.floor) < epoch ? epoch : 0;
        uint64_t rest         = pool->moved_at_ns + c->options.cooldown_ns;
        c->fruitless_until_ns = pool->moved_at_ns && rest > began ? rest : 0;
        c->back_off += c->back_off < 6;
        pool->back_offs++;
    }
    pthread_mutex_unlock(&pool->lock);
}

/* One look; returns how long to sleep. */
static uint64_t look(snug_pool *pool) {
    snug__compactor *c     = &pool->compactor;
    uint64_t         began = snug__pool_now(pool), sleep = c->options.interval_ns;
    if (atomic_load(&pool->state) != SNUG__POOL_OPEN)
        return c->options.interval_ns * 16;
    pthread_mutex_lock(&pool->mover);
    bool wanted = pool->compaction_on && (pool->jumble || pool->late.active || tidy_wanted(pool));
    if (wanted)
        pass_step(pool);
    else
        snug__pool_notice(pool, snug__order_poll(&pool->order));
    pthread_mutex_unlock(&pool->mover);
    if (pool->jumble)
        return c->options.interval_ns / 16;
    if (!wanted) {
        c->in_pass = false;
        return c->options.interval_ns * 16;
    }
    uint64_t spent = snug__pool_now(pool) - began;
    uint64_t rest  = (uint64_t)((double)spent * (1 / c->options.duty_max - 1));
    sleep <<= c->back_off;
    return sleep > rest ? sleep : rest;
}

static void *compactor_main(void *argument) {
    snug_pool       *pool = argument;
    snug__compactor *c    = &pool->compactor;
    pthread_mutex_lock(&c->mutex);
    while (!c->stop) {
        pthread_mutex_unlock(&c->mutex);
        uint64_t sleep = look(pool);
        pthread_mutex_lock(&c->mutex);
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        uint64_t nanoseconds = (uint64_t)until.tv_nsec + sleep;
        until.tv_sec += (time_t)(nanoseconds / 1000000000u);
        until.tv_nsec = (long)(nanoseconds % 1000000000u);
        while (!c->stop && pthread_cond_timedwait(&c->wake, &c->mutex, &until) != ETIMEDOUT)
            ;
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

static bool share(double value) {
    return value >= 0 && value <= 1; /* not so of what isn't a number */
}

snug_status snug__compactor_start(snug_pool *pool, const snug_compactor_options *options) {
    snug__compactor *c = &pool->compactor;
    if (options && !snug__struct_valid(options))
        return SNUG_INVALID;
    snug_compactor_options filled = options_filled(pool, options);
    if (!share(filled.start_fragmentation) || !share(filled.stop_fragmentation) || !share(filled.duty_max))
        return SNUG_INVALID;
    pthread_mutex_lock(&c->mutex);
    snug_status status = c->running ? SNUG_INVALID : SNUG_OK;
    if (status == SNUG_OK) {
        c->options  = filled;
        c->stop     = false;
        c->in_pass  = false;
        c->back_off = 0;
        c->running  = pthread_create(&c->thread, NULL, compactor_main, pool) == 0;
        status      = c->running ? SNUG_OK : SNUG_NO_MEMORY;
    }
    pthread_mutex_unlock(&c->mutex);
    return status;
}

void snug__compactor_stop(snug_pool *pool) {
    snug__compactor *c = &pool->compactor;
    pthread_mutex_lock(&c->mutex);
    bool mine = c->running && !c->stop;
    c->stop   = true;
    pthread_cond_broadcast(&c->wake);
    pthread_mutex_unlock(&c->mutex);
    if (!mine)
        return;
    pthread_join(c->thread, NULL);
    pthread_mutex_lock(&c->mutex);
    c->running = false;
    pthread_mutex_unlock(&c->mutex);
}
