/* pool.c: pools and streams come and go; the entry points that change where buffers are. Owns the pools' shells.
 * Allocations: alloc.c. The launch path: launch.c. */
#include "pool.h"

#include "compactor.h"
#include "options.h"
#include "resize.h"

#include <stdlib.h>
#include <time.h>

enum { POOLS_MAX = 255 };

static pthread_mutex_t  shells_mutex = PTHREAD_MUTEX_INITIALIZER;
static snug_pool       *shells[POOLS_MAX + 1]; /* by tag; 0 is no tag */
static uint32_t         shell_next = 1;
static _Atomic uint32_t forks;
static pthread_once_t   forks_once = PTHREAD_ONCE_INIT;

static void forked(void) {
    atomic_fetch_add(&forks, 1);
}

static void forks_watch(void) {
    pthread_atfork(NULL, NULL, forked);
}

snug_status snug__pool_open(snug_pool *pool) {
    if (!pool)
        return SNUG_INVALID;
    uint32_t state = atomic_load_explicit(&pool->state, memory_order_acquire);
    if (snug__unlikely(state == SNUG__POOL_NONE))
        return SNUG_GONE;
    if (snug__unlikely(pool->forks != atomic_load_explicit(&forks, memory_order_relaxed)))
        return SNUG_FORKED;
    return state == SNUG__POOL_LOST ? SNUG_LOST : SNUG_OK;
}

snug_status snug__pool_notice(snug_pool *pool, snug_status status) {
    uint32_t open = SNUG__POOL_OPEN;
    if (status == SNUG_LOST && atomic_compare_exchange_strong(&pool->state, &open, SNUG__POOL_LOST))
        snug__log_line(&pool->log, SNUG_LOG_ERRORS, "pool lost: %s", snug__device_error());
    return status;
}

/* ------------------------------------------------------------------------------------------------ create, destroy */

/* An unused shell, the one longest so, that a stale pointer to it may go on being told GONE. NULL: there is none, or, with tag
 * 0, no memory for one. */
static snug_pool *shell_take(uint32_t *tag) {
    for (uint32_t i = 0; i < POOLS_MAX; i++) {
        *tag = (shell_next - 1 + i) % POOLS_MAX + 1;
        if (shells[*tag] && (atomic_load(&shells[*tag]->state) != SNUG__POOL_NONE || shells[*tag]->retired))
            continue;
        if (!shells[*tag])
            shells[*tag] = aligned_alloc(64, (sizeof(snug_pool) + 63) / 64 * 64);
        else {
            shell_next = *tag % POOLS_MAX + 1;
            return shells[*tag];
        }
        if (!shells[*tag]) {
            *tag = 0;
            return NULL;
        }
        memset(shells[*tag], 0, sizeof(snug_pool));
        pthread_mutex_init(&shells[*tag]->lock, NULL);
        pthread_mutex_init(&shells[*tag]->mover, NULL);
        pthread_mutex_init(&shells[*tag]->compactor.mutex, NULL);
        pthread_condattr_t monotonic;
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&shells[*tag]->compactor.wake, &monotonic);
        pthread_condattr_destroy(&monotonic);
        shell_next = *tag % POOLS_MAX + 1;
        return shells[*tag];
    }
    return NULL;
}

/* What a life of the pool leaves behind, but for locks and the slots of streams, which go on. */
static void shell_clear(snug_pool *pool) {
    pool->jumble_cursor = 0;
    pool->late.active   = false;
    pool->bounce_fence  = SNUG__STAMP_NONE;
    pool->tags          = NULL;
    pool->tags_made     = 0;
    memset(pool->backlog, 0, sizeof pool->backlog);
    memset(&pool->bytes, 0, sizeof pool->bytes);
    memset(&pool->buffers, 0, sizeof pool->buffers);
    memset(pool->refused, 0, sizeof pool->refused);
    pool->live_bytes = pool->pinned_granules = pool->largest_request = pool->requests = pool->granted = 0;
    pool->moved_bytes = pool->moves_published = pool->moves_cancelled = pool->slides = pool->steps = 0;
    pool->demand_plans = pool->background_passes = pool->back_offs = pool->receipts_made = 0;
    pool->copy_bytes_per_second                                                          = 0;
    atomic_store(&pool->mover_copies, 0);
    atomic_store(&pool->client_copies, 0);
}

