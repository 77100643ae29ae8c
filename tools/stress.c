/* stress.c - `snug stress`: client threads drive a pool with a synthetic workload and every byte is verified, with
 * compaction off and on.
 *
 * The main thread makes everything, starts the clients, watches them, and takes down and counts when they have ended. A
 * client's thread touches its own client and the atomics of the run. The lock here guards `finished` alone.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "arguments.h"
#include "models.h"
#include "progress.h"
#include "workload.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define COMMAND     "snug stress"
#define OPS_DEFAULT UINT64_C(400000)
/* What a demand costs under jumble grows with the pool; a small pool is jumbled through all the more often. */
#define JUMBLE_CAPACITY (UINT64_C(32) << 20)
#define SHARE_MIN       (UINT64_C(64) << 10) /* of capacity for one client */
#define SHARED_BUFFERS  16
#define WATCH_NS        50000000

typedef struct stress_options {
    int         compaction, workload;
    uint64_t    capacity, threads, streams, ops, max_size, seed;
    double      seconds, pins;
    bool        jumble, json, no_verify;
    bool        compaction_given, capacity_given, ops_given, max_size_given;
    const char *models;
    device      device;
} stress_options;

typedef struct stress_run stress_run;

typedef struct stress_thread {
    pthread_t   id;
    stress_run *run;
    client     *client;
} stress_thread;

struct stress_run {
    const stress_options *options;
    const workload       *workload;
    bool                  on; /* compaction */
    client_run            shared;
    client                keeper; /* owns the buffers that all clients read */
    client               *clients;
    stress_thread        *threads;
    uint32_t              n_open, n_started;
    uint64_t              start_ns;
    pthread_mutex_t       lock;
    pthread_cond_t        changed;
    uint32_t              finished;
    char                  sequence[17];
};

static void unexpected(const char *call, const char *place, snug_status status) {
    report_unexpected(COMMAND, call, place, status);
}

/* ---------------------------------------------------------------------------------------------- options */

/* What the table can't say. Returns 0 or the exit status. */
static int settle_options(stress_options *o) {
    int bad = device_settle(&o->device, COMMAND);
    if (bad) return bad;
    if (o->jumble && !o->capacity_given) o->capacity = JUMBLE_CAPACITY;
    uint64_t share = o->capacity / o->threads;
    if (o->json && !report_json_available()) return arguments_error(COMMAND, "%s", REPORT_JSON_LACKING);
    if (share < SHARE_MIN)
        return arguments_error(COMMAND, "--capacity %" PRIu64 ": must be at least 64K for each of %" PRIu64 " threads",
                               o->capacity, o->threads);
    if (o->max_size > share / 8) {
        if (o->max_size_given)
            return arguments_error(COMMAND,
                                   "--max-size %" PRIu64 ": must be at most %" PRIu64 ", an eighth of a thread's share",
                                   o->max_size, share / 8);
        o->max_size = share / 8;
    }
    if (o->jumble && o->compaction == COMPACTION_OFF)
        return arguments_error(COMMAND, "--jumble: needs --compaction on or both");
    if (o->jumble && !o->compaction_given) o->compaction = COMPACTION_ON;
    if (!o->ops_given) o->ops = o->seconds > 0.0 ? UINT64_MAX : OPS_DEFAULT;
    return 0;
}

