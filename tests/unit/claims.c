/* claims.c - what a stream has resolved and not released: claims in its list, and pins where the list is full or another is at
 * the buffer; and the address table, which resolves write. */
#include "tap.h"

#include "fixture.h"

enum { G = SNUG_GRANULE };

static snug_pool *pool;
static client     a, b;

static void begin_with(snug_pool_options options) {
    pool = pool_make(options);
    a    = client_make(pool);
    b    = client_make(pool);
}

static void begin(uint64_t granules) {
    begin_with((snug_pool_options){.capacity = granules * G});
}

static void finish(void) {
    succeeds(snug_pool_check(pool));
    client_end(a);
    client_end(b);
    succeeds(snug_pool_destroy(pool));
}

static uint32_t held(snug_handle handle) { /* by claims and pins */
    snug_handle_info info = {.struct_size = sizeof info};
    return snug_handle_info_get(pool, handle, &info) == SNUG_OK ? info.pins : UINT32_MAX;
}

static uint32_t pins(snug_handle handle) { /* those in the word */
    return (uint32_t)(atomic_load(&snug__handles_at(&pool->handles, snug__handle_index(handle))->word) & SNUG__PINS);
}

static snug_status resolve(client c, snug_handle handle) {
    void *address;
    return snug_resolve(c.stream, &handle, 1, NULL, &address);
}

static snug_status release(client c, snug_handle handle) {
    return snug_release(c.stream, &handle, 1, NULL);
}

static bool makes_hole(uint64_t granules) { /* by moving, if need be */
    snug_handle handle;
    snug_status status = snug_alloc(pool, granules * G, NULL, &handle);
    return status == SNUG_OK && snug_free(pool, handle) == SNUG_OK;
}

/* ------------------------------------------------------------------------------------------------ claims */

static void nested_and_out_of_order(void) {
    begin(20);
    snug_handle x = must_alloc(pool, 1), y = must_alloc(pool, 1), z = must_alloc(pool, 1), both[2] = {x, y};
    void       *addresses[2];
    succeeds(snug_resolve(a.stream, both, 2, NULL, addresses));
    succeeds(resolve(a, z));
    succeeds(resolve(a, x));
    is_u64(held(x), 2, "resolved twice");
    is_u64(pins(x) + pins(y) + pins(z), 0, "no word is written to");
    succeeds(release(a, z));
    is_u64(held(z), 0, "the middle one goes first");
    is_u64(held(x) + held(y), 3, "the others stay");
    succeeds(release(a, y));
    succeeds(release(a, x));
    is_u64(held(x), 1, "one of two");
    is_status(release(a, y), SNUG_NOT_PINNED, "released once more than resolved");
    succeeds(release(a, x));
    is_status(release(a, x), SNUG_NOT_PINNED, "nothing is left");
    is_u64(atomic_load(&a.stream->claims.count), 0, "the list is empty");
    finish();
}

static void another_stream_has_no_claim(void) {
    begin(20);
    snug_handle x = must_alloc(pool, 1);
    succeeds(resolve(a, x));
    is_status(release(b, x), SNUG_NOT_PINNED, "released on a stream that hasn't resolved it");
    is_u64(held(x), 1, "it is held as before");
    succeeds(release(a, x));
    finish();
}

static void more_than_the_list_takes(void) {
    enum { N = SNUG__CLAIMS_MAX + 50 };
    static snug_handle handles[N];
    static void       *addresses[N];
    begin(400);
    for (unsigned i = 0; i < N; i++)
        handles[i] = must_alloc(pool, 1);
    succeeds(snug_resolve(a.stream, handles, N, NULL, addresses));
    unsigned once = 0, pinned = 0, right = 0;
    for (unsigned i = 0; i < N; i++) {
        once += held(handles[i]) == 1;
        pinned += pins(handles[i]);
        right += (char *)addresses[i] == pool->base + offset_of(pool, handles[i]) * G;
    }
    is_u64(once, N, "a launch of more handles than the list takes holds each once");
    is_u64(pinned, N, "by pins");
    is_u64(right, N, "addresses");
    succeeds(snug_release(a.stream, handles, N, NULL));
    succeeds(snug_resolve(a.stream, handles, 200, NULL, addresses));
    succeeds(snug_resolve(a.stream, handles + 200, 100, NULL, addresses));
    is_u64(atomic_load(&a.stream->claims.count), 200, "what fits is claimed");
    is_u64(pins(handles[199]) + pins(handles[200]) + pins(handles[299]), 2, "what doesn't is pinned");
    succeeds(snug_release(a.stream, handles, 300, NULL));
    unsigned left = 0;
    for (unsigned i = 0; i < N; i++)
        left += held(handles[i]);
    is_u64(left, 0, "one release for both lets go of all");
    finish();
}

