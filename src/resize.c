/* resize.c: see resize.h. The buffer's address changes only by a publish, also where only its fence does; so a resize is
 * a move in every case, and what was said of moves holds of it. */
#include "resize.h"

#include "compactor.h"
#include "receipt.h"
#include "refusal.h"

#include <sched.h>

enum {
    AROUND_MAX = 4, /* slides around a buffer before the resize looks for a place elsewhere */
    AGAIN_MAX  = 4, /* looks around it again, where what was moved in vain may have helped */
    ROUNDS_MAX = 64 /* changes of the map before it gives in to other threads that take what it makes */
};

typedef struct resizing {
    snug_pool   *pool;
    snug__entry *entry;
    uint32_t     generation;
    uint64_t     size;      /* new, bytes */
    uint32_t     granules;  /* new */
    uint32_t     extra;     /* granules beyond the old ones */
    snug__fit    fit;       /* of a whole new place */
    unsigned     round;     /* slides around it so far */
    bool         grown;     /* the arena has grown for it */
    bool         disturbed; /* others used the neighbours that were to slide */
    unsigned     again;     /* looks around it again after making no room elsewhere */
} resizing;

/* All under the pool's lock but for resize_elsewhere and resize_around, which drop it between. */

/* Takes the buffer for oneself: FROZEN until republished, so that nobody pins it with one size and uses it with another. */
static snug_status claim(resizing *r) {
    snug_handle handle = snug__handle_of(&r->pool->handles, r->entry, r->generation);
    snug_status status = snug__entry_begin_move(r->entry, handle, &r->pool->order);
    if (status != SNUG_OK)
        return status;
    status = snug__entry_freeze(r->entry, r->generation);
    if (status != SNUG_OK)
        snug__entry_give_up(r->entry, r->generation);
    return status == SNUG_STALE ? SNUG_BUSY : status; /* a free is seen at the next try */
}

/* Publishes a location of the new size with nothing copied. Returns what may still use the old one. granules: by how many
 * its range grows. The size comes before the publish: whoever pins it afterwards must not use what it has lost. */
static snug__stamp republish(resizing *r, uint32_t offset, snug__stamp also, uint64_t granules) {
    unsigned    slot  = snug__word_current(atomic_load(&r->entry->word));
    snug__stamp ready = snug__order_unite(&r->pool->order, snug__entry_ready(r->entry, slot), also);
    bool        moved = offset != atomic_load(&r->entry->offset[slot]);
    if (moved && r->pool->table_bytes) /* its users may have its old address yet to write there */
        ready = snug__order_unite(&r->pool->order, ready, snug__entry_users(&r->pool->order, r->entry));
    snug__entry_fill(r->entry, 1 - slot, offset, ready);
    if (r->entry->range != SNUG__NONE && snug__range_at(&r->pool->map, r->entry->range)->fixed)
        r->pool->pinned_granules += granules;
    snug__pool_resized(r->pool, r->entry, r->size);
    if (moved)
        atomic_fetch_add(&r->pool->moves, 1);
    snug_status status = snug__entry_publish(r->entry, r->generation);
    snug__assert(status == SNUG_OK);
    return snug__entry_fence(&r->pool->order, r->entry, slot);
}

static snug_status shrink(resizing *r) {
    snug__map *map  = &r->pool->map;
    uint32_t   node = r->entry->range, old = snug__range_at(map, node)->size;
    if (!snug__map_ready(map))
        return SNUG_NO_MEMORY;
    snug_status status = claim(r);
    if (status != SNUG_OK)
        return status;
    uint32_t    offset = r->granules ? snug__range_at(map, node)->offset : SNUG__NONE;
    snug__stamp fence  = republish(r, offset, SNUG__STAMP_NONE, r->granules - (uint64_t)old);
    uint32_t    tail   = r->granules ? snug__range_split(map, node, r->granules) : node;
    if (!r->granules)
        r->entry->range = SNUG__NONE;
    snug__range_free(map, tail, fence);
    return SNUG_OK;
}

static snug_status grow_in_place(resizing *r) {
    snug__map  *map    = &r->pool->map;
    snug_status status = claim(r);
    if (status != SNUG_OK)
        return status;
    snug__range *old = snug__range_at(map, r->entry->range);
    republish(r, old->offset, snug__range_at(map, old->next)->fence, r->extra);
    snug__range_extend(map, r->entry->range, r->extra);
    return SNUG_OK;
}

