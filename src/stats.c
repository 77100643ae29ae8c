/* stats.c: see stats.h. */
#include "stats.h"

#include <stdlib.h>

/* ------------------------------------------------------------------------------------------------ figures */

static uint64_t unsettled_granules(snug_pool *pool) {
    uint64_t granules = 0;
    for (uint32_t node = pool->map.first; node != SNUG__NONE; node = snug__range_at(&pool->map, node)->next) {
        const snug__range *range = snug__range_at(&pool->map, node);
        if (range->kind == SNUG__RANGE_FREE && !snug__order_settled(&pool->order, range->fence))
            granules += range->size;
    }
    return granules;
}

static void device_calls(snug_pool *pool, snug_stats *s) {
    for (unsigned bit = 0; bit < SNUG__BITS; bit++)
        for (snug_stream *slot = atomic_load(&pool->order.slots[bit]); slot; slot = atomic_load(&slot->next)) {
            s->device_records += atomic_load_explicit(&slot->records, memory_order_relaxed);
            s->device_waits += atomic_load_explicit(&slot->waits, memory_order_relaxed);
        }
    s->device_queries = atomic_load_explicit(&pool->order.queries, memory_order_relaxed);
    s->device_copies =
        atomic_load(&pool->mover_copies) + atomic_load_explicit(&pool->client_copies, memory_order_relaxed);
}

/* Under the lock. */
static void stats_fill(snug_pool *pool, snug_stats *s) {
    const snug__map *map     = &pool->map;
    s->live_bytes            = pool->live_bytes;
    s->padding_bytes         = snug__bytes(map->granules[SNUG__RANGE_LIVE]) - pool->live_bytes;
    s->free_bytes            = snug__bytes(map->granules[SNUG__RANGE_FREE]);
    s->pending_bytes         = snug__bytes(map->granules[SNUG__RANGE_PENDING]);
    s->in_flight_bytes       = snug__bytes(map->granules[SNUG__RANGE_TARGET] + map->granules[SNUG__RANGE_GAP] +
                                           map->granules[SNUG__RANGE_ORPHAN]);
    s->bounce_bytes          = pool->bounce_bytes + pool->table_bytes;
    s->committed_bytes       = snug__bytes(map->committed) + s->bounce_bytes;
    s->limit_bytes           = pool->capacity + s->bounce_bytes;
    s->pinned_bytes          = snug__bytes(pool->pinned_granules);
    s->unsettled_bytes       = snug__bytes(unsettled_granules(pool));
    s->largest_hole_bytes    = snug__bytes(snug__map_largest(&pool->map));
    s->holes                 = map->count[SNUG__RANGE_FREE];
    s->fragmentation         = s->free_bytes ? 1 - (double)s->largest_hole_bytes / (double)s->free_bytes : 0;
    s->handles_live          = pool->handles.live;
    s->streams_attached      = atomic_load(&pool->order.attached);
    s->bytes                 = pool->bytes;
    s->buffers               = pool->buffers;
    s->largest_request_bytes = pool->largest_request;
    s->requests              = pool->requests;
    s->granted               = pool->granted;
    memcpy(s->refused, pool->refused, sizeof s->refused);
    s->moves             = pool->moves_published;
    s->moved_bytes       = pool->moved_bytes;
    s->cancelled_moves   = pool->moves_cancelled;
    s->slides            = pool->slides;
    s->steps             = pool->steps;
    s->demand_plans      = pool->demand_plans;
    s->background_passes = pool->background_passes;
    s->back_offs         = pool->back_offs;
    device_calls(pool, s);
}

snug_status snug_stats_get(snug_pool *pool, snug_stats *stats) {
    snug_status status = snug__pool_open(pool);
    if (status != SNUG_OK && status != SNUG_LOST)
        return status;
    if (!stats || !snug__struct_valid(stats))
        return SNUG_INVALID;
    snug_stats s = {.struct_size = sizeof s};
    pthread_mutex_lock(&pool->lock);
    snug__pool_bury_dead(pool);
    stats_fill(pool, &s);
    pthread_mutex_unlock(&pool->lock);
    snug__struct_give(stats, &s, sizeof s);
    return SNUG_OK;
}

snug_status snug_tags_get(snug_pool *pool, snug_tag_stats *tags, size_t capacity, size_t *count) {
    snug_status status = snug__pool_open(pool);
    if (status != SNUG_OK)
        return status;
    if (!count || (capacity && !tags))
        return SNUG_INVALID;
    pthread_mutex_lock(&pool->lock);
    size_t kept = 0;
    for (uint16_t i = 0; i < pool->tags_made; i++) {
        const snug__tag *tag = pool->tag_list[i];
        snug_tag_stats   row = {.live_bytes = tag->live_bytes, .peak_bytes = tag->peak_bytes, .buffers = tag->buffers};
        memcpy(row.tag, tag->name, sizeof row.tag);
        size_t at = kept < capacity ? kept : capacity;
        while (at > 0 && tags[at - 1].live_bytes < row.live_bytes)
            at--;
        if (at == capacity)
            continue;
        kept += kept < capacity;
        memmove(tags + at + 1, tags + at, (kept - 1 - at) * sizeof *tags);
        tags[at] = row;
    }
    *count = pool->tags_made;
    pthread_mutex_unlock(&pool->lock);
    return SNUG_OK;
}

