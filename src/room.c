/* room.c: plans for a gap: see plan.h. The windows are tried by cost until one can be had; where cheap ones failed for one
 * range that finds no place elsewhere, a detour makes a hole for it first. */
#include "window.h"

enum {
    PAUSE_EVERY  = 256,
    LOW_TRIES    = 4,
    WINDOW_TRIES = 24
}; /* tries: of windows that may fail. Measured: more gain nothing */

static snug__range *at(const snug__view *view, uint32_t node) {
    return snug__range_at(view->planner.map, node);
}

static void pause_at(const snug__view *view, uint32_t n) {
    if (n % PAUSE_EVERY == PAUSE_EVERY - 1)
        snug__plan_pause(view->planner);
}

static uint64_t needed(const snug__goal *goal) {
    return (uint64_t)goal->size + goal->alignment - 1;
}

static uint64_t gap_end(const snug__view *view, uint32_t last) {
    return (uint64_t)at(view, last)->offset + at(view, last)->size;
}

/* ------------------------------------------------------------------------------------------------ evacuation */

/* The window's holes, still gaps, are free again. */
static void window_open(snug__view *view, uint32_t first, uint32_t last) {
    uint32_t n   = 0;
    view->cursor = first;
    view->stop   = last;
    for (bool end = false; !end && view->cursor != SNUG__NONE; n++) {
        uint32_t node = view->cursor;
        end           = node == view->stop;
        view->cursor  = at(view, node)->next;
        if (at(view, node)->kind == SNUG__RANGE_GAP)
            snug__range_free(view->planner.map, node, SNUG__STAMP_NONE);
        pause_at(view, n);
    }
}

/* Makes the window the plan's own: its holes gaps, its ranges taken in, as many as there is room for. False: it isn't what it
 * was, and nothing is kept. view->taken is what there is of it now. */
static bool window_take_in(snug__view *view, snug__plan *plan) {
    const snug__goal *goal = view->goal;
    snug__window     *w    = &view->taken;
    uint32_t          most = 2 * w->count + 64, last = SNUG__NONE; /* nodes; the last may vanish in a pause */
    view->cursor = w->first;
    view->stop   = w->last;
    plan->count  = 0;
    w->live = w->free = w->count = 0;
    for (uint32_t n = 0; view->cursor != SNUG__NONE && n < most; n++) {
        snug__range *range = at(view, view->cursor);
        if (range->kind == SNUG__RANGE_FREE) {
            w->free += range->size;
            snug__range_set_kind(view->planner.map, view->cursor, SNUG__RANGE_GAP);
        } else if (snug__plan_movable(view->planner, goal, view->cursor)) {
            w->live += range->size;
            w->count++;
            if (plan->count < view->items_max)
                snug__item_take(view->planner, plan, view->cursor);
        } else {
            break;
        }
        last = view->cursor;
        if (last == view->stop)
            break;
        view->cursor = range->next;
        pause_at(view, n);
    }
    w->last   = last;
    w->cost   = w->live + (uint64_t)w->count * goal->overhead;
    plan->cut = w->count > plan->count;
    if (last != SNUG__NONE && snug__window_wide(view->planner, goal, w->first, last) && w->cost <= goal->granules_max)
        return true;
    if (last != SNUG__NONE)
        window_open(view, w->first, last);
    snug__items_put_back(view->planner, plan, 0);
    return false;
}

/* Gives every item a target that finds one; these come first then. False as soon as too little will be free: what finds no
 * target slides, which takes the alignment's padding too. */
static bool items_place(const snug__view *view, snug__plan *plan, uint32_t *placed) {
    const snug__window *w     = &view->taken;
    uint32_t            end   = (uint32_t)gap_end(view, w->last);
    uint64_t            spare = w->live + w->free, need = needed(view->goal);
    *placed = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        snug__item item = plan->items[i];
        if (snug__item_place(view->planner, view->goal, end, &item)) {
            plan->items[i]           = plan->items[*placed];
            plan->items[(*placed)++] = item;
        } else {
            if (view->goal->whole || spare < need + item.size || w->free >= need)
                return false;
            spare -= item.size;
        }
        pause_at(view, i);
    }
    return *placed > 0;
}