static bool may_grow_in_place(resizing *r) {
    if (r->entry->range == SNUG__NONE)
        return false;
    uint32_t next = snug__range_at(&r->pool->map, r->entry->range)->next;
    return next != SNUG__NONE && snug__range_at(&r->pool->map, next)->kind == SNUG__RANGE_FREE &&
           snug__range_at(&r->pool->map, next)->size >= r->extra;
}

/* Takes the place that was found: nothing to copy for a buffer that had no bytes. */
static snug_status grow_from_nothing(resizing *r, uint32_t node, uint32_t offset) {
    snug__map  *map    = &r->pool->map;
    snug_status status = claim(r);
    if (status != SNUG_OK)
        return status;
    node = snug__range_take(map, node, offset, r->granules, SNUG__RANGE_LIVE,
                            snug__handles_index(&r->pool->handles, r->entry));
    if (node == SNUG__NONE) {
        snug__entry_give_up(r->entry, r->generation);
        return SNUG_NO_MEMORY;
    }
    snug__range *range = snug__range_at(map, node);
    range->fixed       = (r->entry->flags & SNUG_ALLOC_IMMOVABLE) != 0; /* pinned long it couldn't have been claimed */
    r->entry->range    = node;
    republish(r, offset, range->fence, r->granules);
    range->fence = SNUG__STAMP_NONE;
    return SNUG_OK;
}

static snug_status resize_elsewhere(resizing *r, uint32_t node, uint32_t offset) {
    snug_pool   *pool = r->pool;
    snug__range *old  = snug__range_at(&pool->map, r->entry->range);
    snug__run    run  = {.pool = pool, .which = SNUG__DEMAND, .may_wait = true, .resized_to = &r->size};
    snug__item   item = {.source = r->entry->range, .size = old->size, .generation = r->generation};
    item.target       = snug__range_take(&pool->map, node, offset, r->granules, SNUG__RANGE_TARGET, old->entry);
    if (item.target == SNUG__NONE)
        return SNUG_NO_MEMORY;
    snug_receipt receipt = snug__receipt_begin(pool, SNUG_RECEIPT_RESIZE, r->granules);
    old->copying         = 1;
    pthread_mutex_unlock(&pool->lock);
    snug__move_items(&run, &item, 1, false);
    pthread_mutex_lock(&pool->lock);
    snug_status status = run.moves ? SNUG_OK : run.error != SNUG_OK ? run.error : SNUG_BUSY;
    snug__receipt_run(&receipt, &run);
    snug__receipt_end(pool, &receipt, status);
    return status;
}

/* As few neighbours as will do; after a slide all there are, since alignments can leave less than the holes add up to. What
 * is pinned just now is gone round if it can be, and if two slides haven't come of that. */
static bool plan_around(const resizing *r, uint32_t *first, uint32_t *last) {
    snug__planner planner = snug__pool_planner(r->pool);
    snug__around  around  = {
          .node = r->entry->range, .extra = r->extra, .all = r->round > 0, .idle_only = r->round < AROUND_MAX / 2};
    if (snug__plan_around(planner, around, first, last))
        return true;
    around.idle_only = false;
    return snug__plan_around(planner, around, first, last);
}

