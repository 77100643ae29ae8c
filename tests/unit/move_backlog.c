/* move_backlog.c - the queue of a mover's stream when it is full, and a device that fails just there or where a second failure
 * leaves no way back. */
#include "tap.h"

#include "move_world.h"

enum { N = 130 }; /* steps over a hole smaller than the buffer, of two copies each: more than the queue takes */

static snug_handle kept[N];
static char        log_line[256];

static snug_status no_sync(snug__device *device, void *native) {
    (void)device, (void)native;
    snug__device_error_set("no sync on purpose");
    return SNUG_DEVICE;
}

static uint64_t in_flight(void) { /* also of a pool that is lost */
    return pool->map.granules[SNUG__RANGE_TARGET] + pool->map.granules[SNUG__RANGE_GAP] +
           pool->map.granules[SNUG__RANGE_ORPHAN];
}

/* hole 4 | 130 times 5 | hole 4 */
static void scene_chain(void) {
    open_pool(N * 5 + 8);
    snug_handle hole = put(4);
    for (unsigned i = 0; i < N; i++)
        kept[i] = put(5);
    drop(hole);
}

static unsigned torn(void) {
    unsigned wrong = 0;
    for (unsigned i = 0; i < N; i++)
        wrong += !holds(kept[i], 5);
    return wrong;
}

/* Neither can the events be recorded from now on, nor the streams waited for. */
static void break_order(void) {
    pool->log.context      = log_line; /* lost on purpose: not to be shown */
    hooked_row.stream_sync = no_sync;
    atomic_store(&hooks.fail_record, 1);
}

/* Every call says that the pool is lost, and it can still be destroyed. */
static void close_lost_pool(void) {
    snug_handle handle;
    is_status(snug_alloc(pool, G, NULL, &handle), SNUG_LOST, "  the next call says LOST");
    is_u64(in_flight(), 0, "  nothing is in flight");
    is_string(snug__map_check(&pool->map), NULL, "  the map is sound");
    client_end(c);
    is_status(snug_pool_destroy(pool), SNUG_LOST, "  destroy says LOST");
}

/* ------------------------------------------------------------------------------------------------ a full queue */

static _Atomic int *when_full; /* which call fails, once there is no room for another step */

static void fail_when_full(uint64_t to, uint64_t from, uint64_t bytes) {
    (void)to, (void)from, (void)bytes;
    if (pool->backlog[SNUG__DEMAND].ops > SNUG__OPS_MAX - 10)
        atomic_store(when_full, 1);
}

static void a_full_queue_that_cannot_be_asked(void) {
    scene_chain();
    when_full         = &hooks.fail_query;
    hooks.before_move = fail_when_full;
    snug__run run     = slide(true, UINT32_MAX);
    hooks.before_move = NULL;
    is_status(run.error, SNUG_DEVICE, "the queue is full, and can't be asked");
    ok(run.moves > 60 && run.moves < N, "  what was enqueued is published: %u moves", run.moves);
    is_u64(run.cancelled, 0, "  nothing is cancelled");
    is_u64(torn(), 0, "  contents");
    is_u64(run.moves + slide(true, UINT32_MAX).moves, N, "  the next run does the rest");
    is_u64(torn(), 0, "  contents");
    is_u64(stats_of(pool).holes, 1, "  one hole is left");
    close_pool();
}

static void a_full_queue_that_cannot_be_waited_for(void) {
    gate g = {0};
    scene_chain();
    gate_put(&g, pool->order.mover[SNUG__DEMAND]->native);
    when_full         = &hooks.fail_sync;
    hooks.before_move = fail_when_full;
    snug__run run     = slide(true, UINT32_MAX);
    hooks.before_move = NULL;
    gate_open(&g);
    is_status(run.error, SNUG_DEVICE, "the queue is full of work that is held up, and can't be waited for");
    ok(run.moves > 60 && run.moves < N, "  what was enqueued is published: %u moves", run.moves);
    is_u64(torn(), 0, "  contents");
    is_u64(run.moves + slide(true, UINT32_MAX).moves, N, "  the next run does the rest");
    is_u64(torn(), 0, "  contents");
    close_pool();
}

/* A slide of more copies than the queue takes: with the bounce buffer that a small pool has. */
static snug_handle scene_long_slide(void) {
    open_pool(40001);
    pool->bounce_bytes = 256 * G;
    snug_handle hole = put(1), large = put(40000);
    drop(hole);
    return large;
}

