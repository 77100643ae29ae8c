/* items.h: the ranges that a plan moves: taken in, sorted, given targets, put back. For plan.c and room.c.
 * A range that has been taken in is marked copying: whatever happens to its buffer, its node stays until it is put back. */
#ifndef SNUG__ITEMS_H
#define SNUG__ITEMS_H

#include "plan.h"

/* Anything that nothing is carried over or out: pinned long, immovable, on its way, a gap of the plan in the making. */
bool snug__is_barrier(const snug__range *range);

uint32_t snug__range_alignment(snug__planner planner, uint32_t node);

/* Takes a live range in. There must be room. */
snug__item *snug__item_take(snug__planner planner, snug__plan *plan, uint32_t node);
/* Reserves the best hole for it; one that begins where the window ends is filled from its far end, so that the rest of it
 * widens the window. False: there is none. */
bool snug__item_place(snug__planner planner, const snug__goal *goal, uint32_t window_end, snug__item *item);
/* Gives its target back; and the range itself. */
void snug__item_unplace(snug__planner planner, snug__item *item);
void snug__item_put_back(snug__planner planner, snug__item *item);

/* Largest first, with the lock dropped meanwhile. */
void snug__items_sort(snug__planner planner, snug__plan *plan);
/* Of a large window a small step looks only at what it would move itself, and at the largest ranges: where these fit elsewhere
 * the smaller ones will. The others are put back. */
void snug__items_choose(snug__planner planner, const snug__goal *goal, snug__plan *plan);
/* Keeps what this step may do, smallest last so that a tight budget is used up. The others are put back. */
void snug__items_cut(snug__planner planner, const snug__goal *goal, snug__plan *plan);
/* Puts all but the first kept back. */
void snug__items_put_back(snug__planner planner, snug__plan *plan, uint32_t kept);

#endif
