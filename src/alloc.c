/* alloc.c: allocations come and go: the ladder from a free range to a refusal, frees, and the accounts of both. */
#include "compactor.h"
#include "refusal.h"
#include "stats.h"

#include <sched.h>
#include <stdlib.h>

/* ------------------------------------------------------------------------------------------------ tags, accounts */

/* Under lock. A tag that finds no memory or no room any more counts as none. */
uint16_t snug__tag_find(snug_pool *pool, const char *name) {
    if (pool->tags_made && (!name || !*name))
        return 0;
    char cut[SNUG_TAG_MAX + 1];
    snprintf(cut, sizeof cut, "%s", name ? name : "");
    snug__tag *tag;
    HASH_FIND_STR(pool->tags, cut, tag);
    if (tag)
        return tag->id;
    if (pool->tags_made == SNUG__TAGS_MAX || !(tag = calloc(1, sizeof *tag)))
        return 0;
    memcpy(tag->name, cut, sizeof cut);
    tag->id = pool->tags_made;
    HASH_ADD_STR(pool->tags, name, tag);
    if (!tag->hh.tbl) {
        free(tag);
        return 0;
    }
    pool->tag_list[pool->tags_made++] = tag;
    return tag->id;
}

static void raise_peak(uint64_t *peak, uint64_t now) {
    if (*peak < now)
        *peak = now;
}

void snug__pool_count(snug_pool *pool, snug__entry *entry, uint64_t size_before, uint64_t size_now) {
    snug__tag *tag = pool->tag_list[entry->tag];
    pool->live_bytes += size_now - size_before;
    pool->bytes.current = pool->live_bytes;
    if (size_now > size_before)
        pool->bytes.allocated += size_now - size_before;
    else
        pool->bytes.freed += size_before - size_now;
    raise_peak(&pool->bytes.peak, pool->bytes.current);
    tag->live_bytes += size_now - size_before;
    raise_peak(&tag->peak_bytes, tag->live_bytes);
}

void snug__pool_resized(snug_pool *pool, snug__entry *entry, uint64_t size) {
    snug__pool_count(pool, entry, atomic_load(&entry->size), size);
    atomic_store_explicit(&entry->size, size, memory_order_relaxed);
}

static void count_buffer(snug_pool *pool, snug__entry *entry, bool born) {
    snug__tag *tag = pool->tag_list[entry->tag];
    pool->buffers.current += born ? 1 : -(uint64_t)1;
    *(born ? &pool->buffers.allocated : &pool->buffers.freed) += 1;
    raise_peak(&pool->buffers.peak, pool->buffers.current);
    tag->buffers += born ? 1 : -(uint64_t)1;
}

/* ------------------------------------------------------------------------------------------------ alloc */

snug_status snug__pool_grow(snug_pool *pool, uint64_t granules) {
    uint64_t unit = pool->row->commit_granule(pool->device);
    uint64_t from = snug__bytes(pool->map.committed), to = from + snug__bytes(granules);
    to = (to + unit - 1) / unit * unit;
    if (to > pool->capacity)
        to = pool->capacity;
    if (to <= from)
        return SNUG_CAPACITY;
    snug_status status = snug__pool_notice(pool, pool->row->arena_commit(pool->device, from, to - from));
    if (status != SNUG_OK)
        return status;
    pthread_mutex_lock(&pool->lock);
    status = snug__map_grow(&pool->map, (uint32_t)((to - from) / SNUG_GRANULE));
    pthread_mutex_unlock(&pool->lock);
    if (status != SNUG_OK)
        pool->row->arena_decommit(pool->device, from, to - from);
    return status;
}

typedef struct request {
    uint64_t  size, alignment;
    snug__fit fit;
    uint32_t  flags;
    uint32_t  roomy; /* granules of the hole it would like: grows_to */
    uint64_t  wait_ns;
} request;

static bool wants_low(const request *request) {
    return request->flags & (SNUG_ALLOC_LONG_PINNED | SNUG_ALLOC_IMMOVABLE);
}

uint64_t snug__pool_growth_needed(snug_pool *pool, snug__fit fit) {
    const snug__range *last = pool->map.last == SNUG__NONE ? NULL : snug__range_at(&pool->map, pool->map.last);
    uint64_t           want = (uint64_t)fit.size + fit.alignment - 1;
    uint64_t           have = last && last->kind == SNUG__RANGE_FREE ? last->size : 0;
    return want > have ? want - have : 1;
}

