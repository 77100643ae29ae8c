/* compactors.c - (f) what a background compactor costs the launch path.
 *
 * 256 MiB of the host device, 80 % live in buffers to 64 KiB, placed at random anew for each repetition: a quarter of them,
 * in the low addresses, are weights, the rest belongs to sessions. One thread resolves and releases 8 buffers at a time: one
 * of a few to write; 6 of the weights to read, in random order; and the one of the session that is awake. Once a millisecond that
 * one is replaced by another of the same size, and the next session wakes; this isn't timed. The time is taken for batches
 * of launches. Each repetition has a run without a compactor; one with a compactor that finds nothing to do; one with a
 * compactor that may move a hundredth of the live bytes a second, but waits for nobody; and one with a thread whose calls of
 * snug_compact see to it that so much is moved. What was moved is told. Nothing is launched: on the host device, where
 * compactor, mover and launches share the cores, that is the whole cost.
 * The added wait of a resolve on the device is what a simulated H200 says, whose clock other work can't disturb. */
#include "layout.h"

#include "pool.h"

#include <snug_host.h>
#include <snug_sim.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY (UINT64_C(256) << 20)

enum { LAUNCH = 8, WRITTEN = 8, BATCH = 64, BATCHES_MAX = 400000, SESSION_NS = 1000000, LIVE_PERCENT = 80 };

typedef enum state { STATE_OFF, STATE_IDLE, STATE_MOVING, STATE_STEPS, STATES } state;

static const char *const state_names[] = {"no compactor", "idle compactor", "compactor allowed 1 % a second",
                                          "steps of 1 % a second"};

typedef struct tally {
    series median, p99, mean; /* ns a launch, over batches */
    series moved, waits;      /* % of the live bytes a second; device waits in 1000 resolves */
} tally;

typedef struct track {
    layout            layout;
    snug_host_stream *native;
    snug_stream      *stream;
    snug_handle      *order; /* of launches, one after the other */
    size_t            count, at;
    size_t            sessions, awake; /* in the layout: the first, and the one whose buffer is in the launches */
    double           *samples;
    uint64_t          live_bytes;
} track;

static void batch_run(track *t, const snug_access *access) {
    void *addresses[LAUNCH];
    for (unsigned i = 0; i < BATCH; i++) {
        need(snug_resolve(t->stream, t->order + t->at, LAUNCH, access, addresses), "resolve");
        consume(addresses);
        need(snug_release(t->stream, t->order + t->at, LAUNCH, access), "release");
        t->at = t->at + 2 * LAUNCH <= t->count ? t->at + LAUNCH : 0;
    }
}

