/* move.c: see move.h. */
#include "move.h"

#include <sched.h>

static snug_stream *stream_of(const snug__run *run) {
    return run->pool->order.mover[run->which];
}

static bool run_failed(snug__run *run, snug_status status) {
    if (status == SNUG_OK)
        return false;
    if (run->error == SNUG_OK)
        run->error = snug__pool_notice(run->pool, status);
    return true;
}

static void backlog_settle(snug_pool *pool, int which) {
    snug__backlog *b    = &pool->backlog[which];
    uint64_t       done = atomic_load(&pool->order.done[pool->order.mover[which]->bit]);
    while (b->count && b->stamped[b->first].epoch <= done) {
        b->ops -= b->stamped[b->first].ops;
        b->first = (b->first + 1) % SNUG__OPS_MAX;
        b->count--;
    }
}

/* Waits for part of the stream, then for all of it; at last for what has no stamp. */
static snug_status backlog_wait(snug__run *run, int patience) {
    snug_pool  *pool  = run->pool;
    uint64_t    began = snug__pool_now(pool);
    snug_status status;
    if (patience == 2)
        status = pool->row->stream_sync(pool->device, stream_of(run)->native);
    else
        status = snug__order_stream_sync(&pool->order, stream_of(run), patience == 0);
    run->waited_ns += snug__pool_now(pool) - began;
    return status;
}

/* Until there is room: first by asking, then, if the run may, by waiting. */
static bool backlog_make_room(snug__run *run, uint32_t ops) {
    snug_pool     *pool = run->pool;
    snug__backlog *b    = &pool->backlog[run->which];
    for (int patience = 0;; patience++) {
        if (run_failed(run, snug__order_poll(&pool->order)))
            return false;
        backlog_settle(pool, run->which);
        if (b->ops + ops <= SNUG__OPS_MAX)
            return true;
        if (!run->may_wait) {
            run->full = true;
            return false;
        }
        if (run_failed(run, backlog_wait(run, patience)))
            return false;
        if (patience == 2) {
            *b = (snug__backlog){.ops = 0};
            return true;
        }
    }
}

/* Is there room for so many more operations, so that the mover's stream never blocks whoever enqueues? */
static bool ops_room(snug__run *run, uint32_t ops) {
    if (run->stop_ns && run->begun && snug__pool_now(run->pool) >= run->stop_ns)
        run->full = true;
    return !run->full && (run->pool->backlog[run->which].ops + ops <= SNUG__OPS_MAX || backlog_make_room(run, ops));
}

static void ops_count(snug__run *run, uint32_t ops) {
    run->begun = run->begun || ops;
    run->pool->backlog[run->which].ops += ops;
    run->pool->backlog[run->which].unstamped += ops;
}

static void ops_stamped(snug__run *run, uint64_t epoch) {
    snug__backlog *b = &run->pool->backlog[run->which];
    if (!b->unstamped)
        return;
    uint32_t last = (b->first + b->count - 1) % SNUG__OPS_MAX;
    if (b->count && (b->count == SNUG__OPS_MAX || b->stamped[last].epoch == epoch)) {
        b->stamped[last].epoch = epoch;
        b->stamped[last].ops += b->unstamped;
    } else {
        last                   = (b->first + b->count++) % SNUG__OPS_MAX;
        b->stamped[last].epoch = epoch;
        b->stamped[last].ops   = b->unstamped;
    }
    b->unstamped = 0;
}

static bool patient(const snug__run *run) {
    return snug__pool_now(run->pool) < run->deadline_ns;
}

/* Somebody's short pin is in the way. */
static void pin_wait(snug__run *run) {
    uint64_t began = snug__pool_now(run->pool);
    sched_yield();
    run->waited_ns += snug__pool_now(run->pool) - began;
}

static void pin_wait_unlocked(snug__run *run) {
    pthread_mutex_unlock(&run->pool->lock);
    pin_wait(run);
    pthread_mutex_lock(&run->pool->lock);
}

