/* plan.h: the planner: map + pins + goal + budget -> moves.
 *
 * A plan is made under the pool's lock and allocates nothing: its scratch space is part of it. What a plan will fill is
 * reserved in the map (TARGET for where buffers go, GAP for what is kept free), so that nobody else takes it when the lock
 * is dropped. A plan never names a range that is fixed (pinned long, immovable) or in another plan: I4.
 *
 * Two ways to make a gap:
 *   evacuate  the ranges of a window go to holes outside it, best fit, each moved once, in any order;
 *   slide     a hole is carried through a stretch: each live range steps over it, and it swallows the holes it meets.
 * The window's free ranges are gaps until snug__gaps_free; where several steps make one plan, each step plans anew.
 * The cheaper of the two is taken. Evacuating needs holes that fit; sliding always works where no fixed range is between.
 * Reads maps, words and stamps; knows no device. */
#ifndef SNUG__PLAN_H
#define SNUG__PLAN_H

#include "range.h"

enum { SNUG__PLAN_ITEMS_MAX = 16384, SNUG__PLAN_WINDOWS_MAX = 12 };

typedef enum snug__plan_kind { SNUG__PLAN_NONE, SNUG__PLAN_EVACUATE, SNUG__PLAN_SLIDE } snug__plan_kind;

typedef struct snug__goal {
    uint32_t size, alignment; /* of the gap wanted, in granules */
    uint64_t granules_max;    /* most to move in all for it; a plan that needs more isn't one */
    uint64_t step_max;        /* most to move in this step; the plan is cut there */
    uint32_t moves_max;       /* likewise */
    uint32_t overhead;        /* what a copy costs beside its bytes, in granules */
    bool     idle_only;       /* nothing that is pinned, or was moved less than cooldown_ns ago */
    bool     settled_only;    /* only what nobody's queued work writes, and only to targets that nobody's uses */
    uint64_t now_ns, cooldown_ns;
} snug__goal;

typedef struct snug__item {
    uint32_t source, target; /* nodes */
    uint32_t size;           /* granules */
    uint32_t generation;     /* of the buffer when the plan was made */
} snug__item;

typedef struct snug__window {
    uint32_t first, last; /* nodes, ends included */
    uint32_t count;       /* live ranges in it */
    uint64_t live, cost;  /* granules */
    bool     slide;
} snug__window;

typedef struct snug__plan {
    snug__plan_kind kind;
    uint32_t        first, last; /* nodes of the window; SLIDE: the hole carried is first, up to last at most */
    uint64_t        granules;    /* that it moves, all steps together */
    uint64_t        bound; /* live granules in the cheapest stretch as long as the gap; 0: there is no such stretch */
    uint64_t        least; /* SNUG__PLAN_NONE for lack of budget: the step_max that would do */
    uint32_t        moves; /* likewise */
    uint32_t        count; /* items of this step */
    bool            cut;   /* more steps are needed */
    snug__window    windows[SNUG__PLAN_WINDOWS_MAX];
    uint32_t        windows_count;
    snug__item      items[SNUG__PLAN_ITEMS_MAX];
} snug__plan;

typedef struct snug__planner {
    snug__map     *map;
    snug__handles *handles;
} snug__planner;

/* Makes a plan for a gap of goal->size. EVACUATE: targets and window are reserved. SLIDE: the first hole is reserved.
 * NONE: no plan within the goal; nothing is reserved. */
void snug__plan_room(snug__planner planner, const snug__goal *goal, snug__plan *plan);

/* The same for a gap at the lowest address, ending at limit at most: where long pins live. Evacuates only. */
void snug__plan_low(snug__planner planner, const snug__goal *goal, uint32_t limit, snug__plan *plan);

/* Items that bring the topmost live ranges into holes below them. */
void snug__plan_pack(snug__planner planner, const snug__goal *goal, snug__plan *plan);

/* Items that move every idle range to somewhere else, from offset *cursor on; *cursor: where the next call goes on. */
void snug__plan_jumble(snug__planner planner, const snug__goal *goal, uint32_t *cursor, snug__plan *plan);

/* The holes nearest around a live node that hold extra granules together, or, with all, every hole there is between two that
 * are fixed (with idle_only: or pinned just now). *first, *last: the outermost free nodes (SNUG__NONE: none needed on that
 * side). False: they hold less. Reserves nothing. */
typedef struct snug__around {
    uint32_t node, extra;
    bool     all, idle_only;
} snug__around;
bool snug__plan_around(snug__planner planner, snug__around around, uint32_t *first, uint32_t *last);

/* Takes back everything that a plan has reserved and marked. */
void snug__plan_undo(snug__planner planner, snug__plan *plan);

/* May it be moved by such a plan now? */
bool snug__plan_movable(snug__planner planner, const snug__goal *goal, uint32_t node);

#endif
