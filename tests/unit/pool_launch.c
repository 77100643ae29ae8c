/* pool_launch.c - the contract of what surrounds a launch: resolve and release, long pins, the order of work, event records. */
#include "tap.h"

#include "client.h"

static unsigned pins_of(snug_pool *pool, snug_handle handle) {
    return client_info(pool, handle).pins;
}

static void test_all_or_nothing(void) {
    client      c = client_open(64 * KiB), other = client_open(64 * KiB);
    snug_handle h[5], list[5], stale, foreign;
    void       *addresses[5];
    for (int i = 0; i < 5; i++)
        succeeds(snug_alloc(c.pool, 1000, NULL, &h[i]));
    succeeds(snug_alloc(c.pool, 1000, NULL, &stale));
    succeeds(snug_free(c.pool, stale));
    succeeds(snug_alloc(other.pool, 1000, NULL, &foreign));
    const struct {
        snug_handle handle;
        snug_status status;
    } bad[] = {
        {stale, SNUG_STALE}, {foreign, SNUG_FOREIGN}, {SNUG_HANDLE_NONE, SNUG_UNKNOWN}, {h[0] + 1000, SNUG_UNKNOWN}};
    for (unsigned at = 0; at < 5; at++)
        for (unsigned b = 0; b < 4; b++) {
            memcpy(list, h, sizeof list);
            list[at]  = bad[b].handle;
            bool held = snug_resolve(c.stream, list, 5, NULL, addresses) == bad[b].status &&
                        snug_pin(c.pool, list, 5, addresses) == bad[b].status;
            for (int i = 0; i < 5; i++)
                held &= pins_of(c.pool, h[i]) == 0 && client_info(c.pool, h[i]).long_pins == 0;
            ok(held, "%s at place %u of a list: no pin is left behind", snug_status_name(bad[b].status), at);
        }
    is_u64(client_stats(c.pool).pinned_bytes, 0, "nor counted");
    is_status(snug_resolve(c.stream, NULL, 1, NULL, addresses), SNUG_INVALID, "no handles");
    is_status(snug_resolve(c.stream, h, 1, NULL, NULL), SNUG_INVALID, "nowhere to put the addresses");
    is_status(snug_resolve(NULL, h, 1, NULL, addresses), SNUG_INVALID, "no stream");
    succeeds(snug_resolve(c.stream, NULL, 0, NULL, NULL));
    succeeds(snug_release(c.stream, NULL, 0, NULL));
    is_status(snug_resolve(other.stream, h, 1, NULL, addresses), SNUG_FOREIGN, "another pool's stream");
    succeeds(client_close(&other));
    succeeds(client_close(&c));
}

static void test_twice(void) {
    client            c = client_open(64 * KiB);
    snug_handle       h, list[3];
    void             *addresses[3];
    const snug_access access[3] = {SNUG_READ, SNUG_WRITE, SNUG_READ};
    succeeds(snug_alloc(c.pool, 1000, NULL, &h));
    list[0] = list[1] = list[2] = h;
    succeeds(snug_resolve(c.stream, list, 3, access, addresses));
    ok(addresses[0] == addresses[1] && addresses[1] == addresses[2], "one handle three times: one address");
    is_u64(pins_of(c.pool, h), 3, "and three pins");
    succeeds(snug_release(c.stream, list, 2, access));
    is_u64(pins_of(c.pool, h), 1, "two released");
    succeeds(snug_release(c.stream, list, 1, access));
    is_status(snug_release(c.stream, list, 1, access), SNUG_NOT_PINNED, "one release too many");
    succeeds(client_close(&c));
}

