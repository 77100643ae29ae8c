/* window.c: see window.h. */
#include "window.h"

enum {
    PAUSE_EVERY = 512, /* ranges */
    EXACT_MAX   = 512  /* ranges of a window whose sums are made anew after a pause */
};

static snug__range *at(snug__planner planner, uint32_t node) {
    return snug__range_at(planner.map, node);
}

/* ------------------------------------------------------------------------------------------------ views */

static void follow(uint32_t *node, uint32_t gone, uint32_t instead) {
    if (*node == gone)
        *node = instead;
}

static void follow_window(snug__window *window, uint32_t gone, uint32_t instead) {
    follow(&window->first, gone, instead);
    follow(&window->last, gone, instead);
}

static void node_removed(void *context, uint32_t gone, uint32_t instead) {
    snug__view *view = context;
    follow(&view->cursor, gone, instead);
    follow(&view->stop, gone, instead);
    follow(&view->hole, gone, instead);
    follow_window(&view->taken, gone, instead);
    for (unsigned level = 0; level < SNUG__LEVELS; level++) {
        follow(&view->scans[level].first, gone, instead);
        for (uint32_t i = 0; i < view->counts[level]; i++)
            follow_window(&view->windows[level][i], gone, instead);
    }
    for (uint32_t i = 0; i < view->failed_count; i++)
        follow_window(&view->failed[i], gone, instead);
}

void snug__view_open(snug__view *view, snug__planner planner, const snug__goal *goal) {
    memset(view, 0, sizeof *view);
    view->planner   = planner;
    view->goal      = goal;
    view->ask       = goal->settled_only;
    view->items_max = SNUG__PLAN_ITEMS_MAX;
    view->cursor = view->stop = view->hole = view->taken.first = view->taken.last = SNUG__NONE;
    planner.map->removed                                                          = node_removed;
    planner.map->removed_context                                                  = view;
    snug__handles_look(planner.handles, planner.map->order);
}

void snug__view_close(snug__view *view) {
    view->planner.map->removed = NULL;
}

/* ------------------------------------------------------------------------------------------------ sums */

static void sums_add(const snug__view *view, snug__sums *sums, const snug__range *range) {
    sums->nodes++;
    if (range->kind == SNUG__RANGE_FREE) {
        sums->free += range->size;
        return;
    }
    sums->live += range->size;
    sums->fits += range->size <= view->fitting ? range->size : 0;
    sums->count++;
    sums->held += range->held;
    sums->read += range->read;
}

static snug__sums sums_less(const snug__sums *a, const snug__sums *b) {
    return (snug__sums){.live  = a->live - b->live,
                        .free  = a->free - b->free,
                        .fits  = a->fits - b->fits,
                        .count = a->count - b->count,
                        .held  = a->held - b->held,
                        .read  = a->read - b->read,
                        .nodes = a->nodes - b->nodes};
}

/* What the window holds before the cursor, which is to be added yet. */
static snug__sums sums_again(const snug__view *view, snug__scan *scan) {
    snug__sums sums = {0};
    for (uint32_t node = scan->first; node != view->cursor; node = at(view->planner, node)->next) {
        const snug__range *range = at(view->planner, node);
        if (snug__is_barrier(range)) { /* a new one */
            sums        = (snug__sums){0};
            scan->first = range->next;
        } else {
            sums_add(view, &sums, range);
        }
    }
    return sums;
}

/* The others have had the lock. Sums of long windows stay roughly right, which will do to choose by. */
static void scans_mend(snug__view *view) {
    for (unsigned level = 0; level < SNUG__LEVELS; level++) {
        snug__scan *scan = &view->scans[level];
        snug__sums  sums = sums_less(&view->total, &scan->before);
        if (scan->first == SNUG__NONE)
            continue;
        if (sums.nodes <= EXACT_MAX)
            sums = sums_again(view, scan);
        else
            sums.held = sums.read = 0;
        scan->before = sums_less(&view->total, &sums);
    }
}

/* ------------------------------------------------------------------------------------------------ windows */

static void window_keep(snug__view *view, unsigned level, snug__window window) {
    snug__window *windows = view->windows[level];
    uint32_t      at      = view->counts[level];
    if (at == SNUG__WINDOWS_MAX) {
        if (windows[at - 1].cost <= window.cost)
            return;
        at--;
    } else {
        view->counts[level]++;
    }
    for (; at > 0 && windows[at - 1].cost > window.cost; at--)
        windows[at] = windows[at - 1];
    windows[at] = window;
}

