/* receipt.h: what compaction was asked for, what it did and what that cost: one record for every run of the mover that has
 * moved or tried to move something, in a ring. Under the pool's lock, all of it. */
#ifndef SNUG__RECEIPT_H
#define SNUG__RECEIPT_H

#include "move.h"

/* Begun before the first plan, added to after each run, and ended: then it is in the ring, unless nothing was tried. */
snug_receipt snug__receipt_begin(snug_pool *pool, snug_receipt_kind kind, uint32_t asked_granules);
void         snug__receipt_plan(snug_receipt *receipt, const snug__plan *plan);
void         snug__receipt_run(snug_receipt *receipt, const snug__run *run);
void         snug__receipt_end(snug_pool *pool, snug_receipt *receipt, snug_status outcome);

#endif
