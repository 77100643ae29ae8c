/* move.h: the mover: waits, copies, publish or abort, retire. One at a time: the pool's mover lock.
 *
 * The steps of a move, numbered as in doc/design.md: (1) plan, under the lock; (2) MOVING; (3) the mover's stream waits;
 * (4) copy, record, stamp; (5) fill the other location; (6) under the lock, publish or abort.
 * Invariants here: I5, I6, I8. */
#ifndef SNUG__MOVE_H
#define SNUG__MOVE_H

#include "pool.h"

enum { SNUG__BATCH_MAX = 64 };

/* One run of the mover: who, on which of its streams, what came of it. */
typedef struct snug__run {
    snug_pool *pool;
    int        which;       /* SNUG__BACKGROUND, SNUG__DEMAND */
    bool       may_wait;    /* on the host: for its own copies when too many are queued, for pins before it begins */
    uint64_t   deadline_ns; /* for waiting for pins; those of readers are waited for before a publish in any case */
    uint64_t   stop_ns;     /* begin nothing more after this, but for the first move; 0: no bound */
    const uint64_t
               *resized_to; /* its one item's target is of another size than the source: for so many bytes. Or NULL */
    bool        begun;      /* something has been enqueued */
    uint32_t    moves, cancelled;
    uint32_t    busy; /* moves that were not made because of others: pinned, or freed just then */
    uint64_t    moved_granules;
    uint64_t    waited_ns;   /* on the host: for pins, and for copies where too many were queued */
    uint64_t    waited_mask; /* streams that its copies wait for */
    snug_status error;       /* DEVICE, LOST: the run has stopped */
    bool        full;        /* stopped because too much is queued, or by stop_ns */
} snug__run;

/* Carries out items (sources marked copying, targets reserved), without the lock. keep_gap: what they leave becomes gap,
 * else free. Items that are cancelled, pinned or impossible are undone. */
void snug__move_items(snug__run *run, snug__item *items, uint32_t count, bool keep_gap);

/* Carries a gap up (or down) through the map until it holds size granules at the alignment, or, with beside a node, until
 * it lies just above that node. A range whose alignment leaves it no step is passed over: the hole stays where it is, as
 * padding, and the next one is carried on. Called and returns with the lock held; drops it between. True: got there. */
typedef struct snug__slide {
    uint32_t gap;             /* node */
    bool     up;              /* the gap goes up, ranges step down */
    bool     settled_only;    /* stops where anything but its own copies would have to be waited for */
    uint32_t size, alignment; /* granules; size 0: not looked at */
    uint32_t beside;          /* node, or SNUG__NONE */
    uint64_t granules_max;    /* to move */
    uint32_t moves_max;
} snug__slide;
bool snug__move_slide(snug__run *run, snug__slide *slide);

/* A move over several calls. begin takes the item over (and undoes it if it can't begin); step copies up to granules and
 * publishes after the last; cancel undoes it. The runs are of SNUG__BACKGROUND. */
void snug__late_begin(snug__run *run, const snug__item *item);
void snug__late_step(snug__run *run, uint64_t granules);
void snug__late_cancel(snug_pool *pool);

#endif