static arguments_result parse_options(stress_options *o, int argc, char **argv) {
    const argument table[] = {
        {"compaction", ARGUMENT_CHOICE, &o->compaction, NULL, "compare without and with, or one of them", 0, 0,
         arguments_compaction_choices, &o->compaction_given},
        {"workload", ARGUMENT_CHOICE, &o->workload, NULL, "what the clients do", 0, 0, workload_names, NULL},
        {"capacity", ARGUMENT_BYTES, &o->capacity, "BYTES", "of the pool", 1 << 20, (double)SNUG_SIZE_MAX, NULL,
         &o->capacity_given},
        {"threads", ARGUMENT_COUNT, &o->threads, "N", "clients", 1, CLIENT_THREADS_MAX, NULL, NULL},
        {"streams", ARGUMENT_COUNT, &o->streams, "N", "of each client", 1, CLIENT_STREAMS_MAX, NULL, NULL},
        {"ops", ARGUMENT_COUNT, &o->ops, "N",
         "stop after N allocs, frees, resizes and launches of all threads (default 400K, without --seconds)", 1, 1e15,
         NULL, &o->ops_given},
        {"seconds", ARGUMENT_NUMBER, &o->seconds, "N", "stop each run after that time; 0 = by --ops alone", 0, 1e9,
         NULL, NULL},
        {"max-size", ARGUMENT_BYTES, &o->max_size, "BYTES", "largest buffer", 1024, (double)SNUG_SIZE_MAX, NULL,
         &o->max_size_given},
        {"seed", ARGUMENT_COUNT, &o->seed, "N", "of the generators, and of sim; the same seed makes the same requests",
         0, 9.2e18, NULL, NULL},
        {"pins", ARGUMENT_NUMBER, &o->pins, "SHARE", "of the buffers pinned long from birth, 0 to 1", 0, 1, NULL, NULL},
        {"jumble", ARGUMENT_FLAG, &o->jumble, NULL,
         "each step of the compactor moves all it can; unless said otherwise compaction is on and capacity 32M", 0, 0,
         NULL, NULL},
        {"no-verify", ARGUMENT_FLAG, &o->no_verify, NULL, "launch empty kernels: neither write nor verify", 0, 0, NULL,
         NULL},
        DEVICE_ARGUMENTS(&o->device),
        {"models", ARGUMENT_TEXT, &o->models, "DIR",
         "tensor lists for swap (default " MODELS_DEFAULT " if it is there, else made up)", 0, 0, NULL, NULL},
        {"json", ARGUMENT_FLAG, &o->json, NULL, "one line of JSON per run on stdout, no table", 0, 0, NULL, NULL},
    };
    const arguments all = {
        .command = COMMAND,
        .summary = "Drives a pool with a synthetic workload, verifies every byte and compares compaction off and on.\n"
                   "Exit status: 0, 1 for corruption or an unexpected status, 2 for a wrong command line.",
        .table = table,
        .n = sizeof table / sizeof table[0],
    };
    int first;
    return arguments_parse(&all, argc, argv, &first);
}

/* ---------------------------------------------------------------------------------------------- making a run */

/* Returns 0 or the exit status. */
static int open_pool(stress_run *r) {
    const stress_options *o = r->options;
    snug_pool_options     p = snug_pool_options_default();
    p.device = o->device.name;
    p.device_index = o->device.index;
    p.capacity = o->capacity;
    p.compaction_off = !r->on;
    p.jumble = r->on && o->jumble;
    snug_status status = device_start(&o->device, o->seed);
    if (status) {
        unexpected("device_start", "open_pool", status);
        return 1;
    }
    status = snug_pool_create(&p, &r->shared.pool);
    if (status) {
        unexpected("snug_pool_create", "open_pool", status);
        return 1;
    }
    snug_stats stats = {.struct_size = sizeof stats};
    status = snug_stats_get(r->shared.pool, &stats);
    if (status)
        unexpected("snug_stats_get", "open_pool", status);
    else
        r->shared.capacity = stats.limit_bytes - stats.bounce_bytes; /* SNUG_OPTIONS may have had its say */
    return 0;
}

static bool start_compactor(stress_run *r) {
    snug_compactor_options c = snug_compactor_options_default();
    if (r->options->jumble) { /* always on: zero would mean the default */
        c.start_fragmentation = c.stop_fragmentation = 1e-9;
        c.floor_bytes = 1;
        c.cooldown_ns = 1;
    }
    snug_status status = r->on ? snug_compactor_start(r->shared.pool, &c) : SNUG_OK;
    if (status) unexpected("snug_compactor_start", "start_compactor", status);
    return !status;
}