/* One move on its way. */
typedef struct motion {
    snug__entry *entry;
    uint32_t     generation;
    unsigned     slot;   /* of the location that it leaves */
    uint32_t     source; /* node */
    uint32_t     from, to, size;
    bool         begun;
} motion;

static bool motion_begin(snug__run *run, motion *motion) {
    snug_pool  *pool   = run->pool;
    snug_handle handle = snug__handle_of(&pool->handles, motion->entry, motion->generation);
    for (;;) {
        snug_status status = snug__entry_begin_move(motion->entry, handle, &pool->order); /* (2) */
        if (status == SNUG_OK)
            break;
        if (status == SNUG_STALE || !run->may_wait || !patient(run)) {
            run->busy++;
            return false;
        }
        pin_wait(run);
    }
    motion->slot = snug__word_current(atomic_load(&motion->entry->word));
    return true;
}

static snug_status wait_for(snug__run *run, snug__stamp stamp) {
    uint64_t    before = atomic_load_explicit(&stream_of(run)->waits, memory_order_relaxed);
    snug_status status = snug__order_wait(&run->pool->order, stream_of(run), stamp);
    uint64_t    waits  = atomic_load_explicit(&stream_of(run)->waits, memory_order_relaxed) - before;
    ops_count(run, (uint32_t)waits);
    if (waits)
        run->waited_mask |= stamp.mask & ~(UINT64_C(1) << stream_of(run)->bit);
    return status;
}

/* (3): what wrote the source, and what used the target. A location that a free has meanwhile handed to another generation
 * gives stamps that mean nothing; then the copy means nothing either, and its source is kept from reuse until it has run. */
static snug_status motion_wait(snug__run *run, const motion *motion, snug__stamp target_fence) {
    snug_status status = wait_for(run, snug__entry_ready(motion->entry, motion->slot));
    if (status == SNUG_OK)
        status = wait_for(run, snug__atomic_stamp_get(&motion->entry->writers));
    return status == SNUG_OK ? wait_for(run, target_fence) : status;
}

static snug_status copies_enqueue(snug__run *run, const snug__copy *copies, uint32_t n) {
    snug_pool *pool = run->pool;
    ops_count(run, (n + pool->row->moves_per_operation - 1) / pool->row->moves_per_operation);
    return pool->row->move(pool->device, stream_of(run)->native, copies, n);
}

static snug__copy copy_of(uint64_t to, uint64_t from, uint64_t granules) {
    return (snug__copy){to * SNUG_GRANULE, from * SNUG_GRANULE, granules * SNUG_GRANULE};
}

static snug_status copy_granules(snug__run *run, uint64_t to, uint64_t from, uint64_t granules) {
    snug__copy copy = copy_of(to, from, granules);
    return copies_enqueue(run, &copy, 1);
}

/* (4), its end: the event, then the stamp. A device that doesn't record is waited for, so that no copy goes unordered.
 * False: not even that; the pool is lost. */
static bool copies_record(snug__run *run, snug__stamp *stamp) {
    snug_pool  *pool = run->pool;
    uint64_t    epoch;
    snug_status status = snug__order_record(&pool->order, stream_of(run), &epoch);
    if (!run_failed(run, status)) {
        *stamp = snug__stamp_of(stream_of(run), epoch);
        ops_stamped(run, epoch);
        return true;
    }
    *stamp = SNUG__STAMP_NONE;
    if (pool->row->stream_sync(pool->device, stream_of(run)->native) == SNUG_OK)
        return true;
    snug__pool_notice(pool, SNUG_LOST);
    return false;
}