/* A first look that changes nothing: are the ranges that are larger than any hole few enough to slide? */
static bool window_hopeful(const snug__view *view, uint32_t largest) {
    const snug__window *w     = &view->taken;
    uint64_t            spare = w->live + w->free, need = needed(view->goal);
    for (uint32_t node = w->first, n = 0; node != SNUG__NONE && n < 2 * w->count + 2;
         node = at(view, node)->next, n++) {
        const snug__range *range = at(view, node);
        if (range->kind == SNUG__RANGE_LIVE && range->size > largest) {
            if (view->goal->whole || spare < need + range->size)
                return false;
            spare -= range->size;
        }
        if (node == w->last)
            return true;
        if (n % PAUSE_EVERY == PAUSE_EVERY - 1)
            return true; /* a long one: it will be looked at with pauses */
    }
    return true;
}

/* The window is evacuated, or, if the rest of it can then slide together, as much of it as fits elsewhere; a step may do a
 * part of that only. */
static bool window_evacuate(snug__view *view, snug__plan *plan) {
    uint64_t least = plan->least;
    uint32_t placed;
    if (!window_hopeful(view, snug__map_largest(view->planner.map)) || !window_take_in(view, plan))
        return false;
    snug__items_sort(view->planner, plan);
    snug__items_choose(view->planner, view->goal, plan);
    if (!items_place(view, plan, &placed)) {
        window_open(view, view->taken.first, view->taken.last);
        snug__items_put_back(view->planner, plan, 0);
        plan->cut   = false;
        plan->least = least;
        return false;
    }
    plan->kind     = SNUG__PLAN_EVACUATE;
    plan->first    = view->taken.first;
    plan->last     = view->taken.last;
    plan->granules = view->taken.live;
    plan->moves    = view->taken.count;
    plan->cut      = plan->cut || placed < plan->count;
    snug__items_put_back(view->planner, plan, placed);
    snug__items_cut(view->planner, view->goal, plan);
    return true;
}

/* ------------------------------------------------------------------------------------------------ slides */

/* What snug__move_slide does from a hole on, on paper. False: alignments leave too little together. */
static bool slide_works(snug__view *view, uint32_t hole, bool up, snug__window *slide) {
    const snug__goal *goal  = view->goal;
    uint64_t          start = at(view, hole)->offset, end = gap_end(view, hole), mask = goal->alignment - 1;
    *slide       = (snug__window){.first = SNUG__NONE};
    view->cursor = view->hole = hole;
    for (uint32_t n = 0;; n++) {
        pause_at(view, n);
        if (((start + mask) & ~mask) + goal->size <= end) {
            slide->first = view->hole;
            slide->last  = view->cursor;
            slide->cost  = slide->live + (uint64_t)slide->count * goal->overhead;
            return slide->cost <= goal->granules_max && view->hole != SNUG__NONE &&
                   at(view, view->hole)->kind == SNUG__RANGE_FREE;
        }
        if (view->cursor == SNUG__NONE)
            return false;
        view->cursor = up ? at(view, view->cursor)->previous : at(view, view->cursor)->next;
        if (view->cursor == SNUG__NONE)
            return false;
        const snug__range *range = at(view, view->cursor);
        uint64_t           low = range->offset, high = low + range->size;
        if (range->kind != SNUG__RANGE_FREE && !snug__plan_movable(view->planner, goal, view->cursor))
            return false;
        if (range->kind == SNUG__RANGE_FREE) {
            bool touches = up ? high == start : low == end;
            start        = up || !touches ? low : start;
            end          = up && touches ? end : high;
            continue;
        }
        uint64_t step = snug__range_alignment(view->planner, view->cursor) - 1;
        uint64_t to   = up ? (end - range->size) & ~step : (start + step) & ~step;
        if (up ? end < range->size || to <= low : to >= low) {
            start = end = up ? low : high; /* passed over: on with the next hole */
            continue;
        }
        slide->live += range->size;
        slide->count++;
        start = up ? low : to + range->size;
        end   = up ? to : high;
    }
}