static void a_slide_longer_than_the_queue(void) {
    snug_handle large = scene_long_slide();
    is_u64(slide(true, 1).moves, 1, "a slide of more copies than the queue takes");
    is_u64(hooks.moves, 314, "  157 pieces, each to the bounce buffer and back");
    ok(holds(large, 40000), "  contents");
    close_pool();
}

static void a_slide_longer_than_the_queue_that_cannot_be_waited_for(void) {
    scene_long_slide();
    pool->log.context      = log_line;
    hooked_row.stream_sync = no_sync;
    snug__run run          = slide(true, 1);
    is_status(run.error, SNUG_LOST, "no wait in the middle of a slide: no address is right any more");
    is_u64(run.moves, 0, "  nothing is published");
    close_lost_pool();
}

/* ------------------------------------------------------------------------------------------------ failures one upon another */

/* 64 buffers of 16, every other freed. */
static void scene_holes(void) {
    open_pool(64 * 16);
    for (unsigned i = 0; i < 64; i++)
        kept[i] = put(16);
    for (unsigned i = 0; i < 64; i += 2)
        drop(kept[i]);
}

static unsigned torn_between_holes(void) {
    unsigned wrong = 0;
    for (unsigned i = 1; i < 64; i += 2)
        wrong += !holds(kept[i], 16);
    return wrong;
}

static void a_copy_then_its_record_fail(void) {
    snug_handle large;
    scene_holes();
    atomic_store(&hooks.fail_move, 4);
    atomic_store(&hooks.fail_record, 1);
    is_status(snug_alloc(pool, 512 * G, NULL, &large), SNUG_DEVICE,
              "the fourth copy of a batch fails, then the record behind the three");
    is_u64(stats_of(pool).moves, 0, "  those are waited for on the host, and thrown away");
    is_u64(stats_of(pool).in_flight_bytes, 0, "  nothing is in flight");
    is_u64(torn_between_holes(), 0, "  contents");
    is_status(snug_alloc(pool, 512 * G, NULL, &large), SNUG_OK, "  the next call succeeds");
    is_u64(torn_between_holes(), 0, "  contents");
    close_pool();
}

static void copies_that_can_be_neither_recorded_nor_waited_for(void) {
    snug_handle large;
    scene_holes();
    uint64_t first = offset_of(pool, kept[1]);
    break_order();
    is_status(snug_alloc(pool, 512 * G, NULL, &large), SNUG_DEVICE,
              "copies that can be neither recorded nor waited for");
    is_u64(pool->moves_published, 0, "  none is published");
    is_u64(atomic_load(&snug__handles_at(&pool->handles, snug__handle_index(kept[1]))->offset[0]), first,
           "  a buffer is where it was");
    close_lost_pool();
}

static void a_step_over_a_hole_that_can_be_neither(void) {
    open_pool(100);
    snug_handle hole = put(20);
    put(10);
    put(70);
    drop(hole);
    break_order();
    snug__run run = slide(true, 1);
    is_status(run.error, SNUG_DEVICE, "a step over a hole that can be neither");
    is_u64(run.moves, 0, "  it isn't published");
    close_lost_pool();
}

static void a_slide_that_does_not_begin(bool lost) {
    open_pool(100);
    snug_handle hole = put(5), over = put(20);
    put(75);
    drop(hole);
    if (lost) {
        pool->log.context      = log_line;
        hooked_row.stream_sync = no_sync;
    }
    atomic_store(&hooks.fail_move, 2); /* back from the bounce buffer */
    snug__run run = slide(true, 1);
    is_u64(run.moves, 0, "the first piece of a slide fails on its way back from the bounce buffer%s",
           lost ? ", which can't be waited for" : "");
    is_status(run.error, lost ? SNUG_LOST : SNUG_DEVICE, "  the run says so");
    if (lost) {
        close_lost_pool();
        return;
    }
    ok(holds(over, 20), "  contents");
    is_u64(slide(true, 1).moves, 1, "  the next run slides it");
    ok(holds(over, 20), "  contents");
    close_pool();
}

