/* window.h: windows, the stretches of a map that could become a gap, found in one walk, the cheapest kept. For room.c.
 *
 * A window spans the gap, and no barrier. What it costs is its live granules, however they leave. How much of it must be free
 * makes its level: none at the first, where all is carried out; all of the gap at the last, where all slides; between, part
 * is carried out. At the level FITTING what is free and what is small enough to find a hole elsewhere make the gap.
 *
 * The walk pauses. Nodes that vanish in a pause are followed to their neighbours; sums are exact again for short windows, and
 * for long ones as good as they were. Whoever takes a window looks at each of its ranges once more. */
#ifndef SNUG__WINDOW_H
#define SNUG__WINDOW_H

#include "items.h"

enum { SNUG__WINDOWS_MAX = 12, SNUG__LEVELS = 6, SNUG__FITTING = 4, SNUG__SLIDING = 5, SNUG__DETOURS_MAX = 4 };

typedef struct snug__window {
    uint32_t first, last; /* nodes, ends included */
    uint32_t count;       /* live ranges in it */
    uint64_t live, free;  /* granules */
    uint64_t cost;        /* live, and what copies cost beside */
} snug__window;

typedef struct snug__sums {
    int64_t live, free, fits; /* granules; fits: of live ranges that may well find a hole elsewhere */
    int32_t count, held, read, nodes;
} snug__sums;

typedef struct snug__scan {
    uint32_t   first;  /* node */
    snug__sums before; /* of all before it; what the window holds is the total less this */
} snug__scan;

/* What is being looked at: every node in it is followed while the map changes. */
typedef struct snug__view {
    snug__planner     planner;
    const snug__goal *goal;
    uint64_t          bound;        /* see snug__plan */
    uint32_t          fitting;      /* a range of that many granules may well find a hole */
    bool              ask;          /* of every range whether it may be moved, before windows are chosen */
    bool              changed;      /* in a pause: the sums aren't exact */
    bool              full, slides; /* of the goal's windows: some level has as many as are kept; some slide */
    uint32_t          items_max;    /* a plan has room for now */
    uint32_t          cursor, stop, hole;
    snug__sums        total; /* of all that the walk has passed */
    snug__scan        scans[SNUG__LEVELS];
    snug__window      windows[SNUG__LEVELS][SNUG__WINDOWS_MAX]; /* cheapest first */
    uint32_t          counts[SNUG__LEVELS];
    snug__window taken, failed[SNUG__DETOURS_MAX]; /* failed: cheap, but too little of it found a place elsewhere */
    uint32_t     failed_count;
} snug__view;

/* From here to close the view follows the map; one at a time. */
void snug__view_open(snug__view *view, snug__planner planner, const snug__goal *goal);
void snug__view_close(snug__view *view);

/* Finds the windows for the goal. */
void snug__windows_find(snug__view *view);

/* Does the gap fit between the start of one range and the end of the other? */
bool snug__window_wide(snug__planner planner, const snug__goal *goal, uint32_t first, uint32_t last);

#endif
