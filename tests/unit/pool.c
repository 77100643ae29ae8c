/* pool.c - the public entry points: pools and streams, allocation and its verdicts, resolve and release, long pins, resizing,
 * transfers, quotes. */
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

static snug_status try_alloc(uint64_t granules, snug_alloc_options o) {
    snug_handle handle;
    o.struct_size = sizeof o;
    return snug_alloc(pool, granules * G, &o, &handle);
}

static uint32_t pins_of(snug_handle handle) {
    snug_handle_info info = {.struct_size = sizeof info};
    snug_handle_info_get(pool, handle, &info);
    return info.pins;
}

static snug_refusal refusal(void) {
    snug_refusal r = {.struct_size = sizeof r};
    snug_refusal_get(&r);
    return r;
}

/* ------------------------------------------------------------------------------------------------ pools */

static void a_destroyed_pool_is_gone(void) {
    snug_handle handle = 0;
    void       *address;
    open_pool(10);
    handle = must_alloc(pool, 1);
    snug_stream *stream = c.stream;
    succeeds(snug_stream_detach(c.stream));
    snug_host_stream_destroy(c.native);
    succeeds(snug_pool_destroy(pool));
    is_status(snug_pool_destroy(pool), SNUG_GONE, "a second destroy");
    is_status(snug_alloc(pool, 1, NULL, &handle), SNUG_GONE, "alloc");
    is_status(snug_free(pool, handle), SNUG_GONE, "free");
    is_status(snug_resolve(stream, &handle, 1, NULL, &address), SNUG_GONE, "resolve on a stream of it");
    is_status(snug_stream_detach(stream), SNUG_GONE, "detach");
    is_status(snug_pool_check(pool), SNUG_GONE, "check");
    is_status(snug_pool_destroy(NULL), SNUG_INVALID, "no pool at all");
}