static void a_late_move_that_can_be_neither(void) {
    snug_budget budget = {.bytes_max = 8 * G};
    open_pool(200);
    snug_handle hole = put(40), hole2;
    victim           = put(30);
    put(5);
    hole2 = put(30);
    put(95);
    drop(hole);
    drop(hole2);
    for (unsigned i = 0; i < 3; i++)
        succeeds(snug_compact(pool, &budget, NULL));
    break_order();
    is_status(snug_compact(pool, &budget, NULL), SNUG_DEVICE,
              "the end of a late move that can be neither recorded nor waited for");
    ok(!pool->late.active, "  it is over");
    is_u64(pool->moves_published, 0, "  unpublished");
    close_lost_pool();
}

/* The victim's memory is still used by what is held up: the mover's stream must wait for that first. */
static void a_wait_for_earlier_users_fails(void) {
    gate  g = {0};
    void *address;
    open_pool(60);
    client      d     = client_make(pool);
    snug_handle first = must_alloc(pool, 10);
    put(10);
    snug_resolve(d.stream, &first, 1, NULL, &address);
    gate_put(&g, d.native);
    snug_release(d.stream, &first, 1, NULL);
    drop(first);
    victim = must_alloc(pool, 10);
    is_u64(offset_of(pool, victim), 0, "a buffer in memory that is still used");
    atomic_store(&hooks.fail_wait, 1);
    is_status(snug_resize(pool, victim, 15 * G), SNUG_DEVICE, "  a move of it whose wait fails");
    is_u64(hooks.moves, 0, "  nothing was copied");
    is_u64(offset_of(pool, victim), 0, "  it stays");
    is_u64(stats_of(pool).free_bytes, 40 * G, "  its target is free again");
    is_status(snug_resize(pool, victim, 15 * G), SNUG_OK, "  the next try succeeds");
    is_u64(hooks.moves, 1, "  by one copy");
    gate_open(&g);
    client_end(d);
    close_pool();
}

/* ------------------------------------------------------------------------------------------------ an emptied queue */

/* The hole at offset is where the buffer is to go. */
static snug__item item_to(snug_handle handle, uint32_t offset) {
    pthread_mutex_lock(&pool->lock);
    snug__entry *entry  = snug__handles_at(&pool->handles, snug__handle_index(handle));
    snug__range *source = snug__range_at(&pool->map, entry->range);
    source->copying     = 1;
    snug__item item     = {.source = entry->range, .size = source->size, .generation = snug__handle_generation(handle)};
    item.target =
        snug__range_take(&pool->map, map_at(&pool->map, offset), offset, item.size, SNUG__RANGE_TARGET, source->entry);
    pthread_mutex_unlock(&pool->lock);
    return item;
}

/* A slide that had to wait for the queue has emptied it between two steps of a late move. */
static void an_emptied_queue_has_nothing_to_stamp(void) {
    open_pool(40);
    snug_handle a    = put(10);
    snug__item  item = item_to(a, 10);
    snug__run   run  = {.pool = pool, .which = SNUG__BACKGROUND};
    pthread_mutex_lock(&pool->mover);
    snug__late_begin(&run, &item);
    snug__late_step(&run, 4);
    ok(pool->backlog[SNUG__BACKGROUND].unstamped > 0, "a piece of a late move is to be stamped");
    pool->backlog[SNUG__BACKGROUND] = (snug__backlog){.ops = 0};
    snug__late_cancel(pool);
    pthread_mutex_unlock(&pool->mover);
    is_u64(pool->backlog[SNUG__BACKGROUND].ops, 0, "the queue, waited for in between, is empty");
    is_u64(pool->backlog[SNUG__BACKGROUND].count, 0, "no stamp is kept for nothing");
    is_u64(offset_of(pool, a), 0, "the buffer is where it was");
    ok(holds(a, 10), "contents");
    close_pool();
}

int main(void) {
    a_full_queue_that_cannot_be_asked();
    a_full_queue_that_cannot_be_waited_for();
    a_slide_longer_than_the_queue();
    a_slide_longer_than_the_queue_that_cannot_be_waited_for();
    a_copy_then_its_record_fail();
    copies_that_can_be_neither_recorded_nor_waited_for();
    a_step_over_a_hole_that_can_be_neither();
    a_slide_that_does_not_begin(false);
    a_slide_that_does_not_begin(true);
    a_late_move_that_can_be_neither();
    a_wait_for_earlier_users_fails();
    an_emptied_queue_has_nothing_to_stamp();
    return done_testing();
}
