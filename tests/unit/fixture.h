/* fixture.h - what several unit tests need: random numbers, host streams that can be held up, a bare map with its order and
 * handles, pools on a host device that can be hooked and made to fail, and buffers whose contents can be verified.
 *
 * Include it after tap.h, in one file of the program. */
#ifndef SNUG_TESTS_FIXTURE_H
#define SNUG_TESTS_FIXTURE_H

#include "options.h"
#include "pool.h"

#include <snug_host.h>

#include <sched.h>
#include <stddef.h>
#include <time.h>

/* ------------------------------------------------------------------------------------------------ random numbers */

typedef struct dice {
    uint64_t state;
} dice;

static inline uint64_t dice_roll(dice *d) { /* splitmix64 */
    uint64_t z = d->state += UINT64_C(0x9e3779b97f4a7c15);
    z          = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z          = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint32_t dice_below(dice *d, uint32_t n) {
    return (uint32_t)(dice_roll(d) % n);
}

static inline uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void nap_us(unsigned us) {
    struct timespec t = {us / 1000000, (long)(us % 1000000) * 1000};
    nanosleep(&t, NULL);
}

/* The seed: the first argument, else SNUG_TEST_SEED, else the time. Printed either way. */
static inline uint64_t fixture_seed(int argc, char **argv) {
    if (argc < 2)
        return tap_seed(clock_ns());
    uint64_t seed = strtoull(argv[1], NULL, 0);
    diag("SNUG_TEST_SEED=%" PRIu64, seed);
    return seed;
}

/* ------------------------------------------------------------------------------------------------ held-up streams */

typedef struct gate {
    _Atomic int open, reached;
} gate;

static inline void gate_pass(void *arguments) {
    gate *g = *(gate **)arguments;
    atomic_store(&g->reached, 1);
    while (!atomic_load(&g->open))
        nap_us(20);
}

/* Whatever is enqueued behind it waits until the gate is opened. */
static inline void gate_put(gate *g, snug_host_stream *stream) {
    snug_host_launch(stream, gate_pass, &g, sizeof g);
}

static inline void gate_open(gate *g) {
    atomic_store(&g->open, 1);
}

/* ------------------------------------------------------------------------------------------------ bare maps */

/* A map with an order and handles, but no pool and no arena. Stamps: with no stream attached, any {mask, LATER} is unsettled
 * until world_settle. */
typedef struct world {
    snug__device *device;
    snug__order   order;
    snug__handles handles;
    snug__map     map;
    uint32_t      ids;
} world;

#define LATER (UINT64_C(1) << 40)

static inline void world_open(world *w, uint32_t granules, uint32_t ranges_max) {
    memset(w, 0, sizeof *w);
    if (snug__device_host.open(0, &w->device) != SNUG_OK ||
        snug__order_open(&w->order, &snug__device_host, w->device, NULL) != SNUG_OK ||
        snug__handles_open(&w->handles, 7, SNUG__HANDLES_MAX, 1) != SNUG_OK ||
        snug__map_open(&w->map, &w->order, granules, ranges_max) != SNUG_OK)
        bail_out("no memory for a map");
}

/* Slots outlive an order, since a pool's shell goes on; here nothing does. */
static inline void order_slots_free(snug__order *order) {
    for (unsigned bit = 0; bit < SNUG__BITS; bit++)
        for (snug_stream *slot = atomic_load(&order->slots[bit]), *next; slot; slot = next) {
            next = atomic_load(&slot->next);
            free(slot);
        }
}

static inline void world_close(world *w) {
    snug__map_close(&w->map);
    snug__handles_close(&w->handles);
    snug__order_close(&w->order);
    order_slots_free(&w->order);
    snug__device_host.close(w->device);
}

static inline void world_settle(world *w, unsigned bit) {
    atomic_store(&w->order.done[bit], LATER);
}

/* A live buffer with an entry of its own, at an offset that must be free. Returns its node. */
static inline uint32_t world_put(world *w, uint32_t offset, uint32_t size, uint32_t alignment) {
    snug__entry *entry;
    uint32_t     node = w->map.first;
    while (node != SNUG__NONE && snug__range_at(&w->map, node)->offset + snug__range_at(&w->map, node)->size <= offset)
        node = snug__range_at(&w->map, node)->next;
    if (node == SNUG__NONE || snug__range_at(&w->map, node)->kind != SNUG__RANGE_FREE ||
        snug__handles_take(&w->handles, &entry) != SNUG_OK)
        bail_out("world_put: nothing free at %u", offset);
    node = snug__range_take(&w->map, node, offset, size, SNUG__RANGE_LIVE, snug__handles_index(&w->handles, entry));
    snug__entry_fill(entry, snug__word_current(atomic_load(&entry->word)), offset, SNUG__STAMP_NONE);
    entry->range          = node;
    entry->alignment_log2 = (uint8_t)(8 + __builtin_ctz(alignment));
    atomic_store(&entry->size, (uint64_t)size * SNUG_GRANULE);
    snug__handles_live(&w->handles, entry);
    return node;
}

static inline snug__entry *world_entry(world *w, uint32_t node) {
    return snug__handles_at(&w->handles, snug__range_at(&w->map, node)->entry);
}

/* The live buffer goes, as snug_free would have it. */
static inline void world_free(world *w, uint32_t node) {
    snug__entry *entry = world_entry(w, node);
    snug__entry_kill(&w->handles, w->map.order, snug__handles_name(&w->handles, entry));
    w->handles.live--;
    snug__range_free(&w->map, node, SNUG__STAMP_NONE);
    snug__handles_give_back(&w->handles, entry);
}

static inline uint32_t map_at(const snug__map *map, uint32_t offset) {
    uint32_t node = map->first;
    while (node != SNUG__NONE && snug__range_at(map, node)->offset != offset)
        node = snug__range_at(map, node)->next;
    return node;
}

/* "free 0+4, live 4+2, ..." in address order. */
static inline const char *map_text(const snug__map *map, char *text, size_t n) {
    static const char *const kinds[] = {"unused", "free", "live", "pending", "target", "gap", "orphan"};
    size_t                   at      = 0;
    text[0]                          = 0;
    for (uint32_t node = map->first; node != SNUG__NONE && at < n; node = snug__range_at(map, node)->next) {
        const snug__range *r = snug__range_at(map, node);
        at += (size_t)snprintf(text + at, n - at, "%s%s %u+%u", at ? ", " : "", kinds[r->kind], r->offset, r->size);
    }
    return text;
}

#define is_map(map, expected, ...)                                                                                     \
    do {                                                                                                               \
        char map_text_[4096];                                                                                          \
        is_string(map_text((map), map_text_, sizeof map_text_), (expected), __VA_ARGS__);                              \
    } while (0)

#define is_sound(map, ...) is_string(snug__map_check(map), NULL, __VA_ARGS__)

/* ------------------------------------------------------------------------------------------------ hooked device */

/* The host device, with hooks. fail_*: which call from now on fails, 1 the next; 0 none. Then fails once (or for good, with
 * lost). */
static struct hooks {
    void (*before_move)(uint64_t to, uint64_t from, uint64_t bytes); /* on the mover's thread */
    _Atomic int      fail_move, fail_record, fail_wait, fail_query, fail_sync, fail_commit;
    _Atomic int      lost;
    _Atomic uint64_t moves, records, waits, commits, longest_move;
} hooks;

static inline snug_status hook_failure(_Atomic int *countdown) {
    if (atomic_load(&hooks.lost)) {
        snug__device_error_set("lost on purpose");
        return SNUG_LOST;
    }
    if (atomic_load(countdown) == 0 || atomic_fetch_sub(countdown, 1) != 1)
        return SNUG_OK;
    snug__device_error_set("failed on purpose");
    return SNUG_DEVICE;
}

/* One by one: a move that fails has enqueued the copies before the one that failed. */
static inline snug_status hooked_move(snug__device *device, void *native, const snug__copy *copies, uint32_t n) {
    snug_status status = SNUG_OK;
    for (uint32_t i = 0; i < n && status == SNUG_OK; i++) {
        if (hooks.before_move)
            hooks.before_move(copies[i].to, copies[i].from, copies[i].bytes);
        status = hook_failure(&hooks.fail_move);
        if (status != SNUG_OK)
            break;
        atomic_fetch_add(&hooks.moves, 1);
        snug__atomic_raise(&hooks.longest_move, copies[i].bytes);
        status = snug__device_host.move(device, native, &copies[i], 1);
    }
    return status;
}

static inline snug_status hooked_record(snug__device *device, snug__event *event, void *native) {
    snug_status status = hook_failure(&hooks.fail_record);
    atomic_fetch_add(&hooks.records, 1);
    return status == SNUG_OK ? snug__device_host.event_record(device, event, native) : status;
}

static inline snug_status hooked_wait(snug__device *device, void *native, snug__event *event) {
    snug_status status = hook_failure(&hooks.fail_wait);
    atomic_fetch_add(&hooks.waits, 1);
    return status == SNUG_OK ? snug__device_host.stream_wait(device, native, event) : status;
}

static inline snug_status hooked_query(snug__device *device, snug__event *event, bool *complete) {
    snug_status status = hook_failure(&hooks.fail_query);
    return status == SNUG_OK ? snug__device_host.event_query(device, event, complete) : status;
}

static inline snug_status hooked_sync(snug__device *device, snug__event *event) {
    snug_status status = hook_failure(&hooks.fail_sync);
    return status == SNUG_OK ? snug__device_host.event_sync(device, event) : status;
}

static inline snug_status hooked_commit(snug__device *device, uint64_t offset, uint64_t bytes) {
    snug_status status = hook_failure(&hooks.fail_commit);
    atomic_fetch_add(&hooks.commits, 1);
    return status == SNUG_OK ? snug__device_host.arena_commit(device, offset, bytes) : status;
}

static inline void hooks_clear(void) {
    hooks = (struct hooks){0};
}

/* ------------------------------------------------------------------------------------------------ pools, buffers */

static snug__device_row hooked_row;

/* Keeps the last line where context says; without one only errors are shown, so that an abort explains itself. */
static inline void quiet(void *context, int level, const char *line) {
    if (context)
        snprintf(context, 256, "%s", line);
    else if (level == SNUG_LOG_ERRORS)
        fprintf(stderr, "# log: %s\n", line);
}

/* A pool on the hooked host device. options: capacity and what is unusual; the rest is filled in. */
static inline snug_pool *pool_make(snug_pool_options options) {
    hooked_row              = snug__device_host;
    hooked_row.move         = hooked_move;
    hooked_row.moves_per_operation = 1;
    hooked_row.event_record = hooked_record;
    hooked_row.stream_wait  = hooked_wait;
    hooked_row.event_query  = hooked_query;
    hooked_row.event_sync   = hooked_sync;
    hooked_row.arena_commit = hooked_commit;
    hooks_clear();
    snug__settings settings;
    snug_pool     *pool;
    options.struct_size = sizeof options;
    if (!options.log)
        options.log = quiet;
    if (snug__settings_make(&options, NULL, &settings) != SNUG_OK ||
        snug__pool_create_on(&hooked_row, &settings.pool, &pool) != SNUG_OK)
        bail_out("no pool");
    return pool;
}

static inline snug_pool *pool_of(uint64_t granules) {
    return pool_make((snug_pool_options){.capacity = granules * SNUG_GRANULE});
}

typedef struct client {
    snug_host_stream *native;
    snug_stream      *stream;
} client;

static inline client client_make(snug_pool *pool) {
    client c;
    if (snug_host_stream_create(&c.native) != SNUG_OK || snug_stream_attach(pool, c.native, &c.stream) != SNUG_OK)
        bail_out("no stream");
    return c;
}

static inline void client_end(client c) {
    snug_stream_detach(c.stream);
    snug_host_stream_destroy(c.native);
}

static inline snug_handle must_alloc(snug_pool *pool, uint64_t granules) {
    snug_handle handle = 0;
    if (snug_alloc(pool, granules * SNUG_GRANULE, NULL, &handle) != SNUG_OK)
        bail_out("%" PRIu64 " granules not granted", granules);
    return handle;
}

static inline uint64_t offset_of(snug_pool *pool, snug_handle handle) { /* in granules */
    snug_handle_info info = {.struct_size = sizeof info};
    if (snug_handle_info_get(pool, handle, &info) != SNUG_OK)
        bail_out("no such handle");
    return info.offset / SNUG_GRANULE;
}

static inline uint64_t word_of(uint64_t key, uint64_t at) {
    dice d = {key * UINT64_C(0x100000001b3) + at};
    return dice_roll(&d);
}

static inline void pattern_make(uint64_t *words, uint64_t bytes, uint64_t key) {
    for (uint64_t i = 0; i < bytes / 8; i++)
        words[i] = word_of(key, i);
}

/* Contents that only this key has; waits until they are there. */
static inline void buffer_fill(client c, snug_handle handle, uint64_t bytes, uint64_t key) {
    uint64_t *words = malloc(bytes);
    pattern_make(words, bytes, key);
    if (snug_write(c.stream, handle, 0, words, bytes) != SNUG_OK || snug_stream_sync(c.stream) != SNUG_OK)
        bail_out("buffer_fill");
    free(words);
}

static inline bool buffer_holds(client c, snug_handle handle, uint64_t bytes, uint64_t key) {
    uint64_t *words = malloc(bytes), *expected = malloc(bytes);
    memset(words, 0, bytes);
    pattern_make(expected, bytes, key);
    bool same = snug_read(c.stream, handle, 0, words, bytes) == SNUG_OK && snug_stream_sync(c.stream) == SNUG_OK &&
                memcmp(words, expected, bytes) == 0;
    free(words);
    free(expected);
    return same;
}

/* The pool of "l10 f20 x5": live, free, immovable ranges of those sizes (in units of so many granules) in address order, and
 * nothing else. handles: of the live and immovable ones, in that order. */
static inline snug_pool *pool_laid_out(const char *text, uint64_t unit, snug_pool_options options, snug_handle *handles) {
    snug_alloc_options immovable = snug_alloc_options_default();
    snug_handle        made[256];
    char               kinds[256];
    unsigned           n = 0;
    options.capacity = 0;
    for (const char *c = text; *c; c++)
        if (*c == 'l' || *c == 'f' || *c == 'x')
            options.capacity += strtoul(c + 1, NULL, 10) * unit * SNUG_GRANULE;
    snug_pool *pool = pool_make(options);
    immovable.flags = SNUG_ALLOC_IMMOVABLE;
    snug_compaction_set(pool, 0); /* else room would be made for the immovable ones at the low end */
    for (const char *c = text; *c && n < 256; c++) {
        if (*c != 'l' && *c != 'f' && *c != 'x')
            continue;
        kinds[n] = *c;
        if (snug_alloc(pool, strtoul(c + 1, NULL, 10) * unit * SNUG_GRANULE, *c == 'x' ? &immovable : NULL, &made[n]) != SNUG_OK)
            bail_out("not laid out: %s", c);
        n++;
    }
    for (unsigned i = 0, kept = 0; i < n; i++)
        if (kinds[i] == 'f')
            snug_free(pool, made[i]);
        else if (handles)
            handles[kept++] = made[i];
    snug_compaction_set(pool, !options.compaction_off);
    return pool;
}

/* From now on no range can be cut in two, but for what may not fail; what was free to begin with goes granule by granule to get
 * there. Returns what nodes_give takes to let it be cut again. */
static inline uint32_t nodes_use_up(snug_pool *pool) {
    uint32_t max        = pool->map.nodes_max;
    pool->map.nodes_max = pool->map.nodes_made;
    while (snug__map_ready(&pool->map))
        must_alloc(pool, 1);
    return max;
}

static inline void nodes_give(snug_pool *pool, uint32_t max) {
    pool->map.nodes_max = max;
}

static inline snug_stats stats_of(snug_pool *pool) {
    snug_stats s = {.struct_size = sizeof s};
    if (snug_stats_get(pool, &s) != SNUG_OK)
        bail_out("no statistics");
    return s;
}

#endif