/* (5) and (6), under the lock. OK: published, *fence is what may still use the place it left. */
static snug_status motion_publish(snug__run *run, motion *motion, snug__stamp stamp, snug__stamp *fence) {
    snug__entry_fill(motion->entry, 1 - motion->slot, motion->to, stamp);
    atomic_fetch_add(&run->pool->moves,
                     1); /* before the address changes: a reader that misses it has the old one pinned */
    snug_status status = snug__entry_publish(motion->entry, motion->generation);
    if (status == SNUG_OK)
        *fence = snug__order_unite(&run->pool->order, snug__entry_fence(&run->pool->order, motion->entry, motion->slot),
                                   stamp);
    return status;
}

static void count_published(snug__run *run, const motion *motion) {
    snug_pool *pool            = run->pool;
    motion->entry->moved_at_ns = pool->moved_at_ns = snug__pool_now(pool);
    run->moves++;
    run->moved_granules += motion->size;
    pool->moves_published++;
    pool->moved_bytes += snug__bytes(motion->size);
}

/* Under the lock: the source of a move that didn't come about. It was read until stamp, if at all. */
static void source_release(snug__run *run, uint32_t source, snug__stamp stamp) {
    snug_pool   *pool  = run->pool;
    snug__range *range = snug__range_at(&pool->map, source);
    if (range->kind == SNUG__RANGE_ORPHAN) {
        snug__range_free(&pool->map, source, stamp);
        return;
    }
    range->copying = 0;
    if (stamp.mask)
        snug__atomic_stamp_add(&snug__handles_at(&pool->handles, range->entry)->readers, stamp.mask, stamp.epoch);
}

static void count_cancelled(snug__run *run) {
    run->cancelled++;
    run->pool->moves_cancelled++;
}

/* ------------------------------------------------------------------------------------------------ items */

static void item_undo(snug__run *run, const snug__item *item, snug__stamp stamp) {
    source_release(run, item->source, stamp);
    snug__range_free(&run->pool->map, item->target, stamp);
}

static void item_done(snug__run *run, const snug__item *item, motion *motion, snug__stamp fence, bool keep_gap) {
    snug__map   *map    = &run->pool->map;
    snug__range *source = snug__range_at(map, item->source), *target = snug__range_at(map, item->target);
    target->fence        = SNUG__STAMP_NONE; /* the copy has waited for it */
    motion->entry->range = item->target;
    source->entry        = SNUG__NONE;
    source->copying      = 0;
    snug__range_set_kind(map, item->target, SNUG__RANGE_LIVE);
    if (keep_gap) {
        source->fence = fence;
        snug__range_set_kind(map, item->source, SNUG__RANGE_GAP);
    } else {
        snug__range_free(map, item->source, fence);
    }
    if (run->resized_to)
        snug__pool_resized(run->pool, motion->entry, *run->resized_to);
    count_published(run, motion);
}

/* Publishes or undoes; an item that only readers hold is tried again while the deadline lasts. */
static void item_finish(snug__run *run, const snug__item *item, motion *motion, bool copied, snug__stamp stamp,
                        bool keep_gap) {
    snug__stamp fence;
    for (;;) {
        snug_status status = copied ? motion_publish(run, motion, stamp, &fence) : SNUG_STALE;
        if (status == SNUG_OK) {
            item_done(run, item, motion, fence, keep_gap);
            return;
        }
        if (status == SNUG_STALE || !patient(run)) {
            run->busy += status == SNUG_BUSY;
            break;
        }
        pin_wait_unlocked(run);
    }
    snug__entry_give_up(motion->entry, motion->generation);
    item_undo(run, item, stamp);
    count_cancelled(run);
}

static motion motion_of_item(snug__run *run, const snug__item *item) {
    snug__map   *map    = &run->pool->map;
    snug__range *target = snug__range_at(map, item->target);
    return (motion){.entry      = snug__handles_at(&run->pool->handles, target->entry),
                    .generation = item->generation,
                    .source     = item->source,
                    .from       = snug__range_at(map, item->source)->offset,
                    .to         = target->offset,
                    .size       = item->size};
}