static void freed_while_claimed(void) {
    begin(10);
    snug_handle x = must_alloc(pool, 10);
    succeeds(resolve(a, x));
    succeeds(resolve(b, x));
    succeeds(snug_free(pool, x));
    is_u64(stats_of(pool).pending_bytes, 10 * G, "freed while two streams hold it");
    is_status(resolve(a, x), SNUG_STALE, "nobody else gets it");
    succeeds(release(a, x));
    is_u64(stats_of(pool).pending_bytes, 10 * G, "one still holds it");
    succeeds(release(b, x));
    is_u64(held(must_alloc(pool, 10)), 0, "its bytes go to the next once both have let go");
    finish();
}

/* hole 5 | x 5 | hole 10 */
static void moves_go_round_claims(void) {
    begin(20);
    snug_handle hole = must_alloc(pool, 5), x = must_alloc(pool, 5);
    buffer_fill(a, x, 5 * G, 7);
    succeeds(snug_free(pool, hole));
    succeeds(resolve(b, x));
    ok(!makes_hole(15), "what is claimed isn't moved");
    is_u64(offset_of(pool, x), 5, "it stays where it is");
    succeeds(release(b, x));
    ok(makes_hole(15), "let go, it makes place");
    ok(buffer_holds(a, x, 5 * G, 7), "contents");
    finish();
}

static void detached_while_claimed(void) {
    begin(20);
    snug_handle x = must_alloc(pool, 5);
    succeeds(resolve(a, x));
    succeeds(snug_stream_detach(a.stream));
    is_u64(held(x), 1, "held beyond the detach");
    is_u64(pins(x), 1, "by a pin");
    succeeds(snug_free(pool, x));
    is_u64(stats_of(pool).pending_bytes, 5 * G, "freed, it waits for whoever lets go");
    succeeds(release(b, x));
    ok(makes_hole(20), "which any stream may");
    succeeds(snug_stream_attach(pool, a.native, &a.stream));
    is_u64(atomic_load(&a.stream->claims.count), 0, "a stream begins with no claim");
    finish();
}

/* A mover that has set MOVING sees the claim go by a detach: the pin that takes its place has cancelled the move. */
static void a_hold_cancels_a_move(void) {
    begin(20);
    snug_handle  x     = must_alloc(pool, 5);
    snug__entry *entry = snug__handles_at(&pool->handles, snug__handle_index(x));
    succeeds(snug__entry_begin_move(entry, x, &pool->order));
    snug__entry_hold(entry);
    ok(!(atomic_load(&entry->word) & SNUG__MOVING), "MOVING is gone");
    succeeds(release(a, x));
    is_status(snug__entry_publish(entry, snug__handle_generation(x)), SNUG_STALE, "and nothing is published");
    finish();
}

/* ------------------------------------------------------------------------------------------------ address table */

static uint64_t *entry_at(snug_handle handle) {
    void *table = NULL;
    return snug_address_table(pool, &table) == SNUG_OK ? (uint64_t *)table + SNUG_HANDLE_INDEX(handle) : NULL;
}

static uint64_t address_of(snug_handle handle) {
    return (uint64_t)(uintptr_t)pool->base + offset_of(pool, handle) * G;
}

static void begin_with_table(uint64_t granules) {
    begin_with((snug_pool_options){.capacity = granules * G, .handles_max = 100, .address_table = 1});
}

static void use(client c, snug_handle handle) {
    succeeds(resolve(c, handle));
    succeeds(release(c, handle));
}

static void a_pool_without_a_table(void) {
    void *table;
    begin(5);
    is_status(snug_address_table(pool, &table), SNUG_UNSUPPORTED, "a pool that hasn't been asked for a table");
    finish();
    begin_with_table(5);
    is_status(snug_address_table(pool, NULL), SNUG_INVALID, "no place for the answer");
    is_u64(stats_of(pool).bounce_bytes - pool->bounce_bytes, (100 * 8 + G - 1) / G * G, "its bytes are told");
    finish();
}