static void shell_apply(snug_pool *pool, const snug_pool_options *o) {
    shell_clear(pool);
    atomic_store(&pool->compaction_on, !o->compaction_off);
    pool->jumble              = o->jumble != 0;
    pool->demand_granules_max = o->demand_bytes_max ? o->demand_bytes_max / SNUG_GRANULE : UINT64_MAX;
    pool->pin_wait_ns         = o->pin_wait_ns;
    pool->destroy_wait_ns     = o->destroy_wait_ns;
    pool->log                 = (snug__log){o->log_level, o->log, o->log_context};
    pool->capacity            = o->capacity;
    pool->bounce_bytes        = o->bounce_bytes;
    pool->bounce_offset       = (o->capacity + SNUG_ALIGNMENT_MAX - 1) / SNUG_ALIGNMENT_MAX * SNUG_ALIGNMENT_MAX;
    pool->table_offset        = pool->bounce_offset + pool->bounce_bytes;
    pool->table_bytes         = o->address_table ? snug__bytes(snug__granules((uint64_t)o->handles_max * 8)) : 0;
    pool->forks               = atomic_load(&forks);
}

static void pool_close_device(snug_pool *pool) {
    snug__order_close(&pool->order);
    pool->row->arena_release(pool->device);
    pool->row->close(pool->device);
}

static void pool_close_tables(snug_pool *pool) {
    snug__tag *tag, *next;
    HASH_ITER(hh, pool->tags, tag, next) {
        HASH_DEL(pool->tags, tag);
        free(tag);
    }
    for (uint32_t i = 0; i < SNUG__TAGS_MAX; i++)
        pool->tag_list[i] = NULL;
    pool->generation_floor = snug__handles_unused_generation(&pool->handles, pool->generation_floor);
    pool->retired          = pool->generation_floor == 0 && atomic_load(&pool->handles.made) > 0;
    snug__handles_close(&pool->handles);
    snug__map_close(&pool->map);
}

static snug_status pool_open_device(snug_pool *pool, const snug__device_row *row, int index) {
    snug_status status = row->open(index, &pool->device);
    if (status != SNUG_OK)
        return status;
    pool->row = row;
    status    = row->arena_reserve(pool->device, pool->table_offset + pool->table_bytes);
    if (status != SNUG_OK) {
        row->close(pool->device);
        return status;
    }
    pool->base = row->arena_base(pool->device);
    status     = row->arena_commit(pool->device, pool->bounce_offset, pool->bounce_bytes + pool->table_bytes);
    if (status == SNUG_OK)
        status = snug__order_open(&pool->order, row, pool->device, pool);
    if (status == SNUG_OK && pool->table_bytes) { /* can it? */
        status = row->put(pool->device, pool->order.mover[SNUG__DEMAND]->native, pool->table_offset, 0);
        if (status == SNUG_OK)
            status = row->stream_sync(pool->device, pool->order.mover[SNUG__DEMAND]->native);
        if (status != SNUG_OK)
            snug__order_close(&pool->order);
    }
    if (status == SNUG_OK)
        return SNUG_OK;
    row->arena_release(pool->device);
    row->close(pool->device);
    return status;
}

static snug_status pool_open_tables(snug_pool *pool, uint32_t tag, const snug_pool_options *o) {
    uint32_t    limit  = (uint32_t)(o->capacity / SNUG_GRANULE);
    uint64_t    ranges = (uint64_t)(o->handles_max < limit ? o->handles_max : limit) * 2 + 65536;
    uint32_t    first  = o->generation_first > pool->generation_floor ? o->generation_first : pool->generation_floor;
    snug_status status = snug__handles_open(&pool->handles, tag, o->handles_max, first);
    if (status != SNUG_OK)
        return status;
    status = snug__map_open(&pool->map, &pool->order, limit, (uint32_t)ranges);
    if (status != SNUG_OK)
        snug__handles_close(&pool->handles);
    return status;
}

