/* refuse.c - calls that must say no: no such thing given, too late, or in a process that the pool wasn't made for; and that
 * nothing has changed afterwards. */
#include "tap.h"

#include "move_world.h"

static uint32_t pins_of(snug_handle handle) {
    snug_handle_info info = {.struct_size = sizeof info};
    snug_handle_info_get(pool, handle, &info);
    return info.pins;
}

/* ------------------------------------------------------------------------------------------------ launches */

static void without_a_stream(void) {
    void *address;
    char  byte = 0;
    open_pool(10);
    snug_handle a = must_alloc(pool, 1), b = must_alloc(pool, 1);
    is_status(snug_resolve(NULL, &a, 1, NULL, &address), SNUG_INVALID, "no stream: resolve");
    is_status(snug_release(NULL, &a, 1, NULL), SNUG_INVALID, "release");
    is_status(snug_write(NULL, a, 0, &byte, 1), SNUG_INVALID, "write");
    is_status(snug_read(NULL, a, 0, &byte, 1), SNUG_INVALID, "read");
    is_status(snug_fill(NULL, a, 0, 1, 1), SNUG_INVALID, "fill");
    is_status(snug_copy(NULL, a, 0, b, 0, 1), SNUG_INVALID, "copy");
    is_status(snug_stream_sync(NULL), SNUG_INVALID, "sync");
    is_status(snug_stream_detach(NULL), SNUG_INVALID, "detach");
    close_pool();
}

static void on_a_stream_that_is_detached(void) {
    void *address = &pool;
    char  byte    = 7;
    open_pool(10);
    client      d = client_make(pool);
    snug_handle a = must_alloc(pool, 1), b = must_alloc(pool, 1);
    succeeds(snug_resolve(d.stream, &a, 1, NULL, &address));
    succeeds(snug_release(d.stream, &a, 1, NULL));
    client_end(d);
    address = &pool;
    is_status(snug_resolve(d.stream, &a, 1, NULL, &address), SNUG_GONE, "a detached stream: resolve");
    is_pointer(address, &pool, "  no address is written");
    is_status(snug_release(d.stream, &a, 1, NULL), SNUG_GONE, "release");
    is_status(snug_write(d.stream, a, 0, &byte, 1), SNUG_GONE, "write");
    is_status(snug_read(d.stream, a, 0, &byte, 1), SNUG_GONE, "read");
    is_status(snug_fill(d.stream, a, 0, 1, 1), SNUG_GONE, "fill");
    is_status(snug_copy(d.stream, a, 0, b, 0, 1), SNUG_GONE, "copy");
    is_status(snug_stream_sync(d.stream), SNUG_GONE, "sync");
    is_status(snug_stream_detach(d.stream), SNUG_GONE, "detach once more");
    is_u64(pins_of(a) + pins_of(b), 0, "nothing is pinned");
    is_i64(byte, 7, "nothing is read");
    close_pool();
}

static void without_memory_of_the_host(void) {
    unsigned char bytes[4] = {1, 2, 3, 4}, back[4] = {0};
    open_pool(10);
    snug_handle a = must_alloc(pool, 1);
    succeeds(snug_write(c.stream, a, 0, bytes, 4));
    is_status(snug_write(c.stream, a, 0, NULL, 1), SNUG_INVALID, "a write from nowhere");
    is_status(snug_read(c.stream, a, 0, NULL, 1), SNUG_INVALID, "a read to nowhere");
    is_status(snug_write(c.stream, a, 0, NULL, 0), SNUG_OK, "nothing from nowhere");
    is_status(snug_read(c.stream, a, 0, NULL, 0), SNUG_OK, "nothing to nowhere");
    is_u64(pins_of(a), 0, "nothing stays pinned");
    succeeds(snug_read(c.stream, a, 0, back, 4));
    succeeds(snug_stream_sync(c.stream));
    is_bytes(back, bytes, 4, "the contents are what they were");
    close_pool();
}

static void a_release_of_wrong_handles(void) {
    void *address;
    open_pool(10);
    snug_handle dead = must_alloc(pool, 1), a = must_alloc(pool, 1), b = must_alloc(pool, 1);
    drop(dead);
    snug_handle list[4] = {a, dead, dead ^ UINT64_C(1) << 60, b};
    succeeds(snug_resolve(c.stream, &b, 1, NULL, &address));
    is_status(snug_release(c.stream, NULL, 1, NULL), SNUG_INVALID, "a release of no handles");
    is_u64(pins_of(b), 1, "  nothing is released");
    is_status(snug_release(c.stream, NULL, 0, NULL), SNUG_OK, "none of nothing");
    uint64_t records = hooks.records;
    is_status(snug_release(c.stream, list, 4, NULL), SNUG_NOT_PINNED, "of three wrong handles the first is told");
    is_u64(pins_of(b), 0, "  the right one is released");
    is_u64(hooks.records - records, 1, "  by one record");
    close_pool();
}