void snug__pool_shrink_back(snug_pool *pool, uint32_t committed) {
    if (pool->map.committed <= committed || atomic_load(&pool->state) == SNUG__POOL_LOST)
        return; /* lost: copies that no stamp tells of may still be under way */
    snug__range last = *snug__range_at(&pool->map, pool->map.last);
    if (last.kind != SNUG__RANGE_FREE || !snug__order_settled(&pool->order, last.fence))
        return;
    uint32_t keep = last.offset > committed ? last.offset : committed;
    uint64_t unit = pool->row->commit_granule(pool->device) / SNUG_GRANULE;
    keep          = (uint32_t)((keep + unit - 1) / unit * unit);
    if (keep >= pool->map.committed)
        return;
    uint32_t granules = pool->map.committed - keep;
    snug__map_shrink(&pool->map, granules);
    pthread_mutex_unlock(&pool->lock);
    pool->row->arena_decommit(pool->device, snug__bytes(keep), snug__bytes(granules));
    pthread_mutex_lock(&pool->lock);
}

/* Under mover. Settle, search, compact, grow, search again; OK or a verdict, with the lock held. */
static snug_status ladder(snug_pool *pool, snug__fit fit, uint32_t *node, uint32_t *offset) {
    snug__pool_notice(pool, snug__order_poll(&pool->order));
    snug_status verdict = snug__compactor_room(pool, fit, node, offset);
    uint32_t    before  = pool->map.committed;
    while (verdict != SNUG_OK && verdict != SNUG_LOST && pool->map.committed < pool->map.limit &&
           pool->map.granules[SNUG__RANGE_FREE] + pool->map.limit - pool->map.committed >= fit.size) {
        uint64_t needed = snug__pool_growth_needed(pool, fit);
        pthread_mutex_unlock(&pool->lock);
        snug_status grown = snug__pool_grow(pool, needed);
        if (grown != SNUG_OK) {
            pthread_mutex_lock(&pool->lock);
            verdict = grown;
            break;
        }
        verdict = snug__compactor_room(pool, fit, node, offset);
    }
    if (verdict != SNUG_OK)
        snug__pool_shrink_back(pool, before);
    return verdict;
}

static bool worth_waiting(snug_status verdict) {
    return verdict == SNUG_PENDING || verdict == SNUG_PINNED;
}

/* OK or a verdict, with the lock held. */
static snug_status find_slowly(snug_pool *pool, const request *request, uint32_t *node, uint32_t *offset) {
    uint64_t deadline = snug__pool_now(pool) + request->wait_ns;
    for (;;) {
        pthread_mutex_lock(&pool->mover);
        snug_status verdict = SNUG_PENDING;
        *node               = SNUG__NONE;
        if (wants_low(request) &&
            (*node = snug__compactor_room_low(pool, request->fit, SNUG__NONE, SNUG__LOW_COST_MAX / SNUG_GRANULE,
                                              offset)) == SNUG__NONE)
            pthread_mutex_unlock(&pool->lock);
        if (*node != SNUG__NONE)
            verdict = SNUG_OK;
        else
            verdict = ladder(pool, request->fit, node, offset);
        pthread_mutex_unlock(&pool->mover);
        if (!worth_waiting(verdict) || snug__pool_now(pool) >= deadline)
            return verdict;
        pthread_mutex_unlock(&pool->lock);
        sched_yield();
    }
}

/* Under lock, dropped between where it takes longer. OK or a verdict. */
static snug_status find(snug_pool *pool, const request *request, uint32_t *node, uint32_t *offset) {
    *node = SNUG__NONE;
    if (!request->size)
        return SNUG_OK;
    if (request->roomy > request->fit.size && !wants_low(request)) {
        snug__fit roomy = request->fit;
        roomy.size      = request->roomy;
        *node           = snug__map_find(&pool->map, roomy, offset);
    }
    if (*node == SNUG__NONE && !wants_low(request))
        *node = snug__map_find(&pool->map, request->fit, offset);
    if (*node != SNUG__NONE)
        return SNUG_OK;
    pthread_mutex_unlock(&pool->lock);
    return find_slowly(pool, request, node, offset);
}