static snug_status pool_fill(snug_pool *pool, uint64_t granules) {
    snug__tag_find(pool, "");
    return pool->tags_made ? snug__pool_grow(pool, granules)
                           : SNUG_NO_MEMORY; /* the first tag is that of buffers without one */
}

snug_status snug__pool_create_on(const snug__device_row *row, const snug_pool_options *options, snug_pool **pool) {
    pthread_once(&forks_once, forks_watch);
    pthread_mutex_lock(&shells_mutex);
    uint32_t    tag    = 1;
    snug_pool  *made   = shell_take(&tag);
    snug_status status = made ? SNUG_OK : tag ? SNUG_LIMIT : SNUG_NO_MEMORY;
    if (made) {
        shell_apply(made, options);
        made->tag = tag;
        status    = pool_open_device(made, row, options->device_index);
    }
    if (status == SNUG_OK) {
        status = pool_open_tables(made, tag, options);
        if (status != SNUG_OK)
            pool_close_device(made);
    }
    if (status == SNUG_OK) {
        status = pool_fill(made, snug__granules(options->commit_bytes));
        if (status != SNUG_OK) {
            pool_close_device(made);
            pool_close_tables(made);
        }
    }
    if (status == SNUG_OK) {
        atomic_store(&made->state, SNUG__POOL_OPEN);
        *pool = made;
    }
    pthread_mutex_unlock(&shells_mutex);
    return status;
}

/* Where "auto" has to do with less than this build could use, it says so once. */
static void auto_tell(const snug__settings *settings, const snug__device_row *row) {
    static _Atomic bool told;
    if (strcmp(settings->device, "auto") != 0 || row == snug__device_find("cuda") || !snug__device_find("cuda") ||
        atomic_exchange(&told, true))
        return;
    snug__log log = {settings->pool.log_level, settings->pool.log, settings->pool.log_context};
    snug__log_line(&log, SNUG_LOG_WARNINGS, "no CUDA device (%s): device=auto means %s", snug__device_error(),
                   row->name);
}

snug_status snug_pool_create(const snug_pool_options *options, snug_pool **pool) {
    snug__settings settings;
    if (!pool)
        return SNUG_INVALID;
    snug_status status = snug__settings_make(options, getenv("SNUG_OPTIONS"), &settings);
    if (status != SNUG_OK)
        return status;
    const snug__device_row *row = snug__device_find(settings.device);
    if (!row)
        return SNUG_NO_DEVICE;
    auto_tell(&settings, row);
    snug_pool *made;
    status = snug__pool_create_on(row, &settings.pool, &made);
    if (status == SNUG_OK && settings.compactor) {
        status = snug__compactor_start(made, NULL);
        if (status != SNUG_OK)
            snug_pool_destroy(made);
    }
    if (status == SNUG_OK)
        *pool = made;
    return status;
}

snug_status snug_pool_destroy(snug_pool *pool) {
    snug_status status = snug__pool_open(pool);
    if (status == SNUG_INVALID || status == SNUG_GONE || status == SNUG_FORKED)
        return status;
    snug__compactor_stop(pool);
    pthread_mutex_lock(&shells_mutex);
    pthread_mutex_lock(&pool->mover);
    snug__late_cancel(pool); /* its pieces aren't behind a record yet */
    uint64_t    wait     = pool->destroy_wait_ns;
    uint64_t    deadline = wait ? snug__pool_now(pool) + wait : 0;
    snug_status drained  = /* of a lost pool too: its device may still be at work */
        snug__order_drain(&pool->order,
                          snug__handles_pinned(&pool->handles) || snug__order_claims(&pool->order, SNUG_HANDLE_NONE),
                          deadline);
    if (deadline && drained == SNUG_TIMEOUT) {
        snug__log_line(&pool->log, SNUG_LOG_WARNINGS, "pool not destroyed: %s", snug__device_error());
        pthread_mutex_unlock(&pool->mover);
        pthread_mutex_unlock(&shells_mutex);
        return SNUG_TIMEOUT;
    }
    if (status == SNUG_OK)
        status = drained;
    pthread_mutex_lock(&pool->lock);
    if (pool->handles.live)
        snug__log_line(&pool->log, SNUG_LOG_WARNINGS, "pool destroyed with %u live handles, %llu bytes",
                       pool->handles.live, (unsigned long long)pool->live_bytes);
    atomic_store(&pool->state, SNUG__POOL_NONE);
    pool_close_device(pool);
    pool_close_tables(pool);
    pthread_mutex_unlock(&pool->lock);
    pthread_mutex_unlock(&pool->mover);
    pthread_mutex_unlock(&shells_mutex);
    return status == SNUG_OK ? SNUG_OK : SNUG_LOST;
}

