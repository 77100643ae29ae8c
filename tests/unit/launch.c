/* launch.c - what surrounds a launch: resolve and release, fences of reused memory, long pins; and what others see of a
 * resize meanwhile. */
#include "tap.h"

#include "fixture.h"

enum { G = SNUG_GRANULE };

static snug_pool *pool;
static client     c;

static void open_pool(uint64_t granules) {
    pool = pool_of(granules);
    c    = client_make(pool);
}

static void lay_out(const char *text, snug_handle *handles) {
    pool = pool_laid_out(text, 1, (snug_pool_options){0}, handles);
    c    = client_make(pool);
}

static void close_pool(void) {
    succeeds(snug_pool_check(pool));
    client_end(c);
    succeeds(snug_pool_destroy(pool));
}

static uint32_t pins_of(snug_handle handle) {
    snug_handle_info info = {.struct_size = sizeof info};
    snug_handle_info_get(pool, handle, &info);
    return info.pins;
}

/* ------------------------------------------------------------------------------------------------ resolve, release */

static void resolve_is_all_or_nothing(void) {
    open_pool(20);
    snug_handle dead = must_alloc(pool, 1), handles[3] = {must_alloc(pool, 1), must_alloc(pool, 1), 0};
    void       *mark = &pool, *addresses[3] = {mark, mark, mark};
    snug_free(pool, dead);
    handles[2] = dead;
    is_status(snug_resolve(c.stream, handles, 3, NULL, addresses), SNUG_STALE, "one of three is stale");
    is_u64(pins_of(handles[0]) + pins_of(handles[1]), 0, "none is pinned");
    ok(!addresses[0] && !addresses[1] && !addresses[2], "the failed call leaves no address");
    addresses[0] = addresses[1] = addresses[2] = mark;
    is_status(snug_pin(pool, handles, 3, addresses), SNUG_STALE, "long pins as well");
    is_u64(pins_of(handles[0]) + pins_of(handles[1]), 0, "none is left behind");
    is_u64(stats_of(pool).pinned_bytes, 0, "or counted");
    ok(addresses[0] == mark && addresses[1] == mark && addresses[2] == mark, "no address is written by that either");
    is_status(snug_resolve(c.stream, NULL, 1, NULL, addresses), SNUG_INVALID, "no handles");
    is_status(snug_resolve(c.stream, handles, 1, NULL, NULL), SNUG_INVALID, "no addresses");
    is_status(snug_resolve(c.stream, NULL, 0, NULL, NULL), SNUG_OK, "none of nothing");
    close_pool();
}

static void a_rollback_may_be_the_last_unpin(void) {
    void *address, *both[2];
    open_pool(20);
    snug_handle a = must_alloc(pool, 5), bad[2] = {a, a ^ 1 << 20};
    snug_resolve(c.stream, &a, 1, NULL, &address);
    is_status(snug_resolve(c.stream, bad, 2, NULL, both), SNUG_UNKNOWN, "rolled back");
    is_u64(pins_of(a), 1, "to the one pin there was");
    snug_free(pool, a);
    snug_release(c.stream, &a, 1, NULL);
    is_u64(stats_of(pool).free_bytes, 20 * G, "all is free");
    close_pool();
}

static void a_release_goes_through_its_whole_list(void) {
    open_pool(20);
    snug_handle a = must_alloc(pool, 1), b = must_alloc(pool, 1), both[2] = {a, b};
    void       *addresses[2];
    snug_resolve(c.stream, &b, 1, NULL, addresses);
    is_status(snug_release(c.stream, both, 2, NULL), SNUG_NOT_PINNED, "the first isn't resolved");
    is_u64(pins_of(b), 0, "the second is released all the same");
    snug_handle twice[2] = {a, a};
    succeeds(snug_resolve(c.stream, twice, 2, NULL, addresses));
    is_pointer(addresses[0], addresses[1], "one handle twice: the same address");
    is_u64(pins_of(a), 2, "two pins");
    succeeds(snug_release(c.stream, twice, 2, NULL));
    close_pool();
}

