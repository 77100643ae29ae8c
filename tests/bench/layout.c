/* layout.c: see layout.h. */
#include "layout.h"

#include "pool.h"

#include <stdlib.h>

enum { ROUNDS = 10 };

const char *const layout_names[] = {"churned", "placed at random"};

static void churn(layout *l, const sequence *s) {
    for (size_t i = 0; i < s->slots; i++)
        need(snug_alloc(l->pool, s->fill[i], NULL, &l->handles[i]), "filling a layout");
    for (size_t i = 0; i < s->pairs_count; i++) {
        const pair *p = &s->pairs[i];
        need(snug_free(l->pool, l->handles[p->slot]), "free");
        need(snug_alloc(l->pool, p->bytes, NULL, &l->handles[p->slot]), "churning a layout");
    }
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* An empty pool allocates from one end to the other; else the layout isn't what it is to be. */
static snug_handle put(snug_pool *pool, uint64_t at, uint64_t bytes) {
    snug_handle      handle;
    snug_handle_info info = {.struct_size = sizeof info};
    need(snug_alloc(pool, bytes, NULL, &handle), "placing a buffer");
    need(snug_handle_info_get(pool, handle, &info), "where a buffer lies");
    if (info.offset != at)
        need(SNUG_CORRUPT, "a layout in address order");
    return handle;
}

/* The free granules are cut at random places, of which several may coincide, one cut for each buffer: it lies at the cut.
 * What is to be free is allocated for as long as the rest is laid down. */
static void place(layout *l, const sequence *s, uint64_t capacity, dice *d) {
    uint64_t     free_granules = (capacity - s->live_bytes) / SNUG_GRANULE;
    uint64_t    *cuts          = need_memory(s->slots, sizeof cuts[0]);
    snug_handle *fillers       = need_memory(s->slots, sizeof fillers[0]);
    size_t       fillers_count = 0;
    for (size_t i = 0; i < s->slots; i++)
        cuts[i] = dice_below(d, free_granules + 1);
    qsort(cuts, s->slots, sizeof cuts[0], by_value);
    for (size_t i = 0, before = 0, at = 0; i < s->slots; before = cuts[i++]) {
        uint64_t hole = (cuts[i] - before) * SNUG_GRANULE;
        if (hole)
            fillers[fillers_count++] = put(l->pool, at, hole);
        l->handles[i] = put(l->pool, at + hole, s->fill[i]);
        at += hole + s->fill[i];
    }
    for (size_t i = 0; i < fillers_count; i++)
        need(snug_free(l->pool, fillers[i]), "free");
    free(fillers);
    free(cuts);
}

void layout_make(layout *l, const layout_options *o, dice d) {
    bool             churned = o->kind == LAYOUT_CHURNED;
    sequence         s;
    sequence_options options = {.sizes        = o->sizes,
                                .live_bytes   = o->capacity / 100 * o->live_percent / SNUG_GRANULE * SNUG_GRANULE,
                                .window_bytes = o->capacity,
                                .rounds       = churned ? ROUNDS : 0};
    sequence_make(&s, &options, d);
    *l = (layout){.count = s.slots};
    l->pool =
        o->bytes ? pool_with_bytes(o->capacity, churned) : pool_without_bytes(POOL_COPYLESS, o->capacity, churned);
    l->handles = need_memory(s.slots, sizeof l->handles[0]);
    if (churned)
        churn(l, &s);
    else
        place(l, &s, o->capacity, &d);
    need(snug_compaction_set(l->pool, 1), "turning compaction on");
    sequence_free(&s);
}

void layout_free(layout *l) {
    for (size_t i = 0; i < l->count; i++)
        need(snug_free(l->pool, l->handles[i]), "free");
    need(snug_pool_destroy(l->pool), "destroying a pool");
    free(l->handles);
    *l = (layout){0};
}

/* ------------------------------------------------------------------------------------------------ facts */

typedef struct piece {
    uint32_t offset, size;
    bool     live;
} piece;

static size_t pieces_list(const snug__map *map, piece **pieces) {
    size_t count = 0, at = 0;
    for (uint32_t node = map->first; node != SNUG__NONE; node = snug__range_at(map, node)->next)
        count++;
    *pieces = need_memory(count, sizeof **pieces);
    for (uint32_t node = map->first; node != SNUG__NONE; node = snug__range_at(map, node)->next) {
        const snug__range *range = snug__range_at(map, node);
        if (range->kind != SNUG__RANGE_FREE && range->kind != SNUG__RANGE_LIVE)
            need(SNUG_CORRUPT, "a map of live and free ranges only");
        (*pieces)[at++] = (piece){range->offset, range->size, range->kind == SNUG__RANGE_LIVE};
    }
    return count;
}

static uint64_t cheapest_window(const piece *pieces, size_t count, uint64_t end, uint64_t gap) {
    uint64_t cheapest = UINT64_MAX, live = 0;
    for (size_t first = 0, next = 0; first < count && pieces[first].offset + gap <= end; first++) {
        for (; next < count && pieces[next].offset < pieces[first].offset + gap; next++)
            live += pieces[next].live ? pieces[next].size : 0;
        cheapest = live < cheapest ? live : cheapest;
        live -= pieces[first].live ? pieces[first].size : 0;
    }
    return cheapest;
}

layout_facts layout_look(const layout *l, uint64_t gap) {
    const snug__map *map = &l->pool->map;
    piece           *pieces;
    size_t           count = pieces_list(map, &pieces);
    layout_facts     facts = {.ranges = count};
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = pieces[i].size * (uint64_t)SNUG_GRANULE;
        if (pieces[i].live) {
            facts.live += bytes;
            facts.slide += facts.free ? bytes : 0;
        } else {
            facts.free += bytes;
            facts.largest_hole = bytes > facts.largest_hole ? bytes : facts.largest_hole;
        }
    }
    if (gap) {
        facts.cheapest = cheapest_window(pieces, count, map->committed, gap / SNUG_GRANULE);
        if (facts.cheapest == UINT64_MAX)
            need(SNUG_INVALID, "a gap within the arena");
        facts.cheapest *= SNUG_GRANULE;
    }
    free(pieces);
    return facts;
}
