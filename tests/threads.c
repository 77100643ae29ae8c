/* threads.c - everything at once, for ThreadSanitizer and without: workers with streams of their own and a shared one, shared
 * weights that all read while they are moved, buffers freed by another thread than the one that made them, handles used by
 * others while they are freed, long pins, steps, quotes, trims, readers of statistics, streams that come and go.
 * Contents are verified by launches. Runs for a time, not for a count: 12 s at SNUG_TEST_SCALE 100. */
#include "tap.h"

#include "client.h"

enum { WORKERS = 4, WEIGHTS = 8, SLOTS = 24, RUMOURS = 64, GRAVES = 256 };

typedef struct buffer {
    snug_handle handle;
    uint64_t    size, valid, version;
    unsigned    users; /* 1: the worker's own stream, 2: the shared one */
} buffer;

typedef struct scene {
    snug_pool        *pool;
    uint64_t          capacity, seed, until_ns;
    bool              steps;
    snug_host_stream *shared_native;
    snug_stream      *shared;
    snug_handle       weights[WEIGHTS];
    uint64_t          weight_size[WEIGHTS];
    _Atomic uint64_t  rumours[RUMOURS]; /* handles that may be freed any moment, or are */
    pthread_mutex_t   graves_lock;
    snug_handle       graves[GRAVES]; /* to be freed by another thread */
    unsigned          graves_count;
    _Atomic uint64_t  versions, surprises, workers_left;
    _Atomic uint64_t  done[16]; /* calls that had an effect, by kind */
} scene;

enum {
    DID_ALLOC,
    DID_REFUSE,
    DID_FREE,
    DID_FREE_OTHER,
    DID_RESIZE,
    DID_LAUNCH,
    DID_RACE_OK,
    DID_RACE_STALE,
    DID_STEP,
    DID_PIN,
    DID_STREAM,
    DID_BUSY
};

static void did(scene *s, unsigned kind) {
    atomic_fetch_add(&s->done[kind], 1);
}

/* A status that can't be: counted, the first ones told. */
static void surprise(scene *s, const char *what, snug_status status) {
    if (atomic_fetch_add(&s->surprises, 1) < 8)
        diag("%s: %s", what, snug_status_name(status));
}