/* (2) and (3); before: how many have begun and wait to be copied. */
static void item_begin(snug__run *run, const snug__item *item, motion *motion, uint32_t before) {
    *motion = motion_of_item(run, item);
    if (run->error != SNUG_OK || !ops_room(run, 4 + before) || !motion_begin(run, motion))
        return;
    snug_status status = motion_wait(run, motion, snug__range_at(&run->pool->map, item->target)->fence);
    motion->begun      = !run_failed(run, status);
    if (motion->begun)
        run->begun = true;
    else
        snug__entry_give_up(motion->entry, motion->generation);
}

/* (4) for all that have begun, at once: their targets were free while their sources were live, so that they are apart.
 * False: none may be published; some of the copies may be on their way. */
static bool items_copy(snug__run *run, const snug__copy *copies, uint32_t n, snug__stamp *stamp) {
    if (n == 0)
        return false;
    bool enqueued = !run_failed(run, copies_enqueue(run, copies, n));
    if (enqueued)
        atomic_fetch_add(&run->pool->mover_copies, n);
    return copies_record(run, stamp) && enqueued;
}

void snug__move_items(snug__run *run, snug__item *items, uint32_t count, bool keep_gap) {
    snug_pool *pool = run->pool;
    for (uint32_t at = 0; at < count; at += SNUG__BATCH_MAX) {
        motion      motions[SNUG__BATCH_MAX];
        snug__copy  copies[SNUG__BATCH_MAX];
        uint32_t    n = count - at < SNUG__BATCH_MAX ? count - at : SNUG__BATCH_MAX, begun = 0;
        snug__stamp stamp = SNUG__STAMP_NONE;
        for (uint32_t i = 0; i < n; i++) {
            item_begin(run, &items[at + i], &motions[i], begun);
            if (motions[i].begun)
                copies[begun++] = copy_of(motions[i].to, motions[i].from, motions[i].size);
        }
        bool copied = items_copy(run, copies, begun, &stamp);
        pthread_mutex_lock(&pool->lock);
        for (uint32_t i = 0; i < n; i++)
            if (motions[i].begun)
                item_finish(run, &items[at + i], &motions[i], copied, stamp, keep_gap);
            else
                item_undo(run, &items[at + i], SNUG__STAMP_NONE);
        pthread_mutex_unlock(&pool->lock);
    }
}

/* ------------------------------------------------------------------------------------------------ slides */

static uint32_t overlap_chunk(const snug_pool *pool, const motion *motion) {
    uint32_t shift  = motion->to < motion->from ? motion->from - motion->to : motion->to - motion->from;
    uint32_t bounce = (uint32_t)(pool->bounce_bytes / SNUG_GRANULE);
    return shift >= bounce ? shift : bounce;
}

/* One piece of a slide over itself: straight when it is no longer than the shift, else by way of the bounce buffer. */
static snug_status slide_piece(snug__run *run, uint32_t to, uint32_t from, uint32_t granules, bool straight) {
    if (straight)
        return copy_granules(run, to, from, granules);
    uint64_t    bounce = run->pool->bounce_offset / SNUG_GRANULE;
    snug_status status = copy_granules(run, bounce, from, granules);
    return status == SNUG_OK ? copy_granules(run, to, bounce, granules) : status;
}

/* The pieces in order of address, from the end toward which the range goes, so that none is overwritten before it is read. */
static snug_status slide_pieces(snug__run *run, const motion *motion, bool *touched) {
    uint32_t chunk = overlap_chunk(run->pool, motion);
    bool     down  = motion->to < motion->from;
    uint32_t shift = down ? motion->from - motion->to : motion->to - motion->from;
    for (uint64_t at = 0; at < motion->size; at += chunk) {
        uint32_t n     = motion->size - at < chunk ? (uint32_t)(motion->size - at) : chunk;
        uint32_t first = (uint32_t)(down ? at : motion->size - at - n);
        if (!ops_room(run, 2))
            return run->error;
        snug_status status = slide_piece(run, motion->to + first, motion->from + first, n, chunk <= shift);
        if (status != SNUG_OK)
            return status;
        *touched = true;
        atomic_fetch_add(&run->pool->mover_copies, chunk <= shift ? 1 : 2);
    }
    return SNUG_OK;
}