/* Weights that every client reads: written once, complete before a client starts. */
static bool open_keeper(stress_run *r) {
    client *k = &r->keeper;
    if (!client_open(k, &r->shared, r->options->threads & UINT32_MAX, UINT64_MAX)) return false;
    if (!client_reserve(k, SHARED_BUFFERS, 1)) return false;
    if (!r->workload->shared) return true;
    uint64_t most = r->shared.capacity / 32 / SHARED_BUFFERS;
    if (most > r->shared.max_size) most = r->shared.max_size;
    for (uint32_t i = 0; i < SHARED_BUFFERS; i++) {
        buffer     *b = &k->buffers[i];
        snug_access write = SNUG_WRITE;
        client_alloc(k, i, client_log_uniform(k, SNUG_GRANULE, most), 0);
        client_launch(k, 0, &b, &write, 1);
        b->flags = BUFFER_SHARED;
        b->writer = -1; /* client_sync below orders it before all */
    }
    client_sync(k);
    r->shared.shared = k->buffers;
    r->shared.n_shared = SHARED_BUFFERS;
    return true;
}

static bool open_clients(stress_run *r) {
    const stress_options *o = r->options;
    uint32_t              n = (uint32_t)o->threads;
    r->clients = calloc(n, sizeof *r->clients);
    r->threads = calloc(n, sizeof *r->threads);
    if (!r->clients || !r->threads) {
        arguments_error(COMMAND, "out of memory for %" PRIu32 " clients", n);
        return false;
    }
    r->shared.pins = o->pins;
    r->shared.share = (r->shared.capacity - r->keeper.nominal) / n;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t ops = o->ops == UINT64_MAX ? o->ops : o->ops / n + (i < o->ops % n);
        r->n_open++; /* before: a client half open is closed too */
        if (!client_open(&r->clients[i], &r->shared, i, ops) || !r->workload->open(&r->clients[i])) return false;
    }
    return true;
}

/* ---------------------------------------------------------------------------------------------- running */

static void *client_thread(void *context) {
    stress_thread *t = context;
    while (!t->client->done) t->run->workload->step(t->client);
    pthread_mutex_lock(&t->run->lock);
    t->run->finished++;
    pthread_cond_signal(&t->run->changed);
    pthread_mutex_unlock(&t->run->lock);
    return NULL;
}

static bool start_clients(stress_run *r) {
    for (uint32_t i = 0; i < r->n_open; i++) {
        stress_thread *t = &r->threads[i];
        t->run = r;
        t->client = &r->clients[i];
        if (pthread_create(&t->id, NULL, client_thread, t)) {
            arguments_error(COMMAND, "cannot start thread %" PRIu32, i + 1);
            atomic_store(&r->shared.stop, 1);
            return false;
        }
        r->n_started++;
    }
    return true;
}

static uint64_t operations_so_far(const stress_run *r) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < r->n_open; i++)
        sum += atomic_load_explicit(&r->clients[i].operations, memory_order_relaxed);
    return sum;
}

/* Until all have ended; tells them to when the time is over. */
static void watch_clients(stress_run *r) {
    const stress_options *o = r->options;
    char                  label[64];
    progress              p;
    snprintf(label, sizeof label, COMMAND " %s, compaction %s", workload_names[o->workload], r->on ? "on" : "off");
    progress_start(&p, label);
    pthread_mutex_lock(&r->lock);
    while (r->finished < r->n_started) {
        uint64_t        wake = client_now_ns() + WATCH_NS;
        struct timespec until = {(time_t)(wake / 1000000000u), (long)(wake % 1000000000u)};
        pthread_cond_timedwait(&r->changed, &r->lock, &until);
        double elapsed = (double)(client_now_ns() - r->start_ns) * 1e-9;
        if (o->seconds > 0.0 && elapsed >= o->seconds) atomic_store(&r->shared.stop, 1);
        progress_update(&p, operations_so_far(r), o->ops == UINT64_MAX ? 0 : o->ops, "operations");
    }
    pthread_mutex_unlock(&r->lock);
    progress_end(&p);
    for (uint32_t i = 0; i < r->n_started; i++) pthread_join(r->threads[i].id, NULL);
}

/* ---------------------------------------------------------------------------------------------- ending */

