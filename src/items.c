/* items.c: see items.h. */
#include "items.h"

#include <sched.h>

enum {
    LARGEST_LOOKS = 64, /* of a window's ranges, whether they fit elsewhere, where a step won't move all */
    PAUSE_EVERY   = 256
};

static snug__range *at(snug__planner planner, uint32_t node) {
    return snug__range_at(planner.map, node);
}

void snug__plan_pause(snug__planner planner) {
    if (!planner.lock)
        return;
    pthread_mutex_unlock(planner.lock);
    sched_yield(); /* else whoever waits for the lock finds it taken again */
    pthread_mutex_lock(planner.lock);
}

bool snug__is_barrier(const snug__range *range) {
    return range->kind != SNUG__RANGE_FREE && (range->kind != SNUG__RANGE_LIVE || range->fixed || range->copying);
}

uint32_t snug__range_alignment(snug__planner planner, uint32_t node) {
    unsigned log2 = snug__handles_at(planner.handles, at(planner, node)->entry)->alignment_log2;
    return log2 <= 8 ? 1 : UINT32_C(1) << (log2 - 8);
}

snug__item *snug__item_take(snug__planner planner, snug__plan *plan, uint32_t node) {
    snug__range *range = at(planner, node);
    uint64_t     word  = atomic_load(&snug__handles_at(planner.handles, range->entry)->word);
    range->copying     = 1;
    snug__item *item   = &plan->items[plan->count++];
    *item              = (snug__item){
                     .source = node, .target = SNUG__NONE, .size = range->size, .generation = snug__word_generation(word)};
    return item;
}

bool snug__item_place(snug__planner planner, const snug__goal *goal, uint32_t window_end, snug__item *item) {
    uint32_t offset, entry = at(planner, item->source)->entry;
    if (entry == SNUG__NONE) /* freed since it was taken in: the mover finds out */
        return false;
    snug__fit fit  = {item->size, snug__range_alignment(planner, item->source), goal->settled_only};
    uint32_t  node = snug__map_find(planner.map, fit, &offset);
    if (node == SNUG__NONE)
        return false;
    const snug__range *hole = at(planner, node);
    if (hole->offset == window_end)
        offset = (hole->offset + hole->size - item->size) & ~(fit.alignment - 1);
    item->target = snug__range_take(planner.map, node, offset, item->size, SNUG__RANGE_TARGET, entry);
    return item->target != SNUG__NONE;
}

void snug__item_unplace(snug__planner planner, snug__item *item) {
    if (item->target != SNUG__NONE)
        snug__range_free(planner.map, item->target, SNUG__STAMP_NONE);
    item->target = SNUG__NONE;
}

void snug__item_put_back(snug__planner planner, snug__item *item) {
    snug__item_unplace(planner, item);
    if (at(planner, item->source)->kind == SNUG__RANGE_ORPHAN) /* freed meanwhile */
        snug__range_free(planner.map, item->source, SNUG__STAMP_NONE);
    else
        at(planner, item->source)->copying = 0;
}

/* Shell sort, so that no memory is asked for. */
void snug__items_sort(snug__planner planner, snug__plan *plan) {
    static const uint32_t gaps[] = {8929, 3905, 1750, 701, 301, 132, 57, 23, 10, 4, 1}; /* Ciura's, continued by 2.25 */
    snug__item           *items  = plan->items;
    if (planner.lock)
        pthread_mutex_unlock(planner.lock);
    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++)
        for (uint32_t i = gaps[g]; i < plan->count; i++) {
            snug__item item = items[i];
            uint32_t   j    = i;
            for (; j >= gaps[g] && items[j - gaps[g]].size < item.size; j -= gaps[g])
                items[j] = items[j - gaps[g]];
            items[j] = item;
        }
    if (planner.lock)
        pthread_mutex_lock(planner.lock);
}

void snug__items_choose(snug__planner planner, const snug__goal *goal, snug__plan *plan) {
    if (goal->moves_max == UINT32_MAX && goal->step_max == UINT64_MAX)
        return;
    uint64_t left  = goal->step_max;
    uint32_t taken = 0, kept = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        snug__item item = plan->items[i];
        bool       take = taken < goal->moves_max && item.size <= left;
        if (take) {
            left -= item.size;
            taken++;
        } else {
            plan->least = !plan->least || item.size < plan->least ? item.size : plan->least;
            plan->cut   = true;
        }
        if (take || i < LARGEST_LOOKS)
            plan->items[kept++] = item;
        else
            snug__item_put_back(planner, &item);
        if (i % PAUSE_EVERY == PAUSE_EVERY - 1)
            snug__plan_pause(planner);
    }
    plan->count = kept;
}

void snug__items_cut(snug__planner planner, const snug__goal *goal, snug__plan *plan) {
    uint64_t left = goal->step_max;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        snug__item item = plan->items[i];
        if (kept < goal->moves_max && item.size <= left) {
            left -= item.size;
            plan->items[kept++] = item;
            continue;
        }
        if (!plan->least || item.size < plan->least)
            plan->least = item.size;
        plan->cut = true;
        snug__item_put_back(planner, &item);
        if (i % PAUSE_EVERY == PAUSE_EVERY - 1)
            snug__plan_pause(planner);
    }
    plan->count = kept;
}

void snug__items_put_back(snug__planner planner, snug__plan *plan, uint32_t kept) {
    for (uint32_t n = 1; plan->count > kept; n++) {
        snug__item_put_back(planner, &plan->items[--plan->count]);
        if (n % PAUSE_EVERY == 0)
            snug__plan_pause(planner);
    }
}

void snug__plan_gaps_free(snug__planner planner) {
    for (uint32_t n = 1; planner.map->gaps != SNUG__NONE; n++) {
        snug__range_free(planner.map, planner.map->gaps, SNUG__STAMP_NONE);
        if (n % PAUSE_EVERY == 0)
            snug__plan_pause(planner);
    }
}