/* FROZEN: nobody can pin it now, so that all its users are known; the target lies on bytes that its readers still read. */
static snug_status slide_over_itself(snug__run *run, motion *motion, snug__stamp gap_fence) {
    snug_pool  *pool   = run->pool;
    snug_status status = wait_for(run, snug__entry_fence(&pool->order, motion->entry, motion->slot));
    if (status == SNUG_OK)
        status = wait_for(run, gap_fence);
    if (status == SNUG_OK)
        status = wait_for(run, pool->bounce_fence);
    if (status != SNUG_OK)
        return status;
    snug__run whole = *run; /* once the first piece is enqueued the rest must follow */
    whole.may_wait  = true;
    whole.stop_ns   = 0;
    bool touched    = false;
    status          = slide_pieces(&whole, motion, &touched);
    run->begun      = true;
    run->waited_ns  = whole.waited_ns;
    if (status == SNUG_OK)
        return SNUG_OK;
    if (touched) { /* part of it is overwritten: no address is right any more */
        snug__log_line(&pool->log, SNUG_LOG_ERRORS, "the device failed in the middle of a slide: the pool is lost");
        return SNUG_LOST;
    }
    /* the bounce buffer at most has been written: nothing is lost once that copy no longer reads */
    return pool->row->stream_sync(pool->device, stream_of(run)->native) == SNUG_OK ? status : SNUG_LOST;
}

/* Brings the live range over the gap, to a place that may overlap its own. */
static bool step_over(snug__run *run, const snug__slide *slide, uint32_t live, motion *motion, snug__stamp gap_fence) {
    snug_pool  *pool   = run->pool;
    uint32_t    shift  = motion->to < motion->from ? motion->from - motion->to : motion->to - motion->from;
    bool        over   = shift < motion->size;
    uint32_t    chunk  = over ? overlap_chunk(pool, motion) : motion->size;
    uint32_t    ops    = 8 + 2 * (motion->size / chunk + 1);
    bool        ready  = ops_room(run, ops < SNUG__OPS_MAX / 2 ? ops : SNUG__OPS_MAX / 2) && motion_begin(run, motion);
    snug__stamp stamp  = SNUG__STAMP_NONE;
    snug_status status = SNUG_OK;
    if (ready && over && snug__entry_freeze(motion->entry, motion->generation) != SNUG_OK) {
        run->busy++;
        snug__entry_give_up(motion->entry, motion->generation);
        ready = false;
    }
    if (ready && over) {
        status = slide_over_itself(run, motion, gap_fence);
    } else if (ready) {
        status = motion_wait(run, motion, gap_fence);
        if (status == SNUG_OK)
            status = copy_granules(run, motion->to, motion->from, motion->size);
    }
    bool enqueued = ready && !run_failed(run, status) && copies_record(run, &stamp);
    pthread_mutex_lock(&pool->lock);
    if (enqueued) {
        snug__stamp fence;
        atomic_fetch_add(&pool->mover_copies, !over);
        snug__range_at(&pool->map, slide->gap)->fence =
            snug__order_unite(&pool->order, snug__range_at(&pool->map, slide->gap)->fence, stamp);
        do
            status = motion_publish(run, motion, stamp, &fence);
        while (status == SNUG_BUSY && patient(run) && (pin_wait_unlocked(run), true));
        if (over)
            pool->bounce_fence = stamp;
        if (status == SNUG_OK) {
            snug__range_at(&pool->map, live)->copying = 0;
            snug__gap_swap(&pool->map, slide->gap, live, motion->to, fence);
            pool->slides += over;
            count_published(run, motion);
            return true;
        }
        run->busy += status == SNUG_BUSY;
        count_cancelled(run);
    }
    if (ready)
        snug__entry_give_up(motion->entry, motion->generation);
    source_release(run, live, stamp);
    return false;
}

