/* quote.c: what an allocation would take, found by making its plan and taking it back. */
#include "compactor.h"
#include "refusal.h"

/* Copies within the bounce buffer until that has taken a while. */
static snug_status copy_for_a_while(snug_pool *pool, void *native, uint64_t bytes, uint64_t *copied,
                                    uint64_t *spent_ns) {
    uint64_t    began  = snug__pool_now(pool);
    snug_status status = SNUG_OK;
    *copied            = 0;
    for (*spent_ns = 0; *copied < 64 * bytes && *spent_ns < 2000000; *spent_ns = snug__pool_now(pool) - began) {
        for (int i = 0; i < 4 && status == SNUG_OK; i++)
            status = pool->row->copy(pool->device, native, pool->bounce_offset + bytes, pool->bounce_offset, bytes);
        if (status == SNUG_OK)
            status = pool->row->stream_sync(pool->device, native);
        if (status != SNUG_OK)
            return status;
        *copied += 4 * bytes;
    }
    return SNUG_OK;
}

/* Under mover: bytes per second, the host waiting for the copies; 0: the device failed, or was too fast to tell. */
static snug_status measure_rate(snug_pool *pool, uint64_t *rate) {
    snug_stream *stream = pool->order.mover[SNUG__DEMAND];
    uint64_t     bytes = pool->bounce_bytes / 2 / SNUG_GRANULE * SNUG_GRANULE, copied = 0, spent = 0, epoch;
    snug_status  status = snug__order_wait(&pool->order, stream, pool->bounce_fence);
    *rate               = 0;
    if (status == SNUG_OK)
        status = pool->row->stream_sync(pool->device, stream->native);
    if (status != SNUG_OK)
        return status;
    status = copy_for_a_while(pool, stream->native, bytes, &copied, &spent);
    /* a sync that failed has left copies behind: whoever uses the bounce buffer next waits for them */
    if (snug__order_record(&pool->order, stream, &epoch) == SNUG_OK)
        pool->bounce_fence = snug__order_unite(&pool->order, pool->bounce_fence, snug__stamp_of(stream, epoch));
    if (status == SNUG_OK && spent)
        *rate = (uint64_t)((double)copied * 1e9 / (double)spent);
    return status;
}

/* Under mover and lock. False: no plan makes such a gap. */
static bool quote_plan(snug_pool *pool, snug__fit fit, snug_quotation *q) {
    snug__compactor_plan(pool, fit, pool->demand_granules_max, false);
    if (pool->plan.kind == SNUG__PLAN_NONE)
        return false;
    q->move_bytes = snug__bytes(pool->plan.granules);
    q->moves      = pool->plan.moves;
    snug__plan_undo(snug__pool_planner(pool), &pool->plan);
    return true;
}

/* As if all of the arena were committed: what an allocation comes to when nothing less will do. */
static bool quote_grown(snug_pool *pool, snug__fit fit, snug_quotation *q) {
    uint32_t rest = pool->map.limit - pool->map.committed;
    if (!rest || snug__map_grow(&pool->map, rest) != SNUG_OK)
        return false;
    bool planned = quote_plan(pool, fit, q);
    snug__map_shrink(&pool->map, rest);
    return planned;
}

/* In the order in which an allocation tries things. */
static void quote_make(snug_pool *pool, snug__fit fit, snug_quotation *q) {
    uint64_t free = pool->map.granules[SNUG__RANGE_FREE], rest = pool->map.limit - pool->map.committed;
    uint32_t offset;
    if (fit.size == 0 || snug__map_find(&pool->map, fit, &offset) != SNUG__NONE)
        return;
    if (fit.size > pool->map.limit)
        q->verdict = SNUG_LIMIT;
    else if (free + rest < fit.size)
        q->verdict = free + rest + pool->map.granules[SNUG__RANGE_PENDING] < fit.size ? SNUG_CAPACITY : SNUG_PENDING;
    if (q->verdict != SNUG_OK || (pool->compaction_on && free >= fit.size && quote_plan(pool, fit, q)))
        return;
    if (snug__pool_growth_needed(pool, fit) <= rest)
        return;
    if (!pool->compaction_on)
        q->verdict = SNUG_FRAGMENTED;
    else if (!quote_grown(pool, fit, q))
        q->verdict = pool->pinned_granules ? SNUG_PINNED : SNUG_FRAGMENTED;
    if (q->verdict == SNUG_PINNED)
        q->blocking_pins = snug__refusal_pins(pool, q->blocking);
}

snug_status snug_quote(snug_pool *pool, uint64_t size, snug_quotation *quote) {
    snug_status status = snug__pool_open(pool);
    if (status != SNUG_OK)
        return status;
    if (!quote || !snug__struct_valid(quote))
        return SNUG_INVALID;
    if (size > SNUG_SIZE_MAX)
        return SNUG_TOO_LARGE;
    snug_quotation q = {.struct_size = sizeof q};
    pthread_mutex_lock(&pool->mover);
    snug__late_cancel(pool);
    if (!pool->copy_bytes_per_second) /* where it can't be measured there is a quote without a time */
        status = snug__pool_notice(pool, measure_rate(pool, &pool->copy_bytes_per_second));
    if (status == SNUG_LOST) {
        pthread_mutex_unlock(&pool->mover);
        return status;
    }
    pthread_mutex_lock(&pool->lock);
    snug__pool_bury_dead(pool);
    quote_make(pool, (snug__fit){(uint32_t)snug__granules(size), 1, false}, &q);
    pthread_mutex_unlock(&pool->lock);
    if (pool->copy_bytes_per_second)
        q.time_ns = (uint64_t)((double)q.move_bytes * 1e9 / (double)pool->copy_bytes_per_second);
    pthread_mutex_unlock(&pool->mover);
    snug__struct_give(quote, &q, sizeof q);
    return SNUG_OK;
}
