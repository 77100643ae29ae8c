/* pool_states.c - states of a pool that take some getting to: an arena that is all committed, a map without nodes, a shell whose
 * generations are used up. */
#include "tap.h"

#include "move_world.h"

#define MiB (UINT64_C(1) << 20)

/* ------------------------------------------------------------------------------------------------ the arena */

static snug_status grow(uint64_t granules) {
    pthread_mutex_lock(&pool->mover);
    snug_status status = snug__pool_grow(pool, granules);
    pthread_mutex_unlock(&pool->mover);
    return status;
}

/* As an allocation does that finds no room. */
static void shrink_back(uint32_t committed) {
    pthread_mutex_lock(&pool->mover);
    snug__order_poll(&pool->order);
    pthread_mutex_lock(&pool->lock);
    snug__pool_shrink_back(pool, committed);
    pthread_mutex_unlock(&pool->lock);
    pthread_mutex_unlock(&pool->mover);
}

static uint64_t committed(void) {
    return snug__bytes(pool->map.committed);
}

static void an_arena_grows_to_its_end(void) {
    pool = pool_make((snug_pool_options){.capacity = 5 * MiB, .commit_bytes = 1});
    c    = client_make(pool);
    is_u64(committed(), 2 * MiB, "one piece is committed");
    is_status(grow(1), SNUG_OK, "one more granule");
    is_u64(committed(), 4 * MiB, "is a piece");
    is_status(grow(2 * MiB / G), SNUG_OK, "one piece more");
    is_u64(committed(), 5 * MiB, "is what is left");
    uint64_t commits = hooks.commits;
    is_status(grow(1), SNUG_CAPACITY, "all is committed");
    is_u64(hooks.commits, commits, "and the device isn't asked");
    is_u64(stats_of(pool).free_bytes, 5 * MiB, "all of it is free");
    close_pool();
}

/* It keeps the piece in which the last buffer ends, and what it had. */
static void an_arena_shrinks_back_by_whole_pieces(void) {
    pool            = pool_make((snug_pool_options){.capacity = 12 * MiB, .commit_bytes = 2 * MiB});
    c               = client_make(pool);
    uint32_t before = pool->map.committed;
    is_status(grow(4 * MiB / G), SNUG_OK, "grown from 2 to 6 MiB");
    snug_handle a = put(5 * MiB / G);
    shrink_back(before);
    is_u64(committed(), 6 * MiB, "a buffer that ends in the last piece keeps it");
    ok(holds(a, 5 * MiB / G), "  contents");
    drop(a);
    a = put(3 * MiB / G);
    shrink_back(before);
    is_u64(committed(), 4 * MiB, "one that ends in the piece before gives one back");
    ok(holds(a, 3 * MiB / G), "  contents");
    drop(a);
    shrink_back(before);
    is_u64(committed(), 2 * MiB, "none: it is what it was");
    shrink_back(before);
    is_u64(committed(), 2 * MiB, "  and stays so");
    shrink_back(0);
    is_u64(committed(), 0, "all of it may go");
    is_status(grow(1), SNUG_OK, "and come back");
    close_pool();
}

static void an_arena_keeps_what_is_still_used(void) {
    gate  g = {0};
    void *address;
    pool            = pool_make((snug_pool_options){.capacity = 12 * MiB, .commit_bytes = 2 * MiB});
    c               = client_make(pool);
    uint32_t before = pool->map.committed;
    succeeds(grow(2 * MiB / G));
    snug_handle a = must_alloc(pool, 4 * MiB / G);
    snug_resolve(c.stream, &a, 1, NULL, &address);
    gate_put(&g, c.native);
    snug_release(c.stream, &a, 1, NULL);
    drop(a);
    shrink_back(before);
    is_u64(committed(), 4 * MiB, "free, but still used: it stays committed");
    gate_open(&g);
    snug_stream_sync(c.stream);
    shrink_back(before);
    is_u64(committed(), 2 * MiB, "once that has run it goes");
    close_pool();
}

/* ------------------------------------------------------------------------------------------------ nodes */