/* Under lock: the range is the entry's from now on, its fence what the contents wait for. */
static snug_status settle_in(snug_pool *pool, const request *request, snug__entry *entry, uint32_t node,
                             uint32_t offset) {
    unsigned    slot  = snug__word_current(atomic_load(&entry->word));
    snug__stamp ready = SNUG__STAMP_NONE;
    entry->range      = SNUG__NONE;
    if (pool->table_bytes) /* those who used the entry's last buffer may have its address yet to write there */
        ready = snug__entry_fence(&pool->order, entry, slot);
    if (request->size) {
        uint32_t index = snug__handles_index(&pool->handles, entry);
        node           = snug__range_take(&pool->map, node, offset, request->fit.size, SNUG__RANGE_LIVE, index);
        if (node == SNUG__NONE)
            return SNUG_NO_MEMORY;
        snug__range *range = snug__range_at(&pool->map, node);
        ready              = snug__order_unite(&pool->order, ready, range->fence);
        range->fence       = SNUG__STAMP_NONE;
        range->fixed       = (request->flags & SNUG_ALLOC_IMMOVABLE) != 0;
        if (range->fixed)
            pool->pinned_granules += range->size;
        entry->range = node;
    }
    snug__entry_fill(entry, slot, request->size ? offset : SNUG__NONE, ready);
    return SNUG_OK;
}

static snug_status request_make(const snug_pool *pool, uint64_t size, const snug_alloc_options *given,
                                snug_alloc_options *o, request *request) {
    *o = snug_alloc_options_default();
    if (given) {
        if (!snug__struct_valid(given))
            return SNUG_INVALID;
        snug__struct_take(o, sizeof *o, given);
    }
    uint64_t alignment = o->alignment ? o->alignment : SNUG_GRANULE;
    if (alignment > SNUG_ALIGNMENT_MAX || (alignment & (alignment - 1)))
        return SNUG_ALIGNMENT;
    if (size > SNUG_SIZE_MAX)
        return SNUG_TOO_LARGE;
    if (o->flags & ~(uint32_t)(SNUG_ALLOC_LONG_PINNED | SNUG_ALLOC_IMMOVABLE | SNUG_ALLOC_SETTLED))
        return SNUG_INVALID;
    if (alignment < SNUG_GRANULE)
        alignment = SNUG_GRANULE;
    uint64_t roomy = o->grows_to > pool->capacity ? pool->capacity : o->grows_to;
    *request       = (struct request){
              .size      = size,
              .alignment = alignment,
              .fit       = {(uint32_t)snug__granules(size), (uint32_t)(alignment / SNUG_GRANULE),
                            (o->flags & SNUG_ALLOC_SETTLED) != 0},
              .flags     = o->flags,
              .roomy     = (uint32_t)snug__granules(roomy),
              .wait_ns   = o->wait_ns,
    };
    return SNUG_OK;
}

static void entry_describe(snug_pool *pool, snug__entry *entry, const request *request, const char *tag) {
    atomic_store_explicit(&entry->size, request->size, memory_order_relaxed);
    entry->alignment_log2 = (uint8_t)__builtin_ctzll(request->alignment);
    entry->flags          = (uint8_t)request->flags;
    entry->tag            = snug__tag_find(pool, tag);
}

/* Under lock. OK: the entry is one's own, not yet live. */
static snug_status entry_take(snug_pool *pool, const request *request, snug__entry **entry) {
    snug__pool_bury_dead(pool);
    pool->requests++;
    if (pool->largest_request < request->size)
        pool->largest_request = request->size;
    snug_status status = snug__handles_take(&pool->handles, entry);
    if (status == SNUG_OK && request->size > pool->capacity) {
        snug__handles_give_back(&pool->handles, *entry);
        status = snug__refusal_make(pool, SNUG_LIMIT, request->size, request->alignment);
    }
    return status;
}