static void absorb_neighbours(snug__map *map, uint32_t gap) {
    uint32_t next = snug__range_at(map, gap)->next, previous = snug__range_at(map, gap)->previous;
    if (next != SNUG__NONE && snug__range_at(map, next)->kind == SNUG__RANGE_FREE)
        snug__gap_absorb(map, gap, next);
    if (previous != SNUG__NONE && snug__range_at(map, previous)->kind == SNUG__RANGE_FREE)
        snug__gap_absorb(map, gap, previous);
}

static bool slide_there(snug__map *map, const snug__slide *slide) {
    const snug__range *gap = snug__range_at(map, slide->gap);
    if (slide->beside != SNUG__NONE)
        return gap->previous == slide->beside;
    if (!slide->size)
        return false;
    uint64_t start = ((uint64_t)gap->offset + slide->alignment - 1) & ~((uint64_t)slide->alignment - 1);
    return start + slide->size <= (uint64_t)gap->offset + gap->size;
}

/* Where the live range next to the gap goes; its own offset if its alignment leaves it no step. */
static uint32_t slide_target(snug__map *map, const snug__slide *slide, const snug__range *live,
                             const snug__entry *entry) {
    const snug__range *gap  = snug__range_at(map, slide->gap);
    unsigned           log2 = entry->alignment_log2 <= 8 ? 0 : entry->alignment_log2 - 8u;
    uint32_t           to;
    if (slide->up) {
        to = snug__align_up(gap->offset, UINT32_C(1) << log2);
        return to < live->offset ? to : live->offset;
    }
    to = (gap->offset + gap->size - live->size) >> log2 << log2;
    return to > live->offset ? to : live->offset;
}

/* Leaves the hole behind and goes on with the next one beyond the range. */
static bool slide_pass(snug_pool *pool, snug__slide *slide, uint32_t live) {
    uint32_t node = live;
    for (;;) {
        node = slide->up ? snug__range_at(&pool->map, node)->next : snug__range_at(&pool->map, node)->previous;
        if (node == SNUG__NONE || node == slide->beside)
            return false;
        const snug__range *range = snug__range_at(&pool->map, node);
        if (range->kind == SNUG__RANGE_FREE)
            break;
        if (range->kind != SNUG__RANGE_LIVE || range->fixed || range->copying)
            return false;
    }
    snug__range_free(&pool->map, slide->gap, SNUG__STAMP_NONE);
    snug__range_set_kind(&pool->map, node, SNUG__RANGE_GAP);
    slide->gap = node;
    return true;
}

static snug__stamp entry_stamps(snug_pool *pool, snug__entry *entry) {
    return snug__entry_fence(&pool->order, entry, snug__word_current(atomic_load(&entry->word)));
}

static bool settled_but_own(const snug__run *run, snug__stamp stamp) {
    stamp.mask &= ~(UINT64_C(1) << stream_of(run)->bit);
    return snug__order_settled(&run->pool->order, stamp);
}

