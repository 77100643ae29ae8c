/* range.h: the map of the arena: every committed granule in exactly one range, ranges in address order, free ones also in
 * bins by size (TLSF, out of band: nothing is ever written into the arena).
 *
 * Ranges are nodes of a table, named by index. Offsets and sizes are in granules. All calls need the pool's lock.
 * A fence belongs to a range: merging unites fences, splitting copies them. Invariants here: I1, I2, I6, I9. */
#ifndef SNUG__RANGE_H
#define SNUG__RANGE_H

#include "handle.h"

typedef enum snug__range_kind {
    SNUG__RANGE_UNUSED = 0, /* a node without a range */
    SNUG__RANGE_FREE,
    SNUG__RANGE_LIVE,
    SNUG__RANGE_PENDING, /* its handle is dying */
    SNUG__RANGE_TARGET,  /* where a move goes */
    SNUG__RANGE_GAP,     /* kept by a plan for what it makes room for */
    SNUG__RANGE_ORPHAN,  /* freed while a mover was copying it: the mover gives it back */
    SNUG__RANGE_KINDS
} snug__range_kind;

typedef struct snug__range {
    uint32_t    offset, size;
    uint32_t    previous, next;         /* by address; next also links unused nodes */
    uint32_t    bin_previous, bin_next; /* of free ones; of gaps, in the list of gaps */
    uint32_t    entry;                  /* LIVE, PENDING, TARGET: whose */
    uint8_t     kind;
    uint8_t     copying : 1; /* LIVE: a mover has it in its plan */
    uint8_t     fixed : 1;   /* LIVE: pinned long, or immovable */
    uint8_t     held : 1;    /* LIVE: the planner's marks: not to be moved by the plan in the making; */
    uint8_t     read : 1;    /* not to be slid over by it */
    uint16_t    bin;         /* of free ones */
    snug__stamp fence;       /* FREE, GAP, TARGET, ORPHAN: what must have run before the range may be touched */
} snug__range;

enum { SNUG__BIN_COLUMNS_LOG2 = 5, SNUG__BIN_COLUMNS = 32, SNUG__BIN_ROWS = 28 };

typedef struct snug__map {
    snug__table  table;
    snug__table  free_bits; /* by node: is it FREE? So that neighbours that aren't needn't be fetched into the cache */
    snug__order *order;
    uint32_t     nodes_made, nodes_max, nodes_spare, unused;
    uint32_t     first, last;
    uint32_t     committed, limit; /* granules; the map covers [0, committed) */
    uint64_t     granules[SNUG__RANGE_KINDS];
    uint32_t     count[SNUG__RANGE_KINDS];
    uint32_t     rows; /* bit set: the row has a bin that isn't empty */
    uint32_t     columns[SNUG__BIN_ROWS];
    uint32_t     bins[SNUG__BIN_ROWS][SNUG__BIN_COLUMNS];
    uint32_t     gaps;    /* list of the ranges of that kind: all of the one plan that may be under way */
    uint64_t     changes; /* grows with every free and take: has anything changed? */
    void (*removed)(void *context, uint32_t node, uint32_t neighbour); /* who follows nodes is told of each that goes */
    void *removed_context;
} snug__map;

snug_status snug__map_open(snug__map *map, snug__order *order, uint32_t limit, uint32_t ranges_max);
void        snug__map_close(snug__map *map);

static inline snug__range *snug__range_at(const snug__map *map, uint32_t node) {
    return (snug__range *)(void *)map->table.base + node;
}

/* Appends free granules at the end, or takes free ones away from it (they must be free). NO_MEMORY: nothing done. */
snug_status snug__map_grow(snug__map *map, uint32_t granules);
void        snug__map_shrink(snug__map *map, uint32_t granules);

/* A free range that holds size granules at the alignment (a power of two, in granules): the best fit of its bin, settled ones
 * preferred; SNUG__NONE only if there is none at all. *offset: where in it. */
typedef struct snug__fit {
    uint32_t size, alignment;
    bool     settled; /* only settled ranges */
} snug__fit;
uint32_t snug__map_find(snug__map *map, snug__fit fit, uint32_t *offset);
/* The fitting free range with the lowest address below limit. */
uint32_t snug__map_find_low(snug__map *map, snug__fit fit, uint32_t limit, uint32_t *offset);

/* Makes [offset, offset + size) of a free node a range of that kind; what is left of the node stays free, with its fence.
 * The new range keeps the fence too. SNUG__NONE: no node to be had, nothing done.
 * The node is that of what is left, of the lower part if there are two: takes undone last first give the hole back, with
 * its node. Plans name holes that others of their tries have taken meanwhile. */
uint32_t snug__range_take(snug__map *map, uint32_t node, uint32_t offset, uint32_t size, snug__range_kind kind,
                          uint32_t entry);
/* Frees a range behind a fence, united with what the node's own fence still says. It becomes part of a free neighbour, of
 * the lower one if there are two, and both part of that. */
void snug__range_free(snug__map *map, uint32_t node, snug__stamp fence);
void snug__range_set_kind(snug__map *map, uint32_t node, snug__range_kind kind);

/* Cuts a range in two; returns the node of the part behind size, of the same kind and fence. SNUG__NONE: no node. */
uint32_t snug__range_split(snug__map *map, uint32_t node, uint32_t size);
/* Lengthens a range by the first granules of its successor, which must be free and have them; the fence that they had. */
snug__stamp snug__range_extend(snug__map *map, uint32_t node, uint32_t granules);
/* Frees every gap. */
void snug__gaps_free(snug__map *map);
/* Merges a free neighbour, or another gap, into a gap. */
void snug__gap_absorb(snug__map *map, uint32_t gap, uint32_t neighbour);
/* A live range and a gap that touch change places, the live one coming to start at to; what alignment leaves between the
 * gap's far end and the live range goes back free. Never fails, if snug__map_ready was true before it. */
void snug__gap_swap(snug__map *map, uint32_t gap, uint32_t live, uint32_t to, snug__stamp fence);

bool snug__map_ready(snug__map *map); /* is a node there, or to be had, for what may not fail? */

uint32_t snug__map_largest(snug__map *map); /* granules of the largest free range */

static inline uint32_t snug__align_up(uint32_t offset, uint32_t alignment) {
    return (offset + alignment - 1) & ~(alignment - 1);
}

/* Walks all of it. Returns what is broken, or NULL. */
const char *snug__map_check(snug__map *map);

#endif
