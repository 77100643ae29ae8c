/* plan_world.h - maps written down as text, and the execution of a plan without a device. Include after fixture.h. */
#ifndef SNUG_TESTS_PLAN_WORLD_H
#define SNUG_TESTS_PLAN_WORLD_H

#include "plan.h"

#include <ctype.h>

static world      w;
static snug__plan plan;

#define PLANNER ((snug__planner){&w.map, &w.handles, NULL})

/* The map of "l10 f20 x5": live, free, fixed ranges of those sizes, in address order. */
static inline void lay_out(const char *text) {
    uint32_t total = 0, at = 0;
    for (const char *c = text; *c; c++)
        if (isalpha((unsigned char)*c))
            total += (uint32_t)strtoul(c + 1, NULL, 10);
    world_open(&w, total, 200000);
    snug__map_grow(&w.map, total);
    for (const char *c = text; *c; c++) {
        if (!isalpha((unsigned char)*c))
            continue;
        uint32_t size = (uint32_t)strtoul(c + 1, NULL, 10);
        if (*c != 'f')
            snug__range_at(&w.map, world_put(&w, at, size, 1))->fixed = *c == 'x';
        at += size;
    }
}

static inline snug__goal goal_of(uint32_t size) {
    return (snug__goal){.size = size, .alignment = 1, .granules_max = UINT64_MAX, .step_max = UINT64_MAX,
                        .moves_max = UINT32_MAX};
}

static inline void items_execute(bool keep_gap) {
    for (uint32_t i = 0; i < plan.count; i++) {
        snug__item  *item   = &plan.items[i];
        snug__range *source = snug__range_at(&w.map, item->source), *target = snug__range_at(&w.map, item->target);
        snug__entry *entry  = snug__handles_at(&w.handles, target->entry);
        entry->range        = item->target;
        atomic_store(&entry->offset[0], target->offset);
        source->entry   = SNUG__NONE;
        source->copying = 0;
        target->fence   = SNUG__STAMP_NONE;
        snug__range_set_kind(&w.map, item->target, SNUG__RANGE_LIVE);
        if (keep_gap)
            snug__range_set_kind(&w.map, item->source, SNUG__RANGE_GAP);
        else
            snug__range_free(&w.map, item->source, SNUG__STAMP_NONE);
    }
}

static inline bool gap_is_there(uint32_t gap, const snug__goal *goal) {
    const snug__range *g = snug__range_at(&w.map, gap);
    return snug__align_up(g->offset, goal->alignment) + goal->size <= g->offset + g->size;
}

static inline void slide_execute(const snug__goal *goal) {
    uint32_t gap = plan.first;
    for (;;) {
        snug__range *g = snug__range_at(&w.map, gap);
        uint32_t     next = g->next, previous = g->previous;
        if (next != SNUG__NONE && snug__range_at(&w.map, next)->kind == SNUG__RANGE_FREE)
            snug__gap_absorb(&w.map, gap, next);
        if (previous != SNUG__NONE && snug__range_at(&w.map, previous)->kind == SNUG__RANGE_FREE)
            snug__gap_absorb(&w.map, gap, previous);
        next = plan.up ? snug__range_at(&w.map, gap)->previous : snug__range_at(&w.map, gap)->next;
        if (gap_is_there(gap, goal) || next == SNUG__NONE || snug__range_at(&w.map, next)->kind != SNUG__RANGE_LIVE ||
            snug__range_at(&w.map, next)->fixed)
            break;
        uint32_t log2 = world_entry(&w, next)->alignment_log2 - 8u;
        uint32_t from = snug__range_at(&w.map, next)->offset, to = snug__align_up(g->offset, 1u << log2);
        if (plan.up)
            to = (g->offset + g->size - snug__range_at(&w.map, next)->size) >> log2 << log2;
        if (plan.up ? to <= from : to >= from)
            break;
        snug__gap_swap(&w.map, gap, next, to, SNUG__STAMP_NONE);
    }
}

/* What the mover does with the plan, if nobody gets in its way. */
static inline void plan_simulate(const snug__goal *goal) {
    if (plan.kind == SNUG__PLAN_EVACUATE)
        items_execute(plan.first != SNUG__NONE);
    else if (plan.kind == SNUG__PLAN_SLIDE)
        slide_execute(goal);
    snug__gaps_free(&w.map);
}

static inline bool hole_is_there(uint32_t size, uint32_t alignment) {
    uint32_t offset;
    return snug__map_find(&w.map, (snug__fit){size, alignment, false}, &offset) != SNUG__NONE;
}

#endif