static void a_handle_is_no_other_pools(void) {
    open_pool(10);
    snug_pool  *first = pool;
    client      of_first = c;
    snug_handle a = must_alloc(pool, 1);
    open_pool(10);
    is_status(snug_free(pool, a), SNUG_FOREIGN, "a handle of another pool");
    is_status(snug_free(pool, SNUG_HANDLE_NONE), SNUG_UNKNOWN, "none at all");
    close_pool();
    pool = first;
    c    = of_first;
    succeeds(snug_free(pool, a));
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

/* ------------------------------------------------------------------------------------------------ allocation, verdicts */

static void every_verdict_has_its_reason(void) {
    snug_handle handles[8], large = 77;
    void       *address;
    lay_out("l4 f4 l4 f4 l4", handles);
    is_status(snug_alloc(pool, 21 * G, NULL, &large), SNUG_LIMIT, "more than the pool may be");
    is_status(snug_alloc(pool, 9 * G, NULL, &large), SNUG_CAPACITY, "more than is free");
    is_u64(refusal().free_bytes, 8 * G, "the refusal has the figures");
    is_u64(refusal().request_bytes, 9 * G, "and the request");
    is_u64(refusal().largest_hole_bytes, 4 * G, "the largest hole");
    snug_compaction_set(pool, 0);
    is_status(snug_alloc(pool, 8 * G, NULL, &large), SNUG_FRAGMENTED, "scattered, compaction being off");
    close_pool();
    lay_out("f4 l4 f4", handles);
    snug_resolve(c.stream, handles, 1, NULL, &address);
    is_status(snug_alloc(pool, 8 * G, NULL, &large), SNUG_PINNED, "a short pin lies between");
    snug_free(pool, handles[0]);
    is_status(snug_alloc(pool, 12 * G, NULL, &large), SNUG_PENDING, "freed, but not released");
    is_u64(refusal().pending_bytes, 4 * G, "so many are pending");
    snug_release(c.stream, handles, 1, NULL);
    is_u64(large, 77, "no refused call has written a handle");
    is_status(snug_alloc(pool, 12 * G, NULL, &large), SNUG_OK, "released: granted");
    is_u64(stats_of(pool).refused[SNUG_PENDING], 1, "refusals are counted by verdict");
    close_pool();
    lay_out("f4 x4 f4", handles);
    is_status(snug_alloc(pool, 8 * G, NULL, &large), SNUG_PINNED, "an immovable buffer lies between");
    is_u64(refusal().blocking_pins, 1, "one");
    is_hex(refusal().blocking[0], handles[0], "namely this");
    close_pool();
}

static void arguments_are_checked(void) {
    snug_handle handle = 77;
    open_pool(100);
    is_status(try_alloc(1, (snug_alloc_options){.alignment = 3}), SNUG_ALIGNMENT, "three is no alignment");
    is_status(try_alloc(1, (snug_alloc_options){.alignment = SNUG_ALIGNMENT_MAX * 2}), SNUG_ALIGNMENT, "nor is four MiB");
    is_status(try_alloc(1, (snug_alloc_options){.alignment = 1}), SNUG_OK, "one is");
    is_status(snug_alloc(pool, SNUG_SIZE_MAX + 1, NULL, &handle), SNUG_TOO_LARGE, "a size that can't be");
    is_status(try_alloc(1, (snug_alloc_options){.flags = 64}), SNUG_INVALID, "a flag there isn't");
    is_status(snug_alloc(pool, 1, NULL, NULL), SNUG_INVALID, "no place for the handle");
    is_u64(handle, 77, "nothing was written");
    close_pool();
}

static void a_buffer_of_nothing_is_a_buffer(void) {
    void       *address = &pool;
    snug_handle z = 0;
    open_pool(10);
    succeeds(snug_alloc(pool, 0, NULL, &z));
    succeeds(snug_resolve(c.stream, &z, 1, NULL, &address));
    is_pointer(address, NULL, "it resolves to NULL");
    succeeds(snug_release(c.stream, &z, 1, NULL));
    succeeds(snug_pin(pool, &z, 1, &address));
    succeeds(snug_unpin(pool, &z, 1, NULL, 0));
    succeeds(snug_resize(pool, z, 3 * G));
    buffer_fill(c, z, 3 * G, 1);
    ok(buffer_holds(c, z, 3 * G, 1), "grown, it holds bytes");
    succeeds(snug_resize(pool, z, 0));
    is_u64(stats_of(pool).free_bytes, 10 * G, "and gives them back");
    succeeds(snug_free(pool, z));
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
    is_status(try_alloc(10, o), SNUG_PENDING, "%s: then there is only the unsettled one", name);
    is_u64(stats_of(pool).moves, 0, "%s: nothing is moved for it", name);
    gate_open(&g);
    snug_stream_sync(c.stream);
    is_status(try_alloc(10, o), SNUG_OK, "%s: once its work has run it is given", name);
    close_pool();
}

static void grows_to_leaves_room(void) {
    snug_handle handles[8], a;
    lay_out("f5 l1 f20 l1", handles);
    snug_alloc_options o = snug_alloc_options_default();
    o.grows_to           = 15 * G;
    snug_alloc(pool, 5 * G, &o, &a);
    is_u64(offset_of(pool, a), 6, "not in the hole that fits exactly");
    uint64_t moves = snug_moves(pool);
    succeeds(snug_resize(pool, a, 15 * G));
    is_u64(snug_moves(pool), moves, "so that it grows where it is");
    close_pool();
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
    ok(addresses[0] == mark && addresses[1] == mark && addresses[2] == mark, "no address is written by the failed call");
    is_status(snug_pin(pool, handles, 3, addresses), SNUG_STALE, "nor are long pins");
    is_u64(pins_of(handles[0]) + pins_of(handles[1]), 0, "left behind");
    is_u64(stats_of(pool).pinned_bytes, 0, "or counted");
    ok(addresses[0] == mark && addresses[1] == mark && addresses[2] == mark, "no address is written by that either");
    is_status(snug_resolve(c.stream, NULL, 1, NULL, addresses), SNUG_INVALID, "no handles");
    is_status(snug_resolve(c.stream, handles, 1, NULL, NULL), SNUG_INVALID, "no addresses");
    is_status(snug_resolve(c.stream, NULL, 0, NULL, NULL), SNUG_OK, "none of nothing");
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
    void       *address;
    snug_resolve(c.stream, &a, 1, NULL, &address);
    gate_put(&g, c.native);
    snug_release(c.stream, &a, 1, NULL);
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

static void a_long_pin_holds_an_address(void) {
    snug_handle handles[8], large;
    void       *address, *again;
    lay_out("l4 f4 l4 f4 l4", handles);
    snug_pin(pool, &handles[2], 1, &address);
    is_u64(offset_of(pool, handles[2]), 0, "pinning brings a buffer to the low end first");
    succeeds(snug_pin(pool, &handles[2], 1, &again));
    is_pointer(again, address, "pins nest");
    is_status(snug_alloc(pool, 8 * G, NULL, &large), SNUG_OK, "others are moved around it");
    is_status(snug_resize(pool, handles[2], 5 * G), SNUG_BUSY, "it can't be resized");
    succeeds(snug_unpin(pool, &handles[2], 1, NULL, 0));
    succeeds(snug_unpin(pool, &handles[2], 1, &c.stream, 1));
    is_status(snug_unpin(pool, &handles[2], 1, NULL, 0), SNUG_NOT_PINNED, "one unpin too many");
    close_pool();
}

/* ------------------------------------------------------------------------------------------------ resize, transfers, quote */

static void a_resize_finds_its_room(const char *layout, unsigned which, uint64_t from, uint64_t to, const char *name) {
    snug_handle handles[8] = {0};
    lay_out(layout, handles);
    for (unsigned i = 0; i < 8 && handles[i]; i++) {
        snug_handle_info info = {.struct_size = sizeof info};
        snug_handle_info_get(pool, handles[i], &info);
        buffer_fill(c, handles[i], info.size, i);
    }
    is_status(snug_resize(pool, handles[which], to * G), SNUG_OK, "%s", name);
    unsigned torn = 0;
    for (unsigned i = 0; i < 8 && handles[i]; i++) {
        snug_handle_info info = {.struct_size = sizeof info};
        snug_handle_info_get(pool, handles[i], &info);
        torn += !buffer_holds(c, handles[i], i == which && from * G < info.size ? from * G : info.size, i);
    }
    is_u64(torn, 0, "contents are kept");
    close_pool();
}

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
    crowd     crowd = {0};
    pthread_t threads[2];
    open_pool(400);
    snug_handle a = must_alloc(pool, 10), fence = must_alloc(pool, 1);
    for (unsigned i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, alloc_and_free, &crowd);
    for (uint64_t i = 0; i < tap_scaled(3000); i++) {
        crowd.wrong += snug_resize(pool, a, (10 + 40 * (i % 4)) * G) != SNUG_OK;
        if (i % 4 == 3) {
            snug_free(pool, fence);
            fence = must_alloc(pool, 1);
        }
    }
    atomic_store(&crowd.stop, 1);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    is_u64(crowd.wrong, 0, "a buffer grows elsewhere while others allocate and free");
    close_pool();
}

static void transfers_stay_inside(void) {
    char bytes[4 * G] = {1};
    open_pool(10);
    snug_handle a = must_alloc(pool, 4), b = must_alloc(pool, 4);
    is_status(snug_write(c.stream, a, 1, bytes, 4 * G), SNUG_RANGE, "a byte beyond the end");
    is_status(snug_read(c.stream, a, UINT64_MAX, bytes, 1), SNUG_RANGE, "an offset beyond all");
    is_status(snug_fill(c.stream, a, 4 * G, 0, 0), SNUG_OK, "nothing, at the end");
    is_status(snug_write(c.stream, a, 0, NULL, 1), SNUG_INVALID, "from nowhere");
    is_status(snug_copy(c.stream, a, 0, a, G, G + 1), SNUG_INVALID, "a copy onto itself");
    is_status(snug_copy(c.stream, a, 0, a, G, G), SNUG_OK, "within one buffer");
    is_u64(pins_of(a) + pins_of(b), 0, "nothing stays pinned");
    buffer_fill(c, a, 4 * G, 3);
    succeeds(snug_copy(c.stream, b, 0, a, 0, 4 * G));
    ok(buffer_holds(c, b, 4 * G, 3), "a copy has the bytes");
    close_pool();
}

static void a_quote_tells_and_changes_nothing(void) {
    snug_handle handles[8];
    lay_out("f4 l2 f4 l9", handles);
    snug_quotation q = {.struct_size = sizeof q};
    uint64_t       moves = snug_moves(pool);
    succeeds(snug_quote(pool, 4 * G, &q));
    is_u64(q.move_bytes, 0, "a hole fits");
    succeeds(snug_quote(pool, 8 * G, &q));
    is_status(q.verdict, SNUG_OK, "room can be made");
    is_u64(q.move_bytes, 2 * G, "by moving two granules");
    is_u64(q.moves, 1, "in one move");
    succeeds(snug_quote(pool, 9 * G, &q));
    is_status(q.verdict, SNUG_CAPACITY, "nine aren't free");
    succeeds(snug_quote(pool, 20 * G, &q));
    is_status(q.verdict, SNUG_LIMIT, "twenty can't be");
    is_u64(snug_moves(pool), moves, "nothing has moved");
    is_u64(offset_of(pool, handles[0]), 4, "all is where it was");
    close_pool();
}

int main(void) {
    a_destroyed_pool_is_gone();
    a_handle_is_no_other_pools();
    every_verdict_has_its_reason();
    arguments_are_checked();
    a_buffer_of_nothing_is_a_buffer();
    settled_memory_only(0, "settled");
    settled_memory_only(SNUG_ALLOC_LONG_PINNED, "settled and long pinned");
    settled_memory_only(SNUG_ALLOC_IMMOVABLE, "settled and immovable");
    grows_to_leaves_room();
    resolve_is_all_or_nothing();
    a_release_goes_through_its_whole_list();
    one_release_records_one_event();
    reused_memory_is_ordered_behind_its_last_user();
    a_long_pin_holds_an_address();
    a_resize_finds_its_room("l4 f4 l2", 0, 4, 8, "it grows into the hole behind it");
    a_resize_finds_its_room("l4 l2 f4 l2", 0, 4, 8, "a neighbour makes room");
    a_resize_finds_its_room("f4 l4 l2", 0, 4, 8, "it slides into the hole before it");
    a_resize_finds_its_room("f2 l2 l4 l2 f2 l2", 1, 4, 8, "holes on both sides");
    a_resize_finds_its_room("l4 l2 f9 l2", 0, 4, 8, "it moves to another hole");
    a_resize_finds_its_room("l8 l2", 0, 8, 3, "it shrinks");
    resizes_are_seen_whole_by_others();
    transfers_stay_inside();
    a_quote_tells_and_changes_nothing();
    a_handle_never_comes_back();
    return done_testing();
}
