/* plan.h: the planner: map + pins + goal + budget -> moves.
 *
 * A plan allocates nothing: its scratch space is part of it. What a plan will fill is reserved in the map (TARGET for where
 * buffers go, GAP for what is kept free) and what it will move is marked copying, so that nobody else takes either when the
 * lock is dropped. A plan never names a range that is fixed (pinned long, immovable) or in another plan: I4.
 *
 * The ways to make a gap out of a window, which is a stretch that could become one:
 *   evacuate  its ranges go to holes outside it, best fit, each moved once, in any order;
 *   slide     a hole is carried through it: each live range steps over it, and it swallows the holes it meets;
 *   part      some of its ranges go to holes outside, and the rest slides. A window costs its live granules in any case;
 *   detour    a hole is made elsewhere first, for the one range that keeps a cheap window from being evacuated.
 * A plan that is cut is to be carried out, and then another is made: it finds the window again, cheaper by what has left it.
 *
 * Made under the pool's lock, which is dropped now and then (planner.lock), so that it is held for some ten microseconds at a
 * time whatever the number of ranges: what is found meanwhile is a hint, and what is taken is looked at again.
 * Reads maps, words and stamps; knows no device. Files: room.c, window.c, items.c, plan.c (all other goals). */
#ifndef SNUG__PLAN_H
#define SNUG__PLAN_H

#include "range.h"

#include <pthread.h>

enum { SNUG__PLAN_ITEMS_MAX = 16384 };

typedef enum snug__plan_kind { SNUG__PLAN_NONE, SNUG__PLAN_EVACUATE, SNUG__PLAN_SLIDE } snug__plan_kind;

typedef struct snug__goal {
    uint32_t size, alignment; /* of the gap wanted, in granules */
    uint64_t granules_max;    /* most to move in all for it; a plan that needs more isn't one */
    uint64_t step_max;        /* most to move in this step; the plan is cut there */
    uint32_t moves_max;       /* likewise */
    uint32_t overhead;        /* what a copy costs beside its bytes, in granules */
    bool     whole;           /* no plans of several steps, where a step can do it */
    bool     idle_only;       /* nothing that is pinned, or was moved less than cooldown_ns ago */
    bool     settled_only;    /* only what nobody's queued work writes, and only to targets that nobody's uses */
    uint64_t now_ns, cooldown_ns;
} snug__goal;

typedef struct snug__item {
    uint32_t source, target; /* nodes */
    uint32_t size;           /* granules */
    uint32_t generation;     /* of the buffer when the plan was made */
} snug__item;

typedef struct snug__plan {
    snug__plan_kind kind;
    uint32_t        size, alignment; /* of the gap that this step is for: the goal's, or a detour's */
    uint32_t        first, last;     /* nodes of the window; SLIDE: the hole carried is first, up to last at most */
    uint64_t        granules;        /* that it moves, all steps together, at most */
    uint64_t        bound; /* live granules in the cheapest stretch as long as the gap; 0: there is no such stretch */
    uint64_t        least; /* SNUG__PLAN_NONE for lack of budget: the step_max that would do */
    uint32_t        moves; /* like granules */
    uint32_t        count; /* items of this step */
    bool            cut;   /* more steps are needed */
    bool            up;    /* SLIDE: ranges step up, and the hole goes down */
    snug__item      items[SNUG__PLAN_ITEMS_MAX];
} snug__plan;

typedef struct snug__planner {
    snug__map       *map;
    snug__handles   *handles;
    pthread_mutex_t *lock; /* held by the caller, and dropped between; NULL: there is nobody else */
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

/* None, for that goal. */
void snug__plan_clear(snug__plan *plan, const snug__goal *goal);

/* May it be moved by such a plan now? */
bool snug__plan_movable(snug__planner planner, const snug__goal *goal, uint32_t node);

/* Between two pieces of work of some ten microseconds: lets others at the map. */
void snug__plan_pause(snug__planner planner);

/* Frees every gap, with pauses. */
void snug__plan_gaps_free(snug__planner planner);

#endif