/* Carries the holes around the buffer to its end; the caller then looks again whether it can grow in place. */
static snug_status resize_around(resizing *r, uint32_t first, uint32_t last) {
    snug_pool *pool = r->pool;
    snug__run  run  = {
          .pool = pool, .which = SNUG__DEMAND, .may_wait = true, .deadline_ns = snug__pool_now(pool) + pool->pin_wait_ns};
    uint32_t     node    = r->entry->range;
    snug_receipt receipt = snug__receipt_begin(pool, SNUG_RECEIPT_RESIZE, r->extra);
    snug__slide  slide   = {.alignment = 1, .beside = node, .granules_max = UINT64_MAX, .moves_max = UINT32_MAX};
    if (last != SNUG__NONE && last != snug__range_at(&pool->map, node)->next) {
        snug__range_set_kind(&pool->map, last, SNUG__RANGE_GAP);
        slide.gap = last;
        slide.up  = false;
        snug__move_slide(&run, &slide);
        if (run.busy || run.cancelled || run.error != SNUG_OK)
            first = SNUG__NONE;
    }
    /* the buffer may have been freed, and its node be another's, while the lock was away */
    bool ours = snug__word_status(atomic_load(&r->entry->word), r->generation) == SNUG_OK && r->entry->range == node;
    snug__plan_gaps_free(snug__pool_planner(pool));
    if (first != SNUG__NONE && ours && snug__range_at(&pool->map, first)->kind == SNUG__RANGE_FREE &&
        snug__range_at(&pool->map, first)->offset < snug__range_at(&pool->map, node)->offset) {
        snug__range_set_kind(&pool->map, first, SNUG__RANGE_GAP);
        slide.gap = first;
        slide.up  = true;
        snug__move_slide(&run, &slide);
        snug__plan_gaps_free(snug__pool_planner(pool));
    }
    snug_status status = run.moves == 0 && (run.busy || run.cancelled) ? SNUG_PINNED : SNUG_TIMEOUT;
    if (run.error != SNUG_OK)
        status = run.error;
    r->disturbed = r->disturbed || run.busy || run.cancelled;
    snug__receipt_run(&receipt, &run);
    snug__receipt_end(pool, &receipt, status == SNUG_TIMEOUT ? SNUG_OK : status);
    return status;
}

/* One try at growing. TIMEOUT: something has moved, look again. BUSY: the buffer itself was pinned, or written while it
 * moved. PINNED: others' pins were in the way. */
static snug_status grow(resizing *r) {
    snug_pool *pool = r->pool;
    uint32_t   node, offset, first, last;
    if (may_grow_in_place(r))
        return grow_in_place(r);
    bool fixed = r->entry->range != SNUG__NONE && snug__range_at(&pool->map, r->entry->range)->fixed;
    if (fixed)
        return r->entry->long_pins ? SNUG_BUSY : SNUG_PINNED;
    node = snug__map_find(&pool->map, r->fit, &offset);
    if (r->entry->range == SNUG__NONE && node != SNUG__NONE)
        return grow_from_nothing(r, node, offset);
    if (!pool->compaction_on && node == SNUG__NONE)
        return SNUG_FRAGMENTED;
    if (node != SNUG__NONE)
        return resize_elsewhere(r, node, offset);
    if (r->round < AROUND_MAX && r->entry->range != SNUG__NONE && pool->map.granules[SNUG__RANGE_FREE] >= r->extra &&
        plan_around(r, &first, &last)) {
        snug_status status = resize_around(r, first, last);
        r->round += status == SNUG_TIMEOUT; /* others' pins may be gone next time */
        return status;
    }
    /* no way around it: room somewhere else, then; this also says what stands in the way. What it has moved in vain may have
     * made room around the buffer, or moved it where there is: looked at again */
    uint64_t moves = pool->moves_published;
    pthread_mutex_unlock(&pool->lock);
    snug_status status = snug__compactor_room(pool, r->fit, &node, &offset);
    if (status == SNUG_OK || r->again == AGAIN_MAX || pool->moves_published == moves)
        return status == SNUG_OK ? SNUG_TIMEOUT : status;
    r->again++;
    r->round = 0;
    return SNUG_TIMEOUT;
}

/* One that stays where it is gains by a longer arena only at its end. */
static bool arena_may_help(const resizing *r) {
    const snug__map *map = &r->pool->map;
    if (map->granules[SNUG__RANGE_FREE] + map->limit - map->committed < r->extra || map->committed == map->limit)
        return false;
    if (r->entry->range == SNUG__NONE || !snug__range_at(map, r->entry->range)->fixed)
        return true;
    uint32_t next = snug__range_at(map, r->entry->range)->next;
    return next == SNUG__NONE || (next == map->last && snug__range_at(map, next)->kind == SNUG__RANGE_FREE);
}