static void test_not_pinned(void) {
    client      c = client_open(64 * KiB);
    snug_handle h[3], list[3];
    void       *addresses[3];
    for (int i = 0; i < 3; i++)
        succeeds(snug_alloc(c.pool, 1000, NULL, &h[i]));
    is_status(snug_release(c.stream, h, 1, NULL), SNUG_NOT_PINNED, "release without resolve");
    is_status(snug_unpin(c.pool, h, 1, NULL, 0), SNUG_NOT_PINNED, "unpin without pin");
    succeeds(snug_resolve(c.stream, h, 1, NULL, addresses));
    is_status(snug_unpin(c.pool, h, 1, NULL, 0), SNUG_NOT_PINNED, "unpin of what is resolved");
    is_u64(pins_of(c.pool, h[0]), 1, "it stays resolved");
    succeeds(snug_release(c.stream, h, 1, NULL));
    succeeds(snug_pin(c.pool, h, 1, addresses));
    is_status(snug_release(c.stream, h, 1, NULL), SNUG_NOT_PINNED, "release of what is pinned long");
    is_u64(client_info(c.pool, h[0]).long_pins, 1, "it stays pinned");
    is_u64(pins_of(c.pool, h[0]), 1, "its pin is there");
    is_status(snug_unpin(c.pool, h, 1, NULL, 0), SNUG_OK, "and unpin finds it");
    succeeds(snug_pool_check(c.pool));

    succeeds(snug_resolve(c.stream, h, 2, NULL, addresses)); /* the list has one more in the middle */
    list[0] = h[0], list[1] = h[2], list[2] = h[1];
    is_status(snug_release(c.stream, list, 3, NULL), SNUG_NOT_PINNED, "a list with one that isn't resolved");
    ok(pins_of(c.pool, h[0]) == 0 && pins_of(c.pool, h[1]) == 0, "it was gone through to its end");
    succeeds(snug_free(c.pool, h[2]));
    is_status(snug_release(c.stream, &h[2], 1, NULL), SNUG_STALE, "release of a freed one");
    succeeds(client_close(&c));
}

static void test_free_while_resolved(void) {
    client      c = client_open(GRANULES(10));
    snug_handle h, next;
    void       *address[2];
    succeeds(snug_alloc(c.pool, 2000, NULL, &h));
    succeeds(snug_resolve(c.stream, &h, 1, NULL, &address[0]));
    succeeds(snug_resolve(c.stream, &h, 1, NULL, &address[1]));
    succeeds(snug_free(c.pool, h));
    snug_stats s = client_stats(c.pool);
    ok(s.live_bytes == 0 && s.handles_live == 0 && s.pending_bytes == GRANULES(8) && s.free_bytes == GRANULES(2),
       "dead at once, its bytes pending");
    is_status(snug_free(c.pool, h), SNUG_STALE, "the handle is dead");
    is_status(snug_resolve(c.stream, &h, 1, NULL, &address[1]), SNUG_STALE, "no new resolve");
    is_status(snug_alloc(c.pool, GRANULES(3), NULL, &next), SNUG_PENDING, "its bytes aren't to be had");
    pattern_put(address[0], 2000, 1); /* nor anybody else's: a launch may still be made */
    succeeds(snug_release(c.stream, &h, 1, NULL));
    is_u64(client_stats(c.pool).pending_bytes, GRANULES(8), "one of two released");
    succeeds(snug_release(c.stream, &h, 1, NULL));
    s = client_stats(c.pool);
    ok(s.pending_bytes == 0 && s.free_bytes == GRANULES(10), "from the last release on they are free");
    is_status(snug_release(c.stream, &h, 1, NULL), SNUG_STALE, "then the handle is stale to release, too");
    succeeds(snug_alloc(c.pool, GRANULES(10), NULL, &next));
    succeeds(snug_pin(c.pool, &next, 1, &address[0]));
    succeeds(snug_free(c.pool, next));
    s = client_stats(c.pool);
    ok(s.pending_bytes == GRANULES(10) && s.pinned_bytes == 0, "freed while pinned long: pending");
    succeeds(snug_unpin(c.pool, &next, 1, NULL, 0));
    is_u64(client_stats(c.pool).free_bytes, GRANULES(10), "until the unpin");
    succeeds(client_close(&c));
}

/* A list that is rolled back may hold the last pin of a freed buffer. */
static void test_roll_back_frees(void) {
    client      c = client_open(64 * KiB);
    snug_handle list[2];
    void       *addresses[2];
    succeeds(snug_alloc(c.pool, 1000, NULL, &list[0]));
    succeeds(snug_alloc(c.pool, 1000, NULL, &list[1]));
    succeeds(snug_free(c.pool, list[1]));
    for (int i = 0; i < 100; i++)
        if (snug_resolve(c.stream, list, 2, NULL, addresses) != SNUG_STALE)
            break;
    succeeds(snug_free(c.pool, list[0]));
    is_u64(client_stats(c.pool).free_bytes, 64 * KiB, "nothing is left pending");
    succeeds(client_close(&c));
}

