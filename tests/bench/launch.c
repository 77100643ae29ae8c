/* launch.c - (a) what resolve and release cost per handle, beside a raw load from a table and an uncontended mutex.
 *
 * One stream for each thread, on the host device; nothing is launched, so the streams are idle and what is resolved has
 * settled. Sets of handles: 8 and 64 again and again (hot), and 1 M, in the order of their making and shuffled. Two threads
 * take the same handles (of 1 M: half the set apart), or handles of their own (of 1 M: a half each).
 * A release records one event. What that costs is shown by itself, and the launches once more on a device that records
 * nothing. */
#include "harness.h"

#include "pool.h"

#include <snug_host.h>

#include <stdlib.h>

enum { LAUNCH_MAX = 64, COLD = 1000000, HOT_MAX = 64, CASES_MAX = 128 };

typedef enum crowd { ALONE, SHARED, APART, CROWDS } crowd; /* one thread; two on the same handles; two on their own */

static const char *const crowd_names[] = {"1 thread", "2 threads, same handles", "2 threads, own handles"};

typedef struct set {
    const char        *name;
    const snug_handle *handles;
    const uint32_t    *places; /* in the raw table, of the same handles */
    size_t             count;
    bool               hot; /* else two threads of their own get a half each */
} set;

/* What one thread does: launches of n handles, one after the other around a part of a set. */
typedef struct walk {
    snug_stream       *stream;
    const snug_handle *handles;
    const uint32_t    *places;
    void *const       *table;
    size_t             count, at, n, launches;
    snug_access        access[LAUNCH_MAX];
    void              *addresses[LAUNCH_MAX];
} walk;

typedef struct launcher {
    snug_pool        *pool;
    snug_host_stream *natives[CREW_MAX];
    snug_stream      *streams[CREW_MAX];
    snug_handle      *handles, *shuffled;
    uint32_t         *identity, *order;
    void            **table;
    size_t            handles_count;
} launcher;

typedef struct launch_case {
    const set  *set;
    size_t      n;
    snug_access access;
    crowd       crowd;
    series      ns;
} launch_case;

static void walk_launches(void *argument) {
    walk *w = argument;
    for (size_t i = 0; i < w->launches; i++) {
        need(snug_resolve(w->stream, w->handles + w->at, w->n, w->access, w->addresses), "resolve");
        consume(w->addresses);
        need(snug_release(w->stream, w->handles + w->at, w->n, w->access), "release");
        w->at = w->at + 2 * w->n <= w->count ? w->at + w->n : 0;
    }
}

static void walk_loads(void *argument) {
    walk *w = argument;
    for (size_t i = 0; i < w->launches; i++) {
        for (size_t k = 0; k < w->n; k++)
            w->addresses[k] = w->table[w->places[w->at + k]];
        consume(w->addresses);
        w->at = w->at + 2 * w->n <= w->count ? w->at + w->n : 0;
    }
}

static size_t round_of(const bench *b, const set *set) {
    size_t handles = set->hot ? 1000000 : COLD;
    return b->quick ? handles / 10 : handles;
}

/* The thread's part of the case. */
static walk walk_make(const bench *b, const launcher *l, const launch_case *c, unsigned thread) {
    const set *set  = c->set;
    walk       w    = {.stream   = l->streams[thread],
                       .handles  = set->handles,
                       .places   = set->places,
                       .table    = l->table,
                       .count    = set->count,
                       .n        = c->n,
                       .launches = round_of(b, set) / c->n};
    size_t     half = set->count / 2 / LAUNCH_MAX * LAUNCH_MAX;
    if (c->crowd == APART) {
        size_t skip = thread * (set->hot ? set->count : half);
        w.handles += skip;
        w.places += skip;
        w.count = set->hot ? set->count : half;
    } else if (thread == 1 && !set->hot) {
        w.at = half;
    }
    for (size_t k = 0; k < LAUNCH_MAX; k++)
        w.access[k] = c->access;
    return w;
}