static snug_status grow_arena(resizing *r, snug_status verdict) {
    snug_pool *pool = r->pool;
    if (!arena_may_help(r))
        return verdict;
    pthread_mutex_unlock(&pool->lock);
    /* what it lacks, which a hole at the end may complete; then enough for a place elsewhere */
    snug_status status = snug__pool_grow(pool, r->grown ? r->granules : r->extra);
    r->grown           = true;
    pthread_mutex_lock(&pool->lock);
    if (status == SNUG_OK)
        r->round = 0;
    return status == SNUG_OK ? SNUG_TIMEOUT : status;
}

static bool is_verdict(snug_status status) {
    return status >= SNUG_LIMIT && status <= SNUG_DEVICE;
}

/* What a refused growth is called: by the bytes that it lacks, not by the whole new size. */
static snug_status verdict_of_growth(const resizing *r, snug_status verdict) {
    const snug__map *map     = &r->pool->map;
    uint64_t         free    = map->granules[SNUG__RANGE_FREE] + map->limit - map->committed;
    uint64_t         pending = map->granules[SNUG__RANGE_PENDING];
    if (verdict == SNUG_DEVICE)
        return verdict;
    if (free < r->extra)
        return free + pending >= r->extra ? SNUG_PENDING : SNUG_CAPACITY;
    if (verdict != SNUG_CAPACITY && verdict != SNUG_PENDING)
        return verdict;
    if (!r->pool->compaction_on)
        return SNUG_FRAGMENTED;
    if (r->pool->pinned_granules || r->disturbed)
        return SNUG_PINNED;
    return pending ? SNUG_PENDING : SNUG_CAPACITY;
}

/* With the lock held, as it returns. */
static snug_status resize_once(resizing *r) {
    snug_status status = snug__word_status(atomic_load(&r->entry->word), r->generation);
    if (status != SNUG_OK)
        return status;
    uint64_t old = r->entry->range == SNUG__NONE ? 0 : snug__range_at(&r->pool->map, r->entry->range)->size;
    r->fit       = (snug__fit){r->granules, UINT32_C(1) << (r->entry->alignment_log2 - 8), false};
    if (r->granules == old) {
        snug__pool_resized(r->pool, r->entry, r->size);
        return SNUG_OK;
    }
    if (r->granules < old)
        return shrink(r);
    r->extra = r->granules - (uint32_t)old;
    status   = grow(r);
    if (is_verdict(status) && status != SNUG_DEVICE)
        status = grow_arena(r, status);
    return is_verdict(status) ? verdict_of_growth(r, status) : status;
}

snug_status snug__resize(snug_pool *pool, snug__entry *entry, uint32_t generation, uint64_t new_size) {
    resizing r = {.pool       = pool,
                  .entry      = entry,
                  .generation = generation,
                  .size       = new_size,
                  .granules   = (uint32_t)snug__granules(new_size)};
    snug__late_cancel(pool);
    snug__pool_notice(pool, snug__order_poll(&pool->order));
    uint64_t deadline = snug__pool_now(pool) + pool->pin_wait_ns;
    pthread_mutex_lock(&pool->lock);
    snug__pool_bury_dead(pool);
    uint32_t    committed = pool->map.committed;
    bool        grows     = new_size > atomic_load(&entry->size);
    snug_status status    = snug__word_status(atomic_load(&entry->word), generation);
    if (status == SNUG_OK)
        status = new_size > pool->capacity ? SNUG_LIMIT : SNUG_TIMEOUT;
    for (unsigned round = 0; status == SNUG_TIMEOUT || status == SNUG_BUSY || status == SNUG_PINNED;) {
        status = resize_once(&r);
        if (status == SNUG_TIMEOUT && ++round == ROUNDS_MAX)
            status = SNUG_BUSY;
        if (status != SNUG_BUSY && status != SNUG_PINNED)
            continue;
        if (round == ROUNDS_MAX || snug__pool_now(pool) >= deadline)
            break;
        pthread_mutex_unlock(&pool->lock);
        sched_yield();
        pthread_mutex_lock(&pool->lock);
    }
    if (status != SNUG_OK)
        snug__pool_shrink_back(pool, committed);
    bool valid = status == SNUG_OK || is_verdict(status);
    pool->requests += grows && valid;
    pool->granted += grows && status == SNUG_OK;
    if (is_verdict(status))
        status = snug__refusal_make(pool, status, new_size, UINT64_C(1) << entry->alignment_log2);
    pthread_mutex_unlock(&pool->lock);
    return status;
}