static void plan_slide(snug__view *view, const snug__window *slide, bool up, snug__plan *plan) {
    plan->kind     = SNUG__PLAN_SLIDE;
    plan->first    = slide->first;
    plan->last     = slide->last;
    plan->granules = slide->live;
    plan->moves    = slide->count;
    plan->up       = up;
    snug__range_set_kind(view->planner.map, slide->first, SNUG__RANGE_GAP);
}

static bool slide_fits_step(const snug__view *view, snug__plan *plan) {
    uint32_t size = 0; /* of the first range that would step over the hole */
    for (uint32_t node = view->taken.first; size == 0 && node != SNUG__NONE; node = at(view, node)->next)
        if (at(view, node)->kind == SNUG__RANGE_LIVE)
            size = at(view, node)->size;
    if (size <= view->goal->step_max)
        return true;
    if (!plan->least || size < plan->least)
        plan->least = size;
    return false;
}

/* May all of it be moved? It may also have come to hold what nothing is carried over. */
static bool window_movable(snug__view *view) {
    uint32_t n = 0;
    view->stop = view->taken.last;
    for (view->cursor = view->taken.first; view->cursor != SNUG__NONE;
         view->cursor = at(view, view->cursor)->next, n++) {
        const snug__range *range = at(view, view->cursor);
        if (range->kind != SNUG__RANGE_FREE && !snug__plan_movable(view->planner, view->goal, view->cursor))
            return false;
        if (view->cursor == view->stop)
            return true;
        pause_at(view, n);
    }
    return false;
}

static bool window_slide(snug__view *view, snug__plan *plan) {
    snug__window slide;
    if (!window_movable(view) || !slide_fits_step(view, plan))
        return false;
    for (int up = 0; up < 2; up++) { /* the hole goes up if it can */
        uint32_t hole = up ? view->taken.last : view->taken.first;
        if (hole == SNUG__NONE || at(view, hole)->kind != SNUG__RANGE_FREE || !slide_works(view, hole, up, &slide) ||
            slide.cost > view->taken.cost)
            continue;
        plan_slide(view, &slide, up, plan);
        return true;
    }
    return false;
}

/* With alignments it can take more than any window promises: the cheapest slide through a whole stretch, down or up. The last
 * resort, without pauses. */
static bool stretch_slide(snug__view *view, snug__plan *plan) {
    view->planner.lock = NULL;
    snug__window best  = {.first = SNUG__NONE, .cost = UINT64_MAX}, slide;
    uint32_t     first = SNUG__NONE, last = SNUG__NONE;
    bool         best_up = false;
    for (uint32_t node = view->planner.map->first;; node = at(view, node)->next) {
        if (node != SNUG__NONE && !snug__is_barrier(at(view, node))) {
            if (at(view, node)->kind == SNUG__RANGE_FREE) {
                first = first == SNUG__NONE ? node : first;
                last  = node;
            }
            continue;
        }
        for (int up = 0; up < 2 && first != SNUG__NONE; up++)
            if (slide_works(view, up ? last : first, up, &slide) && slide.cost < best.cost) {
                best    = slide;
                best_up = up;
            }
        if (node == SNUG__NONE)
            break;
        first = last = SNUG__NONE;
    }
    if (best.first == SNUG__NONE)
        return false;
    plan_slide(view, &best, best_up, plan);
    return true;
}

/* ------------------------------------------------------------------------------------------------ relief */

/* Between fixed ranges no stretch has room enough by itself: carry ranges out of one into holes elsewhere until it has; a
 * slide can then do the rest. */
