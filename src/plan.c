/* plan.c: see plan.h. */
#include "plan.h"

enum { LARGEST_LOOKS = 64 }; /* of a window's ranges, whether they fit elsewhere, where a step won't move all */

static snug__range *at(snug__planner planner, uint32_t node) {
    return snug__range_at(planner.map, node);
}

static bool is_barrier(const snug__range *range) {
    return range->kind != SNUG__RANGE_FREE && (range->kind != SNUG__RANGE_LIVE || range->fixed || range->copying);
}

static snug__entry *entry_of(snug__planner planner, uint32_t node) {
    return snug__handles_at(planner.handles, at(planner, node)->entry);
}

bool snug__plan_movable(snug__planner planner, const snug__goal *goal, uint32_t node) {
    const snug__range *range = at(planner, node);
    if (range->kind != SNUG__RANGE_LIVE || is_barrier(range))
        return false;
    if (!goal->idle_only)
        return true;
    snug__entry *entry = entry_of(planner, node);
    uint64_t     word  = atomic_load(&entry->word);
    if (word & SNUG__PINS)
        return false;
    if (entry->moved_at_ns && goal->now_ns - entry->moved_at_ns < goal->cooldown_ns)
        return false;
    if (!goal->settled_only)
        return true;
    snug__stamp before =
        snug__stamp_unite(snug__entry_ready(entry, snug__word_current(word)), snug__atomic_stamp_get(&entry->writers));
    return snug__order_settled(planner.map->order, before);
}

/* ------------------------------------------------------------------------------------------------ windows */

static void window_keep(snug__plan *plan, snug__window window) {
    uint32_t at = plan->windows_count;
    if (at == SNUG__PLAN_WINDOWS_MAX) {
        if (plan->windows[at - 1].cost <= window.cost)
            return;
        at--;
    } else {
        plan->windows_count++;
    }
    for (; at > 0 && plan->windows[at - 1].cost > window.cost; at--)
        plan->windows[at] = plan->windows[at - 1];
    plan->windows[at] = window;
}

static bool window_wide(snug__planner planner, const snug__goal *goal, uint32_t first, const snug__range *last) {
    uint64_t start = at(planner, first)->offset;
    start          = (start + goal->alignment - 1) & ~((uint64_t)goal->alignment - 1);
    return start + goal->size <= (uint64_t)last->offset + last->size;
}

typedef struct sums {
    uint64_t live, free;
    uint32_t count, held;
} sums;

static void sums_add(snug__planner planner, const snug__goal *goal, bool ask, sums *sums, uint32_t node, int sign) {
    snug__range *range = at(planner, node);
    uint64_t     size  = sign > 0 ? range->size : -(uint64_t)range->size;
    if (range->kind == SNUG__RANGE_FREE) {
        sums->free += size;
        return;
    }
    sums->live += size;
    sums->count += (uint32_t)sign;
    if (!ask) /* where few are held it is cheaper to look at the windows that are chosen */
        return;
    if (sign > 0) /* asked once: pins come and go while the window passes over it */
        range->held = !snug__plan_movable(planner, goal, node);
    sums->held += (uint32_t)(range->held ? sign : 0);
}

/* Is a window worth looking at that starts here? A slide starts with a hole. An evacuation that leaves out the hole before
 * it is no cheaper. */
static bool window_starts(snug__planner planner, uint32_t first, bool slide) {
    uint32_t previous = at(planner, first)->previous;
    if (at(planner, first)->kind == SNUG__RANGE_FREE)
        return true;
    return !slide && (previous == SNUG__NONE || at(planner, previous)->kind != SNUG__RANGE_FREE);
}

/* Two pointers over each stretch without barriers. evacuate: the windows that are wide enough; slide: those that have free
 * bytes enough. */
