/* plans.c - (d) how long planning takes: one plan, and for each move of it, in maps of 2 k to 1 M ranges.
 *
 * Layouts placed at random at 80 % live, sized so that the ranges, live and free together, are about as many as said. A plan
 * for a gap of 25, 50 or 75 % of the free bytes is made as an allocation would have it made, and undone. The planner drops the
 * pool's lock now and then: another thread takes it again and again meanwhile, and its longest wait is told, which on an idle
 * machine is about the longest time for which the lock is held. The first of each isn't counted. */
#include "layout.h"

#include "pool.h"

#include <pthread.h>
#include <stdatomic.h>

enum { SHARES = 3, MAPS = 4 };

static const struct map_kind {
    const char  *name;
    uint64_t     capacity;
    const sizes *sizes;
} map_kinds[MAPS] = {{"2 k ranges", UINT64_C(544) << 20, &sizes_large},
                     {"72 k ranges", UINT64_C(545) << 20, &sizes_small},
                     {"100 k ranges", UINT64_C(757) << 20, &sizes_small},
                     {"1 M ranges", UINT64_C(7570) << 20, &sizes_small}};

static const unsigned shares[SHARES] = {25, 50, 75};

typedef struct plan_cell {
    series   us, us_per_move, us_waited;
    uint64_t ranges, moves;
    bool     slide;
} plan_cell;

/* What an allocation of that size asks the planner for. */
static snug__goal goal_of(const snug_pool *pool, uint64_t gap) {
    return (snug__goal){.size         = (uint32_t)(gap / SNUG_GRANULE),
                        .alignment    = 1,
                        .granules_max = UINT64_MAX,
                        .step_max     = UINT64_MAX,
                        .moves_max    = UINT32_MAX,
                        .overhead     = (uint32_t)snug__granules(pool->row->copy_overhead_bytes(pool->device)),
                        .idle_only    = true};
}

/* Somebody who allocates meanwhile, as far as the lock is concerned. */
typedef struct neighbour {
    snug_pool  *pool;
    _Atomic int looks, stop;
    double      longest_ns;
} neighbour;

static void *neighbour_main(void *argument) {
    neighbour *n = argument;
    while (!atomic_load(&n->stop)) {
        double began = clock_ns();
        pthread_mutex_lock(&n->pool->lock);
        double waited = clock_ns() - began;
        pthread_mutex_unlock(&n->pool->lock);
        if (waited > n->longest_ns)
            n->longest_ns = waited;
        atomic_fetch_add(&n->looks, 1);
        nap_ns(10000);
    }
    return NULL;
}

static void plan_measure(bench *b, const layout *layout, uint64_t gap, bool keep, plan_cell *c) {
    snug_pool *pool = layout->pool;
    snug__goal goal = goal_of(pool, gap);
    neighbour  n    = {.pool = pool};
    pthread_t  thread;
    if (pthread_create(&thread, NULL, neighbour_main, &n) != 0)
        need(SNUG_NO_MEMORY, "a thread");
    while (atomic_load(&n.looks) < 2)
        nap_ns(10000);
    pthread_mutex_lock(&pool->lock);
    double began = clock_ns();
    snug__plan_room(snug__pool_planner(pool), &goal, &pool->plan);
    double ns = clock_ns() - began;
    atomic_store(&n.stop, 1);
    if (pool->plan.kind == SNUG__PLAN_NONE || !pool->plan.moves) {
        bench_fault(b, "d: no plan for a gap of %llu bytes", (unsigned long long)gap);
    } else if (keep) {
        c->moves = pool->plan.moves;
        c->slide = pool->plan.kind == SNUG__PLAN_SLIDE;
        series_add(&c->us, ns / 1e3);
        series_add(&c->us_per_move, ns / 1e3 / pool->plan.moves);
    }
    snug__plan_undo(snug__pool_planner(pool), &pool->plan);
    pthread_mutex_unlock(&pool->lock);
    pthread_join(thread, NULL);
    if (keep)
        series_add(&c->us_waited, n.longest_ns / 1e3);
}

void bench_plans(bench *b) {
    static plan_cell cells[MAPS][SHARES];
    unsigned         repeats = bench_repeats(b, 9, 3);
    layout           layouts[MAPS];
    layout_facts     facts[MAPS];
    results_section(&b->results, 'd', "planning time, 80 % live, placed at random");
    progress_start(&b->progress, "d: plans");
    for (unsigned m = 0; m < MAPS; m++) {
        layout_options options = {
            .kind = LAYOUT_PLACED, .capacity = map_kinds[m].capacity, .sizes = map_kinds[m].sizes, .live_percent = 80};
        progress_update(&b->progress, m, MAPS, "layouts");
        layout_make(&layouts[m], &options, dice_make(b->seed, m));
        facts[m] = layout_look(&layouts[m], 0);
    }
    for (unsigned r = 0; r <= repeats; r++)
        for (unsigned m = 0; m < MAPS; m++)
            for (unsigned s = 0; s < SHARES; s++) {
                progress_update(&b->progress, r, repeats + 1, "repetitions");
                plan_measure(b, &layouts[m], facts[m].free / 100 * shares[s], r > 0, &cells[m][s]);
            }
    progress_end(&b->progress);
    for (unsigned m = 0; m < MAPS; m++)
        for (unsigned s = 0; s < SHARES; s++) {
            plan_cell *c         = &cells[m][s];
            ratio      ratios[2] = {{"at 100 k ranges", m == MAPS - 1 ? &cells[m - 1][s].us : NULL}, {0}};
            results_row(&b->results, "us/plan", &c->us, ratios, "%s, gap %u %%: %s of %llu moves", map_kinds[m].name,
                        shares[s], c->slide ? "slide" : "evacuation", (unsigned long long)c->moves);
            results_row(&b->results, "us/move", &c->us_per_move, NULL, "%s, gap %u %%", map_kinds[m].name, shares[s]);
            results_row(&b->results, "us", &c->us_waited, NULL, "%s, gap %u %%: longest wait for the lock",
                        map_kinds[m].name, shares[s]);
        }
    for (unsigned m = 0; m < MAPS; m++) {
        results_note(&b->results, "%s: %llu in fact", map_kinds[m].name, (unsigned long long)facts[m].ranges);
        layout_free(&layouts[m]);
    }
}