static void one_release_records_one_event(void) {
    snug_handle handles[50];
    void       *addresses[50];
    open_pool(100);
    for (unsigned i = 0; i < 50; i++)
        handles[i] = must_alloc(pool, 1);
    snug_resolve(c.stream, handles, 50, NULL, addresses);
    uint64_t records = hooks.records, waits = hooks.waits;
    snug_release(c.stream, handles, 50, NULL);
    is_u64(hooks.records - records, 1, "fifty handles, one record");
    snug_resolve(c.stream, handles, 50, NULL, addresses);
    is_u64(hooks.waits - waits, 0, "and no wait for what nobody else used");
    snug_release(c.stream, handles, 50, NULL);
    close_pool();
}

static void reused_memory_is_ordered_behind_its_last_user(void) {
    gate g = {0};
    open_pool(10);
    client      d = client_make(pool);
    snug_handle a = must_alloc(pool, 10);
    gate_put(&g, c.native);
    snug_fill(c.stream, a, 0, 0xaa, 10 * G);
    snug_free(pool, a);
    snug_handle b = must_alloc(pool, 10);
    snug_fill(d.stream, b, 0, 0xbb, 10 * G); /* at once, on another stream */
    nap_us(5000);
    gate_open(&g);
    unsigned char bytes[10 * G], wrong = 0;
    snug_stream_sync(c.stream);
    snug_read(d.stream, b, 0, bytes, sizeof bytes);
    snug_stream_sync(d.stream);
    for (unsigned i = 0; i < sizeof bytes; i++)
        wrong |= bytes[i] != 0xbb;
    is_u64(wrong, 0, "the earlier owner's work comes before the later one's");
    client_end(d);
    close_pool();
}

/* hole 0+10 is behind queued work, hole 20+10 is not. */
static void settled_memory_only(uint32_t flags, const char *name) {
    snug_handle handles[8], first, got = 0;
    gate        g = {0};
    void       *address;
    lay_out("l10 l10 f10 l10", handles);
    first = handles[0];
    snug_resolve(c.stream, &first, 1, NULL, &address);
    gate_put(&g, c.native);
    snug_release(c.stream, &first, 1, NULL);
    snug_free(pool, first);
    snug_alloc_options o = snug_alloc_options_default();
    o.flags              = SNUG_ALLOC_SETTLED | flags;
    is_status(snug_alloc(pool, 10 * G, &o, &got), SNUG_OK, "%s: a settled hole is there", name);
    is_u64(offset_of(pool, got), 20, "%s: and is the one that is given", name);
    is_status(snug_alloc(pool, 10 * G, &o, &got), SNUG_PENDING, "%s: then there is only the unsettled one", name);
    is_u64(stats_of(pool).moves, 0, "%s: nothing is moved for it", name);
    gate_open(&g);
    snug_stream_sync(c.stream);
    is_status(snug_alloc(pool, 10 * G, &o, &got), SNUG_OK, "%s: once its work has run it is given", name);
    close_pool();
}

static void a_long_pin_holds_an_address(void) {
    snug_handle handles[8], large;
    void       *address, *again;
    lay_out("l4 f4 l4 f4 l4", handles);
    snug_pin(pool, &handles[2], 1, &address);
    ok(offset_of(pool, handles[2]) <= 4, "pinning brings a buffer to the low end first");
    succeeds(snug_pin(pool, &handles[2], 1, &again));
    is_pointer(again, address, "pins nest");
    is_status(snug_alloc(pool, 8 * G, NULL, &large), SNUG_OK, "others are moved around it");
    is_status(snug_resize(pool, handles[2], 5 * G), SNUG_BUSY, "it can't be resized");
    succeeds(snug_unpin(pool, &handles[2], 1, NULL, 0));
    succeeds(snug_unpin(pool, &handles[2], 1, &c.stream, 1));
    is_status(snug_unpin(pool, &handles[2], 1, NULL, 0), SNUG_NOT_PINNED, "one unpin too many");
    close_pool();
}