static void an_allocation_without_a_node(void) {
    snug_handle handle = 4711;
    open_pool(400);
    snug_handle hole = put(10), rest = put(10);
    uint32_t    max = nodes_use_up(pool);
    must_alloc(pool, stats_of(pool).largest_hole_bytes / G);
    drop(hole);
    uint64_t live = stats_of(pool).handles_live;
    is_status(snug_alloc(pool, 7 * G, NULL, &handle), SNUG_NO_MEMORY, "part of a hole, without a node to cut it with");
    is_u64(handle, 4711, "  no handle is written");
    is_u64(stats_of(pool).handles_live, live, "  nothing is live");
    is_u64(stats_of(pool).free_bytes, 10 * G, "  the hole is as it was");
    is_status(snug_alloc(pool, 10 * G, NULL, &handle), SNUG_OK, "all of it needs none");
    drop(handle);
    succeeds(snug_pool_check(pool));
    nodes_give(pool, max);
    is_status(snug_alloc(pool, 7 * G, NULL, &handle), SNUG_OK, "with a node");
    ok(holds(rest, 10), "contents");
    close_pool();
}

/* hole 10 | 3 | fixed 1 | hole 10 | 11: the 3 must go to the other hole, of which a part stays; the 11 fits nowhere. */
static void a_plan_without_a_node(void) {
    void       *address;
    snug_handle handle = 4711;
    open_pool(400);
    snug_handle hole = put(10), three = put(3), fixed = put(1), hole2 = put(10);
    put(11);
    snug_compaction_set(pool, 0);
    succeeds(snug_pin(pool, &fixed, 1, &address));
    snug_compaction_set(pool, 1);
    uint32_t max = nodes_use_up(pool);
    must_alloc(pool, stats_of(pool).largest_hole_bytes / G);
    drop(hole);
    drop(hole2);
    is_status(snug_alloc(pool, 13 * G, NULL, &handle), SNUG_NO_MEMORY, "a plan that finds no node");
    is_u64(handle, 4711, "  no handle is written");
    is_u64(stats_of(pool).free_bytes, 20 * G, "  the holes are as they were");
    is_u64(stats_of(pool).moves, 0, "  nothing has moved");
    succeeds(snug_pool_check(pool));
    nodes_give(pool, max);
    is_status(snug_alloc(pool, 13 * G, NULL, &handle), SNUG_OK, "with one");
    is_u64(stats_of(pool).moves, 1, "  one buffer moves");
    ok(holds(three, 3) && holds(fixed, 1), "  contents");
    succeeds(snug_unpin(pool, &fixed, 1, NULL, 0));
    close_pool();
}

/* ------------------------------------------------------------------------------------------------ shells */

static void a_shell_whose_generations_are_used_up_retires(void) {
    pool               = pool_make((snug_pool_options){.capacity = 4 * G, .generation_first = UINT32_MAX});
    snug_handle last   = must_alloc(pool, 1);
    uint32_t    tag    = snug__handle_tag(last);
    unsigned    reused = 0, made = 0;
    is_u64(snug__handle_generation(last), UINT32_MAX, "a handle of the last generation");
    drop(last);
    succeeds(snug_pool_destroy(pool));
    for (; made < 520; made++) { /* more than twice around */
        pool               = pool_of(4);
        snug_handle handle = must_alloc(pool, 1);
        reused += snug__handle_tag(handle) == tag;
        drop(handle);
        if (snug_pool_destroy(pool) != SNUG_OK)
            bail_out("not destroyed");
    }
    is_u64(reused, 0, "its tag isn't that of any of the next %u pools", made);
    is_status(snug_free(pool, last), SNUG_GONE, "and no pool is there to take it for its own");
}

int main(void) {
    an_arena_grows_to_its_end();
    an_arena_shrinks_back_by_whole_pieces();
    an_arena_keeps_what_is_still_used();
    an_allocation_without_a_node();
    a_plan_without_a_node();
    a_shell_whose_generations_are_used_up_retires();
    return done_testing();
}