static bool stretch_relieve(snug__view *view, uint64_t lacking, snug__plan *plan) {
    const snug__goal *goal   = view->goal;
    uint32_t          placed = 0;
    uint64_t          gained = 0;
    view->cursor             = view->taken.first;
    view->stop               = view->taken.last;
    plan->count              = 0;
    for (uint32_t n = 0; view->cursor != SNUG__NONE; n++) { /* its holes are no places to go to */
        if (at(view, view->cursor)->kind == SNUG__RANGE_FREE)
            snug__range_set_kind(view->planner.map, view->cursor, SNUG__RANGE_GAP);
        else if (plan->count < SNUG__PLAN_ITEMS_MAX && snug__plan_movable(view->planner, goal, view->cursor))
            snug__item_take(view->planner, plan, view->cursor);
        if (view->cursor == view->stop)
            break;
        view->cursor = at(view, view->cursor)->next;
        pause_at(view, n);
    }
    snug__items_sort(view->planner, plan);
    for (uint32_t i = 0; i < plan->count && gained < lacking; i++) {
        snug__item item = plan->items[i];
        if (gained + item.size <= goal->granules_max && snug__item_place(view->planner, goal, SNUG__NONE, &item)) {
            plan->items[i]        = plan->items[placed];
            plan->items[placed++] = item;
            gained += item.size;
        }
        pause_at(view, i);
    }
    snug__plan_gaps_free(view->planner);
    snug__items_put_back(view->planner, plan, gained < lacking ? 0 : placed);
    if (gained < lacking)
        return false;
    plan->kind  = SNUG__PLAN_EVACUATE;
    plan->first = plan->last = SNUG__NONE;
    plan->granules           = gained;
    plan->moves              = placed;
    plan->cut                = true;
    snug__items_cut(view->planner, goal, plan);
    return true;
}

static bool plan_relief(snug__view *view, snug__plan *plan) {
    snug__window *stretch = &view->taken;
    uint64_t      total = 0, free = 0, size = view->goal->size;
    uint32_t      n = 0;
    stretch->first  = SNUG__NONE;
    for (view->cursor = view->planner.map->first;; view->cursor = at(view, view->cursor)->next, n++) {
        pause_at(view, n);
        bool end = view->cursor == SNUG__NONE || snug__is_barrier(at(view, view->cursor));
        if (end && stretch->first != SNUG__NONE && total >= size && free < size && free > 0) {
            if (stretch_relieve(view, size - free, plan))
                return true;
            view->cursor = stretch->last == SNUG__NONE ? SNUG__NONE : at(view, stretch->last)->next;
        }
        if (view->cursor == SNUG__NONE)
            return false;
        if (end) {
            stretch->first = SNUG__NONE;
            total = free = 0;
            continue;
        }
        if (stretch->first == SNUG__NONE)
            stretch->first = view->cursor;
        stretch->last = view->cursor;
        total += at(view, view->cursor)->size;
        free += at(view, view->cursor)->kind == SNUG__RANGE_FREE ? at(view, view->cursor)->size : 0;
    }
}

/* ------------------------------------------------------------------------------------------------ which window */

static void failed_add(snug__view *view, const snug__window *window) {
    const snug__window *last = view->failed_count ? &view->failed[view->failed_count - 1] : NULL;
    if (view->failed_count < SNUG__DETOURS_MAX && !(last && last->first == window->first && last->last == window->last))
        view->failed[view->failed_count++] = *window;
}

/* Takes the first of the windows, cheapest first, that can be had: view->taken. */
static bool windows_take(snug__view *view, bool note_failed, snug__plan *plan) {
    uint32_t next[SNUG__LEVELS] = {0}, tries = 0;
    for (;;) {
        unsigned            level  = 0;
        const snug__window *window = NULL;
        for (unsigned l = 0; l < SNUG__LEVELS; l++)
            if (next[l] < view->counts[l] && (!window || view->windows[l][next[l]].cost < window->cost)) {
                level  = l;
                window = &view->windows[l][next[l]];
            }
        if (!window)
            return false;
        next[level]++;
        if (level < SNUG__SLIDING && tries++ >= WINDOW_TRIES)
            continue;
        view->taken = *window;
        if (level < SNUG__SLIDING ? window_evacuate(view, plan) : window_slide(view, plan))
            return true;
        if (note_failed && level < SNUG__SLIDING)
            failed_add(view, window);
    }
}