const char *snug_pool_device(snug_pool *pool) {
    snug_status status = snug__pool_open(pool);
    return status == SNUG_OK || status == SNUG_LOST ? pool->row->name : "";
}

/* ------------------------------------------------------------------------------------------------ streams */

snug_status snug_stream_attach(snug_pool *pool, void *native, snug_stream **stream) {
    snug_status status = snug__pool_open(pool);
    if (status == SNUG_OK && !stream)
        status = SNUG_INVALID;
    if (status == SNUG_OK)
        status = snug__order_attach(&pool->order, native, stream);
    return snug__pool_notice(pool, status);
}

snug_status snug_stream_detach(snug_stream *stream) {
    if (!stream)
        return SNUG_INVALID;
    snug_status status = snug__pool_open(stream->pool);
    if (status == SNUG_OK && stream->guarded && atomic_load(&stream->state) == SNUG__SLOT_ATTACHED)
        status = snug__order_guard(&stream->pool->order, stream);
    if (status != SNUG_OK && status != SNUG_LOST)
        return status;
    snug__launch_claims_to_pins(stream);
    return snug__order_detach(&stream->pool->order, stream);
}

snug_status snug_stream_sync(snug_stream *stream) {
    if (!stream)
        return SNUG_INVALID;
    snug_status status = snug__pool_open(stream->pool);
    if (status != SNUG_OK)
        return status;
    if (atomic_load(&stream->state) != SNUG__SLOT_ATTACHED)
        return SNUG_GONE;
    if (stream->guarded)
        status = snug__order_guard(&stream->pool->order, stream);
    if (status != SNUG_OK)
        return snug__pool_notice(stream->pool, status);
    return snug__pool_notice(stream->pool, stream->pool->row->stream_sync(stream->pool->device, stream->native));
}

/* ------------------------------------------------------------------------------------------------ compaction */

snug_status snug_resize(snug_pool *pool, snug_handle handle, uint64_t new_size) {
    snug_status status = snug__pool_open(pool);
    if (status != SNUG_OK)
        return status;
    snug__entry *entry;
    if ((status = snug__handles_find(&pool->handles, handle, &entry)) != SNUG_OK)
        return status;
    if (new_size > SNUG_SIZE_MAX)
        return SNUG_TOO_LARGE;
    pthread_mutex_lock(&pool->mover);
    status = snug__resize(pool, entry, snug__handle_generation(handle), new_size);
    pthread_mutex_unlock(&pool->mover);
    return status;
}

snug_status snug_address_table(snug_pool *pool, void **table) {
    snug_status status = snug__pool_open(pool);
    if (status == SNUG_OK && !table)
        status = SNUG_INVALID;
    if (status == SNUG_OK && !pool->table_bytes)
        status = SNUG_UNSUPPORTED;
    if (status == SNUG_OK)
        *table = pool->base + pool->table_offset;
    return status;
}

uint64_t snug_moves(snug_pool *pool) {
    return pool ? atomic_load(&pool->moves) : 0;
}