bool snug__window_wide(snug__planner planner, const snug__goal *goal, uint32_t first, uint32_t last) {
    uint64_t start = ((uint64_t)at(planner, first)->offset + goal->alignment - 1) & ~((uint64_t)goal->alignment - 1);
    return start + goal->size <= (uint64_t)at(planner, last)->offset + at(planner, last)->size;
}

/* Is a window worth looking at that starts here? A slide starts with a hole. An evacuation that leaves out the hole before
 * it is no cheaper. */
static bool window_starts(snug__planner planner, uint32_t first, unsigned level) {
    uint32_t previous = at(planner, first)->previous;
    if (at(planner, first)->kind == SNUG__RANGE_FREE)
        return true;
    return level != SNUG__SLIDING && (previous == SNUG__NONE || at(planner, previous)->kind != SNUG__RANGE_FREE);
}

static bool level_free(const snug__view *view, unsigned level, const snug__scan *scan) {
    int64_t free = view->total.free - scan->before.free, size = view->goal->size;
    switch (level) {
    case SNUG__SLIDING: return free >= size;
    case SNUG__FITTING: return free + view->total.fits - scan->before.fits >= size;
    default: return free * SNUG__FITTING >= size * level;
    }
}

static uint64_t positive(int64_t value) { /* sums that aren't exact may be less than nothing */
    return value > 0 ? (uint64_t)value : 0;
}

static void window_look(snug__view *view, unsigned level, const snug__scan *scan, uint32_t last) {
    const snug__goal *goal = view->goal;
    snug__sums        sum  = sums_less(&view->total, &scan->before);
    uint64_t          live = positive(sum.live), count = positive(sum.count);
    uint64_t          cost = live + count * goal->overhead;
    if (level == 0 && (!view->bound || live < view->bound))
        view->bound = live;
    if (sum.held > 0 || cost > goal->granules_max || !window_starts(view->planner, scan->first, level))
        return;
    if (level == SNUG__SLIDING && sum.read > 0)
        return;
    window_keep(view, level,
                (snug__window){.first = scan->first,
                               .last  = last,
                               .count = (uint32_t)count,
                               .live  = live,
                               .free  = positive(sum.free),
                               .cost  = cost});
}

/* Makes the window that ends here as short as the level allows, and keeps what it passes over. */
static void scan_shrink(snug__view *view, unsigned level, snug__scan *scan, uint32_t last) {
    while (level_free(view, level, scan) && snug__window_wide(view->planner, view->goal, scan->first, last)) {
        window_look(view, level, scan, last);
        sums_add(view, &scan->before, at(view->planner, scan->first));
        if (scan->first == last) {
            scan->first = SNUG__NONE;
            break;
        }
        scan->first = at(view->planner, scan->first)->next;
    }
}

/* Asked once: pins and stamps come and go while the windows pass over it. */
static void range_ask(const snug__view *view, uint32_t node) {
    snug__planner planner = view->planner;
    snug__range  *range   = at(planner, node);
    range->held           = view->ask && !snug__plan_movable(planner, view->goal, node);
    range->read           = 0;
    if (view->goal->settled_only && !range->held) /* sliding over it would wait for its readers */
        range->read = !snug__order_settled(
            planner.map->order, snug__atomic_stamp_get(&snug__handles_at(planner.handles, range->entry)->readers));
}

void snug__windows_find(snug__view *view) {
    snug__planner planner = view->planner;
    uint64_t      changes = planner.map->changes;
    bool          barrier = true;
    view->fitting         = snug__map_largest(planner.map) / 2;
    view->cursor          = planner.map->first;
    view->total           = (snug__sums){0};
    memset(view->counts, 0, sizeof view->counts);
    for (uint32_t n = 1; view->cursor != SNUG__NONE; n++, view->cursor = at(planner, view->cursor)->next) {
        if (n % PAUSE_EVERY == 0) {
            snug__plan_pause(planner);
            if (planner.map->changes != changes)
                scans_mend(view);
            view->changed = view->changed || planner.map->changes != changes;
            changes       = planner.map->changes;
        }
        snug__range *range = at(planner, view->cursor);
        bool         begin = barrier;
        if ((barrier = snug__is_barrier(range)))
            continue;
        if (range->kind == SNUG__RANGE_LIVE)
            range_ask(view, view->cursor);
        snug__sums before = view->total;
        sums_add(view, &view->total, range);
        for (unsigned level = 0; level < SNUG__LEVELS; level++) {
            snug__scan *scan = &view->scans[level];
            if (begin || scan->first == SNUG__NONE)
                *scan = (snug__scan){view->cursor, before};
            scan_shrink(view, level, scan, view->cursor);
        }
    }
}
