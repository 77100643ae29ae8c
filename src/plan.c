/* plan.c: plans but those for a gap anywhere (room.c): at the low end, packing, jumbling, around a buffer. See plan.h. */
#include "items.h"

static snug__range *at(snug__planner planner, uint32_t node) {
    return snug__range_at(planner.map, node);
}

static snug__entry *entry_of(snug__planner planner, uint32_t node) {
    return snug__handles_at(planner.handles, at(planner, node)->entry);
}

bool snug__plan_movable(snug__planner planner, const snug__goal *goal, uint32_t node) {
    const snug__range *range = at(planner, node);
    if (range->kind != SNUG__RANGE_LIVE || snug__is_barrier(range))
        return false;
    if (!goal->idle_only)
        return true;
    snug__entry *entry = entry_of(planner, node);
    uint64_t     word  = atomic_load(&entry->word);
    if (snug__entry_held(planner.handles, entry, word))
        return false;
    if (entry->moved_at_ns && goal->now_ns - entry->moved_at_ns < goal->cooldown_ns)
        return false;
    if (!goal->settled_only)
        return true;
    snug__stamp before =
        snug__stamp_unite(snug__entry_ready(entry, snug__word_current(word)), snug__atomic_stamp_get(&entry->writers));
    return snug__order_settled(planner.map->order, before);
}

void snug__plan_clear(snug__plan *plan, const snug__goal *goal) {
    plan->kind  = SNUG__PLAN_NONE;
    plan->first = plan->last = SNUG__NONE;
    plan->size               = goal->size;
    plan->alignment          = goal->alignment;
    plan->granules = plan->least = 0;
    plan->moves = plan->count = 0;
    plan->cut = plan->up = false;
}

/* Keeps the item that was taken in last and placed, or puts it back. */
static bool item_settle(snug__planner planner, snug__plan *plan, bool placed) {
    snug__item *item = &plan->items[plan->count - 1];
    if (!placed) {
        snug__items_put_back(planner, plan, plan->count - 1);
        return false;
    }
    plan->granules += item->size;
    plan->moves++;
    plan->kind = SNUG__PLAN_EVACUATE;
    return true;
}

void snug__plan_pack(snug__planner planner, const snug__goal *goal, snug__plan *plan) {
    snug__plan_clear(plan, goal);
    snug__handles_look(planner.handles, planner.map->order);
    for (uint32_t node = planner.map->last; node != SNUG__NONE && plan->count < goal->moves_max;
         node          = at(planner, node)->previous) {
        uint32_t offset, top = at(planner, node)->offset, size = at(planner, node)->size;
        if (!snug__plan_movable(planner, goal, node) || size > goal->step_max - plan->granules)
            continue;
        snug__fit fit  = {size, snug__range_alignment(planner, node), goal->settled_only};
        uint32_t  hole = snug__map_find_low(planner.map, fit, top, &offset);
        if (hole == SNUG__NONE || offset >= top)
            break;
        snug__item *item = snug__item_take(planner, plan, node);
        item->target = snug__range_take(planner.map, hole, offset, size, SNUG__RANGE_TARGET, at(planner, node)->entry);
        if (!item_settle(planner, plan, item->target != SNUG__NONE))
            break;
    }
}

void snug__plan_jumble(snug__planner planner, const snug__goal *goal, uint32_t *cursor, snug__plan *plan) {
    snug__plan_clear(plan, goal);
    snug__handles_look(planner.handles, planner.map->order);
    uint32_t node = planner.map->first;
    while (node != SNUG__NONE && at(planner, node)->offset < *cursor)
        node = at(planner, node)->next;
    for (; node != SNUG__NONE && plan->count < goal->moves_max; node = at(planner, node)->next) {
        *cursor = at(planner, node)->offset + 1;
        if (!snug__plan_movable(planner, goal, node) || at(planner, node)->size > goal->step_max - plan->granules)
            continue;
        snug__item *item = snug__item_take(planner, plan, node);
        item_settle(planner, plan, snug__item_place(planner, goal, SNUG__NONE, item));
    }
    if (node == SNUG__NONE)
        *cursor = 0;
}

/* One step outward on a side: over live ranges to the next hole. */
static uint32_t next_hole(snug__planner planner, uint32_t node, bool up, bool idle_only, uint64_t *live) {
    *live = 0;
    for (;;) {
        node = up ? at(planner, node)->next : at(planner, node)->previous;
        if (node == SNUG__NONE || snug__is_barrier(at(planner, node)))
            return SNUG__NONE;
        if (at(planner, node)->kind == SNUG__RANGE_FREE)
            return node;
        snug__entry *entry = entry_of(planner, node);
        if (idle_only && snug__entry_held(planner.handles, entry, atomic_load(&entry->word)))
            return SNUG__NONE;
        *live += at(planner, node)->size;
    }
}

bool snug__plan_around(snug__planner planner, snug__around around, uint32_t *first, uint32_t *last) {
    snug__handles_look(planner.handles, planner.map->order);
    uint64_t free = 0, live_down, live_up;
    uint32_t low = around.node, high = around.node;
    uint32_t down = next_hole(planner, low, false, around.idle_only, &live_down);
    uint32_t up   = next_hole(planner, high, true, around.idle_only, &live_up);
    live_down += at(planner, around.node)->size; /* a hole below is of use only once the range itself has moved down */
    while (free < around.extra || around.all) {
        bool go_up = up != SNUG__NONE;
        if (up != SNUG__NONE && down != SNUG__NONE)
            go_up = live_up * at(planner, down)->size <= live_down * at(planner, up)->size;
        if (go_up) {
            high = up;
            free += at(planner, up)->size;
            up = next_hole(planner, high, true, around.idle_only, &live_up);
        } else if (down != SNUG__NONE) {
            low = down;
            free += at(planner, down)->size;
            down = next_hole(planner, low, false, around.idle_only, &live_down);
        } else {
            break;
        }
    }
    if (free < around.extra || (low == around.node && high == around.node))
        return false;
    *first = low == around.node ? SNUG__NONE : low;
    *last  = high == around.node ? SNUG__NONE : high;
    return true;
}

void snug__plan_undo(snug__planner planner, snug__plan *plan) {
    snug__items_put_back(planner, plan, 0);
    snug__plan_gaps_free(planner);
    plan->kind = SNUG__PLAN_NONE;
}
