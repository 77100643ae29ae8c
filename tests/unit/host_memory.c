/* host_memory.c - the host has no more memory: in each scenario the Nth call for some fails, for every N. The call then says
 * so, or does without; nothing is lost, nothing leaks (where a leak checker runs), the pool is sound, and the next call works.
 *
 * The linker brings the library's calls here (--wrap; see Makefile.am), so what the C library asks for itself isn't counted. */
#include "tap.h"

#include "fixture.h"

#include <errno.h>
#include <sys/mman.h>

enum { G = SNUG_GRANULE, N_MAX = 200, BUFFERS = 12 };

/* ------------------------------------------------------------------------------------------------ the Nth call fails */

static _Atomic int  countdown; /* 0: none fails; n: the nth from now on */
static _Atomic bool failed;    /* it has come */
static bool         for_good;  /* and all after it fail too */

static bool failing(void) {
    int n = atomic_load(&countdown);
    if (n > 1)
        atomic_fetch_sub(&countdown, 1);
    if (n != 1 || (atomic_exchange(&failed, true) && !for_good))
        return false;
    return true;
}

static void arm(int nth) {
    atomic_store(&failed, false);
    atomic_store(&countdown, nth);
}

/* True: the nth call has come, and failed. */
static bool disarm(void) {
    atomic_store(&countdown, 0);
    return atomic_load(&failed);
}

#define WRAPPED(type, failure, name, parameters, arguments)                                                            \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters {                                                                                    \
        if (failing()) {                                                                                               \
            errno = ENOMEM;                                                                                            \
            return failure;                                                                                            \
        }                                                                                                              \
        return __real_##name arguments;                                                                                \
    }

WRAPPED(void *, NULL, malloc, (size_t bytes), (bytes))
WRAPPED(void *, NULL, calloc, (size_t n, size_t bytes), (n, bytes))
WRAPPED(void *, NULL, realloc, (void *old, size_t bytes), (old, bytes))
WRAPPED(void *, NULL, aligned_alloc, (size_t alignment, size_t bytes), (alignment, bytes))
WRAPPED(void *, MAP_FAILED, mmap, (void *at, size_t n, int access, int flags, int file, off_t from),
        (at, n, access, flags, file, from))
WRAPPED(int, -1, mprotect, (void *at, size_t n, int access), (at, n, access))
WRAPPED(int, EAGAIN, pthread_create,
        (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument),
        (thread, attributes, start, argument))

/* ------------------------------------------------------------------------------------------------ a pool in use */

static snug_pool  *pool;
static client      c;
static snug_handle kept[BUFFERS];

static uint64_t size_of(unsigned i) {
    return 8 + i % 3;
}

static snug_pool_options usual(void) {
    snug_pool_options options = snug_pool_options_default();
    options.capacity          = 160 * G;
    options.log_level         = SNUG_LOG_OFF;
    return options;
}

/* Holes between buffers with known contents, on the plain host device. */
static void scene_of(snug_pool_options options) {
    if (snug_pool_create(&options, &pool) != SNUG_OK)
        bail_out("no pool");
    c = client_make(pool);
    for (unsigned i = 0; i < BUFFERS; i++) {
        kept[i] = must_alloc(pool, size_of(i));
        buffer_fill(c, kept[i], size_of(i) * G, i);
    }
    for (unsigned i = 1; i < BUFFERS; i += 2) {
        snug_free(pool, kept[i]);
        kept[i] = 0;
    }
}

static void scene(void) {
    scene_of(usual());
}

static void scene_close(void) {
    client_end(c);
    if (snug_pool_destroy(pool) != SNUG_OK)
        bail_out("not destroyed");
}

static bool contents_hold(void) {
    bool hold = true;
    for (unsigned i = 0; i < BUFFERS; i++)
        hold &= !kept[i] || buffer_holds(c, kept[i], size_of(i) * G, i);
    return hold;
}

/* ------------------------------------------------------------------------------------------------ scenarios */

