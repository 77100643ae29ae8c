/* sequence.h - the requests of a client, computed before anything is measured, so that every allocator gets the same.
 *
 * A sequence fills slots until so many bytes are live, then makes pairs: a slot chosen at random is freed and allocated anew
 * with another size. Sizes are log-uniform in steps of a granule. A pair that would bring the live bytes out of a narrow
 * window below the fill is drawn again, victim and size both: what is live stays what it was said to be, and the sizes stay
 * distributed as drawn, on condition of their sum.
 * A sequence owns its arrays. */
#ifndef SNUG_BENCH_SEQUENCE_H
#define SNUG_BENCH_SEQUENCE_H

#include "harness.h"

typedef struct sizes {
    uint64_t    least, most; /* bytes, multiples of the granule */
    const char *name;        /* "to 4 MiB" */
} sizes;

extern const sizes sizes_large, sizes_small; /* to 4 MiB, to 64 KiB */

uint64_t size_draw(const sizes *sizes, dice *d);

typedef struct pair {
    uint32_t slot;
    uint32_t bytes;
} pair;

typedef struct sequence {
    uint32_t *fill; /* bytes of each slot */
    size_t    slots;
    pair     *pairs;
    size_t    pairs_count;
    uint64_t  live_bytes; /* when all is done */
} sequence;

typedef struct sequence_options {
    const sizes *sizes;
    uint64_t     live_bytes;   /* most of them; the window is the last hundredth of window_bytes below */
    uint64_t     window_bytes; /* the capacity's part of this client */
    size_t       pairs;        /* or, if 0, so many times the slots: */
    unsigned     rounds;
} sequence_options;

void sequence_make(sequence *s, const sequence_options *options, dice d);
void sequence_free(sequence *s);

#endif
