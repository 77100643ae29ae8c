/* compactor.h: when to compact and how much: room on demand, steps of tidying, packing, the background thread. */
#ifndef SNUG__COMPACTOR_H
#define SNUG__COMPACTOR_H

#include "move.h"

/* The pool's mover lock is held by the caller of all of these but start and stop; the pool's lock isn't, except where said. */

/* Finds a free range for fit, making room if that is what it takes and compaction is on. Returns with the pool's lock held:
 * OK, *node and *offset say where; else the verdict (LIMIT is the caller's to find). */
snug_status snug__compactor_room(snug_pool *pool, snug__fit fit, uint32_t *node, uint32_t *offset);

/* With the pool's lock held: makes the plan for such a gap in pool->plan, if there is one that moves no more than granules_max; whole: in one step.
 * Prefers what nobody has pinned just now; else it takes what there is, to be waited for while it moves. */
void snug__compactor_plan(snug_pool *pool, snug__fit fit, uint64_t granules_max, bool whole);

/* The same at the lowest address that costs no more than moving granules_max. Falls back to the lowest hole. SNUG__NONE with
 * the lock held: none. */
uint32_t snug__compactor_room_low(snug_pool *pool, snug__fit fit, uint32_t limit, uint64_t granules_max,
                                  uint32_t *offset);

/* One step toward a largest hole of (1 - stop_fragmentation) of the free bytes. */
typedef struct snug__tidy {
    snug_budget budget;
    double      stop_fragmentation;
    uint64_t    gain_min; /* granules by which the largest hole must grow */
    uint64_t    cooldown_ns;
    bool        settled_only;
} snug__tidy;
snug_status snug__compactor_step(snug_pool *pool, const snug__tidy *tidy, snug_compact_result *result);

/* Moves live ranges to low addresses until the top of the map is one hole, as far as pins allow. */
snug_status snug__compactor_pack(snug_pool *pool);

snug_status snug__compactor_start(snug_pool *pool, const snug_compactor_options *options);
void        snug__compactor_stop(snug_pool *pool);

#endif