bool snug__move_slide(snug__run *run, snug__slide *slide) {
    snug_pool *pool  = run->pool;
    uint64_t   left  = slide->granules_max;
    uint32_t   moves = 0;
    for (;;) {
        absorb_neighbours(&pool->map, slide->gap);
        if (slide_there(&pool->map, slide))
            return true;
        const snug__range *gap  = snug__range_at(&pool->map, slide->gap);
        uint32_t           live = slide->up ? gap->next : gap->previous;
        if (live == SNUG__NONE || run->error != SNUG_OK || moves == slide->moves_max || !snug__map_ready(&pool->map))
            return false;
        snug__range *range = snug__range_at(&pool->map, live);
        if (range->kind != SNUG__RANGE_LIVE || range->fixed || range->copying || range->size > left)
            return false;
        snug__entry *entry  = snug__handles_at(&pool->handles, range->entry);
        motion       motion = {.entry      = entry,
                               .generation = snug__word_generation(atomic_load(&entry->word)),
                               .source     = live,
                               .from       = range->offset,
                               .to         = slide_target(&pool->map, slide, range, entry),
                               .size       = range->size};
        if (motion.to == motion.from) {
            if (!slide_pass(pool, slide, live))
                return false;
            continue;
        }
        if (slide->settled_only && !(settled_but_own(run, gap->fence) && settled_but_own(run, pool->bounce_fence) &&
                                     settled_but_own(run, entry_stamps(pool, entry))))
            return false;
        snug__stamp gap_fence = gap->fence;
        range->copying        = 1;
        pthread_mutex_unlock(&pool->lock);
        if (!step_over(run, slide, live, &motion, gap_fence))
            return false;
        left -= motion.size;
        moves++;
    }
}

/* ------------------------------------------------------------------------------------------------ late moves */

void snug__late_begin(snug__run *run, const snug__item *item) {
    snug_pool *pool = run->pool;
    snug__assert_debug(run->which == SNUG__BACKGROUND);
    motion motion = motion_of_item(run, item);
    bool   begun  = ops_room(run, 4) && motion_begin(run, &motion);
    if (begun && run_failed(run, motion_wait(run, &motion, snug__range_at(&pool->map, item->target)->fence))) {
        snug__entry_give_up(motion.entry, motion.generation);
        begun = false;
    }
    if (begun) {
        pool->late = (snug__late){true, *item, 0};
        return;
    }
    pthread_mutex_lock(&pool->lock);
    item_undo(run, item, SNUG__STAMP_NONE);
    pthread_mutex_unlock(&pool->lock);
}

static void late_end(snug__run *run, bool whole) {
    snug_pool  *pool   = run->pool;
    motion      motion = motion_of_item(run, &pool->late.item);
    snug__stamp stamp  = SNUG__STAMP_NONE;
    motion.slot        = snug__word_current(atomic_load(&motion.entry->word));
    bool ordered       = !pool->late.copied || copies_record(run, &stamp);
    pthread_mutex_lock(&pool->lock);
    if (whole) {
        item_finish(run, &pool->late.item, &motion, ordered, stamp, false);
    } else {
        snug__entry_give_up(motion.entry, motion.generation);
        item_undo(run, &pool->late.item, stamp);
        count_cancelled(run);
    }
    pthread_mutex_unlock(&pool->lock);
    pool->late.active = false;
}

void snug__late_step(snug__run *run, uint64_t granules) {
    snug_pool *pool = run->pool;
    snug__assert_debug(run->which == SNUG__BACKGROUND);
    motion   motion = motion_of_item(run, &pool->late.item);
    uint64_t word   = atomic_load(&motion.entry->word);
    if (snug__word_generation(word) != motion.generation || !(word & SNUG__MOVING)) {
        late_end(run, false);
        return;
    }
    uint32_t left = motion.size - pool->late.copied;
    uint32_t n    = granules < left ? (uint32_t)granules : left;
    if (!ops_room(run, 1))
        return;
    if (run_failed(run, copy_granules(run, motion.to + pool->late.copied, motion.from + pool->late.copied, n))) {
        late_end(run, false);
        return;
    }
    atomic_fetch_add(&pool->mover_copies, 1);
    pool->late.copied += n;
    run->moved_granules += n;
    if (pool->late.copied == motion.size) {
        late_end(run, true);
        run->moved_granules -= run->moves ? motion.size : 0; /* counted piece by piece */
    }
}

void snug__late_cancel(snug_pool *pool) {
    snug__run run = {.pool = pool, .which = SNUG__BACKGROUND}; /* whoever cancels it, its copies are on that stream */
    if (pool->late.active)
        late_end(&run, false);
}