/* In a scene, and leaves it as it was if it returns an error; if not, undo takes back what it did. */
typedef struct scenario {
    const char *name;
    void (*begin)(void); /* NULL: scene */
    snug_status (*call)(void);
    void (*undo)(void);
    bool quiet; /* may do without the memory, and say OK */
} scenario;

static snug_handle       made[70000];
static unsigned          made_count;
static snug_host_stream *more_native;
static snug_stream      *more_stream;
static void             *address;

static void undo_made(void) {
    while (made_count)
        snug_free(pool, made[--made_count]);
}

static snug_status call_alloc(void) {
    snug_alloc_options o = snug_alloc_options_default();
    o.tag                = "a new tag";
    snug_status status   = snug_alloc(pool, 4 * G, &o, &made[0]);
    made_count           = status == SNUG_OK;
    return status;
}

static snug_status call_room(void) { /* more than any hole: compacts */
    snug_status status = snug_alloc(pool, 60 * G, NULL, &made[0]);
    made_count         = status == SNUG_OK;
    return status;
}

static snug_status call_many(void) { /* the table of handles grows to its next piece, and the map's */
    while (made_count < 1200) {
        snug_status status = snug_alloc(pool, made_count % 2 ? G : 0, NULL, &made[made_count]);
        if (status != SNUG_OK)
            return status;
        made_count++;
    }
    return SNUG_OK;
}

static void begin_many(void) {
    snug_pool_options options = usual();
    options.capacity          = 4096 * G;
    scene_of(options);
}

/* The map has used up the nodes that it has memory for, but for the few that it keeps: the next one must be asked for. Holes
 * of one granule in great number, and nothing else free. */
static void begin_brim(void) {
    static snug_handle small[4096];
    unsigned           n       = 0;
    snug_pool_options  options = usual();
    options.capacity           = 4096 * G;
    scene_of(options);
    for (unsigned i = 0; i < BUFFERS; i++)
        if (!kept[i])
            must_alloc(pool, size_of(i));
    const snug__map *map = &pool->map;
    while (map->nodes_spare > 8 || (map->nodes_made + 1) * sizeof(snug__range) <= map->table.committed)
        small[n++] = must_alloc(pool, 1);
    must_alloc(pool, stats_of(pool).largest_hole_bytes / G);
    for (unsigned i = 1; i < n; i += 2)
        snug_free(pool, small[i]);
}

static void begin_commit(void) {
    snug_pool_options options = usual();
    options.capacity          = UINT64_C(6) << 20;
    options.commit_bytes      = 1;
    scene_of(options);
}

static snug_status call_grow_arena(void) {
    snug_status status = snug_alloc(pool, UINT64_C(5) << 20, NULL, &made[0]);
    made_count         = status == SNUG_OK;
    return status;
}

static snug_status call_resize(void) {
    return snug_resize(pool, kept[2], 40 * G);
}

static void undo_resize(void) {
    if (snug_resize(pool, kept[2], size_of(2) * G) != SNUG_OK)
        bail_out("not resized back");
}

static snug_status call_shrink(void) { /* splits a range */
    return snug_resize(pool, kept[2], 3 * G);
}

static void undo_shrink(void) {
    if (snug_resize(pool, kept[2], size_of(2) * G) != SNUG_OK)
        bail_out("not resized back");
    buffer_fill(c, kept[2], size_of(2) * G, 2);
}

static snug_status call_pin(void) {
    return snug_pin(pool, &kept[BUFFERS - 2], 1, &address);
}

static void undo_pin(void) {
    if (snug_unpin(pool, &kept[BUFFERS - 2], 1, NULL, 0) != SNUG_OK)
        bail_out("not unpinned");
}

static snug_status call_compact(void) {
    return snug_compact(pool, NULL, NULL);
}

static snug_status call_trim(void) {
    uint64_t returned;
    return snug_trim(pool, 0, &returned);
}

static snug_status call_quote(void) {
    snug_quotation quote = {.struct_size = sizeof quote};
    return snug_quote(pool, 60 * G, &quote);
}