static void windows_find(snug__planner planner, const snug__goal *goal, bool ask, snug__plan *plan, bool slide) {
    uint32_t first = SNUG__NONE;
    sums     sum   = {0};
    for (uint32_t last = planner.map->first; last != SNUG__NONE; last = at(planner, last)->next) {
        if (is_barrier(at(planner, last))) {
            first = SNUG__NONE;
            sum   = (struct sums){0};
            continue;
        }
        if (first == SNUG__NONE)
            first = last;
        sums_add(planner, goal, ask, &sum, last, 1);
        uint64_t slack = slide ? goal->alignment - 1 : 0;
        while (slide ? sum.free >= goal->size + slack : window_wide(planner, goal, first, at(planner, last))) {
            uint64_t cost = sum.live + (uint64_t)sum.count * goal->overhead;
            if (!slide && (!plan->bound || sum.live < plan->bound))
                plan->bound = sum.live;
            if (!sum.held && cost <= goal->granules_max && (slide || sum.count <= SNUG__PLAN_ITEMS_MAX) &&
                window_starts(planner, first, slide))
                window_keep(plan, (snug__window){first, last, sum.count, sum.live, cost, slide});
            sums_add(planner, goal, ask, &sum, first, -1);
            if (first == last) {
                first = SNUG__NONE;
                break;
            }
            first = at(planner, first)->next;
        }
    }
}

/* ------------------------------------------------------------------------------------------------ evacuation */

/* Shell sort, largest first, so that no memory is asked for. */
static void items_sort(snug__item *items, uint32_t count) {
    static const uint32_t gaps[] = {8929, 3905, 1750, 701, 301, 132, 57, 23, 10, 4, 1}; /* Ciura's, continued by 2.25 */
    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++)
        for (uint32_t i = gaps[g]; i < count; i++) {
            snug__item item = items[i];
            uint32_t   j    = i;
            for (; j >= gaps[g] && items[j - gaps[g]].size < item.size; j -= gaps[g])
                items[j] = items[j - gaps[g]];
            items[j] = item;
        }
}

static void item_add(snug__planner planner, snug__plan *plan, uint32_t node) {
    plan->items[plan->count++] = (snug__item){.source = node, .target = SNUG__NONE, .size = at(planner, node)->size};
}

static uint32_t alignment_of(snug__planner planner, uint32_t node) {
    unsigned log2 = entry_of(planner, node)->alignment_log2;
    return log2 <= 8 ? 1 : UINT32_C(1) << (log2 - 8);
}

/* In the hole that begins where the window ends it goes to the far end, so that the rest of it widens the window. */
static bool item_place(snug__planner planner, const snug__goal *goal, uint32_t window_end, snug__item *item) {
    uint32_t  offset;
    snug__fit fit  = {item->size, alignment_of(planner, item->source), goal->settled_only};
    uint32_t  node = snug__map_find(planner.map, fit, &offset);
    if (node == SNUG__NONE)
        return false;
    const snug__range *hole = at(planner, node);
    if (hole->offset == window_end)
        offset = (hole->offset + hole->size - item->size) & ~(fit.alignment - 1);
    item->target =
        snug__range_take(planner.map, node, offset, item->size, SNUG__RANGE_TARGET, at(planner, item->source)->entry);
    return item->target != SNUG__NONE;
}

static void item_unplace(snug__planner planner, snug__item *item) {
    if (item->target != SNUG__NONE)
        snug__range_free(planner.map, item->target, SNUG__STAMP_NONE);
    item->target = SNUG__NONE;
}

static void window_reserve(snug__planner planner, uint32_t first, uint32_t last) {
    for (uint32_t node = first;; node = at(planner, node)->next) {
        if (at(planner, node)->kind == SNUG__RANGE_FREE)
            snug__range_set_kind(planner.map, node, SNUG__RANGE_GAP);
        if (node == last)
            break;
    }
}

static void items_collect(snug__planner planner, snug__plan *plan, uint32_t first, uint32_t last) {
    plan->count = 0;
    for (uint32_t node = first;; node = at(planner, node)->next) {
        if (at(planner, node)->kind == SNUG__RANGE_LIVE && plan->count < SNUG__PLAN_ITEMS_MAX)
            item_add(planner, plan, node);
        if (node == last)
            break;
    }
    items_sort(plan->items, plan->count);
}

/* Keeps what this step may do, smallest last so that a tight budget is used up; the targets of the rest go back. */
static void items_cut(snug__planner planner, const snug__goal *goal, snug__plan *plan) {
    uint64_t left = goal->step_max;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        snug__item *item = &plan->items[i];
        if (kept < goal->moves_max && item->size <= left) {
            left -= item->size;
            plan->items[kept++] = *item;
            continue;
        }
        if (!plan->least || item->size < plan->least)
            plan->least = item->size;
        plan->cut = true;
        item_unplace(planner, item);
    }
    plan->count = kept;
}