static void check_pool(stress_run *r, const char *place) {
    snug_status status = snug_pool_check(r->shared.pool);
    if (status) unexpected("snug_pool_check", place, status);
}

static void check_empty(stress_run *r) {
    snug_stats  stats = {.struct_size = sizeof stats};
    snug_status status = snug_stats_get(r->shared.pool, &stats);
    if (status)
        unexpected("snug_stats_get", "check_empty", status);
    else if (stats.handles_live || stats.live_bytes)
        unexpected("snug_stats_get", "check_empty: something is live after all was freed", SNUG_CORRUPT);
}

static void each_client(stress_run *r, void (*act)(client *c)) {
    act(&r->keeper);
    for (uint32_t i = 0; i < r->n_open; i++) act(&r->clients[i]);
}

/* Everything live is read through, checked, freed. */
static void wind_up(stress_run *r, report *result) {
    each_client(r, client_sync);
    result->seconds = (double)(client_now_ns() - r->start_ns) * 1e-9;
    result->device_seconds = device_seconds(&r->options->device);
    snug_status status = report_pool(result, r->shared.pool);
    if (status) unexpected("snug_stats_get", "wind_up", status);
    each_client(r, client_verify_all);
    check_pool(r, "wind_up: before everything is freed");
    each_client(r, client_free_all);
    if (r->on) status = snug_compactor_stop(r->shared.pool);
    if (status) unexpected("snug_compactor_stop", "wind_up", status);
    status = report_pool_moves(result, r->shared.pool);
    if (status) unexpected("snug_stats_get", "wind_up", status);
    check_pool(r, "wind_up: after everything was freed");
    check_empty(r);
}

static void count_client(report *result, const client *c, pattern_tally *tally) {
    result->requests += c->requests;
    result->granted += c->granted;
    result->refused += c->refusals.refused;
    for (int v = 0; v < SNUG_STATUS_COUNT; v++) result->refused_by_verdict[v] += c->refusals.refused_by_verdict[v];
    result->request_bytes += c->request_bytes;
    result->launches += c->launches;
    for (uint32_t s = 0; c->streams && s < c->run->n_streams; s++)
        pattern_tally_merge(tally, &c->streams[s].native.tally);
}

/* A digest means something only if every client made all its requests. */
static void count_sequence(stress_run *r, report *result) {
    uint64_t digest = 0;
    for (uint32_t i = 0; i < r->n_open; i++) {
        const client *c = &r->clients[i];
        if (atomic_load(&c->operations) < c->operations_max) return;
        digest = (digest ^ c->digest) * UINT64_C(0x9e3779b97f4a7c15);
        digest ^= digest >> 32;
    }
    snprintf(r->sequence, sizeof r->sequence, "%016" PRIx64, digest);
    result->sequence = r->sequence;
}

static void count(stress_run *r, report *result) {
    static histogram alloc, resolve_release; /* 38 KB: too much for a stack frame */
    pattern_tally    tally = {0};
    uint64_t         earliest = UINT64_MAX;
    histogram_reset(&alloc);
    histogram_reset(&resolve_release);
    result->request_bytes = result->launches = 0;
    count_client(result, &r->keeper, &tally);
    for (uint32_t i = 0; i < r->n_open; i++) {
        const client *c = &r->clients[i];
        count_client(result, c, &tally);
        histogram_merge(&alloc, &c->alloc);
        histogram_merge(&resolve_release, &c->resolve_release);
        if (!c->refusals.refused || c->first_refusal_ns >= earliest) continue;
        earliest = c->first_refusal_ns;
        result->live_share_at_first_refusal = c->refusals.live_share_at_first_refusal;
    }
    result->alloc = histogram_summarise(&alloc);
    result->resolve_release = histogram_summarise(&resolve_release);
    result->operations = operations_so_far(r);
    result->peak_live_bytes = atomic_load(&r->shared.live.peak);
    result->verified_buffers = atomic_load(&tally.verified);
    result->corrupted_buffers = atomic_load(&tally.corrupted);
    count_sequence(r, result);
    pattern_fault_print(COMMAND, &tally);
}