static void test_long_pins(void) {
    snug_pool_options options = snug_pool_options_default();
    options.capacity          = 256 * KiB;
    options.jumble            = 1;
    client      c             = client_open_with(options);
    snug_handle h[8];
    void       *first, *again;
    bool        stays = true;
    for (unsigned i = 0; i < 8; i++) {
        succeeds(snug_alloc(c.pool, 5000, NULL, &h[i]));
        succeeds(client_fill(c.stream, c.native, h[i], 5000, i));
    }
    succeeds(snug_stream_sync(c.stream));
    for (int i = 0; i < 5; i++)
        succeeds(snug_compact(c.pool, NULL, NULL));
    succeeds(snug_pin(c.pool, &h[3], 1, &first));
    is_u64(pattern_differs(first, 5000, 3), UINT64_MAX, "contents are in place for the host, moves and all");
    succeeds(snug_pin(c.pool, &h[3], 1, &again));
    is_pointer(again, first, "pins nest");
    is_u64(client_info(c.pool, h[3]).long_pins, 2, "two of them");
    is_u64(client_stats(c.pool).pinned_bytes, GRANULES(20), "counted once");
    for (int i = 0; i < 20; i++) {
        stays &= snug_compact(c.pool, NULL, NULL) == SNUG_OK;
        if (i == 10)
            stays &= snug_unpin(c.pool, &h[3], 1, NULL, 0) == SNUG_OK;
        stays &= snug_resolve(c.stream, &h[3], 1, NULL, &again) == SNUG_OK && again == first &&
                 snug_release(c.stream, &h[3], 1, NULL) == SNUG_OK;
    }
    ok(stays, "it stays where it is until the last unpin");
    succeeds(snug_unpin(c.pool, &h[3], 1, NULL, 0));
    is_u64(client_stats(c.pool).pinned_bytes, 0, "no longer counted");
    bool moved = false;
    for (int i = 0; i < 50 && !moved; i++) {
        succeeds(snug_compact(c.pool, NULL, NULL));
        snug_stream_sync(c.stream);
        succeeds(snug_resolve(c.stream, &h[3], 1, NULL, &again));
        succeeds(snug_release(c.stream, &h[3], 1, NULL));
        moved = again != first;
    }
    ok(moved, "then it moves again");
    for (unsigned i = 0; i < 8; i++)
        succeeds(client_check(c.stream, c.native, h[i], 5000, i));
    succeeds(snug_stream_sync(c.stream));
    is_u64(atomic_load(&client_faults), 0, "long pins: contents");
    succeeds(client_close(&c));
}

/* Work that was enqueued outside resolve and release counts through the streams named at the unpin. */
static void test_unpin_with_streams(void) {
    client            c = client_open(64 * KiB), other = client_open(64 * KiB);
    snug_host_stream *native;
    snug_stream      *second, *both[2];
    snug_handle       h, next;
    client_gate       gate;
    client_job        job = {.put = 64 * KiB, .after = 1};
    succeeds(snug_host_stream_create(&native));
    succeeds(snug_stream_attach(c.pool, native, &second));
    succeeds(snug_alloc(c.pool, 64 * KiB, NULL, &h));
    succeeds(snug_pin(c.pool, &h, 1, &job.at));
    gate_shut(&gate, native);
    succeeds(snug_host_launch(native, client_job_run, &job, sizeof job));
    both[0] = second, both[1] = other.stream;
    is_status(snug_unpin(c.pool, &h, 1, both, 2), SNUG_INVALID, "a stream of another pool");
    is_u64(client_info(c.pool, h).long_pins, 1, "unpins nothing");
    both[1] = c.stream;
    succeeds(snug_unpin(c.pool, &h, 1, both, 2));
    succeeds(snug_free(c.pool, h));
    succeeds(snug_alloc(c.pool, 64 * KiB, NULL, &next));
    succeeds(client_fill(c.stream, c.native, next, 64 * KiB, 2));
    usleep(2000);
    gate_open(&gate);
    succeeds(client_check(c.stream, c.native, next, 64 * KiB, 2));
    succeeds(snug_stream_sync(second));
    succeeds(snug_stream_sync(c.stream));
    is_u64(atomic_load(&client_faults), 0, "unpin with streams: the next owner waited");
    succeeds(snug_stream_detach(second));
    succeeds(snug_host_stream_destroy(native));
    succeeds(client_close(&other));
    succeeds(client_close(&c));
}