snug_status snug_handle_info_get(snug_pool *pool, snug_handle handle, snug_handle_info *info) {
    snug_status status = snug__pool_open(pool);
    if (status != SNUG_OK)
        return status;
    if (!info || !snug__struct_valid(info))
        return SNUG_INVALID;
    snug__entry *entry;
    if ((status = snug__handles_find(&pool->handles, handle, &entry)) != SNUG_OK)
        return status;
    snug_handle_info made = {.struct_size = sizeof made};
    pthread_mutex_lock(&pool->lock);
    uint64_t word = atomic_load(&entry->word);
    status        = snug__word_status(word, snug__handle_generation(handle));
    if (status == SNUG_OK) {
        uint32_t offset = atomic_load(&entry->offset[snug__word_current(word)]);
        made.size       = atomic_load(&entry->size);
        made.offset     = offset == SNUG__NONE ? 0 : snug__bytes(offset);
        made.alignment  = UINT64_C(1) << entry->alignment_log2;
        made.pins       = (uint32_t)(word & SNUG__PINS) + snug__order_claims(&pool->order, handle);
        made.long_pins  = entry->long_pins;
        made.flags      = entry->flags;
        memcpy(made.tag, pool->tag_list[entry->tag]->name, sizeof made.tag);
    }
    pthread_mutex_unlock(&pool->lock);
    if (status != SNUG_OK)
        return status;
    snug__struct_give(info, &made, sizeof made);
    return SNUG_OK;
}

/* ------------------------------------------------------------------------------------------------ summary */

static void line_bytes(FILE *out, const char *name, uint64_t bytes) {
    fprintf(out, "| %-24s | %20llu | %10.1f MiB |\n", name, (unsigned long long)bytes, (double)bytes / 1048576.0);
}

static void line_counts(FILE *out, const char *name, const snug_counts *c) {
    fprintf(out, "| %-10s | %16llu | %16llu | %18llu | %18llu |\n", name, (unsigned long long)c->current,
            (unsigned long long)c->peak, (unsigned long long)c->allocated, (unsigned long long)c->freed);
}