#define MUST(s, call)                                                                                                  \
    do {                                                                                                               \
        snug_status must_status = (call);                                                                              \
        if (must_status != SNUG_OK)                                                                                    \
            surprise((s), #call, must_status);                                                                         \
    } while (0)

static bool time_left(const scene *s) {
    return client_now_ns() < s->until_ns;
}

/* ------------------------------------------------------------------------------------------------ workers */

typedef struct worker {
    scene            *s;
    client_random     random;
    snug_host_stream *native[2]; /* own, shared */
    snug_stream      *stream[2];
    buffer            slots[SLOTS];
    unsigned          count;
} worker;

static void drop(worker *w, buffer *b) {
    *b = w->slots[--w->count];
}

static buffer *any_slot(worker *w) {
    return w->count ? &w->slots[random_below(&w->random, w->count)] : NULL;
}

/* Checks, and perhaps fills, one buffer together with three of the weights, under one resolve and release. */
static void launch(worker *w, buffer *b, bool write, unsigned n_weights) {
    scene      *s  = w->s;
    unsigned    on = (unsigned)random_below(&w->random, 2), first = (unsigned)random_below(&w->random, WEIGHTS);
    snug_handle list[4]   = {b->handle};
    snug_access access[4] = {write ? SNUG_WRITE : SNUG_READ, SNUG_READ, SNUG_READ, SNUG_READ};
    void       *addresses[4];
    for (unsigned i = 0; i < n_weights; i++)
        list[1 + i] = s->weights[(first + i) % WEIGHTS];
    if (b->users & (on ? 1u : 2u))
        snug_host_stream_wait(w->native[on], w->native[!on]);
    snug_status status = snug_resolve(w->stream[on], list, 1 + n_weights, access, addresses);
    if (status != SNUG_OK) {
        surprise(s, "resolve of one's own", status);
        return;
    }
    client_job job = {.at        = addresses[0],
                      .check     = b->valid,
                      .before    = b->version,
                      .id        = b->handle,
                      .dawdle_us = random_chance(&w->random, 3) ? random_below(&w->random, 200) : 0};
    if (write) {
        job.put = b->valid = b->size;
        job.after = b->version = atomic_fetch_add(&s->versions, 1);
    }
    MUST(s, snug_host_launch(w->native[on], client_job_run, &job, sizeof job));
    for (unsigned i = 0; i < n_weights; i++) {
        unsigned   k     = (first + i) % WEIGHTS;
        client_job reads = {.at = addresses[1 + i], .check = s->weight_size[k], .before = k, .id = k};
        MUST(s, snug_host_launch(w->native[on], client_job_run, &reads, sizeof reads));
    }
    MUST(s, snug_release(w->stream[on], list, 1 + n_weights, access));
    b->users = on ? 2 : 1;
    did(s, DID_LAUNCH);
}

static void work_alloc(worker *w) {
    scene             *s       = w->s;
    snug_alloc_options options = snug_alloc_options_default();
    buffer             b = {.size = random_below(&w->random, random_chance(&w->random, 10) ? s->capacity / 8 : 40000)};
    if (w->count == SLOTS)
        return;
    if (random_chance(&w->random, 15))
        options.alignment = SNUG_GRANULE << random_below(&w->random, 6);
    options.tag        = random_chance(&w->random, 50) ? "work" : NULL;
    snug_status status = snug_alloc(s->pool, b.size, &options, &b.handle);
    if (status >= SNUG_LIMIT && status <= SNUG_PINNED) {
        did(s, DID_REFUSE);
        return;
    }
    if (status != SNUG_OK) {
        surprise(s, "alloc", status);
        return;
    }
    did(s, DID_ALLOC);
    w->slots[w->count++] = b;
    launch(w, &w->slots[w->count - 1], true, 0);
    if (random_chance(&w->random, 30))
        atomic_store(&s->rumours[random_below(&w->random, RUMOURS)], b.handle);
}

static void work_resize(worker *w, buffer *b) {
    uint64_t    size   = random_below(&w->random, 2 * b->size + 1000);
    snug_status status = snug_resize(w->s->pool, b->handle, size);
    if (status == SNUG_BUSY || (status >= SNUG_LIMIT && status <= SNUG_PINNED)) {
        did(w->s, status == SNUG_BUSY ? DID_BUSY : DID_REFUSE);
        return;
    }
    if (status != SNUG_OK) {
        surprise(w->s, "resize", status);
        return;
    }
    b->size  = size;
    b->valid = b->valid < size ? b->valid : size;
    did(w->s, DID_RESIZE);
}

static void work_free(worker *w, buffer *b) {
    scene *s     = w->s;
    bool   taken = false;
    if (random_chance(&w->random, 50)) {
        pthread_mutex_lock(&s->graves_lock);
        taken = s->graves_count < GRAVES;
        if (taken)
            s->graves[s->graves_count++] = b->handle;
        pthread_mutex_unlock(&s->graves_lock);
    }
    if (!taken) {
        MUST(s, snug_free(s->pool, b->handle));
        snug_status again = snug_free(s->pool, b->handle);
        if (again != SNUG_STALE)
            surprise(s, "a second free", again);
        did(s, DID_FREE);
    }
    drop(w, b);
}

/* Another's handle, that may be freed at any moment. What the bytes are is not this thread's business. */
static void work_rumour(worker *w) {
    scene      *s         = w->s;
    snug_handle list[3]   = {s->weights[random_below(&w->random, WEIGHTS)],
                             atomic_load(&s->rumours[random_below(&w->random, RUMOURS)]),
                             s->weights[random_below(&w->random, WEIGHTS)]};
    snug_access access[3] = {SNUG_READ, random_chance(&w->random, 50) ? SNUG_READ : SNUG_WRITE, SNUG_READ};
    void       *addresses[3];
    snug_status status, after = SNUG_OK;
    bool        is_long = random_chance(&w->random, 20);
    if (list[1] == SNUG_HANDLE_NONE)
        return;
    if (is_long) {
        status = snug_pin(s->pool, &list[1], 1, addresses);
        if (status == SNUG_OK)
            after = snug_unpin(s->pool, &list[1], 1, NULL, 0);
    } else {
        status = snug_resolve(w->stream[1], list, 3, access, addresses);
        if (status == SNUG_OK)
            after = snug_release(w->stream[1], list, 3, access);
    }
    if (status != SNUG_OK && status != SNUG_STALE)
        surprise(s, "another's handle", status);
    if (after != SNUG_OK)
        surprise(s, "its release", after);
    did(s, status == SNUG_OK ? DID_RACE_OK : DID_RACE_STALE);
}

static void work_transfer(worker *w, buffer *b) {
    static _Thread_local unsigned char host[8192];
    uint64_t                           bytes = b->size < sizeof host ? b->size : sizeof host;
    MUST(w->s, snug_stream_sync(w->stream[0]));
    MUST(w->s, snug_stream_sync(w->stream[1]));
    b->version = atomic_fetch_add(&w->s->versions, 1);
    b->valid   = bytes;
    b->users   = 1;
    pattern_put(host, bytes, b->version);
    MUST(w->s, snug_write(w->stream[0], b->handle, 0, host, bytes));
    MUST(w->s, snug_stream_sync(w->stream[0]));
    memset(host, 0, sizeof host);
    MUST(w->s, snug_read(w->stream[0], b->handle, 0, host, bytes));
    MUST(w->s, snug_stream_sync(w->stream[0]));
    if (pattern_differs(host, bytes, b->version) != UINT64_MAX)
        surprise(w->s, "a read", SNUG_CORRUPT);
}

static void *worker_main(void *argument) {
    worker *w = argument;
    while (time_left(w->s)) {
        unsigned kind = (unsigned)random_below(&w->random, 100);
        buffer  *b    = any_slot(w);
        if (kind < 25 || !b)
            work_alloc(w);
        else if (kind < 62)
            launch(w, b, random_chance(&w->random, 50), (unsigned)random_below(&w->random, 4));
        else if (kind < 72)
            work_resize(w, b);
        else if (kind < 88)
            work_free(w, b);
        else if (kind < 97)
            work_rumour(w);
        else
            work_transfer(w, b);
    }
    while (w->count) {
        launch(w, &w->slots[0], false, 0);
        work_free(w, &w->slots[0]);
    }
    MUST(w->s, snug_stream_sync(w->stream[0]));
    atomic_fetch_sub(&w->s->workers_left, 1);
    return NULL;
}

/* ------------------------------------------------------------------------------------------------ the others */

static void *undertaker_main(void *argument) {
    scene *s = argument;
    for (bool last = false; !last;) {
        last = atomic_load(&s->workers_left) == 0; /* read before the list is looked at */
        pthread_mutex_lock(&s->graves_lock);
        unsigned    n = s->graves_count;
        snug_handle graves[GRAVES];
        memcpy(graves, s->graves, n * sizeof graves[0]);
        s->graves_count = 0;
        pthread_mutex_unlock(&s->graves_lock);
        for (unsigned i = 0; i < n; i++) {
            MUST(s, snug_free(s->pool, graves[i]));
            did(s, DID_FREE_OTHER);
        }
        if (!n && !last)
            usleep(50);
    }
    return NULL;
}

static void *stepper_main(void *argument) {
    scene        *s      = argument;
    client_random random = {s->seed + 1000};
    while (time_left(s)) {
        snug_budget budget = {random_below(&random, 3) ? random_below(&random, 300000) : 0,
                              (uint32_t)random_below(&random, 8), 0};
        snug_quotation      quote  = {.struct_size = sizeof quote};
        snug_compact_result result = {.struct_size = sizeof result};
        if (s->steps)
            MUST(s, snug_compact(s->pool, &budget, &result));
        did(s, DID_STEP);
        if (random_chance(&random, 2))
            MUST(s, snug_quote(s->pool, random_below(&random, s->capacity), &quote));
        if (random_chance(&random, 1))
            MUST(s, snug_trim(s->pool, 0, NULL));
        if (random_chance(&random, 1)) {
            MUST(s, snug_compaction_set(s->pool, 0));
            MUST(s, snug_compaction_set(s->pool, 1));
        }
        if (!s->steps)
            usleep(2000);
    }
    return NULL;
}

static void *reader_main(void *argument) {
    scene        *s      = argument;
    client_random random = {s->seed + 2000};
    while (time_left(s)) {
        snug_stats t = client_stats(s->pool);
        if (t.live_bytes + t.padding_bytes + t.free_bytes + t.pending_bytes + t.in_flight_bytes + t.bounce_bytes !=
                t.committed_bytes ||
            t.committed_bytes > t.limit_bytes || t.largest_hole_bytes > t.free_bytes ||
            t.bytes.current != t.live_bytes || t.buffers.current != t.handles_live ||
            t.pinned_bytes > t.live_bytes + t.padding_bytes)
            surprise(s, "a ledger that doesn't add up", SNUG_CORRUPT);
        snug_tag_stats   tags[4];
        size_t           count;
        snug_handle_info info = {.struct_size = sizeof info};
        MUST(s, snug_tags_get(s->pool, tags, 4, &count));
        snug_status status =
            snug_handle_info_get(s->pool, atomic_load(&s->rumours[random_below(&random, RUMOURS)]), &info);
        if (status != SNUG_OK && status != SNUG_STALE && status != SNUG_UNKNOWN)
            surprise(s, "info", status);
        if (random_chance(&random, 5))
            MUST(s, snug_pool_check(s->pool));
        (void)snug_moves(s->pool);
        usleep(200);
    }
    return NULL;
}

/* Pins weights long and reads them from the host; attaches a stream, reads on it, detaches it with the work pending. */
static void *pinner_main(void *argument) {
    scene        *s      = argument;
    client_random random = {s->seed + 3000};
    while (time_left(s)) {
        unsigned first = (unsigned)random_below(&random, WEIGHTS - 1);
        void    *addresses[2];
        MUST(s, snug_pin(s->pool, &s->weights[first], 2, addresses));
        for (unsigned i = 0; i < 2; i++)
            if (pattern_differs(addresses[i], s->weight_size[first + i], first + i) != UINT64_MAX)
                surprise(s, "a pinned weight", SNUG_CORRUPT);
        usleep((useconds_t)random_below(&random, 500));
        MUST(s, snug_unpin(s->pool, &s->weights[first], 2, NULL, 0));
        did(s, DID_PIN);
        if (random_chance(&random, 20)) {
            snug_host_stream *native;
            snug_stream      *stream;
            MUST(s, snug_host_stream_create(&native));
            MUST(s, snug_stream_attach(s->pool, native, &stream));
            for (unsigned i = 0; i < WEIGHTS; i++)
                MUST(s, client_check(stream, native, s->weights[i], s->weight_size[i], i));
            MUST(s, snug_stream_detach(stream));
            MUST(s, snug_host_stream_destroy(native));
            did(s, DID_STREAM);
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------------------ a scene */

static void scene_open(scene *s, bool jumble, bool background) {
    snug_pool_options options = snug_pool_options_default();
    options.capacity          = s->capacity;
    options.commit_bytes      = 2 * MiB;
    options.jumble            = jumble;
    options.pin_wait_ns       = 100000;
    if (snug_pool_create(&options, &s->pool) != SNUG_OK || snug_host_stream_create(&s->shared_native) != SNUG_OK ||
        snug_stream_attach(s->pool, s->shared_native, &s->shared) != SNUG_OK)
        bail_out("no scene");
    pthread_mutex_init(&s->graves_lock, NULL);
    for (unsigned i = 0; i < WEIGHTS; i++) {
        s->weight_size[i] = 5000 + 17777 * i;
        MUST(s, snug_alloc(s->pool, s->weight_size[i], NULL, &s->weights[i]));
        MUST(s, client_fill(s->shared, s->shared_native, s->weights[i], s->weight_size[i], i));
    }
    MUST(s, snug_stream_sync(s->shared));
    atomic_store(&s->versions, 1000);
    if (background) {
        snug_compactor_options c = snug_compactor_options_default();
        c.start_fragmentation    = 0.02;
        c.stop_fragmentation     = 0.01;
        c.floor_bytes            = 1;
        c.interval_ns            = 50000;
        c.cooldown_ns            = 1000;
        c.duty_max               = 0.5;
        c.step.bytes_max         = 60000; /* so that some are copied over several steps */
        MUST(s, snug_compactor_start(s->pool, &c));
    }
}

static void scene_close(scene *s, const char *name) {
    for (unsigned i = 0; i < WEIGHTS; i++)
        MUST(s, client_check(s->shared, s->shared_native, s->weights[i], s->weight_size[i], i));
    MUST(s, snug_stream_sync(s->shared));
    is_u64(atomic_load(&client_faults), 0, "%s: contents", name);
    is_status(snug_pool_check(s->pool), SNUG_OK, "%s: invariants hold", name);
    is_u64(client_stats(s->pool).handles_live, WEIGHTS, "%s: only the weights are left", name);
    for (unsigned i = 0; i < WEIGHTS; i++)
        MUST(s, snug_free(s->pool, s->weights[i]));
    snug_stats  t = client_stats(s->pool);
    snug_handle all;
    ok(t.handles_live == 0 && t.live_bytes == 0 && t.pending_bytes == 0 && t.pinned_bytes == 0,
       "%s: nothing is live, pending or pinned", name);
    is_status(snug_alloc(s->pool, s->capacity, NULL, &all), SNUG_OK, "%s: all of it can be had", name);
    MUST(s, snug_free(s->pool, all));
    is_u64(atomic_load(&s->surprises), 0, "%s: every status was one that may be", name);
    diag("%s: %" PRIu64 " allocations, %" PRIu64 " refusals, %" PRIu64 " frees, %" PRIu64 " by another, %" PRIu64
         " resizes, %" PRIu64 " launches, %" PRIu64 " steps",
         name, s->done[DID_ALLOC], s->done[DID_REFUSE], s->done[DID_FREE], s->done[DID_FREE_OTHER], s->done[DID_RESIZE],
         s->done[DID_LAUNCH], s->done[DID_STEP]);
    diag("%s: races won %" PRIu64 ", lost %" PRIu64 "; busy %" PRIu64 ", pins %" PRIu64 ", streams %" PRIu64
         "; moves %" PRIu64 ", slides %" PRIu64 ", cancelled %" PRIu64,
         name, s->done[DID_RACE_OK], s->done[DID_RACE_STALE], s->done[DID_BUSY], s->done[DID_PIN], s->done[DID_STREAM],
         t.moves, t.slides, t.cancelled_moves);
    ok(t.moves > 0 && s->done[DID_LAUNCH] > 0 && s->done[DID_FREE_OTHER] > 0, "%s: it did what it is for", name);
    is_status(snug_pool_destroy(s->pool), SNUG_OK, "%s: destroyed", name);
    snug_host_stream_destroy(s->shared_native);
}

static void play(const char *name, uint64_t seed, uint64_t duration_ns, bool jumble, bool background, bool steps) {
    static worker workers[WORKERS];
    static scene  scenes[4], *s = scenes;
    pthread_t     threads[WORKERS + 4];
    s->capacity = 3 * MiB;
    s->seed     = seed;
    s->steps    = steps;
    scene_open(s, jumble, background);
    s->until_ns = client_now_ns() + duration_ns;
    atomic_store(&s->workers_left, WORKERS);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (worker){
            .s = s, .random = {seed * 31 + i}, .native = {NULL, s->shared_native}, .stream = {NULL, s->shared}};
        MUST(s, snug_host_stream_create(&workers[i].native[0]));
        MUST(s, snug_stream_attach(s->pool, workers[i].native[0], &workers[i].stream[0]));
        pthread_create(&threads[i], NULL, worker_main, &workers[i]);
    }
    void *(*const others[4])(void *) = {undertaker_main, stepper_main, reader_main, pinner_main};
    for (unsigned i = 0; i < 4; i++)
        pthread_create(&threads[WORKERS + i], NULL, others[i], s);
    for (unsigned i = 0; i < WORKERS + 4; i++)
        pthread_join(threads[i], NULL);
    MUST(s, snug_compactor_stop(s->pool));
    for (unsigned i = 0; i < WORKERS; i++) {
        MUST(s, snug_stream_detach(workers[i].stream[0]));
        snug_host_stream_destroy(workers[i].native[0]);
    }
    scene_close(s++, name);
}

int main(int argc, char **argv) {
    uint64_t seed = client_seed(argc, argv), each = tap_scaled(3000) * 1000000;
    play("jumble by steps", seed, each, true, false, true);
    play("jumble in the background", seed + 1, each, true, true, false);
    play("tidying in the background", seed + 2, each, false, true, false);
    play("on demand and by steps", seed + 3, each, false, false, true);
    return done_testing();
}
