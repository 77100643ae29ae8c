/* move_world.h - what the tests of the mover share: one pool with one client, buffers whose contents are told by their handles,
 * and a hole carried through the map by itself. Include after tap.h, in one file of the program. */
#ifndef SNUG_TESTS_MOVE_WORLD_H
#define SNUG_TESTS_MOVE_WORLD_H

#include "compactor.h"
#include "fixture.h"

enum { G = SNUG_GRANULE };

static snug_pool  *pool;
static client      c;
static snug_handle victim __attribute__((unused)); /* of the hooks */

static inline void open_pool(uint64_t granules) {
    pool = pool_of(granules);
    c    = client_make(pool);
}

static inline void close_pool(void) {
    hooks.before_move = NULL;
    succeeds(snug_pool_check(pool));
    client_end(c);
    succeeds(snug_pool_destroy(pool));
}

/* A buffer with contents of its own, told by its handle. */
static inline snug_handle put(uint64_t granules) {
    snug_handle handle = must_alloc(pool, granules);
    buffer_fill(c, handle, granules * G, handle);
    return handle;
}

static inline bool holds(snug_handle handle, uint64_t granules) {
    return buffer_holds(c, handle, granules * G, handle);
}

static inline void drop(snug_handle handle) {
    if (snug_free(pool, handle) != SNUG_OK)
        bail_out("not freed");
}

/* Carries the lowest hole up, or the highest down, past so many buffers. */
static inline snug__run slide(bool up, uint32_t moves) {
    snug__run run = {
        .pool = pool, .which = SNUG__DEMAND, .may_wait = true, .deadline_ns = snug__pool_now(pool) + 1000000};
    pthread_mutex_lock(&pool->mover);
    pthread_mutex_lock(&pool->lock);
    uint32_t node = up ? pool->map.first : pool->map.last;
    while (node != SNUG__NONE && snug__range_at(&pool->map, node)->kind != SNUG__RANGE_FREE)
        node = up ? snug__range_at(&pool->map, node)->next : snug__range_at(&pool->map, node)->previous;
    if (node != SNUG__NONE) {
        snug__range_set_kind(&pool->map, node, SNUG__RANGE_GAP);
        snug__slide how = {.gap          = node,
                           .up           = up,
                           .alignment    = 1,
                           .beside       = SNUG__NONE,
                           .granules_max = UINT64_MAX,
                           .moves_max    = moves};
        snug__move_slide(&run, &how);
        snug__gaps_free(&pool->map);
    }
    pthread_mutex_unlock(&pool->lock);
    pthread_mutex_unlock(&pool->mover);
    return run;
}

#endif