static void items_mark(snug__planner planner, snug__plan *plan) {
    for (uint32_t i = 0; i < plan->count; i++) {
        snug__item *item                   = &plan->items[i];
        at(planner, item->source)->copying = 1;
        item->generation                   = snug__word_generation(atomic_load(&entry_of(planner, item->source)->word));
    }
}

/* Of a large window a small step looks only at what it would move itself, and at the largest ranges: where these fit
 * elsewhere the smaller ones will. */
static void items_choose(const snug__goal *goal, snug__plan *plan) {
    if (goal->moves_max == UINT32_MAX && goal->step_max == UINT64_MAX)
        return;
    uint64_t left  = goal->step_max;
    uint32_t taken = 0, kept = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        uint32_t size = plan->items[i].size;
        bool     take = taken < goal->moves_max && size <= left;
        if (take) {
            left -= size;
            taken++;
        } else {
            plan->least = !plan->least || size < plan->least ? size : plan->least;
            plan->cut   = true;
        }
        if (take || i < LARGEST_LOOKS)
            plan->items[kept++] = plan->items[i];
    }
    plan->count = kept;
}

/* The window is evacuated whole or not at all; a step may still do a part of it only. */
static bool window_evacuate(snug__planner planner, const snug__goal *goal, const snug__window *window,
                            snug__plan *plan) {
    uint64_t least = plan->least;
    window_reserve(planner, window->first, window->last);
    items_collect(planner, plan, window->first, window->last);
    items_choose(goal, plan);
    uint32_t placed = 0, end = at(planner, window->last)->offset + at(planner, window->last)->size;
    while (placed < plan->count && item_place(planner, goal, end, &plan->items[placed]))
        placed++;
    if (placed < plan->count) {
        while (placed > 0)
            item_unplace(planner, &plan->items[--placed]);
        snug__gaps_free(planner.map);
        plan->count = 0;
        plan->cut   = false;
        plan->least = least;
        return false;
    }
    plan->kind     = SNUG__PLAN_EVACUATE;
    plan->first    = window->first;
    plan->last     = window->last;
    plan->granules = window->live;
    plan->moves    = window->count;
    items_cut(planner, goal, plan);
    items_mark(planner, plan);
    return true;
}

static void window_slide(snug__planner planner, const snug__window *window, snug__plan *plan) {
    plan->kind     = SNUG__PLAN_SLIDE;
    plan->first    = window->first;
    plan->last     = window->last;
    plan->granules = window->live;
    plan->moves    = window->count;
    snug__range_set_kind(planner.map, window->first, SNUG__RANGE_GAP);
}

/* Between fixed ranges no stretch has room enough by itself: carry ranges out of one into holes elsewhere until it has; a
 * slide can then do the rest. */
static bool stretch_relieve(snug__planner planner, const snug__goal *goal, uint32_t first, uint32_t last,
                            uint64_t lacking, snug__plan *plan) {
    window_reserve(planner, first, last);
    items_collect(planner, plan, first, last);
    uint32_t placed = 0;
    uint64_t gained = 0;
    for (uint32_t i = 0; i < plan->count && gained < lacking; i++) {
        snug__item item = plan->items[i];
        if (gained + item.size > goal->granules_max || !snug__plan_movable(planner, goal, item.source) ||
            !item_place(planner, goal, SNUG__NONE, &item))
            continue;
        plan->items[i]        = plan->items[placed];
        plan->items[placed++] = item;
        gained += item.size;
    }
    plan->count = placed;
    snug__gaps_free(planner.map);
    if (gained < lacking) {
        while (plan->count > 0)
            item_unplace(planner, &plan->items[--plan->count]);
        return false;
    }
    plan->kind  = SNUG__PLAN_EVACUATE;
    plan->first = plan->last = SNUG__NONE;
    plan->granules           = gained;
    plan->moves              = placed;
    plan->cut                = true;
    items_cut(planner, goal, plan);
    items_mark(planner, plan);
    return true;
}

