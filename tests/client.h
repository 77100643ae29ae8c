/* client.h - what the tests of the public API share: a client of the library, who fills buffers with bytes that tell buffer
 * and place apart, checks them asynchronously with host launches, and can stall a stream. Include after tap.h, in one file. */
#ifndef SNUG_TESTS_CLIENT_H
#define SNUG_TESTS_CLIENT_H

#include <snug.h>
#include <snug_host.h>

#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#define CLIENT_UNUSED __attribute__((unused))
#define KiB           (UINT64_C(1) << 10)
#define MiB           (UINT64_C(1) << 20)
#define GRANULES(n)   ((uint64_t)(n)*SNUG_GRANULE)

/* ------------------------------------------------------------------------------------------------ chance */

typedef struct client_random {
    uint64_t state;
} client_random;

/* splitmix64 */
CLIENT_UNUSED static uint64_t random_next(client_random *r) {
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z          = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z          = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

CLIENT_UNUSED static uint64_t random_below(client_random *r, uint64_t n) {
    return n ? random_next(r) % n : 0;
}

CLIENT_UNUSED static bool random_chance(client_random *r, unsigned percent) {
    return random_below(r, 100) < percent;
}

CLIENT_UNUSED static uint64_t client_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The first argument, else SNUG_TEST_SEED, else the time. Printed. */
CLIENT_UNUSED static uint64_t client_seed(int argc, char **argv) {
    if (argc > 1 && *argv[1])
        setenv("SNUG_TEST_SEED", argv[1], 1);
    return tap_seed(client_now_ns() % 1000000000u);
}

/* ------------------------------------------------------------------------------------------------ contents */

static inline uint64_t pattern_word(uint64_t version, uint64_t at) {
    uint64_t z = version * UINT64_C(0x9e3779b97f4a7c15) + at * UINT64_C(0xd1342543de82ef95) + 1;
    return z ^ z >> 29;
}

CLIENT_UNUSED static void pattern_put(void *to, uint64_t bytes, uint64_t version) {
    unsigned char *p = to;
    for (uint64_t at = 0; at < bytes; at += 8) {
        uint64_t word = pattern_word(version, at / 8);
        memcpy(p + at, &word, bytes - at < 8 ? bytes - at : 8);
    }
}

/* The offset of the first byte that differs; UINT64_MAX: none does. */
CLIENT_UNUSED static uint64_t pattern_differs(const void *from, uint64_t bytes, uint64_t version) {
    const unsigned char *p = from;
    for (uint64_t at = 0; at < bytes; at += 8) {
        uint64_t word = pattern_word(version, at / 8), n = bytes - at < 8 ? bytes - at : 8;
        if (memcmp(p + at, &word, n) != 0)
            return at;
    }
    return UINT64_MAX;
}

static _Atomic uint64_t client_faults; /* buffers found with wrong bytes, all streams together */

/* A launch: checks the first `check` bytes against version `before`, dawdles, then fills `put` bytes with version `after`. */
typedef struct client_job {
    void    *at;
    uint64_t check, before, put, after, dawdle_us, id;
} client_job;

CLIENT_UNUSED static void client_job_run(void *arguments) {
    client_job *job = arguments;
    uint64_t    bad = pattern_differs(job->at, job->check, job->before);
    if (bad != UINT64_MAX && atomic_fetch_add(&client_faults, 1) < 8)
        diag("wrong bytes: job %" PRIu64 ", version %" PRIu64 ", at byte %" PRIu64 " of %" PRIu64, job->id, job->before,
             bad, job->check);
    if (job->dawdle_us)
        usleep((useconds_t)job->dawdle_us);
    if (job->put)
        pattern_put(job->at, job->put, job->after);
}

/* resolve, launch, release. */
CLIENT_UNUSED static snug_status client_launch(snug_stream *stream, snug_host_stream *native, snug_handle handle,
                                               client_job job) {
    snug_access access = job.put ? SNUG_WRITE : SNUG_READ;
    snug_status status = snug_resolve(stream, &handle, 1, &access, &job.at);
    if (status != SNUG_OK)
        return status;
    status               = snug_host_launch(native, client_job_run, &job, sizeof job);
    snug_status released = snug_release(stream, &handle, 1, &access);
    return status == SNUG_OK ? released : status;
}

CLIENT_UNUSED static snug_status client_fill(snug_stream *stream, snug_host_stream *native, snug_handle handle,
                                             uint64_t bytes, uint64_t version) {
    return client_launch(stream, native, handle, (client_job){.put = bytes, .after = version, .id = handle});
}

CLIENT_UNUSED static snug_status client_check(snug_stream *stream, snug_host_stream *native, snug_handle handle,
                                              uint64_t bytes, uint64_t version) {
    return client_launch(stream, native, handle, (client_job){.check = bytes, .before = version, .id = handle});
}

/* ------------------------------------------------------------------------------------------------ stalls */

/* Holds a stream up from gate_shut (which enqueues the wait) until gate_open. One use each. */
typedef struct client_gate {
    pthread_mutex_t lock;
    pthread_cond_t  opened;
    bool            open;
} client_gate;

CLIENT_UNUSED static void gate_pass(void *arguments) {
    client_gate *gate = *(client_gate **)arguments;
    pthread_mutex_lock(&gate->lock);
    while (!gate->open)
        pthread_cond_wait(&gate->opened, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

CLIENT_UNUSED static void gate_shut(client_gate *gate, snug_host_stream *stream) {
    *gate = (client_gate){PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    snug_host_launch(stream, gate_pass, &gate, sizeof gate);
}

/* Afterwards sync the stream before the gate goes out of scope. */
CLIENT_UNUSED static void gate_open(client_gate *gate) {
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->opened);
    pthread_mutex_unlock(&gate->lock);
}

/* ------------------------------------------------------------------------------------------------ a pool with a stream */

typedef struct client {
    snug_pool        *pool;
    snug_host_stream *native;
    snug_stream      *stream;
} client;

CLIENT_UNUSED static client client_open_with(snug_pool_options options) {
    client c = {NULL, NULL, NULL};
    if (options.log_level == SNUG_LOG_WARNINGS)
        options.log_level = SNUG_LOG_OFF;
    snug_status status = snug_pool_create(&options, &c.pool);
    if (status != SNUG_OK)
        bail_out("no pool of %" PRIu64 " bytes: %s", options.capacity, snug_status_name(status));
    if (snug_host_stream_create(&c.native) != SNUG_OK || snug_stream_attach(c.pool, c.native, &c.stream) != SNUG_OK)
        bail_out("no stream");
    return c;
}

CLIENT_UNUSED static client client_open(uint64_t capacity) {
    snug_pool_options options = snug_pool_options_default();
    options.capacity          = capacity;
    return client_open_with(options);
}

/* Checks the pool's invariants, then tears all down. */
CLIENT_UNUSED static snug_status client_close(client *c) {
    snug_status status = snug_pool_check(c->pool);
    snug_stream_detach(c->stream);
    snug_status destroyed = snug_pool_destroy(c->pool);
    snug_host_stream_destroy(c->native);
    return status == SNUG_OK ? destroyed : status;
}

CLIENT_UNUSED static snug_stats client_stats(snug_pool *pool) {
    snug_stats  stats  = {.struct_size = sizeof stats};
    snug_status status = snug_stats_get(pool, &stats);
    if (status != SNUG_OK)
        bail_out("no stats: %s", snug_status_name(status));
    return stats;
}

CLIENT_UNUSED static snug_refusal client_refusal(void) {
    snug_refusal refusal = {.struct_size = sizeof refusal};
    snug_refusal_get(&refusal);
    return refusal;
}

CLIENT_UNUSED static snug_handle_info client_info(snug_pool *pool, snug_handle handle) {
    snug_handle_info info = {.struct_size = sizeof info};
    if (snug_handle_info_get(pool, handle, &info) != SNUG_OK)
        info.pins = UINT32_MAX;
    return info;
}

/* Allocates with alignment and flags; SNUG_HANDLE_NONE: refused. */
CLIENT_UNUSED static snug_status client_alloc(snug_pool *pool, uint64_t size, uint64_t alignment, uint32_t flags,
                                              snug_handle *handle) {
    snug_alloc_options options = snug_alloc_options_default();
    options.alignment          = alignment;
    options.flags              = flags;
    *handle                    = SNUG_HANDLE_NONE;
    return snug_alloc(pool, size, &options, handle);
}

static inline uint64_t granules_of(uint64_t bytes) {
    return bytes / SNUG_GRANULE + (bytes % SNUG_GRANULE != 0);
}

#endif