static double case_run(const bench *b, const launcher *l, const launch_case *c, void (*work)(void *)) {
    unsigned threads = c->crowd == ALONE ? 1 : 2;
    walk     walks[CREW_MAX];
    void    *arguments[CREW_MAX];
    for (unsigned t = 0; t < threads; t++) {
        walks[t]     = walk_make(b, l, c, t);
        arguments[t] = &walks[t];
    }
    return crew_run(threads, work, arguments) / (double)(walks[0].launches * c->n);
}

static double mutex_run(const bench *b) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    size_t          n     = b->quick ? 100000 : 1000000;
    double          began = clock_ns();
    for (size_t i = 0; i < n; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
    return (clock_ns() - began) / (double)n;
}

static double record_run(const bench *b, const launcher *l) {
    snug_stream *stream = l->streams[0];
    size_t       n      = b->quick ? 100000 : 1000000;
    double       began  = clock_ns();
    for (size_t i = 0; i < n; i++)
        need(l->pool->row->event_record(l->pool->device, stream->main, stream->native), "an event record");
    return (clock_ns() - began) / (double)n;
}

/* ------------------------------------------------------------------------------------------------ set-up */

static void launcher_open(launcher *l, snug_pool *pool, size_t count, uint64_t seed) {
    *l = (launcher){.pool = pool, .handles_count = count};
    for (unsigned t = 0; t < CREW_MAX; t++) {
        need(snug_host_stream_create(&l->natives[t]), "a stream");
        need(snug_stream_attach(pool, l->natives[t], &l->streams[t]), "attaching a stream");
    }
    l->handles  = need_memory(count, sizeof l->handles[0]);
    l->shuffled = need_memory(count, sizeof l->shuffled[0]);
    l->identity = need_memory(count, sizeof l->identity[0]);
    l->order    = need_memory(count, sizeof l->order[0]);
    l->table    = need_memory(count, sizeof l->table[0]);
    dice d      = dice_make(seed, 'a');
    for (size_t i = 0; i < count; i++) {
        need(snug_alloc(pool, SNUG_GRANULE, NULL, &l->handles[i]), "alloc");
        l->table[i]     = &l->table[i];
        l->identity[i]  = (uint32_t)i;
        size_t other    = dice_below(&d, i + 1);
        l->order[i]     = l->order[other];
        l->order[other] = (uint32_t)i;
    }
    for (size_t i = 0; i < count; i++)
        l->shuffled[i] = l->handles[l->order[i]];
}

static void launcher_close(launcher *l) {
    for (size_t i = 0; i < l->handles_count; i++)
        need(snug_free(l->pool, l->handles[i]), "free");
    need(snug_pool_destroy(l->pool), "destroying a pool");
    for (unsigned t = 0; t < CREW_MAX; t++)
        need(snug_host_stream_destroy(l->natives[t]), "destroying a stream");
    free(l->handles);
    free(l->shuffled);
    free(l->identity);
    free(l->order);
    free(l->table);
}

/* ------------------------------------------------------------------------------------------------ with, without records */

static void measure_records(bench *b) {
    static const size_t sizes[] = {1, 8, 64};
    enum { SIZES = 3 };
    launcher with, without;
    launcher_open(&with, pool_with_bytes(HOT_MAX * SNUG_GRANULE, true), HOT_MAX, b->seed);
    launcher_open(&without, pool_without_bytes(POOL_RECORDLESS, HOT_MAX * SNUG_GRANULE, true), HOT_MAX, b->seed);
    set           sets[2] = {{"64 handles", with.handles, with.identity, HOT_MAX, true},
                             {"64 handles", without.handles, without.identity, HOT_MAX, true}};
    static series record, ns[2][SIZES];
    unsigned      repeats = bench_repeats(b, 9, 3);
    for (unsigned r = 0; r <= repeats; r++) {
        double once = record_run(b, &with);
        if (r > 0) /* the first warms up */
            series_add(&record, once);
        for (unsigned i = 0; i < SIZES; i++)
            for (unsigned which = 0; which < 2; which++) {
                launch_case c     = {.set = &sets[which], .n = sizes[i], .access = SNUG_WRITE, .crowd = ALONE};
                double      value = case_run(b, which ? &without : &with, &c, walk_launches);
                if (r > 0)
                    series_add(&ns[which][i], value);
            }
    }
    results_row(&b->results, "ns", &record, NULL, "event record of the host device, each");
    for (unsigned i = 0; i < SIZES; i++)
        results_row(&b->results, "ns/handle", &ns[1][i], (ratio[]){{"with the record", &ns[0][i]}, {0}},
                    "64 handles, writes of %zu, without the record", sizes[i]);
    launcher_close(&with);
    launcher_close(&without);
}