/* The session that was awake ends, and a new one has a buffer as large; the next in turn wakes up. */
static void session_next(track *t) {
    snug_handle_info info   = {.struct_size = sizeof info};
    snug_handle     *handle = &t->layout.handles[t->awake];
    need(snug_handle_info_get(t->layout.pool, *handle, &info), "a buffer's size");
    need(snug_free(t->layout.pool, *handle), "free");
    need(snug_alloc(t->layout.pool, info.size, NULL, handle), "alloc");
    t->awake = t->awake + 1 < t->layout.count ? t->awake + 1 : t->sessions;
    for (size_t i = LAUNCH - 1; i < t->count; i += LAUNCH)
        t->order[i] = t->layout.handles[t->awake];
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Moves a hundredth of the live bytes a second, in steps. One that comes to less is followed by another the sooner. */
typedef struct pacer {
    snug_pool   *pool;
    uint64_t     step_bytes, interval_ns;
    _Atomic bool stop;
    pthread_t    thread;
} pacer;

static void *pacer_main(void *argument) {
    pacer      *p      = argument;
    snug_budget budget = {.bytes_max = p->step_bytes};
    double      began  = clock_ns();
    for (uint64_t moved = 0; !atomic_load(&p->stop); nap_ns(p->interval_ns / 4)) {
        double              due    = (clock_ns() - began) / (double)p->interval_ns * (double)p->step_bytes;
        snug_compact_result result = {.struct_size = sizeof result};
        if ((double)moved > due)
            continue;
        need(snug_compact(p->pool, &budget, &result), "a step");
        moved += result.moved_bytes;
    }
    return NULL;
}

/* A step is small enough for a second to hold some thirty of them. */
static void mover_start(track *t, state state, pacer *pacer) {
    snug_compactor_options o           = snug_compactor_options_default();
    uint64_t               step_bytes  = UINT64_C(64) << 10;
    uint64_t               interval_ns = (uint64_t)((double)step_bytes / ((double)t->live_bytes / 100) * 1e9);
    *pacer = (struct pacer){.pool = t->layout.pool, .step_bytes = step_bytes, .interval_ns = interval_ns};
    if (state == STATE_STEPS && pthread_create(&pacer->thread, NULL, pacer_main, pacer) != 0)
        need(SNUG_NO_MEMORY, "a thread for the steps");
    if (state == STATE_OFF || state == STATE_STEPS)
        return;
    if (state == STATE_IDLE) {
        o.start_fragmentation = 1; /* there is no such fragmentation */
    } else {
        o.start_fragmentation = 0.02;
        o.stop_fragmentation  = 0.01;
        o.step.bytes_max      = step_bytes;
        o.interval_ns         = interval_ns;
    }
    need(snug_compactor_start(t->layout.pool, &o), "starting a compactor");
}

static void mover_stop(track *t, state state, pacer *pacer) {
    if (state == STATE_STEPS) {
        atomic_store(&pacer->stop, true);
        pthread_join(pacer->thread, NULL);
    }
    need(snug_compactor_stop(t->layout.pool), "stopping a compactor");
}

static void state_run(bench *b, track *t, state state, tally *tally) {
    static const snug_access access[LAUNCH] = {SNUG_WRITE, SNUG_READ, SNUG_READ, SNUG_READ,
                                               SNUG_READ,  SNUG_READ, SNUG_READ, SNUG_READ};
    pacer                    pacer;
    double                   run_ns = b->quick ? 2e8 : 5e8, sum = 0;
    size_t                   count = 0;
    mover_start(t, state, &pacer);
    for (double warm = clock_ns() + 5e7; clock_ns() < warm;) /* past the thread's start */
        batch_run(t, access);
    snug_stats before = pool_stats(t->layout.pool);
    double     began = clock_ns(), now = began, due = began;
    while (count < BATCHES_MAX && now < began + run_ns) {
        batch_run(t, access);
        double then         = clock_ns();
        t->samples[count++] = (then - now) / BATCH;
        sum += (then - now) / BATCH;
        if (then > due) {
            session_next(t);
            due += SESSION_NS;
            then = clock_ns();
        }
        now = then;
    }
    snug_stats after = pool_stats(t->layout.pool);
    mover_stop(t, state, &pacer);
    if (!tally)
        return;
    double moved = (double)(after.moved_bytes - before.moved_bytes);
    if (state < STATE_MOVING && moved > 0)
        bench_fault(b, "f: %s: %.0f bytes were moved", state_names[state], moved);
    qsort(t->samples, count, sizeof t->samples[0], by_value);
    series_add(&tally->median, sorted_quantile(t->samples, count, 0.5));
    series_add(&tally->p99, sorted_quantile(t->samples, count, 0.99));
    series_add(&tally->mean, sum / (double)count);
    series_add(&tally->moved, 100 * moved / (double)t->live_bytes / ((now - began) / 1e9));
    series_add(&tally->waits, 1e3 * (double)(after.device_waits - before.device_waits) / ((double)count * BATCH));
}

/* Each launch has one of the few that are written, six of the weights in shuffled turn, and the session's that is awake. */
static void order_make(track *t, dice *d) {
    size_t       weights  = t->layout.count / 4 / (LAUNCH - 2) * (LAUNCH - 2);
    snug_handle *shuffled = need_memory(weights, sizeof shuffled[0]);
    for (size_t i = 0; i < weights; i++) {
        size_t other    = dice_below(d, i + 1);
        shuffled[i]     = shuffled[other];
        shuffled[other] = t->layout.handles[i];
    }
    t->sessions = t->awake = weights + WRITTEN;
    t->count               = weights / (LAUNCH - 2) * LAUNCH;
    t->order               = need_memory(t->count, sizeof t->order[0]);
    for (size_t i = 0, next = 0; i < t->count; i++)
        if (i % LAUNCH == 0)
            t->order[i] = t->layout.handles[weights + i / LAUNCH % WRITTEN];
        else
            t->order[i] = i % LAUNCH == LAUNCH - 1 ? t->layout.handles[t->awake] : shuffled[next++];
    free(shuffled);
}

static void track_open(const bench *b, unsigned repetition, track *t) {
    layout_options options = {.kind         = LAYOUT_PLACED,
                              .capacity     = CAPACITY,
                              .sizes        = &sizes_small,
                              .live_percent = LIVE_PERCENT,
                              .bytes        = true};
    dice           d       = dice_make(b->seed, repetition);
    *t                     = (track){.samples = need_memory(BATCHES_MAX, sizeof t->samples[0])};
    layout_make(&t->layout, &options, d);
    need(snug_host_stream_create(&t->native), "a stream");
    need(snug_stream_attach(t->layout.pool, t->native, &t->stream), "attaching a stream");
    t->live_bytes = pool_stats(t->layout.pool).live_bytes;
    order_make(t, &d);
    memset(t->layout.pool->base, 1, CAPACITY); /* the first touch of a page isn't what is measured */
}

static void track_close(track *t) {
    layout_free(&t->layout);
    need(snug_host_stream_destroy(t->native), "destroying a stream");
    free(t->order);
    free(t->samples);
}

static void states_tell(bench *b, const tally *tallies) {
    const tally *off = &tallies[STATE_OFF];
    results     *r   = &b->results;
    for (state s = STATE_OFF; s < STATES; s++) {
        const tally *t    = &tallies[s];
        const char  *name = state_names[s];
        bool         base = s != STATE_OFF;
        results_row(r, "ns/launch", &t->median, (ratio[]){{"without", base ? &off->median : NULL}, {0}}, "%s: median",
                    name);
        results_row(r, "ns/launch", &t->p99, (ratio[]){{"without", base ? &off->p99 : NULL}, {0}}, "%s: p99", name);
        results_row(r, "ns/launch", &t->mean, (ratio[]){{"without", base ? &off->mean : NULL}, {0}}, "%s: mean", name);
        if (!base)
            continue;
        series added = {.count = t->mean.count};
        for (unsigned i = 0; i < added.count; i++)
            added.values[i] = t->mean.values[i] - off->mean.values[i];
        results_row(r, "ns", &added, NULL, "%s: added to a resolve and release", name);
    }
    for (state s = STATE_MOVING; s < STATES; s++) {
        results_row(r, "%/s", &tallies[s].moved, NULL, "%s: moved, of the live bytes", state_names[s]);
        results_row(r, "/1000", &tallies[s].waits, NULL, "%s: device waits in 1000 resolves", state_names[s]);
    }
    if (series_summary(&tallies[STATE_STEPS].moved).median < 0.5)
        bench_fault(b, "f: the steps moved less than half of what they were to move");
}

/* ------------------------------------------------------------------------------------------------ on the simulated device */

typedef struct sim_tally {
    series wait, longest, moved;
} sim_tally;

enum { SIM_LAUNCHES = 16, SIM_KERNEL_NS = 20000 }; /* a step of the client: so many kernels, then it waits for them */

typedef struct sim_client {
    const sequence  *sequence;
    snug_pool       *pool;
    snug_sim_stream *native;
    snug_stream     *stream;
    snug_handle     *handles;
    uint32_t        *bytes;
    dice             dice;
} sim_client;

static void sim_launch(sim_client *c) {
    snug_handle     handles[LAUNCH];
    snug_access     access[LAUNCH];
    snug_sim_access accesses[LAUNCH];
    void           *addresses[LAUNCH];
    for (unsigned i = 0; i < LAUNCH; i++) {
        size_t slot = dice_below(&c->dice, c->sequence->slots);
        handles[i]  = c->handles[slot];
        access[i]   = i % 2 ? SNUG_READ : SNUG_WRITE;
        accesses[i] = (snug_sim_access){.bytes = c->bytes[slot], .access = access[i]};
    }
    need(snug_resolve(c->stream, handles, LAUNCH, access, addresses), "resolve");
    for (unsigned i = 0; i < LAUNCH; i++)
        accesses[i].address = addresses[i];
    need(snug_sim_launch(c->native, accesses, LAUNCH, SIM_KERNEL_NS), "a launch");
    need(snug_release(c->stream, handles, LAUNCH, access), "release");
}

/* Steps of snug_compact, in the middle of one of the client's, whenever less than a hundredth of the live bytes has been moved
 * for each second of the device's time. */
static void sim_serve(bench *b, sim_client *c, sim_tally *tally) {
    uint64_t        launches = b->quick ? 10000 : 50000, moved = 0;
    double          rate   = (double)c->sequence->live_bytes / 100 / 1e9;
    snug_budget     budget = {.bytes_max = UINT64_C(4) << 20};
    snug_sim_report before = {.struct_size = sizeof before}, after = before;
    need(snug_sim_report_get(&before), "the simulation's report");
    for (uint64_t i = 0; i < launches; i++) {
        sim_launch(c);
        if (i % SIM_LAUNCHES == SIM_LAUNCHES / 2 && (double)moved <= rate * (double)(snug_sim_now() - before.now_ns)) {
            snug_compact_result result = {.struct_size = sizeof result};
            need(snug_compact(c->pool, &budget, &result), "a step");
            moved += result.moved_bytes;
        }
        if (i % SIM_LAUNCHES == SIM_LAUNCHES - 1)
            need(snug_sim_sync(c->native), "waiting for the stream");
    }
    need(snug_sim_report_get(&after), "the simulation's report");
    if (after.violations)
        bench_fault(b, "f: the simulated device saw %llu violations", (unsigned long long)after.violations);
    double seconds = (double)(after.now_ns - before.now_ns) / 1e9;
    series_add(&tally->wait, (double)(after.mover_wait_ns[0] - before.mover_wait_ns[0]) / (double)launches);
    series_add(&tally->longest, (double)after.mover_wait_max_ns[0] / 1e3);
    series_add(&tally->moved, 100 * (double)moved / (double)c->sequence->live_bytes / seconds);
}

static void sim_run(bench *b, unsigned seed, sim_tally *tally) {
    uint64_t         capacity = UINT64_C(1) << 30;
    sequence         s;
    sequence_options wanted = {
        .sizes = &sizes_large, .live_bytes = capacity / 100 * LIVE_PERCENT, .window_bytes = capacity, .rounds = 10};
    snug_pool_options options = snug_pool_options_default();
    sim_client        c       = {.sequence = &s, .dice = dice_make(b->seed, seed)};
    sequence_make(&s, &wanted, c.dice);
    options.device       = "sim";
    options.device_index = SNUG_SIM_H200;
    options.capacity     = capacity;
    need(snug_sim_setup(NULL), "a simulated machine");
    need(snug_pool_create(&options, &c.pool), "a pool on the sim device");
    need(snug_sim_stream_create(&c.native), "a stream");
    need(snug_stream_attach(c.pool, c.native, &c.stream), "attaching a stream");
    c.handles = need_memory(s.slots, sizeof c.handles[0]);
    c.bytes   = need_memory(s.slots, sizeof c.bytes[0]);
    for (size_t i = 0; i < s.slots + s.pairs_count; i++) {
        size_t slot   = i < s.slots ? i : s.pairs[i - s.slots].slot;
        c.bytes[slot] = i < s.slots ? s.fill[i] : s.pairs[i - s.slots].bytes;
        if (i >= s.slots)
            need(snug_free(c.pool, c.handles[slot]), "free");
        need(snug_alloc(c.pool, c.bytes[slot], NULL, &c.handles[slot]), "alloc");
    }
    sim_serve(b, &c, tally);
    for (size_t i = 0; i < s.slots; i++)
        need(snug_free(c.pool, c.handles[i]), "free");
    need(snug_pool_destroy(c.pool), "destroying a pool");
    need(snug_sim_stream_destroy(c.native), "destroying a stream");
    sequence_free(&s);
    free(c.handles);
    free(c.bytes);
}

void bench_compactors(bench *b) {
    static tally     tallies[STATES];
    static sim_tally sim;
    unsigned         repeats = bench_repeats(b, 15, 3), seeds = bench_repeats(b, 3, 1);
    track            t;
    results_section(&b->results, 'f', "the launch path beside a background compactor, launches of 8");
    progress_start(&b->progress, "f: compactors");
    for (unsigned r = 0; r <= repeats; r++) {
        track_open(b, r, &t);
        for (unsigned s = 0; s < STATES; s++) {
            state state = (enum state)((s + r) % STATES);
            progress_update(&b->progress, r * STATES + s, (repeats + 1) * STATES, "runs");
            state_run(b, &t, state, r > 0 ? &tallies[state] : NULL); /* the first warms up */
        }
        track_close(&t);
    }
    progress_end(&b->progress);
    states_tell(b, tallies);
    for (unsigned seed = 0; seed < seeds; seed++)
        sim_run(b, seed, &sim);
    results_row(&b->results, "ns", &sim.wait, NULL, "simulated H200: a stream's wait for moves, each resolve");
    results_row(&b->results, "us", &sim.longest, NULL, "simulated H200: the longest between two launches");
    results_row(&b->results, "%/s", &sim.moved, NULL, "simulated H200: moved, of the live bytes");
}