/* Alloc, free, moves and resize go on while a stream is stalled; whoever gets its memory waits, on the device. */
static void test_order(void) {
    client            c = client_open(GRANULES(64));
    snug_host_stream *native;
    snug_stream      *stalled;
    snug_handle       h[4], next, rest;
    client_gate       gate;
    succeeds(snug_host_stream_create(&native));
    succeeds(snug_stream_attach(c.pool, native, &stalled));
    for (int i = 0; i < 4; i++)
        succeeds(snug_alloc(c.pool, GRANULES(16), NULL, &h[i]));
    gate_shut(&gate, native);
    for (unsigned i = 0; i < 4; i++)
        succeeds(client_fill(stalled, native, h[i], GRANULES(16), i));
    succeeds(snug_free(c.pool, h[0]));
    succeeds(snug_free(c.pool, h[2]));
    succeeds(snug_alloc(c.pool, GRANULES(32), NULL, &next)); /* moves one that the stalled stream still writes */
    succeeds(client_fill(c.stream, c.native, next, GRANULES(32), 7));
    succeeds(snug_resize(c.pool, h[1], GRANULES(8)));
    succeeds(snug_alloc(c.pool, GRANULES(8), NULL, &rest));
    succeeds(client_fill(c.stream, c.native, rest, GRANULES(8), 8));
    ok(client_stats(c.pool).unsettled_bytes == 0 && client_stats(c.pool).free_bytes == 0, "all handed out again");
    gate_open(&gate);
    succeeds(client_check(c.stream, c.native, next, GRANULES(32), 7));
    succeeds(client_check(c.stream, c.native, rest, GRANULES(8), 8));
    succeeds(client_check(stalled, native, h[1], GRANULES(8), 1));
    succeeds(client_check(stalled, native, h[3], GRANULES(16), 3));
    succeeds(snug_stream_sync(stalled));
    succeeds(snug_stream_sync(c.stream));
    is_u64(atomic_load(&client_faults), 0, "order: contents");
    succeeds(snug_stream_detach(stalled));
    succeeds(snug_host_stream_destroy(native));
    succeeds(client_close(&c));
}

static void test_records(void) {
    client      c = client_open(1 * MiB);
    snug_handle h[50];
    void       *addresses[50];
    client_job  job = {.put = 1000, .after = 1};
    for (int i = 0; i < 50; i++)
        succeeds(snug_alloc(c.pool, 1000, NULL, &h[i]));
    uint64_t before = client_stats(c.pool).device_records;
    bool     held   = true;
    for (int i = 0; i < 20; i++)
        held &=
            snug_resolve(c.stream, h, 50, NULL, addresses) == SNUG_OK && snug_release(c.stream, h, 50, NULL) == SNUG_OK;
    ok(held, "twenty pairs over 50 handles");
    is_u64(client_stats(c.pool).device_records - before, 20, "one event record a release, however many handles");
    before = client_stats(c.pool).device_records;
    held   = snug_resolve(c.stream, h, 50, NULL, addresses) == SNUG_OK;
    for (int i = 0; i < 100; i++) {
        job.at = addresses[i % 50];
        held &= snug_host_launch(c.native, client_job_run, &job, sizeof job) == SNUG_OK;
    }
    held &= snug_release(c.stream, h, 50, NULL) == SNUG_OK;
    ok(held, "one pair around 100 launches");
    is_u64(client_stats(c.pool).device_records - before, 1, "one event record in all");
    uint64_t waits = client_stats(c.pool).device_waits;
    for (int i = 0; i < 20; i++)
        held &= client_check(c.stream, c.native, h[i], 1000, 1) == SNUG_OK;
    is_u64(client_stats(c.pool).device_waits, waits, "no waits where nothing is to be waited for");
    succeeds(snug_stream_sync(c.stream));
    ok(held && atomic_load(&client_faults) == 0, "contents");
    succeeds(client_close(&c));
}

int main(void) {
    test_all_or_nothing();
    test_twice();
    test_not_pinned();
    test_free_while_resolved();
    test_roll_back_frees();
    test_long_pins();
    test_unpin_with_streams();
    test_order();
    test_records();
    return done_testing();
}
