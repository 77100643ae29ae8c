/* refusal.c: see refusal.h. */
#include "refusal.h"

static _Thread_local snug_refusal last;

uint32_t snug__refusal_pins(snug_pool *pool, snug_handle handles[8]) {
    uint32_t count = 0, between = 0; /* between: as far as the last free range seen */
    bool     below = false;
    for (uint32_t node = pool->map.first; node != SNUG__NONE; node = snug__range_at(&pool->map, node)->next) {
        const snug__range *range = snug__range_at(&pool->map, node);
        if (range->kind == SNUG__RANGE_FREE) {
            below   = true;
            between = count;
        }
        if (!below || range->kind != SNUG__RANGE_LIVE || !range->fixed)
            continue;
        if (count < 8)
            handles[count] = snug__handles_name(&pool->handles, snug__handles_at(&pool->handles, range->entry));
        count++;
    }
    for (uint32_t i = between; i < 8; i++)
        handles[i] = SNUG_HANDLE_NONE;
    return between;
}

static uint64_t oldest_pin_ns(snug_pool *pool) {
    uint64_t oldest = 0, now = snug__pool_now(pool);
    for (uint32_t node = pool->map.first; node != SNUG__NONE; node = snug__range_at(&pool->map, node)->next) {
        const snug__range *range = snug__range_at(&pool->map, node);
        if (range->kind != SNUG__RANGE_LIVE || !range->fixed)
            continue;
        uint64_t since = snug__handles_at(&pool->handles, range->entry)->pinned_at_ns;
        if (since && now - since > oldest)
            oldest = now - since;
    }
    return oldest;
}

snug_status snug__refusal_make(snug_pool *pool, snug_status verdict, uint64_t bytes, uint64_t alignment) {
    const snug__map *map = &pool->map;
    pool->refused[verdict]++;
    last = (snug_refusal){
        .struct_size           = sizeof last,
        .verdict               = verdict,
        .request_bytes         = bytes,
        .alignment             = alignment,
        .live_bytes            = pool->live_bytes,
        .padding_bytes         = snug__bytes(map->granules[SNUG__RANGE_LIVE]) - pool->live_bytes,
        .free_bytes            = snug__bytes(map->granules[SNUG__RANGE_FREE]),
        .pending_bytes         = snug__bytes(map->granules[SNUG__RANGE_PENDING]),
        .in_flight_bytes       = snug__bytes(map->granules[SNUG__RANGE_TARGET] + map->granules[SNUG__RANGE_GAP] +
                                             map->granules[SNUG__RANGE_ORPHAN]),
        .committed_bytes       = snug__bytes(map->committed) + pool->bounce_bytes + pool->table_bytes,
        .limit_bytes           = pool->capacity + pool->bounce_bytes + pool->table_bytes,
        .pinned_bytes          = snug__bytes(pool->pinned_granules),
        .largest_hole_bytes    = snug__bytes(snug__map_largest(&pool->map)),
        .holes                 = map->count[SNUG__RANGE_FREE],
        .largest_request_bytes = pool->largest_request,
    };
    pool->row->memory(pool->device, &last.device_free_bytes, &last.device_total_bytes);
    if (verdict == SNUG_PINNED) {
        last.blocking_pins = snug__refusal_pins(pool, last.blocking);
        last.oldest_pin_ns = oldest_pin_ns(pool);
    }
    if (verdict == SNUG_DEVICE || verdict == SNUG_LOST)
        snprintf(last.device_error, sizeof last.device_error, "%s", snug__device_error());
    snug__log_line(&pool->log, SNUG_LOG_INFO, "%llu bytes refused: %s", (unsigned long long)bytes,
                   snug_status_string(verdict));
    return verdict;
}

snug_status snug_refusal_get(snug_refusal *refusal) {
    if (!refusal || !snug__struct_valid(refusal))
        return SNUG_INVALID;
    snug__struct_give(refusal, &last, sizeof last);
    return SNUG_OK;
}