/* ------------------------------------------------------------------------------------------------ others meanwhile */

typedef struct crowd {
    _Atomic int      stop;
    _Atomic uint64_t wrong;
} crowd;

static void *alloc_and_free(void *argument) {
    crowd *crowd = argument;
    while (!atomic_load(&crowd->stop)) {
        snug_handle handle;
        if (snug_alloc(pool, G, NULL, &handle) == SNUG_OK)
            crowd->wrong += snug_free(pool, handle) != SNUG_OK;
    }
    return NULL;
}

/* In debug builds alloc and free check the pool on the way: nothing half done may be seen once the lock is free. */
static void resizes_are_seen_whole_by_others(void) {
    crowd       crowd = {0};
    pthread_t   threads[2];
    snug_handle a, fences[2];
    open_pool(400);
    a         = must_alloc(pool, 10);
    fences[0] = must_alloc(pool, 1);
    for (unsigned i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, alloc_and_free, &crowd);
    for (uint64_t i = 0; i < tap_scaled(3000); i++) { /* from one fence to the other and back */
        crowd.wrong += snug_resize(pool, a, 50 * G) != SNUG_OK;
        fences[1] = must_alloc(pool, 1);
        snug_free(pool, fences[0]);
        fences[0] = fences[1];
        crowd.wrong += snug_resize(pool, a, 10 * G) != SNUG_OK;
    }
    atomic_store(&crowd.stop, 1);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    is_u64(crowd.wrong, 0, "a buffer grows and shrinks while others allocate and free");
    ok(stats_of(pool).moves > 0, "now and then elsewhere");
    close_pool();
}

/* Nobody but the call itself could release what it has pinned. */
static void a_transfer_whose_event_fails_leaves_no_pin(void) {
    open_pool(20);
    snug_handle a = must_alloc(pool, 4), b = must_alloc(pool, 4);
    char        bytes[256] = {1}, back[256] = {0};
    buffer_fill(c, a, 4 * G, 1);
    atomic_store(&hooks.fail_record, 1);
    is_status(snug_write(c.stream, b, 0, bytes, sizeof bytes), SNUG_DEVICE, "write");
    is_u64(pins_of(b), 0, "not pinned any more");
    atomic_store(&hooks.fail_record, 1);
    is_status(snug_copy(c.stream, b, G, a, 0, 2 * G), SNUG_DEVICE, "copy");
    is_u64(pins_of(a) + pins_of(b), 0, "neither of the two is pinned");
    atomic_store(&hooks.fail_record, 1);
    is_status(snug_read(c.stream, b, 0, back, sizeof back), SNUG_DEVICE, "read");
    is_u64(pins_of(b), 0, "not pinned any more");
    ok(memcmp(bytes, back, sizeof back) == 0, "what was enqueued before the event has run all the same");
    close_pool();
}

static void a_handle_never_comes_back(void) {
    snug_handle seen[300];
    unsigned    repeats = 0;
    for (unsigned i = 0; i < 300; i++) {
        pool    = pool_of(4);
        seen[i] = must_alloc(pool, 1);
        for (unsigned j = 0; j < i; j++)
            repeats += seen[j] == seen[i];
        snug_free(pool, seen[i]);
        snug_pool_destroy(pool);
    }
    is_u64(repeats, 0, "of three hundred pools one after the other, no two had a handle in common");
}

int main(void) {
    resolve_is_all_or_nothing();
    a_rollback_may_be_the_last_unpin();
    a_release_goes_through_its_whole_list();
    one_release_records_one_event();
    reused_memory_is_ordered_behind_its_last_user();
    settled_memory_only(0, "settled");
    settled_memory_only(SNUG_ALLOC_LONG_PINNED, "settled and long pinned");
    settled_memory_only(SNUG_ALLOC_IMMOVABLE, "settled and immovable");
    a_long_pin_holds_an_address();
    resizes_are_seen_whole_by_others();
    a_transfer_whose_event_fails_leaves_no_pin();
    a_handle_never_comes_back();
    return done_testing();
}