snug_status snug_summary_write(snug_pool *pool, FILE *out) {
    snug_stats  s      = {.struct_size = sizeof s};
    snug_status status = out ? snug_stats_get(pool, &s) : SNUG_INVALID;
    if (status != SNUG_OK)
        return status;
    fprintf(out, "| %-10s | %16s | %16s | %18s | %18s |\n", "", "Cur", "Peak", "Tot Alloc", "Tot Freed");
    line_counts(out, "bytes", &s.bytes);
    line_counts(out, "buffers", &s.buffers);
    const struct {
        const char *name;
        uint64_t    bytes;
    } lines[] = {{"live", s.live_bytes},
                 {"padding", s.padding_bytes},
                 {"free", s.free_bytes},
                 {"pending", s.pending_bytes},
                 {"in flight", s.in_flight_bytes},
                 {"bounce buffer", s.bounce_bytes},
                 {"= committed", s.committed_bytes},
                 {"limit", s.limit_bytes},
                 {"pinned (of live)", s.pinned_bytes},
                 {"unsettled (of free)", s.unsettled_bytes},
                 {"largest hole", s.largest_hole_bytes},
                 {"moved so far", s.moved_bytes}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        line_bytes(out, lines[i].name, lines[i].bytes);
    fprintf(out,
            "holes %llu, fragmentation %.3f; requests %llu, granted %llu; moves %llu (%llu slides), cancelled %llu\n",
            (unsigned long long)s.holes, s.fragmentation, (unsigned long long)s.requests, (unsigned long long)s.granted,
            (unsigned long long)s.moves, (unsigned long long)s.slides, (unsigned long long)s.cancelled_moves);
    for (int verdict = SNUG_LIMIT; verdict <= SNUG_DEVICE; verdict++)
        if (s.refused[verdict])
            fprintf(out, "refused, %s: %llu\n", snug_status_name((snug_status)verdict),
                    (unsigned long long)s.refused[verdict]);
    return ferror(out) ? SNUG_INVALID : SNUG_OK;
}

/* ------------------------------------------------------------------------------------------------ check */

typedef struct totals {
    uint64_t live_bytes, fixed, live, targets;
} totals;

static const char *check_live(snug_pool *pool, uint32_t node, totals *sum) {
    const snug__range *range = snug__range_at(&pool->map, node);
    if (range->entry >= atomic_load(&pool->handles.made))
        return "a live range has no entry";
    snug__entry *entry = snug__handles_at(&pool->handles, range->entry);
    uint64_t     word = atomic_load(&entry->word), size = atomic_load(&entry->size);
    if (entry->range != node)
        return "an entry and its range disagree";
    if (range->kind == SNUG__RANGE_PENDING)
        return NULL;
    if (!(word & SNUG__LIVE) || (word & SNUG__DYING))
        return "a live range's handle is dead";
    if (atomic_load(&entry->offset[snug__word_current(word)]) != range->offset)
        return "a handle's address isn't where its range is";
    if (snug__granules(size) != range->size)
        return "a range's size isn't its handle's";
    if (range->offset & ((UINT32_C(1) << (entry->alignment_log2 - 8)) - 1))
        return "a range is not aligned";
    if ((bool)range->fixed != (entry->long_pins > 0 || (entry->flags & SNUG_ALLOC_IMMOVABLE)))
        return "a range's fixed mark is wrong"; /* I4 */
    sum->live_bytes += size;
    sum->fixed += range->fixed ? range->size : 0;
    sum->live++;
    return NULL;
}

static const char *check_ranges(snug_pool *pool) {
    totals sum = {0};
    for (uint32_t node = pool->map.first; node != SNUG__NONE; node = snug__range_at(&pool->map, node)->next) {
        const snug__range *range = snug__range_at(&pool->map, node);
        const char        *fault = NULL;
        if (range->kind == SNUG__RANGE_LIVE || range->kind == SNUG__RANGE_PENDING)
            fault = check_live(pool, node, &sum);
        if (fault)
            return fault;
    }
    if (sum.live_bytes != pool->live_bytes || sum.fixed != pool->pinned_granules)
        return "the account of live or pinned bytes is wrong"; /* I9 */
    if (pool->bytes.current != pool->live_bytes || pool->bytes.allocated - pool->bytes.freed != pool->live_bytes)
        return "the counts of bytes disagree";
    uint64_t by_tag = 0;
    for (uint16_t i = 0; i < pool->tags_made; i++)
        by_tag += pool->tag_list[i]->live_bytes;
    if (by_tag != pool->live_bytes)
        return "the tags' bytes don't add up";
    if (pool->buffers.current != pool->handles.live)
        return "the count of live handles is wrong";
    return NULL;
}

static const char *check_idle(snug_pool *pool) {
    const snug__map *map     = &pool->map;
    uint32_t         targets = pool->late.active;
    if (map->count[SNUG__RANGE_TARGET] != targets || map->count[SNUG__RANGE_GAP] ||
        map->count[SNUG__RANGE_ORPHAN] > targets)
        return "something is in flight while nobody moves";
    uint64_t sum = 0;
    for (int kind = SNUG__RANGE_FREE; kind < SNUG__RANGE_KINDS; kind++)
        sum += map->granules[kind];
    if (sum != map->committed || snug__bytes(map->committed) > pool->capacity)
        return "the ledger doesn't add up"; /* I3 */
    return NULL;
}

snug_status snug_pool_check(snug_pool *pool) {
    snug_status status = snug__pool_open(pool);
    if (status != SNUG_OK)
        return status;
    pthread_mutex_lock(&pool->mover);
    pthread_mutex_lock(&pool->lock);
    snug__pool_bury_dead(pool);
    const char *fault = snug__map_check(&pool->map);
    if (!fault)
        fault = snug__handles_check(&pool->handles);
    if (!fault)
        fault = check_ranges(pool);
    if (!fault)
        fault = check_idle(pool);
    if (!fault)
        fault = snug__order_check(&pool->order);
    pthread_mutex_unlock(&pool->lock);
    pthread_mutex_unlock(&pool->mover);
    if (!fault)
        return SNUG_OK;
    snug__log_line(&pool->log, SNUG_LOG_ERRORS, "pool check: %s", fault);
    return SNUG_CORRUPT;
}

void snug__stats_check_debug(snug_pool *pool) {
#ifdef SNUG_DEBUG
    uint32_t ranges = pool->map.count[SNUG__RANGE_LIVE] + pool->map.count[SNUG__RANGE_FREE];
    /* of a large map as seldom as it is large, so that walks cost about as much as what they check: one change in so many, by
     * a multiplicative hash (Knuth's), since ranges and changes may well grow in step */
    uint64_t draw = pool->map.changes * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    if (ranges > 512 && draw % (ranges / 8) != 0)
        return;
    const char *fault = snug__map_check(&pool->map);
    if (!fault)
        fault = check_ranges(pool);
    if (fault) {
        snug__log_line(&pool->log, SNUG_LOG_ERRORS, "%s", fault);
        abort();
    }
#else
    (void)pool;
#endif
}