snug_status snug_compact(snug_pool *pool, const snug_budget *budget, snug_compact_result *result) {
    snug_status status = snug__pool_open(pool);
    if (status != SNUG_OK)
        return status;
    if (result && !snug__struct_valid(result))
        return SNUG_INVALID;
    snug_compact_result made = {.struct_size = sizeof made, .state = SNUG_COMPACT_DONE};
    pthread_mutex_lock(&pool->mover);
    if (pool->compaction_on) {
        snug__tidy tidy = {.budget = budget ? *budget : (snug_budget){0, 0, 0}};
        status          = snug__compactor_step(pool, &tidy, &made);
    }
    pthread_mutex_unlock(&pool->mover);
    if (status == SNUG_OK && result)
        snug__struct_give(result, &made, sizeof made);
    return status;
}

snug_status snug_compactor_start(snug_pool *pool, const snug_compactor_options *options) {
    snug_status status = snug__pool_open(pool);
    return status == SNUG_OK ? snug__compactor_start(pool, options) : status;
}

snug_status snug_compactor_stop(snug_pool *pool) {
    snug_status status = snug__pool_open(pool);
    if (status == SNUG_OK || status == SNUG_LOST)
        snug__compactor_stop(pool);
    return status == SNUG_LOST ? SNUG_OK : status;
}

snug_status snug_compaction_set(snug_pool *pool, int enabled) {
    snug_status status = snug__pool_open(pool);
    if (status != SNUG_OK)
        return status;
    pthread_mutex_lock(&pool->mover);
    if (!enabled)
        snug__late_cancel(pool);
    atomic_store(&pool->compaction_on, enabled != 0);
    pthread_mutex_unlock(&pool->mover);
    return SNUG_OK;
}

/* Under mover: takes the free tail above keep out of the map; granules taken. *fence: of what it was. */
static uint32_t tail_take(snug_pool *pool, uint64_t keep_bytes, snug__stamp *fence) {
    uint64_t unit  = pool->row->commit_granule(pool->device);
    uint32_t taken = 0;
    pthread_mutex_lock(&pool->lock);
    if (pool->map.last != SNUG__NONE) {
        snug__range last  = *snug__range_at(&pool->map, pool->map.last);
        uint64_t    floor = last.kind == SNUG__RANGE_FREE ? snug__bytes(last.offset) : snug__bytes(pool->map.committed);
        floor             = floor < keep_bytes ? keep_bytes : floor;
        floor             = (floor + unit - 1) / unit * unit;
        if (floor < snug__bytes(pool->map.committed)) {
            taken  = pool->map.committed - (uint32_t)(floor / SNUG_GRANULE);
            *fence = last.fence;
            snug__map_shrink(&pool->map, taken);
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return taken;
}

/* Under mover: waits for all that uses the tail, the movers' discarded copies included, then gives it to the device. */
static snug_status tail_return(snug_pool *pool, uint32_t granules, snug__stamp fence) {
    snug_status status = snug__order_host_wait(&pool->order, fence);
    for (int which = 0; which < 2 && status == SNUG_OK; which++)
        status = snug__order_stream_sync(&pool->order, pool->order.mover[which], false);
    if (status == SNUG_OK)
        status = pool->row->arena_decommit(pool->device, snug__bytes(pool->map.committed), snug__bytes(granules));
    if (status != SNUG_OK) {
        pthread_mutex_lock(&pool->lock);
        snug__assert(snug__map_grow(&pool->map, granules) == SNUG_OK);
        snug__range *last = snug__range_at(&pool->map, pool->map.last);
        last->fence       = snug__order_unite(&pool->order, last->fence, fence); /* what was waited for may still run */
        pthread_mutex_unlock(&pool->lock);
    }
    return snug__pool_notice(pool, status);
}

snug_status snug_trim(snug_pool *pool, uint64_t keep_bytes, uint64_t *returned) {
    snug_status status = snug__pool_open(pool);
    if (status != SNUG_OK)
        return status;
    snug__stamp fence = SNUG__STAMP_NONE;
    pthread_mutex_lock(&pool->mover);
    status         = snug__compactor_pack(pool);
    uint32_t taken = status == SNUG_OK ? tail_take(pool, keep_bytes, &fence) : 0;
    if (taken)
        status = tail_return(pool, taken, fence);
    pthread_mutex_unlock(&pool->mover);
    if (status == SNUG_OK && returned)
        *returned = snug__bytes(taken);
    return status;
}