static snug_status call_compactor(void) {
    return snug_compactor_start(pool, NULL);
}

static void undo_compactor(void) {
    snug_compactor_stop(pool);
}

static snug_status call_transfer(void) {
    char        bytes[G];
    snug_status status = snug_read(c.stream, kept[0], 0, bytes, sizeof bytes);
    return status == SNUG_OK ? snug_stream_sync(c.stream) : status;
}

static snug_status call_stream(void) {
    snug_status status = snug_host_stream_create(&more_native);
    if (status != SNUG_OK)
        return status;
    status = snug_stream_attach(pool, more_native, &more_stream);
    if (status != SNUG_OK)
        snug_host_stream_destroy(more_native);
    return status;
}

static void undo_stream(void) {
    snug_stream_detach(more_stream);
    snug_host_stream_destroy(more_native);
}

static snug_status call_pool(void) { /* beside the one of the scene */
    snug_pool        *other;
    snug_pool_options options = usual();
    snug_status       status  = snug_pool_create(&options, &other);
    return status == SNUG_OK ? snug_pool_destroy(other) : status;
}

static snug_status call_pool_compactor(void) {
    setenv("SNUG_OPTIONS", "compactor=on", 1);
    snug_status status = call_pool();
    unsetenv("SNUG_OPTIONS");
    return status;
}

static snug_status call_check(void) {
    return snug_pool_check(pool);
}

static snug_status call_free(void) {
    snug_status status = snug_free(pool, kept[4]);
    kept[4]            = 0;
    return status;
}

static const scenario scenarios[] = {
    {"a pool is created", NULL, call_pool, NULL, false},
    {"a pool is created with its compactor", NULL, call_pool_compactor, NULL, false},
    {"a stream is created and attached", NULL, call_stream, undo_stream, false},
    {"an allocation with a new tag", NULL, call_alloc, undo_made, true},
    {"an allocation that compacts", NULL, call_room, undo_made, false},
    {"many allocations, until tables grow", begin_many, call_many, undo_made, false},
    {"an allocation that grows the arena", begin_commit, call_grow_arena, undo_made, false},
    {"a resize", NULL, call_resize, undo_resize, false},
    {"a resize to less", NULL, call_shrink, undo_shrink, false},
    {"a long pin", NULL, call_pin, undo_pin, false},
    {"a step of compaction", NULL, call_compact, NULL, false},
    {"the compactor's start", NULL, call_compactor, undo_compactor, false},
    {"a trim", begin_commit, call_trim, NULL, false},
    {"a quote", NULL, call_quote, NULL, false},
    {"a read", NULL, call_transfer, NULL, false},
    {"a check", NULL, call_check, NULL, false},
    {"a free", NULL, call_free, NULL, false},
    {"no node left: an allocation that compacts", begin_brim, call_room, undo_made, true},
    {"no node left: a resize", begin_brim, call_resize, undo_resize, true},
    {"no node left: a resize to less", begin_brim, call_shrink, undo_shrink, false},
    {"no node left: a long pin", begin_brim, call_pin, undo_pin, true},
    {"no node left: a step of compaction", begin_brim, call_compact, NULL, true},
    {"no node left: a trim", begin_brim, call_trim, NULL, true},
    {"no node left: a quote", begin_brim, call_quote, NULL, true},
    {"no node left: a free", begin_brim, call_free, NULL, false},
};