/* ------------------------------------------------------------------------------------------------ detours */

/* Places what can be placed, to the front; of the rest, the smallest item whose place would make the window fit. */
static bool detour_item(const snug__view *view, snug__plan *plan, snug__item *found) {
    const snug__window *w   = &view->taken;
    uint64_t            all = w->live + w->free, need = needed(view->goal), left = 0;
    uint64_t            spare  = all > need && w->free < need ? all - need : 0;
    uint32_t            end    = (uint32_t)gap_end(view, w->last);
    uint32_t            placed = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        snug__item item = plan->items[i];
        if (snug__item_place(view->planner, view->goal, end, &item)) {
            plan->items[i]        = plan->items[placed];
            plan->items[placed++] = item;
        } else {
            left += item.size;
        }
        pause_at(view, i);
    }
    found->source = SNUG__NONE;
    for (uint32_t i = placed; i < plan->count; i++)
        if (plan->items[i].size + spare >= left && at(view, plan->items[i].source)->entry != SNUG__NONE &&
            (found->source == SNUG__NONE || plan->items[i].size < found->size))
            *found = plan->items[i];
    return found->source != SNUG__NONE;
}

/* What the window's ranges have been placed in stays set aside while the hole is made: a slide must not take it for room that
 * it has made. */
static void target_set_aside(const snug__view *view, snug__item *item) {
    at(view, item->target)->entry = SNUG__NONE;
    snug__range_set_kind(view->planner.map, item->target, SNUG__RANGE_GAP);
    item->target = SNUG__NONE;
}

/* A hole for one item of a window is made first, so that the window can be had next time, the two for less than limit. The
 * window's items wait at the end of the array. */
static bool plan_detour(snug__view *view, const snug__window *window, uint64_t limit, snug__plan *plan,
                        uint64_t *cost) {
    const snug__goal *goal = view->goal;
    snug__item        item = {.source = SNUG__NONE};
    bool              made = false;
    snug__plan_clear(plan, view->goal);
    view->taken = *window;
    if (window->cost >= limit || window->count > SNUG__PLAN_ITEMS_MAX / 2 || !window_take_in(view, plan))
        return false;
    snug__window outer = view->taken;
    snug__items_sort(view->planner, plan);
    bool        found = !plan->cut && detour_item(view, plan, &item);
    uint32_t    count = plan->count;
    snug__item *aside = &plan->items[SNUG__PLAN_ITEMS_MAX - count];
    memmove(aside, plan->items, count * sizeof *aside);
    plan->count     = 0;
    view->items_max = SNUG__PLAN_ITEMS_MAX - count;
    if (found && outer.cost < limit) {
        snug__goal hole   = *goal;
        hole.size         = item.size;
        hole.alignment    = snug__range_alignment(view->planner, item.source);
        hole.granules_max = limit - outer.cost - 1;
        view->goal        = &hole;
        snug__windows_find(view);
        made            = windows_take(view, false, plan);
        view->goal      = goal;
        plan->size      = hole.size;
        plan->alignment = hole.alignment;
    }
    view->items_max = SNUG__PLAN_ITEMS_MAX;
    if (!made)
        window_open(view, outer.first, outer.last);
    for (uint32_t i = 0; i < count; i++) {
        if (made && aside[i].target != SNUG__NONE)
            target_set_aside(view, &aside[i]);
        snug__item_put_back(view->planner, &aside[i]);
        pause_at(view, i);
    }
    if (!made)
        return false;
    *cost = outer.cost + view->taken.cost;
    plan->granules += outer.live;
    plan->moves += outer.count;
    plan->cut = true;
    return true;
}