static bool plan_relief(snug__planner planner, const snug__goal *goal, snug__plan *plan) {
    uint32_t first = SNUG__NONE, previous = SNUG__NONE;
    uint64_t total = 0, free = 0;
    for (uint32_t node = planner.map->first;; node = at(planner, node)->next) {
        bool end = node == SNUG__NONE || is_barrier(at(planner, node));
        if (end && first != SNUG__NONE && total >= goal->size && free < goal->size && free > 0 &&
            stretch_relieve(planner, goal, first, previous, goal->size - free, plan))
            return true;
        if (node == SNUG__NONE)
            return false;
        if (end) {
            first = SNUG__NONE;
            total = free = 0;
            continue;
        }
        if (first == SNUG__NONE)
            first = node;
        previous = node;
        total += at(planner, node)->size;
        free += at(planner, node)->kind == SNUG__RANGE_FREE ? at(planner, node)->size : 0;
    }
}

/* ------------------------------------------------------------------------------------------------ plans */

static void plan_clear(snug__plan *plan) {
    plan->kind  = SNUG__PLAN_NONE;
    plan->first = plan->last = SNUG__NONE;
    plan->granules = plan->least = plan->bound = 0;
    plan->moves = plan->count = plan->windows_count = 0;
    plan->cut                                       = false;
}

static bool slide_fits_step(snug__planner planner, const snug__goal *goal, const snug__window *window,
                            snug__plan *plan) {
    uint32_t size = 0; /* of the first range that would step over the hole */
    for (uint32_t node = window->first; size == 0 && node != SNUG__NONE; node = at(planner, node)->next)
        if (at(planner, node)->kind == SNUG__RANGE_LIVE)
            size = at(planner, node)->size;
    if (size <= goal->step_max)
        return true;
    if (!plan->least || size < plan->least)
        plan->least = size;
    return false;
}

static bool window_movable(snug__planner planner, const snug__goal *goal, const snug__window *window) {
    for (uint32_t node = window->first;; node = at(planner, node)->next) {
        if (at(planner, node)->kind == SNUG__RANGE_LIVE && !snug__plan_movable(planner, goal, node))
            return false;
        if (node == window->last)
            return true;
    }
}

/* Takes the first of the windows, cheapest first, that can be had. A slide always can, once its ranges are idle. */
static bool window_take(snug__planner planner, const snug__goal *goal, const snug__window *window, snug__plan *plan) {
    if (!window_movable(planner, goal, window))
        return false;
    if (!window->slide)
        return window_evacuate(planner, goal, window, plan);
    if (!slide_fits_step(planner, goal, window, plan))
        return false;
    window_slide(planner, window, plan);
    return true;
}

/* ask: of every range whether it may be moved, before windows are chosen. */
static bool plan_windows(snug__planner planner, const snug__goal *goal, bool ask, snug__plan *plan) {
    plan->windows_count = 0;
    windows_find(planner, goal, ask, plan, false);
    uint32_t     evacuations = plan->windows_count;
    snug__window kept[SNUG__PLAN_WINDOWS_MAX];
    memcpy(kept, plan->windows, evacuations * sizeof kept[0]);
    plan->windows_count = 0;
    windows_find(planner, goal, ask, plan, true);
    for (uint32_t e = 0, s = 0; e < evacuations || s < plan->windows_count;) {
        bool evacuate = s == plan->windows_count || (e < evacuations && kept[e].cost <= plan->windows[s].cost);
        if (window_take(planner, goal, evacuate ? &kept[e++] : &plan->windows[s++], plan))
            return true;
    }
    return false;
}

void snug__plan_room(snug__planner planner, const snug__goal *goal, snug__plan *plan) {
    plan_clear(plan);
    if (plan_windows(planner, goal, goal->settled_only, plan))
        return;
    bool dropped = plan->windows_count == SNUG__PLAN_WINDOWS_MAX; /* all that were kept are held: are there others? */
    if (goal->idle_only && !goal->settled_only && dropped && plan_windows(planner, goal, true, plan))
        return;
    if (!plan->windows_count)
        plan_relief(planner, goal, plan);
}