/* ------------------------------------------------------------------------------------------------ pools */

static void without_a_pool(void) {
    snug_stream *stream = NULL;
    snug_handle  handle = 0;
    open_pool(10);
    is_u64(snug_moves(NULL), 0, "no pool: no moves");
    is_status(snug_stream_attach(NULL, c.native, &stream), SNUG_INVALID, "attach");
    is_status(snug_stream_attach(pool, c.native, NULL), SNUG_INVALID, "attach to nothing");
    is_u64(stats_of(pool).streams_attached, 1, "  no stream more is attached");
    is_status(snug_pool_destroy(NULL), SNUG_INVALID, "destroy");
    is_status(snug_free(NULL, handle), SNUG_INVALID, "free");
    is_status(snug_alloc(NULL, G, NULL, &handle), SNUG_INVALID, "alloc");
    is_status(snug_alloc(pool, G, NULL, NULL), SNUG_INVALID, "alloc to nothing");
    is_u64(stats_of(pool).handles_live, 0, "  nothing is live");
    is_status(snug_resize(NULL, handle, G), SNUG_INVALID, "resize");
    is_status(snug_compact(NULL, NULL, NULL), SNUG_INVALID, "compact");
    is_status(snug_compaction_set(NULL, 0), SNUG_INVALID, "switching compaction");
    is_status(snug_trim(NULL, 0, NULL), SNUG_INVALID, "trim");
    is_status(snug_compactor_start(NULL, NULL), SNUG_INVALID, "the compactor's start");
    is_status(snug_compactor_stop(NULL), SNUG_INVALID, "the compactor's stop");
    is_status(snug_unpin(NULL, NULL, 0, NULL, 0), SNUG_INVALID, "unpin");
    close_pool();
}

/* What a child would see, by the count of forks alone: the child itself is in pool.c. */
static void after_a_fork(void) {
    snug_stream *stream = NULL;
    snug_handle  handle;
    void        *address = &pool;
    open_pool(10);
    snug_handle a     = put(1);
    uint32_t    forks = pool->forks++;
    is_status(snug_alloc(pool, G, NULL, &handle), SNUG_FORKED, "after a fork: alloc");
    is_status(snug_free(pool, a), SNUG_FORKED, "free");
    is_status(snug_resize(pool, a, 2 * G), SNUG_FORKED, "resize");
    is_status(snug_resolve(c.stream, &a, 1, NULL, &address), SNUG_FORKED, "resolve");
    is_status(snug_release(c.stream, &a, 1, NULL), SNUG_FORKED, "release");
    is_status(snug_pin(pool, &a, 1, &address), SNUG_FORKED, "pin");
    is_status(snug_unpin(pool, &a, 1, NULL, 0), SNUG_FORKED, "unpin");
    is_status(snug_stream_attach(pool, c.native, &stream), SNUG_FORKED, "attach");
    is_status(snug_stream_detach(c.stream), SNUG_FORKED, "detach");
    is_status(snug_stream_sync(c.stream), SNUG_FORKED, "sync");
    is_status(snug_compact(pool, NULL, NULL), SNUG_FORKED, "compact");
    is_status(snug_compactor_start(pool, NULL), SNUG_FORKED, "the compactor's start");
    is_status(snug_compactor_stop(pool), SNUG_FORKED, "the compactor's stop");
    is_status(snug_trim(pool, 0, NULL), SNUG_FORKED, "trim");
    is_status(snug_pool_destroy(pool), SNUG_FORKED, "destroy");
    is_pointer(address, &pool, "no address is written");
    pool->forks = forks;
    ok(holds(a, 1), "the parent goes on: contents");
    is_u64(stats_of(pool).handles_live, 1, "and what was live");
    close_pool();
}

int main(void) {
    without_a_stream();
    on_a_stream_that_is_detached();
    without_memory_of_the_host();
    a_release_of_wrong_handles();
    without_a_pool();
    after_a_fork();
    return done_testing();
}