static void close_run(stress_run *r) {
    each_client(r, client_close);
    free(r->clients);
    free(r->threads);
    snug_status status = snug_pool_destroy(r->shared.pool);
    if (status) unexpected("snug_pool_destroy", "close_run", status);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->changed);
}

/* ---------------------------------------------------------------------------------------------- a run, all runs */

static void describe(const stress_run *r, report *result) {
    const stress_options *o = r->options;
    report_init(result);
    result->command = "stress";
    result->device = o->device.name;
    result->profile = o->device.profile ? o->device.profile->name : NULL;
    result->workload = workload_names[o->workload];
    result->compaction = r->on ? "on" : "off";
    result->seed = o->seed;
    result->capacity_bytes = r->shared.capacity;
    result->threads = o->threads;
    result->streams = o->streams;
}

/* Fills in result; r must live as long. Returns 0, or the exit status when there was no run. */
static int run_once(stress_run *r, const models *lists, report *result) {
    const stress_options *o = r->options;
    uint64_t              unexpected_before = report_unexpected_count();
    r->workload = &workload_table[o->workload];
    r->shared = (client_run){
        .command = COMMAND,
        .device = &o->device,
        .models = lists,
        .capacity = o->capacity,
        .max_size = o->max_size,
        .seed = o->seed,
        .verify = !o->no_verify,
        .n_streams = (uint32_t)o->streams,
    };
    int exit_status = open_pool(r);
    if (exit_status) return exit_status;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    describe(r, result);
    bool ready = open_keeper(r) && open_clients(r) && start_compactor(r);
    if (ready && r->workload->models) {
        result->scale = models_scale(lists, r->shared.share);
        result->models = lists->source;
    }
    r->start_ns = client_now_ns();
    ready = ready && start_clients(r);
    watch_clients(r);
    if (ready) {
        wind_up(r, result);
        count(r, result);
    }
    close_run(r);
    result->corrupted_buffers += device_finish(&o->device, COMMAND);
    result->unexpected = report_unexpected_count() - unexpected_before;
    return ready ? 0 : 1;
}

static int say(const stress_options *o, const report *results, int n) {
    if (!o->json) {
        report_table_write(stdout, results, n);
        return 0;
    }
    for (int i = 0; i < n; i++)
        if (!report_json_write(stdout, &results[i])) {
            arguments_error(COMMAND, "--json: cannot write to stdout");
            return 1;
        }
    return 0;
}

int snug_stress_main(int argc, char **argv) {
    static stress_run runs[2]; /* zeroed, and too large for a stack frame */
    stress_options    o = {
           .compaction = COMPACTION_BOTH,
           .capacity = UINT64_C(256) << 20,
           .threads = 2,
           .streams = 2,
           .max_size = UINT64_C(4) << 20,
           .seed = 1,
    };
    arguments_result parsed = parse_options(&o, argc, argv);
    if (parsed != ARGUMENTS_GO) return parsed == ARGUMENTS_DONE ? 0 : 2;
    int exit_status = settle_options(&o);
    if (exit_status) return exit_status;
    models lists = {0};
    report results[2];
    int    n = 0;
    if (workload_table[o.workload].models && !models_open(&lists, o.models, COMMAND)) exit_status = 2;
    for (int on = 0; on < 2 && !exit_status; on++) {
        if (o.compaction == (on ? COMPACTION_OFF : COMPACTION_ON)) continue;
        runs[n].options = &o;
        runs[n].on = on;
        exit_status = run_once(&runs[n], &lists, &results[n]);
        if (!exit_status) n++;
    }
    if (n && say(&o, results, n)) exit_status = 1;
    if (n == 2 && results[0].sequence && results[1].sequence && strcmp(results[0].sequence, results[1].sequence)) {
        arguments_error(COMMAND, "the two runs made different requests: %s, %s", results[0].sequence,
                        results[1].sequence);
        exit_status = 1;
    }
    models_close(&lists);
    return exit_status ? exit_status : report_exit_status(results, n);
}