void snug__plan_low(snug__planner planner, const snug__goal *goal, uint32_t limit, snug__plan *plan) {
    plan_clear(plan);
    unsigned tries = 0;
    for (uint32_t first = planner.map->first; first != SNUG__NONE && tries < 4; first = at(planner, first)->next) {
        snug__window window = {.first = first};
        uint32_t     last   = first;
        for (; last != SNUG__NONE && !is_barrier(at(planner, last)); last = at(planner, last)->next) {
            const snug__range *range = at(planner, last);
            if ((uint64_t)range->offset + range->size > limit || window.count == SNUG__PLAN_ITEMS_MAX)
                return;
            if (range->kind == SNUG__RANGE_LIVE) {
                window.live += range->size;
                window.count++;
            }
            window.last = last;
            if (window_wide(planner, goal, first, range))
                break;
        }
        if (last == SNUG__NONE)
            return;
        if (is_barrier(at(planner, last)))
            continue;
        tries++;
        if (window.live + (uint64_t)window.count * goal->overhead <= goal->granules_max &&
            window_movable(planner, goal, &window) && window_evacuate(planner, goal, &window, plan))
            return;
    }
}

void snug__plan_pack(snug__planner planner, const snug__goal *goal, snug__plan *plan) {
    plan_clear(plan);
    uint64_t left = goal->step_max;
    for (uint32_t node = planner.map->last; node != SNUG__NONE && plan->count < goal->moves_max;
         node          = at(planner, node)->previous) {
        if (!snug__plan_movable(planner, goal, node) || at(planner, node)->size > left)
            continue;
        uint32_t  offset, top = at(planner, node)->offset;
        snug__fit fit  = {at(planner, node)->size, alignment_of(planner, node), goal->settled_only};
        uint32_t  hole = snug__map_find_low(planner.map, fit, top, &offset);
        if (hole == SNUG__NONE || offset >= top)
            break;
        item_add(planner, plan, node);
        snug__item *item = &plan->items[plan->count - 1];
        item->target =
            snug__range_take(planner.map, hole, offset, item->size, SNUG__RANGE_TARGET, at(planner, node)->entry);
        if (item->target == SNUG__NONE) {
            plan->count--;
            break;
        }
        left -= item->size;
        plan->granules += item->size;
    }
    plan->moves = plan->count;
    plan->kind  = plan->count ? SNUG__PLAN_EVACUATE : SNUG__PLAN_NONE;
    items_mark(planner, plan);
}

void snug__plan_jumble(snug__planner planner, const snug__goal *goal, uint32_t *cursor, snug__plan *plan) {
    plan_clear(plan);
    uint32_t node = planner.map->first;
    while (node != SNUG__NONE && at(planner, node)->offset < *cursor)
        node = at(planner, node)->next;
    uint64_t left = goal->step_max;
    for (; node != SNUG__NONE && plan->count < goal->moves_max; node = at(planner, node)->next) {
        *cursor = at(planner, node)->offset + 1;
        if (!snug__plan_movable(planner, goal, node) || at(planner, node)->size > left)
            continue;
        item_add(planner, plan, node);
        snug__item *item = &plan->items[plan->count - 1];
        if (!item_place(planner, goal, SNUG__NONE, item)) {
            plan->count--;
            continue;
        }
        left -= item->size;
        plan->granules += item->size;
    }
    if (node == SNUG__NONE)
        *cursor = 0;
    plan->moves = plan->count;
    plan->kind  = plan->count ? SNUG__PLAN_EVACUATE : SNUG__PLAN_NONE;
    items_mark(planner, plan);
}

/* One step outward on a side: over live ranges to the next hole. */
static uint32_t next_hole(snug__planner planner, uint32_t node, bool up, bool idle_only, uint64_t *live) {
    *live = 0;
    for (;;) {
        node = up ? at(planner, node)->next : at(planner, node)->previous;
        if (node == SNUG__NONE || is_barrier(at(planner, node)))
            return SNUG__NONE;
        if (at(planner, node)->kind == SNUG__RANGE_FREE)
            return node;
        if (idle_only && (atomic_load(&entry_of(planner, node)->word) & SNUG__PINS))
            return SNUG__NONE;
        *live += at(planner, node)->size;
    }
}

bool snug__plan_around(snug__planner planner, snug__around around, uint32_t *first, uint32_t *last) {
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
    for (uint32_t i = 0; i < plan->count; i++) {
        at(planner, plan->items[i].source)->copying = 0;
        item_unplace(planner, &plan->items[i]);
    }
    plan->count = 0;
    snug__gaps_free(planner.map);
    plan->kind = SNUG__PLAN_NONE;
}