/* Where the windows passed over are much cheaper than the one that can be had. */
static bool detours_take(snug__view *view, uint64_t limit, snug__plan *plan) {
    uint32_t best = SNUG__DETOURS_MAX;
    uint64_t cost;
    for (uint32_t i = 0; i < view->failed_count; i++)
        if (plan_detour(view, &view->failed[i], limit, plan, &cost)) {
            limit = cost;
            best  = i;
            snug__plan_undo(view->planner, plan);
        }
    return best < SNUG__DETOURS_MAX && plan_detour(view, &view->failed[best], limit + 1, plan, &cost);
}

/* ------------------------------------------------------------------------------------------------ room */

/* The windows of the goal, or, unless it is to be direct, a detour to one of them. */
static bool plan_windows(snug__view *view, bool direct, snug__plan *plan) {
    snug__windows_find(view);
    plan->bound        = view->bound;
    view->failed_count = 0;
    view->full = view->slides = false;
    for (unsigned level = 0; level < SNUG__LEVELS; level++)
        view->full = view->full || view->counts[level] == SNUG__WINDOWS_MAX;
    view->slides = view->counts[SNUG__SLIDING] > 0;
    bool made    = windows_take(view, !direct, plan);
    if (direct || !view->failed_count || (made && view->taken.cost - view->failed[0].cost <= view->failed[0].cost / 8))
        return made;
    uint64_t limit = made ? view->taken.cost : view->goal->granules_max;
    if (made)
        snug__plan_undo(view->planner, plan);
    if (detours_take(view, limit, plan))
        return true;
    snug__plan_clear(plan, view->goal);
    if (!made)
        return false;
    snug__windows_find(view); /* what was undone lies in its bins in another order, and may be found in another */
    return windows_take(view, false, plan);
}

void snug__plan_room(snug__planner planner, const snug__goal *goal, snug__plan *plan) {
    snug__view view;
    bool       bounded = goal->moves_max != UINT32_MAX || goal->step_max != UINT64_MAX;
    snug__view_open(&view, planner, goal);
    snug__plan_clear(plan, goal);
    bool made = plan_windows(&view, bounded || goal->whole, plan);
    if (!made && view.changed && !bounded) { /* what it saw was an old map: once more, and nobody else meanwhile */
        view.planner.lock = NULL;
        made              = plan_windows(&view, bounded || goal->whole, plan);
        view.planner.lock = planner.lock;
    }
    if (!made && view.full && goal->idle_only && !view.ask) { /* all that were kept are held: are there others? */
        view.ask = true;
        made     = plan_windows(&view, bounded || goal->whole, plan);
    }
    if (!made && !bounded && !goal->idle_only)
        made = stretch_slide(&view, plan);
    if (!made && !view.slides)
        plan_relief(&view, plan);
    snug__view_close(&view);
}

void snug__plan_low(snug__planner planner, const snug__goal *goal, uint32_t limit, snug__plan *plan) {
    snug__view view;
    unsigned   tries = 0;
    bool       made  = false;
    snug__plan_clear(plan, goal);
    snug__view_open(&view, planner, goal);
    for (uint32_t first = planner.map->first; first != SNUG__NONE && tries < LOW_TRIES && !made;) {
        snug__window window = {.first = first};
        uint32_t     last   = first;
        for (; last != SNUG__NONE && !snug__is_barrier(at(&view, last)); last = at(&view, last)->next) {
            window.last = last;
            window.count += at(&view, last)->kind == SNUG__RANGE_LIVE;
            if (gap_end(&view, last) > limit || window.count > SNUG__PLAN_ITEMS_MAX ||
                snug__window_wide(planner, goal, first, last))
                break;
        }
        if (last == SNUG__NONE || gap_end(&view, last) > limit || window.count > SNUG__PLAN_ITEMS_MAX)
            break;
        if (!window.count && snug__window_wide(planner, goal, first, last))
            break; /* a hole: there is nothing to move */
        if (!snug__is_barrier(at(&view, last))) {
            tries++;
            view.taken = window;
            view.hole  = first;
            made       = window_evacuate(&view, plan);
            first      = view.hole;
        }
        first = first == SNUG__NONE ? SNUG__NONE : at(&view, first)->next;
    }
    snug__view_close(&view);
}