static void one_scenario(const scenario *s) {
    unsigned wrong = 0, unsound = 0, lost = 0, dead = 0, failures = 0, silent = 0;
    for (int nth = 1; nth <= N_MAX; nth++) {
        made_count = 0;
        s->begin ? s->begin() : scene();
        arm(nth);
        snug_status status = s->call();
        bool        met    = disarm();
        failures += met;
        silent += met && status == SNUG_OK;
        if (status != SNUG_OK && (!met || (status != SNUG_NO_MEMORY && status != SNUG_DEVICE))) {
            diag("%s, call %d: %s", s->name, nth, snug_status_name(status));
            wrong++;
        }
        if (snug_pool_check(pool) != SNUG_OK)
            diag("%s, call %d: the pool is broken", s->name, nth), unsound++;
        if (status == SNUG_OK && s->undo)
            s->undo();
        undo_made();
        if (!contents_hold())
            diag("%s, call %d: contents are lost", s->name, nth), lost++;
        status = s->call();
        if (status != SNUG_OK && s->call != call_free)
            diag("%s, after call %d failed: %s", s->name, nth, snug_status_name(status)), dead++;
        if (status == SNUG_OK && s->undo)
            s->undo();
        unsound += snug_pool_check(pool) != SNUG_OK;
        lost += !contents_hold();
        scene_close();
        if (!met)
            break;
    }
    ok(!wrong, "%s%s: NO_MEMORY, the device's error, or nothing (%u failures met)", s->name,
       for_good ? ", for good" : "", failures);
    ok(!silent || s->quiet, "  none is passed over (%u)", silent);
    ok(!unsound, "  the pool is sound");
    ok(!lost, "  nothing is lost");
    ok(!dead, "  the next call works");
}

/* ------------------------------------------------------------------------------------------------ without a pool */

/* The first of all: every part of a pool's shell, streams and tables is made afresh. */
static void the_first_pool(void) {
    unsigned wrong = 0, written = 0, failures = 0;
    for (int nth = 1; nth <= N_MAX; nth++) {
        snug_pool        *first   = (snug_pool *)&address;
        snug_pool_options options = usual();
        arm(nth);
        snug_status status = snug_pool_create(&options, &first);
        bool        met    = disarm();
        failures += met;
        if (status != SNUG_OK) {
            written += first != (snug_pool *)&address;
            wrong += status != SNUG_NO_MEMORY && status != SNUG_DEVICE;
            if (status != SNUG_NO_MEMORY && status != SNUG_DEVICE)
                diag("the first pool, call %d: %s", nth, snug_status_name(status));
        } else if (snug_pool_check(first) != SNUG_OK || snug_pool_destroy(first) != SNUG_OK) {
            wrong++;
        }
        if (!met)
            break;
    }
    ok(!wrong && failures > 8, "the first pool of a process: NO_MEMORY or DEVICE (%u failures met)", failures);
    ok(!written, "  nothing is written");
}

/* Each stream takes a bit and a slot of its own, then they share; slots are made on the way. */
static void many_streams(void) {
    enum { STREAMS = 70 };
    static snug_host_stream *native[STREAMS];
    static snug_stream      *stream[STREAMS];
    unsigned                 wrong = 0, attached = 0, failures = 0, unsound = 0;
    scene();
    for (unsigned i = 0; i < STREAMS; i++)
        if (snug_host_stream_create(&native[i]) != SNUG_OK)
            bail_out("no stream");
    for (unsigned i = 0; i < STREAMS; i++)
        for (int nth = 1;; nth++) {
            arm(nth);
            snug_status status = snug_stream_attach(pool, native[i], &stream[i]);
            bool        met    = disarm();
            failures += met;
            wrong += status != (met ? SNUG_NO_MEMORY : SNUG_OK) && !(met && status == SNUG_OK);
            unsound += snug_pool_check(pool) != SNUG_OK;
            attached += status == SNUG_OK;
            if (status == SNUG_OK)
                break;
        }
    ok(!wrong && !unsound && attached == STREAMS,
       "%u streams: each attach can fail and be tried again (%u failures met)", attached, failures);
    for (unsigned i = 0; i < STREAMS; i++) {
        snug_stream_detach(stream[i]);
        snug_host_stream_destroy(native[i]);
    }
    ok(contents_hold() && snug_pool_check(pool) == SNUG_OK, "  and the pool is as it was");
    scene_close();
}

int main(void) {
    the_first_pool();
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        one_scenario(&scenarios[i]);
        for_good = true; /* not once, but from the Nth on, until the call has returned */
        one_scenario(&scenarios[i]);
        for_good = false;
    }
    many_streams();
    return done_testing();
}