static void entries_follow_moves(void) {
    begin_with_table(20);
    snug_handle hole = must_alloc(pool, 5), x = must_alloc(pool, 5), none = 0;
    succeeds(snug_alloc(pool, 0, NULL, &none));
    use(a, x);
    use(a, none);
    succeeds(snug_stream_sync(a.stream));
    is_u64(*entry_at(x), address_of(x), "written by the first resolve");
    is_u64(*entry_at(none), 0, "0 for a buffer of no bytes");
    uint64_t before = *entry_at(x);
    succeeds(snug_free(pool, hole));
    ok(makes_hole(15) && address_of(x) != before, "it moves");
    use(b, x);
    succeeds(snug_stream_sync(b.stream));
    is_u64(*entry_at(x), address_of(x), "written again by the first resolve after the move");
    finish();
}

/* The first stream's write of the entry waits behind a gate: whoever moves the buffer or takes its entry comes after. */
static void a_late_write_is_not_the_last(void) {
    begin_with_table(20);
    gate        late = {0};
    snug_handle hole = must_alloc(pool, 5), x = must_alloc(pool, 5);
    gate_put(&late, a.native);
    use(a, x);
    succeeds(snug_free(pool, hole));
    succeeds(snug_resize(pool, x, 0));
    use(b, x);
    nap_us(5000); /* whoever need not wait has run */
    gate_open(&late);
    succeeds(snug_stream_sync(a.stream));
    succeeds(snug_stream_sync(b.stream));
    is_u64(*entry_at(x), 0, "resized to nothing: that is written last");
    atomic_store(&late.open, 0);
    gate_put(&late, a.native);
    succeeds(snug_resize(pool, x, 15 * G));
    succeeds(snug_resize(pool, x, 0));
    use(a, x);
    uint32_t index = SNUG_HANDLE_INDEX(x);
    succeeds(snug_free(pool, x));
    snug_handle y = 0, other[100];
    unsigned    n = 0;
    while (SNUG_HANDLE_INDEX(y) != index || !y) /* through the entries that are free before it, failing now and then */
        if (y = must_alloc(pool, 0), SNUG_HANDLE_INDEX(y) != index)
            other[n++] = y;
    succeeds(snug_free(pool, y));
    while (n > 0)
        succeeds(snug_free(pool, other[--n]));
    snug_handle z = must_alloc(pool, 3);
    while (SNUG_HANDLE_INDEX(z) != index) {
        succeeds(snug_free(pool, z));
        snug_handle refused;
        is_status(snug_alloc(pool, 1000 * G, NULL, &refused), SNUG_LIMIT, "refused");
        z = must_alloc(pool, 3);
    }
    use(b, z);
    nap_us(5000); /* whoever need not wait has run */
    gate_open(&late);
    succeeds(snug_stream_sync(a.stream));
    succeeds(snug_stream_sync(b.stream));
    is_u64(*entry_at(z), address_of(z), "the entry's next buffer but one: its address is written last");
    finish();
}

static void a_failed_resolve_leaves_no_late_write(void) {
    begin_with_table(20);
    gate        late = {0};
    snug_handle hole = must_alloc(pool, 5), x = must_alloc(pool, 5), pair[2] = {x, x ^ UINT64_C(1) << 24};
    void       *addresses[2];
    gate_put(&late, a.native);
    is_status(snug_read(a.stream, x, 4 * G, &late, 2 * G), SNUG_RANGE, "beyond its end");
    is_u64(held(x), 0, "it is let go");
    is_status(snug_resolve(a.stream, pair, 2, NULL, addresses), SNUG_UNKNOWN, "one of two was never there");
    succeeds(snug_free(pool, hole));
    succeeds(snug_resize(pool, x, 0));
    use(b, x);
    nap_us(5000); /* whoever need not wait has run */
    gate_open(&late);
    succeeds(snug_stream_sync(a.stream));
    succeeds(snug_stream_sync(b.stream));
    is_u64(*entry_at(x), 0, "what the failed call wrote comes first");
    finish();
}

int main(void) {
    nested_and_out_of_order();
    another_stream_has_no_claim();
    more_than_the_list_takes();
    freed_while_claimed();
    moves_go_round_claims();
    detached_while_claimed();
    a_hold_cancels_a_move();
    a_pool_without_a_table();
    entries_follow_moves();
    a_late_write_is_not_the_last();
    a_failed_resolve_leaves_no_late_write();
    return done_testing();
}