/* Under lock, dropped between where room has to be made. */
static snug_status alloc(snug_pool *pool, const request *request, const char *tag, snug_handle *handle) {
    snug__entry *entry;
    snug_status  status = entry_take(pool, request, &entry);
    if (status != SNUG_OK)
        return status;
    uint32_t node, offset = SNUG__NONE;
    status = find(pool, request, &node, &offset);
    if (status == SNUG_OK)
        status = settle_in(pool, request, entry, node, offset);
    else if (status <= SNUG_DEVICE) /* a verdict, not LOST and the like */
        status = snug__refusal_make(pool, status, request->size, request->alignment);
    if (status != SNUG_OK) {
        snug__handles_give_back(&pool->handles, entry);
        return status;
    }
    entry_describe(pool, entry, request, tag);
    snug__pool_count(pool, entry, 0, request->size);
    count_buffer(pool, entry, true);
    pool->granted++;
    *handle = snug__handles_live(&pool->handles, entry);
    return SNUG_OK;
}

snug_status snug_alloc(snug_pool *pool, uint64_t size, const snug_alloc_options *options, snug_handle *handle) {
    snug_status status = snug__pool_open(pool);
    if (status != SNUG_OK)
        return status;
    request            request;
    snug_alloc_options o;
    if (!handle)
        return SNUG_INVALID;
    if ((status = request_make(pool, size, options, &o, &request)) != SNUG_OK)
        return status;
    pthread_mutex_lock(&pool->lock);
    status = alloc(pool, &request, o.tag, handle);
    snug__stats_check_debug(pool);
    pthread_mutex_unlock(&pool->lock);
    return status;
}

/* ------------------------------------------------------------------------------------------------ free */

void snug__pool_bury(snug_pool *pool, snug__entry *entry) {
    unsigned    slot  = snug__word_current(atomic_load(&entry->word));
    snug__stamp fence = snug__entry_fence(&pool->order, entry, slot);
    if (entry->range != SNUG__NONE) {
        snug__range *range = snug__range_at(&pool->map, entry->range);
        if (range->copying) { /* the mover gives it back once its copy has a stamp */
            range->fence = snug__order_unite(&pool->order, range->fence, fence);
            range->entry = SNUG__NONE;
            snug__range_set_kind(&pool->map, entry->range, SNUG__RANGE_ORPHAN);
        } else {
            snug__range_free(&pool->map, entry->range, fence);
        }
        entry->range = SNUG__NONE;
    }
    snug__handles_give_back(&pool->handles, entry);
}

void snug__pool_bury_dead(snug_pool *pool) {
    for (uint32_t index = snug__handles_pop_dead(&pool->handles); index != SNUG__NONE;) {
        snug__entry *entry = snug__handles_at(&pool->handles, index);
        index              = entry->next;
        snug__pool_bury(pool, entry);
    }
}

/* Under lock, once the handle is dead: nothing of it counts as live any more. */
static void uncount(snug_pool *pool, snug__entry *entry) {
    snug__pool_count(pool, entry, atomic_load(&entry->size), 0);
    count_buffer(pool, entry, false);
    pool->handles.live--;
    if (entry->range != SNUG__NONE && snug__range_at(&pool->map, entry->range)->fixed) {
        snug__range_at(&pool->map, entry->range)->fixed = 0;
        pool->pinned_granules -= snug__range_at(&pool->map, entry->range)->size;
    }
}

snug_status snug_free(snug_pool *pool, snug_handle handle) {
    snug_status status = snug__pool_open(pool);
    if (status != SNUG_OK && status != SNUG_LOST)
        return status;
    snug__entry *entry;
    status = snug__handles_find(&pool->handles, handle, &entry);
    if (status != SNUG_OK)
        return status;
    pthread_mutex_lock(&pool->lock); /* before the word: its last holder may end it the moment it is DYING */
    while ((status = snug__entry_kill(&pool->handles, &pool->order, handle)) == SNUG_TIMEOUT) {
        pthread_mutex_unlock(&pool->lock);
        snug__entry_thawed(entry);
        pthread_mutex_lock(&pool->lock);
    }
    if (status == SNUG_OK) {
        uncount(pool, entry);
        snug__pool_bury(pool, entry);
    } else if (status == SNUG_BUSY) {
        uncount(pool, entry);
        if (entry->range != SNUG__NONE)
            snug__range_set_kind(&pool->map, entry->range, SNUG__RANGE_PENDING);
        status = SNUG_OK;
    }
    snug__pool_bury_dead(pool);
    snug__stats_check_debug(pool);
    pthread_mutex_unlock(&pool->lock);
    return status;
}
