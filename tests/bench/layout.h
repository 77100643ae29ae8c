/* layout.h - pools whose buffers lie in a known way, and what such a layout would cost at best.
 *
 * CHURNED: filled to the live share by the library's own allocator, with compaction on demand as it comes, then every slot
 * freed and allocated anew some ten times in random order. PLACED: the same sizes in random order with the free bytes
 * spread between them at random. A layout owns its pool and its handles. */
#ifndef SNUG_BENCH_LAYOUT_H
#define SNUG_BENCH_LAYOUT_H

#include "sequence.h"

typedef enum layout_kind { LAYOUT_CHURNED, LAYOUT_PLACED, LAYOUT_KINDS } layout_kind;

extern const char *const layout_names[]; /* "churned", "placed at random" */

typedef struct layout_options {
    layout_kind  kind;
    uint64_t     capacity;
    const sizes *sizes;
    unsigned     live_percent;
    bool         bytes; /* on the host device as it is; else nothing is copied */
} layout_options;

typedef struct layout {
    snug_pool   *pool;
    snug_handle *handles;
    size_t       count;
} layout;

void layout_make(layout *layout, const layout_options *options, dice d);
void layout_free(layout *layout);

/* What the map says of a gap, by looking at all of it. Of no use while anything moves. */
typedef struct layout_facts {
    uint64_t live, free, largest_hole; /* bytes */
    uint64_t cheapest;                 /* live bytes of the cheapest window as large as the gap */
    uint64_t slide;                    /* live bytes above the lowest hole: what sliding everything down moves */
    uint64_t ranges;
} layout_facts;

/* A window starts at the start of any range. A range that it holds a part of counts whole: it would have to move. The least
 * of them is the least of all, since a window that starts elsewhere can be brought down to the end of a live range or the
 * start of the arena without taking in another. */
layout_facts layout_look(const layout *layout, uint64_t gap);

#endif
