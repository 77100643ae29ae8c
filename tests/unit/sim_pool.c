/* sim_pool.c - pools on the sim device, by the public API: random clients under every style, and from several threads, without
 * a violation; the same run from the same seed; bad clients found; promise 8 for background steps; refused commits; every
 * call of the device failing once; stalled streams; a full 141 GB card within its memory, and how fast all that is. */
#include "tap.h"

#include "compactor.h"
#include "sim_world.h"

#include <time.h>
#include <unistd.h>

enum { STREAMS = 3, BUFFERS = 200 };

typedef struct buffer {
    snug_handle handle;
    uint64_t    size;
    uint32_t    version; /* 0: nothing written yet */
    int         owner;   /* the stream whose work it is ordered behind */
} buffer;

typedef struct sim_client {
    snug_pool       *pool;
    snug_sim_stream *native[STREAMS];
    snug_stream     *stream[STREAMS];
    buffer           buffers[BUFFERS];
    uint64_t         random, operations, refused;
} sim_client;

static uint64_t roll(sim_client *c) { /* splitmix64 */
    uint64_t z = c->random += UINT64_C(0x9e3779b97f4a7c15);
    z          = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z          = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static snug_pool_options sim_pool(uint64_t capacity) {
    snug_pool_options o = snug_pool_options_default();
    o.device            = "sim";
    o.capacity          = capacity;
    o.log_level         = SNUG_LOG_OFF;
    o.pin_wait_ns       = 20000; /* of a virtual clock, and nobody else will unpin */
    return o;
}

static sim_client *client_open(snug_pool_options o, uint64_t seed) {
    static sim_client c;
    memset(&c, 0, sizeof c);
    c.random           = seed;
    snug_status status = snug_pool_create(&o, &c.pool);
    if (status != SNUG_OK)
        bail_out("no pool: %s", snug_status_name(status));
    for (int i = 0; i < STREAMS; i++)
        if (snug_sim_stream_create(&c.native[i]) != SNUG_OK ||
            snug_stream_attach(c.pool, c.native[i], &c.stream[i]) != SNUG_OK)
            bail_out("no stream");
    return &c;
}

static snug_status client_close(sim_client *c) {
    snug_status checked = snug_pool_check(c->pool);
    for (int i = 0; i < STREAMS; i++) {
        snug_stream_detach(c->stream[i]);
        snug_sim_stream_destroy(c->native[i]);
    }
    snug_status destroyed = snug_pool_destroy(c->pool);
    return checked == SNUG_OK ? destroyed : checked;
}

/* A kernel of 1 us that reads the buffer's contents, if it has any, and writes the next version of them, if asked. */
static snug_status use(sim_client *c, int s, buffer *b, bool write) {
    void       *at;
    snug_access access = write ? SNUG_WRITE : SNUG_READ;
    snug_status status = snug_resolve(c->stream[s], &b->handle, 1, &access, &at);
    if (status != SNUG_OK)
        return status;
    snug_sim_access touches[2] = {{at, b->size, SNUG_READ, b->version, b->version ? b->handle : SNUG_SIM_ANY, 0},
                                  {at, b->size, SNUG_WRITE, b->version + 1, b->handle, 0}};
    status                     = snug_sim_launch(c->native[s], touches, write ? 2 : 1, 1000);
    b->version += status == SNUG_OK && write;
    snug_status released = snug_release(c->stream[s], &b->handle, 1, &access);
    return status == SNUG_OK ? released : status;
}

static void make(sim_client *c, buffer *b, uint64_t size) {
    *b = (buffer){.size = size, .owner = (int)(roll(c) % STREAMS)};
    if (snug_alloc(c->pool, b->size, NULL, &b->handle) != SNUG_OK) {
        b->handle = SNUG_HANDLE_NONE;
        c->refused++;
    }
}

/* Launches that begin, and thus resolve and release what a step of the compactor would move. */
static void random_step(sim_client *c) {
    buffer  *b = &c->buffers[roll(c) % BUFFERS];
    unsigned r = (unsigned)(roll(c) % 100);
    c->operations++;
    if (!b->handle) {
        make(c, b, 1 + roll(c) % MiB);
    } else if (r < 10) {
        snug_free(c->pool, b->handle);
        b->handle = SNUG_HANDLE_NONE;
    } else if (r < 13) {
        snug_compact(c->pool, &(snug_budget){.bytes_max = MiB}, NULL);
    } else if (r < 15) {
        uint64_t size = 1 + roll(c) % MiB;
        if (snug_resize(c->pool, b->handle, size) == SNUG_OK)
            b->size = size < b->size ? size : b->size; /* the rest is undefined */
    } else {
        use(c, b->owner, b, r < 80);
        c->operations += 2;
        if (roll(c) % 32 == 0) {
            int other = (int)(roll(c) % STREAMS);
            snug_sim_stream_wait(c->native[other], c->native[b->owner]);
            b->owner = other;
        }
    }
}

/* ------------------------------------------------------------------------------------------------ good clients */

static snug_sim_report run(snug_sim_style style, uint64_t seed, bool jumble, uint64_t operations, snug_stats *stats) {
    snug_pool_options o = sim_pool(64 * MiB);
    o.jumble            = jumble;
    machine(style, seed);
    sim_client *c = client_open(o, seed);
    while (c->operations < operations)
        random_step(c);
    stats->struct_size = sizeof *stats;
    snug_stats_get(c->pool, stats);
    snug_status status = client_close(c);
    if (status != SNUG_OK)
        ok(false, "the pool is sound and ends well: %s", snug_status_name(status));
    return report();
}

static void good_clients_meet_no_violation(void) {
    snug_stats stats;
    uint64_t   seed = tap_seed(4711);
    for (int style = 0; style < STYLES; style++)
        for (int jumble = 0; jumble < 2; jumble++) {
            snug_sim_report r = run((snug_sim_style)style, seed++, jumble, tap_scaled(60000), &stats);
            is_u64(r.violations, 0, "%s%s: %" PRIu64 " moves, %" PRIu64 " torn, no violation", style_names[style],
                   jumble ? ", jumbled" : "", stats.moves, r.torn_moves);
            is_u64(r.shortages, 0, "nothing left out");
            for (uint32_t i = 0; i < r.texts; i++)
                diag("seed %" PRIu64 ": %s", seed - 1, r.text[i]);
        }
}

static void runs_repeat(void) {
    snug_stats      stats[3];
    snug_sim_report r[3];
    for (int i = 0; i < 3; i++)
        r[i] = run(SNUG_SIM_RANDOM, i < 2 ? 99 : 100, false, 20000, &stats[i]);
    ok(r[0].now_ns == r[1].now_ns && r[0].executed == r[1].executed && r[0].copied_bytes == r[1].copied_bytes &&
           memcmp(&stats[0], &stats[1], sizeof stats[0]) == 0,
       "the same seed, the same run: %" PRIu64 " ns, %" PRIu64 " operations", r[0].now_ns, r[0].executed);
    ok(r[0].now_ns != r[2].now_ns && r[0].executed != r[2].executed, "another seed, another run");
}

typedef struct worker {
    sim_client *c;
    int         stream;
    uint64_t    random, faults;
} worker;

/* Each thread has a stream and buffers of its own. */
static void *work(void *argument) {
    worker  *w     = argument;
    uint64_t steps = tap_scaled(20000);
    for (uint64_t i = 0; i < steps; i++) {
        w->random  = w->random * UINT64_C(6364136223846793005) + 1442695040888963407;
        buffer  *b = &w->c->buffers[(uint64_t)w->stream + STREAMS * ((w->random >> 40) % (BUFFERS / STREAMS))];
        uint64_t r = w->random >> 20 & 15;
        if (!b->handle) {
            *b = (buffer){.size = 1 + (w->random >> 24) % MiB};
            if (snug_alloc(w->c->pool, b->size, NULL, &b->handle) != SNUG_OK)
                b->handle = SNUG_HANDLE_NONE;
        } else if (r == 0) {
            w->faults += snug_free(w->c->pool, b->handle) != SNUG_OK;
            b->handle = SNUG_HANDLE_NONE;
        } else {
            w->faults += use(w->c, w->stream, b, r < 12) != SNUG_OK;
        }
    }
    return NULL;
}

static void threads_share_a_machine(void) {
    pthread_t threads[STREAMS];
    worker    workers[STREAMS];
    uint64_t  faults = 0;
    machine(SNUG_SIM_RANDOM, 5);
    sim_client *c = client_open(sim_pool(64 * MiB), 5);
    succeeds(snug_compactor_start(c->pool, NULL));
    for (int i = 0; i < STREAMS; i++) {
        workers[i] = (worker){c, i, (uint64_t)i + 1, 0};
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            bail_out("no thread");
    }
    for (int i = 0; i < STREAMS; i++) {
        pthread_join(threads[i], NULL);
        faults += workers[i].faults;
    }
    succeeds(snug_compactor_stop(c->pool));
    is_u64(faults, 0, "%d threads and the compactor: no call fails", STREAMS);
    succeeds(client_close(c));
    is_u64(report().violations, 0, "and there is no violation");
    if (report().texts)
        diag("%s", report().text[0]);
}

/* Background steps take only what has settled, so no stream is held for longer than a step's copies take. */
static void background_steps_hold_nobody_up(void) {
    const snug_sim_profile *p      = snug_sim_profile_get(SNUG_SIM_RTX_3060);
    snug_budget             budget = {.bytes_max = MiB, .moves_max = 4};
    snug_pool_options       o      = sim_pool(64 * MiB);
    o.device_index                 = SNUG_SIM_RTX_3060;
    machine(SNUG_SIM_TIMED, 3);
    sim_client *c     = client_open(o, 3);
    uint64_t    moves = 0;
    for (int i = 0; i < 20000; i++) {
        buffer *b = &c->buffers[roll(c) % BUFFERS];
        if (!b->handle)
            make(c, b, 1 + roll(c) % (256 * KiB));
        else if (roll(c) % 4 == 0)
            b->handle = snug_free(c->pool, b->handle) == SNUG_OK ? SNUG_HANDLE_NONE : b->handle;
        else
            use(c, b->owner, b, true);
        snug_sim_advance(5000);
        if (i % 16 == 0) {
            snug__tidy          tidy   = {.budget = budget, .gain_min = 1, .settled_only = true};
            snug_compact_result result = {.struct_size = sizeof result};
            pthread_mutex_lock(&c->pool->mover);
            snug__compactor_step(c->pool, &tidy, &result);
            pthread_mutex_unlock(&c->pool->mover);
            moves += result.moves;
        }
    }
    snug_sim_report r = report();
    uint64_t        bound =
        budget.bytes_max * 1000000000 / p->copy_bytes_per_second + 2 * budget.moves_max * p->copy_overhead_ns;
    ok(moves > 100, "%" PRIu64 " background moves", moves);
    is_u64(r.cross_waits, 0, "no stream waits for another's work because of them");
    ok(r.mover_wait_max_ns[SNUG_SIM_BACKGROUND] <= bound,
       "nor longer than a step's copies take: %" PRIu64 " ns of %" PRIu64, r.mover_wait_max_ns[SNUG_SIM_BACKGROUND],
       bound);
    is_u64(r.violations, 0, "no violation");
    succeeds(client_close(c));
}

static void a_quote_knows_the_rate(void) {
    const snug_sim_profile *p = snug_sim_profile_get(SNUG_SIM_A100);
    snug_pool_options       o = sim_pool(8 * GiB);
    snug_quotation          q = {.struct_size = sizeof q};
    o.device_index            = SNUG_SIM_A100;
    machine(SNUG_SIM_TIMED, 1);
    sim_client *c = client_open(o, 1);
    for (int i = 0; i < 8; i++)
        make(c, &c->buffers[i], GiB);
    snug_free(c->pool, c->buffers[1].handle);
    snug_free(c->pool, c->buffers[5].handle);
    succeeds(snug_quote(c->pool, 2 * GiB, &q));
    double expected = (double)q.move_bytes * 1e9 / (double)p->copy_bytes_per_second;
    ok(q.move_bytes > 0 && (double)q.time_ns > expected && (double)q.time_ns < expected * 1.5,
       "%" PRIu64 " MiB to move: %" PRIu64 " us, by the profile %.0f", q.move_bytes / MiB, q.time_ns / 1000,
       expected / 1000);
    succeeds(client_close(c));
}

/* Its first call copies, to measure. */
static void a_quote_may_meet_a_failure(void) {
    snug_quotation q = {.struct_size = sizeof q};
    machine(SNUG_SIM_TIMED, 1);
    sim_client *c = client_open(sim_pool(4 * MiB), 1);
    for (int i = 0; i < 4; i++)
        make(c, &c->buffers[i], MiB);
    snug_free(c->pool, c->buffers[0].handle);
    snug_free(c->pool, c->buffers[2].handle);
    snug_sim_fail_nth(SNUG_SIM_CALL_COPY, 1, SNUG_DEVICE);
    succeeds(snug_quote(c->pool, 2 * MiB, &q));
    ok(q.move_bytes == MiB && q.time_ns == 0, "without a rate there is no time");
    succeeds(snug_quote(c->pool, 2 * MiB, &q));
    ok(q.move_bytes == MiB && q.time_ns > 0, "the next one measures");
    succeeds(client_close(c));
    machine(SNUG_SIM_TIMED, 1);
    c = client_open(sim_pool(4 * MiB), 1);
    snug_sim_fail_nth(SNUG_SIM_CALL_COPY, 1, SNUG_LOST);
    is_status(snug_quote(c->pool, MiB, &q), SNUG_LOST, "a device that is lost meanwhile");
    is_status(client_close(c), SNUG_LOST, "and the pool with it");
}

/* ------------------------------------------------------------------------------------------------ bad clients */

static sim_client *bad_client(int style) {
    machine((snug_sim_style)style, 8);
    sim_client *c = client_open(sim_pool(64 * MiB), 8);
    for (int i = 0; i < 60; i++) {
        make(c, &c->buffers[i], MiB);
        use(c, 0, &c->buffers[i], true);
    }
    snug_sim_sync(NULL);
    return c;
}

static uint64_t bad_end(sim_client *c, snug_sim_violation kind) {
    snug_sim_sync(NULL);
    succeeds(client_close(c));
    return report().by_kind[kind];
}

static void bad_clients_are_found(void) {
    for (int style = 0; style < STYLES; style++) {
        sim_client *c = bad_client(style);
        use(c, 0, &c->buffers[7], true);
        use(c, 1, &c->buffers[7], true);
        ok(bad_end(c, SNUG_SIM_UNORDERED) > 0, "%s: two streams write one buffer, unordered", style_names[style]);
        c = bad_client(style);
        use(c, 0, &c->buffers[7], true);
        use(c, 1, &c->buffers[7], false);
        ok(bad_end(c, SNUG_SIM_UNORDERED) > 0, "one reads what the other writes");
        c = bad_client(style);
        use(c, 0, &c->buffers[7], true);
        snug_sim_stream_wait(c->native[1], c->native[0]);
        use(c, 1, &c->buffers[7], true);
        is_u64(bad_end(c, SNUG_SIM_UNORDERED), 0, "ordered, it is none");
    }
}

static void stale_addresses_are_found(void) {
    for (int style = 0; style < STYLES; style++) {
        sim_client *c = bad_client(style);
        buffer     *b = &c->buffers[40];
        void       *at;
        snug_resolve(c->stream[0], &b->handle, 1, NULL, &at);
        snug_release(c->stream[0], &b->handle, 1, NULL);
        for (int i = 0; i < 40; i++)
            snug_free(c->pool, c->buffers[i].handle);
        snug_trim(c->pool, 0, NULL);
        for (int i = 0; i < 40; i++)
            make(c, &c->buffers[i], MiB);
        for (int i = 0; i < 40; i++)
            use(c, 1, &c->buffers[i], true);
        snug_sim_access stale = {at, b->size, SNUG_READ, b->version, b->handle, 0};
        snug_sim_launch(c->native[0], &stale, 1, 1000);
        snug_sim_sync(NULL);
        snug_sim_report r = report();
        ok(r.by_kind[SNUG_SIM_TAG] && r.by_kind[SNUG_SIM_UNORDERED],
           "%s: an address used after its release sees another's bytes", style_names[style]);
        ok(bad_end(c, SNUG_SIM_TAG) == 1, "that once");
        c = bad_client(style);
        b = &c->buffers[59];
        snug_resolve(c->stream[0], &b->handle, 1, NULL, &at);
        snug_release(c->stream[0], &b->handle, 1, NULL);
        for (int i = 20; i < 60; i++)
            snug_free(c->pool, c->buffers[i].handle);
        snug_trim(c->pool, 0, NULL);
        stale = (snug_sim_access){at, MiB, SNUG_READ, 1, b->handle, 0};
        snug_sim_launch(c->native[0], &stale, 1, 1000);
        is_u64(bad_end(c, SNUG_SIM_UNCOMMITTED), 1, "one in memory that was trimmed");
        c = bad_client(style);
        b = &c->buffers[5];
        snug_resolve(c->stream[0], &b->handle, 1, NULL, &at);
        snug_release(c->stream[0], &b->handle, 1, NULL);
        snug_sim_access late = {at, MiB, SNUG_WRITE, 9, b->handle, 0};
        snug_stream_detach(c->stream[0]);
        snug_sim_launch(c->native[0], &late, 1, 100000); /* enqueued after its detach: nothing waits for it */
        succeeds(client_close(c));
        is_u64(report().by_kind[SNUG_SIM_DECOMMIT], 1, "work that no event covers, when the pool is destroyed");
    }
}

/* ------------------------------------------------------------------------------------------------ refusals, faults, stalls */

static void memory_can_run_out(void) {
    snug_sim_options so = snug_sim_options_default();
    so.memory_bytes     = GiB;
    succeeds(snug_sim_setup(&so));
    snug_pool        *pool;
    snug_pool_options o = sim_pool(2 * GiB);
    is_status(snug_pool_create(&o, &pool), SNUG_DEVICE, "more than the card has");
    o.commit_bytes = 256 * MiB;
    succeeds(snug_pool_create(&o, &pool));
    snug_handle  h;
    snug_refusal refusal = {.struct_size = sizeof refusal};
    is_status(snug_alloc(pool, 1536 * MiB, NULL, &h), SNUG_DEVICE, "refused when it is asked for");
    snug_refusal_get(&refusal);
    ok(strstr(refusal.device_error, "out of memory") != NULL, "by the device: %s", refusal.device_error);
    is_u64(refusal.device_total_bytes, GiB, "which has that much");
    succeeds(snug_alloc(pool, 512 * MiB, NULL, &h));
    succeeds(snug_pool_check(pool));
    succeeds(snug_pool_destroy(pool));
    o              = sim_pool(MiB);
    o.device_index = SNUG_SIM_PROFILES;
    is_status(snug_pool_create(&o, &pool), SNUG_NO_DEVICE, "a profile that isn't there");
}

/* Every nth call of every kind fails once in a short life of a pool. It goes on, sound, and without a violation; only a copy
 * that fails in the middle of a slide may lose it. */
static void every_call_may_fail(void) {
    unsigned runs = 0, unsound = 0, created = 0, lost = 0;
    uint64_t violations = 0;
    for (int call = SNUG_SIM_CALL_OPEN; call < SNUG_SIM_CALL_ANY; call++)
        for (uint64_t n = 1; n <= 40; n++, runs++) {
            snug_pool_options o = sim_pool(16 * MiB);
            snug_pool        *pool;
            machine(SNUG_SIM_RANDOM, n);
            snug_sim_fail_nth((snug_sim_call)call, n, SNUG_DEVICE);
            if (snug_pool_create(&o, &pool) != SNUG_OK)
                continue;
            created++;
            snug_pool_destroy(pool);
            if (snug_sim_calls((snug_sim_call)call) >= n)
                continue;
            machine(SNUG_SIM_RANDOM, n);
            sim_client *c = client_open(o, n);
            snug_sim_fail_nth((snug_sim_call)call, n, SNUG_DEVICE);
            for (int i = 0; i < 600; i++)
                random_step(c);
            snug_sim_fail_nth((snug_sim_call)call, 0, SNUG_OK);
            snug_trim(c->pool, 0, NULL);
            snug_status sound = snug_pool_check(c->pool);
            lost += sound == SNUG_LOST && call == SNUG_SIM_CALL_MOVE;
            unsound += sound != SNUG_OK && !(sound == SNUG_LOST && call == SNUG_SIM_CALL_MOVE);
            snug_sim_sync(NULL);
            client_close(c);
            snug_sim_report r = report();
            violations += r.violations;
            for (uint32_t i = 0; i < r.texts && i < 2; i++)
                diag("%s, %" PRIu64 ": %s", snug_sim_call_name((snug_sim_call)call), n, r.text[i]);
        }
    is_u64(unsound, 0, "in %u runs, %u of them with a pool, none left it unsound (%u lost it in a slide)", runs,
           created, lost);
    is_u64(violations, 0, "nor was there a violation");
}

static void a_lost_device_ends_the_pool(void) {
    machine(SNUG_SIM_RANDOM, 2);
    sim_client *c = client_open(sim_pool(16 * MiB), 2);
    for (int i = 0; i < 500; i++)
        random_step(c);
    snug_sim_fail_nth(SNUG_SIM_CALL_ANY, 1, SNUG_LOST);
    for (int i = 0; i < 100; i++)
        random_step(c);
    snug_handle h;
    is_status(snug_alloc(c->pool, 1, NULL, &h), SNUG_LOST, "the pool is lost");
    is_status(client_close(c), SNUG_LOST, "and can be destroyed");
}

static void a_stall_ends_in_a_timeout(void) {
    machine(SNUG_SIM_TIMED, 2);
    sim_client *c = client_open(sim_pool(16 * MiB), 2);
    snug_sim_stall(snug_sim_stream_number(c->native[2]), 1);
    make(c, &c->buffers[0], MiB);
    use(c, 2, &c->buffers[0], true);
    is_status(snug_stream_sync(c->stream[2]), SNUG_TIMEOUT, "a stream that never ends is waited for for ten seconds");
    ok(strstr(snug__device_error(), "stream 5 is stalled") != NULL, "it says: %s", snug__device_error());
    ok(client_close(c) != SNUG_OK, "destroy says that not all went well");
    ok(strstr(snug__device_error(), "stream 5 is stalled") != NULL, "and the device which stream: %s",
       snug__device_error());
}

/* ------------------------------------------------------------------------------------------------ size, speed */

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static uint64_t resident_bytes(void) {
    unsigned long total = 0, resident = 0;
    FILE         *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lu %lu", &total, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void a_large_card_fits_into_little_memory(void) {
    enum { HANDLES = 1000000 };
    const uint64_t capacity = UINT64_C(141000000000), size = capacity / HANDLES - 512;
    uint64_t       before = resident_bytes(), made = 0;
    if (!before) {
        skip(3, "no /proc/self/statm");
        return;
    }
    machine(SNUG_SIM_TIMED, 1);
    sim_client *c     = client_open(sim_pool(capacity), 1);
    double      began = seconds();
    for (uint32_t i = 0; i < HANDLES; i++) {
        buffer b = {.size = size};
        if (snug_alloc(c->pool, size, NULL, &b.handle) != SNUG_OK)
            break;
        made += use(c, (int)(i % STREAMS), &b, true) == SNUG_OK;
        if (i % 100000 == 0) /* as clients do now and then: else every write could still conflict */
            snug_sim_sync(NULL);
    }
    double          took = seconds() - began;
    snug_sim_report r    = report();
    uint64_t        used = resident_bytes() - before;
    is_u64(made, HANDLES, "a million buffers, all written, on 141 GB");
    is_u64(r.violations, 0, "without a violation");
    diag("%" PRIu64 " MiB of host memory more, %" PRIu64 " spans; %.0f operations/s", used / MiB, r.spans,
         4 * HANDLES / took);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(1, "a sanitizer needs memory of its own");
#else
    ok(used <= 256 * MiB, "within 256 MiB of host memory");
#endif
    succeeds(client_close(c));
}

static void speed(void) {
    snug_stats stats;
    for (int style = 0; style < STYLES; style++) {
        uint64_t        n     = tap_scaled(300000);
        double          began = seconds();
        snug_sim_report r     = run((snug_sim_style)style, 12, false, n, &stats);
        double          took  = seconds() - began;
        is_u64(r.violations, 0, "%s: %" PRIu64 " public operations", style_names[style], n);
        diag("%.0f operations/s, with %.0f moves/s of the pool and %.0f operations/s of the device", (double)n / took,
             (double)stats.moves / took, (double)r.executed / took);
    }
}

int main(void) {
    unsetenv("SNUG_OPTIONS");
    a_large_card_fits_into_little_memory();
    good_clients_meet_no_violation();
    runs_repeat();
    threads_share_a_machine();
    background_steps_hold_nobody_up();
    a_quote_knows_the_rate();
    a_quote_may_meet_a_failure();
    bad_clients_are_found();
    stale_addresses_are_found();
    memory_can_run_out();
    every_call_may_fail();
    a_lost_device_ends_the_pool();
    a_stall_ends_in_a_timeout();
    speed();
    return done_testing();
}