/* ------------------------------------------------------------------------------------------------ all cases */

static unsigned cases_list(const set *sets, unsigned sets_count, launch_case *cases) {
    static const size_t sizes[] = {1, 8, 64};
    unsigned            n       = 0;
    for (unsigned s = 0; s < sets_count; s++)
        for (unsigned i = 0; i < 3 && sizes[i] <= sets[s].count; i++)
            for (int access = SNUG_WRITE; access <= SNUG_READ; access++)
                for (crowd crowd = ALONE; crowd < CROWDS; crowd++)
                    cases[n++] =
                        (launch_case){.set = &sets[s], .n = sizes[i], .access = (snug_access)access, .crowd = crowd};
    return n;
}

static void cases_tell(bench *b, const launch_case *cases, unsigned count, const series *loads, const set *sets,
                       const series *mutex) {
    for (unsigned i = 0; i < count; i++) {
        const launch_case *c         = &cases[i];
        const series      *load      = &loads[c->set - sets];
        ratio              alone[]   = {{"a raw load", load}, {"a mutex", mutex}, {0}};
        ratio              crowded[] = {{"1 thread", &cases[i - (unsigned)c->crowd].ns}, {0}};
        results_row(&b->results, "ns/handle", &c->ns, c->crowd == ALONE ? alone : crowded, "%s, %s of %zu, %s",
                    c->set->name, c->access == SNUG_READ ? "reads" : "writes", c->n, crowd_names[c->crowd]);
    }
}

void bench_launches(bench *b) {
    enum { SETS = 4 };
    static launch_case cases[CASES_MAX];
    static series      loads[SETS], mutex;
    launcher           l;
    results_section(&b->results, 'a', "resolve and release, per handle");
    progress_start(&b->progress, "a: launches");
    measure_records(b);
    launcher_open(&l, pool_with_bytes((uint64_t)COLD * SNUG_GRANULE, true), COLD, b->seed);
    const set sets[SETS] = {{"8 handles", l.handles, l.identity, 8, true},
                            {"64 handles", l.handles, l.identity, HOT_MAX, true},
                            {"1 M handles in turn", l.handles, l.identity, COLD, false},
                            {"1 M handles shuffled", l.shuffled, l.order, COLD, false}};
    unsigned  count      = cases_list(sets, SETS, cases);
    unsigned  repeats    = bench_repeats(b, 9, 2);
    for (unsigned r = 0; r <= repeats; r++) {
        double lock = mutex_run(b);
        if (r > 0) /* the first warms up */
            series_add(&mutex, lock);
        for (unsigned s = 0; s < SETS; s++) {
            launch_case c  = {.set = &sets[s], .n = 8, .access = SNUG_READ, .crowd = ALONE};
            double      ns = case_run(b, &l, &c, walk_loads);
            if (r > 0)
                series_add(&loads[s], ns);
        }
        for (unsigned i = 0; i < count; i++) {
            progress_update(&b->progress, r * count + i, (repeats + 1) * count, "runs");
            double ns = case_run(b, &l, &cases[i], walk_launches);
            if (r > 0)
                series_add(&cases[i].ns, ns);
        }
    }
    progress_end(&b->progress);
    results_row(&b->results, "ns", &mutex, NULL, "uncontended mutex, lock and unlock");
    for (unsigned s = 0; s < SETS; s++)
        results_row(&b->results, "ns/handle", &loads[s], NULL, "%s, raw load from a table", sets[s].name);
    cases_tell(b, cases, count, loads, sets, &mutex);
    launcher_close(&l);
}
