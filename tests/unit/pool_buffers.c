/* pool_buffers.c - the contract of allocation, free, resize, alignment, tags and transfers, function by function. */
#include "tap.h"

#include "client.h"

/* Every figure of the ledger and of the counts; not those of device calls, which polling moves. */
static bool same_books(const snug_stats *a, const snug_stats *b) {
    return a->live_bytes == b->live_bytes && a->padding_bytes == b->padding_bytes && a->free_bytes == b->free_bytes &&
           a->pending_bytes == b->pending_bytes && a->in_flight_bytes == b->in_flight_bytes &&
           a->committed_bytes == b->committed_bytes && a->pinned_bytes == b->pinned_bytes && a->holes == b->holes &&
           a->handles_live == b->handles_live && a->requests == b->requests && a->granted == b->granted &&
           a->largest_request_bytes == b->largest_request_bytes && a->moves == b->moves &&
           memcmp(a->refused, b->refused, sizeof a->refused) == 0 &&
           memcmp(&a->bytes, &b->bytes, sizeof a->bytes) == 0 &&
           memcmp(&a->buffers, &b->buffers, sizeof a->buffers) == 0;
}

static void test_sizes(void) {
    static const uint64_t sizes[] = {1, 255, 256, 257, 511, 512, 513};
    client                c       = client_open(1 * MiB);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        snug_handle h;
        void       *address;
        bool        held = snug_alloc(c.pool, sizes[i], NULL, &h) == SNUG_OK && client_info(c.pool, h).size == sizes[i];
        snug_stats  s    = client_stats(c.pool);
        held &= s.live_bytes == sizes[i] && s.padding_bytes == GRANULES(granules_of(sizes[i])) - sizes[i];
        held &= client_fill(c.stream, c.native, h, sizes[i], i) == SNUG_OK &&
                client_check(c.stream, c.native, h, sizes[i], i) == SNUG_OK;
        held &= snug_resolve(c.stream, &h, 1, NULL, &address) == SNUG_OK && address &&
                (uintptr_t)address % SNUG_GRANULE == 0;
        held &= snug_release(c.stream, &h, 1, NULL) == SNUG_OK && snug_free(c.pool, h) == SNUG_OK;
        ok(held && client_stats(c.pool).live_bytes == 0, "size %" PRIu64, sizes[i]);
    }
    snug_stream_sync(c.stream);
    is_u64(atomic_load(&client_faults), 0, "sizes: contents");
    succeeds(client_close(&c));
}

static void test_size_zero(void) {
    client      c = client_open(SNUG_GRANULE);
    snug_handle full, h;
    void       *address = &c;
    succeeds(snug_alloc(c.pool, SNUG_GRANULE, NULL, &full));
    succeeds(snug_alloc(c.pool, 0, NULL, &h));
    ok(h != SNUG_HANDLE_NONE, "size 0 on a full pool gives a live handle");
    is_u64(client_info(c.pool, h).size, 0, "of size 0");
    succeeds(snug_resolve(c.stream, &h, 1, NULL, &address));
    is_pointer(address, NULL, "it resolves to NULL");
    succeeds(snug_release(c.stream, &h, 1, NULL));
    address = &c;
    succeeds(snug_pin(c.pool, &h, 1, &address));
    is_pointer(address, NULL, "so does a long pin");
    succeeds(snug_unpin(c.pool, &h, 1, NULL, 0));
    succeeds(snug_read(c.stream, h, 0, NULL, 0));
    succeeds(snug_fill(c.stream, h, 0, 1, 0));
    is_status(snug_fill(c.stream, h, 0, 1, 1), SNUG_RANGE, "one byte of it is out of range");
    is_status(snug_resize(c.pool, h, 1), SNUG_CAPACITY, "it can't grow in a full pool");
    succeeds(snug_free(c.pool, full));
    succeeds(snug_resize(c.pool, h, 1));
    succeeds(snug_free(c.pool, h));
    is_status(snug_free(c.pool, h), SNUG_STALE, "freed like any other");
    succeeds(client_close(&c));
}

static void test_sizes_near_the_top(void) {
    static const uint64_t sizes[] = {UINT64_MAX - 3,          UINT64_MAX,        UINT64_C(1) << 63,
                                     (UINT64_C(1) << 63) + 1, SNUG_SIZE_MAX + 1, UINT64_MAX - SNUG_GRANULE + 1};
    client                c       = client_open(1 * MiB);
    snug_handle           live, h = 77;
    succeeds(snug_alloc(c.pool, 1000, NULL, &live));
    snug_stats   before  = client_stats(c.pool);
    snug_refusal earlier = client_refusal();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        is_status(snug_alloc(c.pool, sizes[i], NULL, &h), SNUG_TOO_LARGE, "alloc of %" PRIu64, sizes[i]);
        is_status(snug_resize(c.pool, live, sizes[i]), SNUG_TOO_LARGE, "resize to %" PRIu64, sizes[i]);
        snug_quotation q = {.struct_size = sizeof q};
        is_status(snug_quote(c.pool, sizes[i], &q), SNUG_TOO_LARGE, "quote of %" PRIu64, sizes[i]);
    }
    snug_stats after = client_stats(c.pool);
    ok(same_books(&before, &after), "nothing is counted of it");
    is_u64(h, 77, "no handle is written");
    snug_refusal later = client_refusal();
    is_bytes(&later, &earlier, sizeof later, "it is no refusal");
    snug_alloc_options options = snug_alloc_options_default();
    options.grows_to           = UINT64_MAX;
    succeeds(snug_alloc(c.pool, 1, &options, &h));
    is_status(snug_alloc(c.pool, SNUG_SIZE_MAX, NULL, &h), SNUG_LIMIT,
              "the largest size that can be expressed is refused by the pool");
    is_status(snug_resize(c.pool, live, SNUG_SIZE_MAX), SNUG_LIMIT, "and so in a resize");
    is_u64(client_info(c.pool, live).size, 1000, "which changes nothing");
    is_status(snug_fill(c.stream, live, UINT64_MAX, 0, 2), SNUG_RANGE, "a range that wraps");
    succeeds(client_close(&c));
}

static void test_bad_arguments(void) {
    client      c = client_open(1 * MiB);
    snug_handle h = 77, live;
    succeeds(snug_alloc(c.pool, 1000, NULL, &live));
    snug_stats            before = client_stats(c.pool);
    static const uint64_t bad[]  = {
         3, 255, 257, SNUG_ALIGNMENT_MAX + 1, 2 * SNUG_ALIGNMENT_MAX, UINT64_C(1) << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        is_status(client_alloc(c.pool, 1, bad[i], 0, &h), SNUG_ALIGNMENT, "alignment %" PRIu64, bad[i]);
        is_status(client_alloc(c.pool, 0, bad[i], 0, &h), SNUG_ALIGNMENT, "alignment %" PRIu64 " of nothing", bad[i]);
    }
    is_status(client_alloc(c.pool, 1, 0, 0x80, &h), SNUG_INVALID, "an unknown flag");
    is_status(snug_alloc(c.pool, 1, NULL, NULL), SNUG_INVALID, "nowhere to put the handle");
    is_status(snug_alloc(NULL, 1, NULL, &h), SNUG_INVALID, "no pool");
    snug_alloc_options options = snug_alloc_options_default();
    options.struct_size        = 3;
    is_status(snug_alloc(c.pool, 1, &options, &h), SNUG_INVALID, "options without a size");
    snug_stats after = client_stats(c.pool);
    ok(same_books(&before, &after), "nothing is counted of it");
    options.struct_size = offsetof(snug_alloc_options, flags); /* an older client */
    options.alignment   = 4096;
    options.flags       = UINT32_MAX;
    succeeds(snug_alloc(c.pool, 1, &options, &h));
    is_u64(client_info(c.pool, h).alignment, 4096, "what the shorter struct has counts, what it lacks doesn't");
    succeeds(client_close(&c));
}

/* One alignment: sizes around it, by quick and slow path, moved by jumble steps and by a request for all that is free. */
static bool alignment_held(client *c, uint64_t a) {
    const uint64_t sizes[4] = {a > 1 ? a - 1 : 1, a, a + 1, 2 * a};
    snug_handle    h[8], small[8], rest;
    for (unsigned i = 0; i < 8; i++)
        if (client_alloc(c->pool, 300 + 256 * i, 0, 0, &small[i]) != SNUG_OK ||
            client_alloc(c->pool, sizes[i % 4], a, 0, &h[i]) != SNUG_OK ||
            client_fill(c->stream, c->native, h[i], sizes[i % 4], i) != SNUG_OK)
            return false;
    for (unsigned round = 0; round < 6; round++) {
        for (unsigned i = 0; i < 8; i++) {
            void *address;
            if (snug_resolve(c->stream, &h[i], 1, NULL, &address) != SNUG_OK || (uintptr_t)address % a != 0 ||
                snug_release(c->stream, &h[i], 1, NULL) != SNUG_OK || client_info(c->pool, h[i]).offset % a != 0 ||
                client_check(c->stream, c->native, h[i], sizes[i % 4], i) != SNUG_OK)
                return false;
        }
        if (round < 3 && snug_compact(c->pool, NULL, NULL) != SNUG_OK)
            return false;
        if (round == 3) { /* from now on: over themselves, for the largest hole that there can be */
            uint64_t size = client_stats(c->pool).free_bytes;
            for (unsigned i = 0; i < 8; i += 2)
                if (snug_free(c->pool, small[i]) != SNUG_OK)
                    return false;
            for (; size > 0 && snug_alloc(c->pool, size, NULL, &rest) != SNUG_OK; size -= size / 16 + 1)
                ;
            if (snug_free(c->pool, rest) != SNUG_OK)
                return false;
        }
        if (round == 4 && snug_trim(c->pool, 0, NULL) != SNUG_OK)
            return false;
    }
    for (unsigned i = 0; i < 8; i++)
        if (snug_free(c->pool, h[i]) != SNUG_OK || (i % 2 && snug_free(c->pool, small[i]) != SNUG_OK))
            return false;
    return snug_pool_check(c->pool) == SNUG_OK;
}

static void test_alignments(void) {
    for (int jumble = 0; jumble < 2; jumble++) {
        snug_pool_options options = snug_pool_options_default();
        options.capacity          = 48 * MiB + 7 * SNUG_GRANULE;
        options.jumble            = jumble;
        client c                  = client_open_with(options);
        for (uint64_t a = 1; a <= SNUG_ALIGNMENT_MAX; a *= 2)
            ok(alignment_held(&c, a), "alignment %" PRIu64 "%s", a, jumble ? ", jumble" : "");
        ok(client_stats(c.pool).moves > 0, "and buffers did move");
        snug_stream_sync(c.stream);
        is_u64(atomic_load(&client_faults), 0, "alignments: contents");
        succeeds(client_close(&c));
    }
}

static void test_handles(void) {
    client      c = client_open(1 * MiB), other = client_open(1 * MiB);
    snug_handle h, theirs, never;
    succeeds(snug_alloc(c.pool, 1000, NULL, &h));
    succeeds(snug_alloc(other.pool, 1000, NULL, &theirs));
    never = h + (1 << 20); /* of this pool, but no such index */
    const struct {
        snug_handle handle;
        snug_status status;
        const char *name;
    } cases[] = {
        {SNUG_HANDLE_NONE, SNUG_UNKNOWN, "none"},
        {theirs, SNUG_FOREIGN, "foreign"},
        {never, SNUG_UNKNOWN, "never issued"},
        {h + (UINT64_C(5) << 24), SNUG_UNKNOWN, "of a generation to come"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snug_handle      bad     = cases[i].handle;
        void            *address = &c;
        snug_handle_info info    = {.struct_size = sizeof info};
        char             byte    = 0;
        snug_status      want    = cases[i].status;
        is_status(snug_free(c.pool, bad), want, "free: %s", cases[i].name);
        is_status(snug_resize(c.pool, bad, 5), want, "resize: %s", cases[i].name);
        is_status(snug_handle_info_get(c.pool, bad, &info), want, "info: %s", cases[i].name);
        is_status(snug_resolve(c.stream, &bad, 1, NULL, &address), want, "resolve: %s", cases[i].name);
        is_status(snug_release(c.stream, &bad, 1, NULL), want, "release: %s", cases[i].name);
        is_status(snug_pin(c.pool, &bad, 1, &address), want, "pin: %s", cases[i].name);
        is_status(snug_unpin(c.pool, &bad, 1, NULL, 0), want, "unpin: %s", cases[i].name);
        is_status(snug_write(c.stream, bad, 0, &byte, 1), want, "write: %s", cases[i].name);
        is_status(snug_read(c.stream, bad, 0, &byte, 1), want, "read: %s", cases[i].name);
        is_status(snug_fill(c.stream, bad, 0, 0, 1), want, "fill: %s", cases[i].name);
        is_status(snug_copy(c.stream, bad, 0, h, 0, 1), want, "copy to: %s", cases[i].name);
        is_status(snug_copy(c.stream, h, 0, bad, 0, 1), want, "copy from: %s", cases[i].name);
    }
    is_u64(client_info(c.pool, h).pins, 0, "no pin is left behind");
    succeeds(snug_free(c.pool, h));
    is_status(snug_free(c.pool, h), SNUG_STALE, "double free");
    is_status(snug_resize(c.pool, h, 5), SNUG_STALE, "resize of a stale handle");
    is_status(snug_fill(c.stream, h, 0, 0, 1), SNUG_STALE, "fill of a stale handle");
    is_status(snug_free(other.pool, h), SNUG_FOREIGN, "a stale handle of another pool is foreign first");
    snug_handle next;
    succeeds(snug_alloc(c.pool, 1000, NULL, &next));
    ok(next != h, "the next handle is another one");
    is_status(snug_free(c.pool, h), SNUG_STALE, "the old one stays stale");
    is_u64(client_stats(c.pool).handles_live, 1, "and harms nobody");
    succeeds(client_close(&other));
    is_status(snug_free(c.pool, theirs), SNUG_FOREIGN, "a handle of a destroyed pool");
    succeeds(client_close(&c));
}

static void test_handles_max(void) {
    snug_pool_options options = snug_pool_options_default();
    options.capacity          = 1 * MiB;
    options.handles_max       = 3;
    client      c             = client_open_with(options);
    snug_handle h[3], more = 77;
    for (int i = 0; i < 3; i++)
        succeeds(snug_alloc(c.pool, 100, NULL, &h[i]));
    is_status(snug_alloc(c.pool, 100, NULL, &more), SNUG_HANDLES, "a fourth of three handles");
    is_status(snug_alloc(c.pool, 0, NULL, &more), SNUG_HANDLES, "nor one without bytes");
    is_u64(more, 77, "nothing is written");
    succeeds(snug_free(c.pool, h[1]));
    succeeds(snug_alloc(c.pool, 100, NULL, &more));
    succeeds(client_close(&c));
}

static void test_generations_end(void) {
    snug_pool_options options = snug_pool_options_default();
    options.capacity          = 1 * MiB;
    options.handles_max       = 2;
    options.generation_first  = UINT32_MAX - 2;
    client      c             = client_open_with(options);
    snug_handle issued[16];
    unsigned    n = 0;
    while (n < 16 && snug_alloc(c.pool, 100, NULL, &issued[n]) == SNUG_OK && snug_free(c.pool, issued[n]) == SNUG_OK)
        n++;
    ok(n >= 2 && n <= 6, "two entries, three generations each: %u handles", n);
    bool apart = true, stale = true;
    for (unsigned i = 0; i < n; i++) {
        stale &= snug_free(c.pool, issued[i]) == SNUG_STALE;
        for (unsigned k = 0; k < i; k++)
            apart &= issued[i] != issued[k];
    }
    ok(apart, "no handle came twice (I7)");
    ok(stale, "all of them are stale");
    is_status(snug_alloc(c.pool, 100, NULL, &issued[0]), SNUG_HANDLES, "then the table is used up");
    is_u64(client_stats(c.pool).free_bytes, 1 * MiB, "no byte is lost");
    succeeds(client_close(&c));
}

static void test_resize(void) {
    client      c = client_open(64 * KiB);
    snug_handle h, wall, late;
    succeeds(snug_alloc(c.pool, 10000, NULL, &h));
    succeeds(snug_alloc(c.pool, 5000, NULL, &wall));
    succeeds(client_fill(c.stream, c.native, h, 10000, 1));
    succeeds(client_fill(c.stream, c.native, wall, 5000, 2));
    static const uint64_t sizes[] = {10001, 10000, 20000, 257, 256, 255, 1, 30000};
    uint64_t              known   = 10000;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        known = known < sizes[i] ? known : sizes[i];
        is_status(snug_resize(c.pool, h, sizes[i]), SNUG_OK, "resize to %" PRIu64, sizes[i]);
        snug_stats s = client_stats(c.pool);
        is_u64(s.live_bytes, sizes[i] + 5000, "live");
        is_u64(s.free_bytes, 64 * KiB - GRANULES(granules_of(sizes[i]) + 20), "free");
        succeeds(client_check(c.stream, c.native, h, known, 1));
        succeeds(client_check(c.stream, c.native, wall, 5000, 2));
    }
    succeeds(snug_resize(c.pool, h, 0));
    void *address = &c;
    succeeds(snug_resolve(c.stream, &h, 1, NULL, &address));
    is_pointer(address, NULL, "of size 0: NULL");
    succeeds(snug_release(c.stream, &h, 1, NULL));
    is_u64(client_stats(c.pool).free_bytes, 64 * KiB - GRANULES(20), "its bytes are free");
    succeeds(snug_resize(c.pool, h, 0));
    succeeds(snug_resize(c.pool, h, 64 * KiB - GRANULES(20)));
    succeeds(client_fill(c.stream, c.native, h, 64 * KiB - GRANULES(20), 3));
    is_u64(client_stats(c.pool).free_bytes, 0, "from 0 to all that is free");
    is_status(snug_resize(c.pool, h, 64 * KiB - GRANULES(20) + 1), SNUG_CAPACITY, "one byte more");
    is_u64(client_refusal().verdict, SNUG_CAPACITY, "its figures: the verdict");
    is_u64(client_refusal().request_bytes, 64 * KiB - GRANULES(20) + 1, "its figures: the new size");
    is_status(snug_resize(c.pool, h, 64 * KiB + 1), SNUG_LIMIT, "more than the pool");
    succeeds(client_check(c.stream, c.native, h, 64 * KiB - GRANULES(20), 3));
    succeeds(snug_resize(c.pool, h, 30000));
    succeeds(snug_alloc(c.pool, 20000, NULL, &late));
    succeeds(snug_free(c.pool, wall)); /* two holes, neither of them enough */
    uint64_t left = client_stats(c.pool).free_bytes;
    succeeds(snug_resize(c.pool, h, GRANULES(granules_of(30000)) + left));
    is_u64(client_stats(c.pool).free_bytes, 0, "free was exactly new - old");
    succeeds(client_check(c.stream, c.native, h, 30000, 3));
    snug_stream_sync(c.stream);
    is_u64(atomic_load(&client_faults), 0, "resize: contents");
    succeeds(client_close(&c));
}

static void test_resize_busy(void) {
    client      c = client_open(64 * KiB);
    snug_handle h;
    void       *address;
    succeeds(snug_alloc(c.pool, 1000, NULL, &h));
    succeeds(snug_resolve(c.stream, &h, 1, NULL, &address));
    is_status(snug_resize(c.pool, h, 5000), SNUG_BUSY, "up while resolved");
    is_status(snug_resize(c.pool, h, 100), SNUG_BUSY, "down while resolved");
    is_status(snug_resize(c.pool, h, 0), SNUG_BUSY, "to nothing while resolved");
    is_u64(client_info(c.pool, h).size, 1000, "changes nothing");
    succeeds(snug_release(c.stream, &h, 1, NULL));
    succeeds(snug_pin(c.pool, &h, 1, &address));
    is_status(snug_resize(c.pool, h, 5000), SNUG_BUSY, "up while pinned");
    is_status(snug_resize(c.pool, h, 100), SNUG_BUSY, "down while pinned");
    succeeds(snug_unpin(c.pool, &h, 1, NULL, 0));
    succeeds(snug_resize(c.pool, h, 5000));
    succeeds(client_close(&c));
}

/* The neighbour is resolved, not the buffer itself: that is no BUSY. */
static void test_resize_beside_a_pin(void) {
    client      c = client_open(GRANULES(6));
    snug_handle h, beside;
    void       *address;
    succeeds(snug_alloc(c.pool, GRANULES(2), NULL, &h));
    succeeds(snug_alloc(c.pool, GRANULES(2), NULL, &beside));
    succeeds(snug_resolve(c.stream, &beside, 1, NULL, &address));
    is_status(snug_resize(c.pool, h, GRANULES(4)), SNUG_PINNED, "another's pin stands in the way");
    succeeds(snug_release(c.stream, &beside, 1, NULL));
    succeeds(snug_resize(c.pool, h, GRANULES(4)));
    succeeds(snug_resolve(c.stream, &beside, 1, NULL, &address));
    succeeds(snug_free(c.pool, beside));
    is_status(snug_resize(c.pool, h, GRANULES(6)), SNUG_PENDING, "what it lacks waits for a release");
    is_u64(client_refusal().pending_bytes, GRANULES(2), "so many bytes");
    succeeds(snug_release(c.stream, &beside, 1, NULL));
    succeeds(snug_resize(c.pool, h, GRANULES(6)));
    succeeds(client_close(&c));
}

/* The other side of it is free: no reason to wait for the pin. */
static void test_resize_away_from_a_pin(void) {
    client      c = client_open(GRANULES(8));
    snug_handle below, h, beside;
    void       *address;
    succeeds(snug_alloc(c.pool, GRANULES(2), NULL, &below));
    succeeds(snug_alloc(c.pool, GRANULES(2), NULL, &h));
    succeeds(snug_alloc(c.pool, GRANULES(2), NULL, &beside));
    succeeds(snug_free(c.pool, below));
    succeeds(snug_resolve(c.stream, &beside, 1, NULL, &address));
    succeeds(snug_resize(c.pool, h, GRANULES(4)));
    is_u64(client_info(c.pool, h).offset, 0, "it has gone down for it");
    succeeds(snug_release(c.stream, &beside, 1, NULL));
    succeeds(client_close(&c));
}

/* It can't move, and a longer arena would not be beside it: the arena stays as short as it is. */
static void test_resize_of_an_immovable(void) {
    snug_pool_options o = snug_pool_options_default();
    o.capacity          = 64 * MiB;
    o.commit_bytes      = 2 * MiB;
    client      c       = client_open_with(o);
    snug_handle h, above;
    succeeds(client_alloc(c.pool, MiB, 0, SNUG_ALLOC_IMMOVABLE, &h));
    succeeds(client_alloc(c.pool, MiB, 0, SNUG_ALLOC_IMMOVABLE, &above));
    uint64_t committed = client_stats(c.pool).committed_bytes;
    is_status(snug_resize(c.pool, h, 2 * MiB), SNUG_PINNED, "another is above it");
    is_u64(client_stats(c.pool).committed_bytes, committed, "nothing committed for it");
    succeeds(snug_resize(c.pool, above, 32 * MiB));
    is_u64(client_info(c.pool, above).offset, MiB, "the topmost grows with the arena, where it is");
    succeeds(client_close(&c));
}

static void test_transfers(void) {
    client        c = client_open(64 * KiB);
    snug_handle   a, b;
    unsigned char put[1000], got[1000], want[1000];
    memset(put, 0, sizeof put);
    pattern_put(put, sizeof put, 9);
    succeeds(snug_alloc(c.pool, 1000, NULL, &a));
    succeeds(snug_alloc(c.pool, 1000, NULL, &b));
    succeeds(snug_write(c.stream, a, 0, put, 1000));
    succeeds(snug_fill(c.stream, b, 0, 0x11, 1000));
    succeeds(snug_copy(c.stream, b, 100, a, 200, 300));
    succeeds(snug_read(c.stream, b, 0, got, 1000));
    succeeds(snug_stream_sync(c.stream));
    memset(want, 0x11, sizeof want);
    memcpy(want + 100, put + 200, 300);
    is_bytes(got, want, 1000, "write, fill, copy, read");
    succeeds(snug_copy(c.stream, a, 0, a, 500, 500)); /* one buffer, bytes that only touch */
    succeeds(snug_read(c.stream, a, 3, got, 500));
    succeeds(snug_stream_sync(c.stream));
    memcpy(want, put + 500, 500);
    is_bytes(got, want + 3, 497, "within one buffer");
    is_status(snug_copy(c.stream, a, 0, a, 499, 500), SNUG_INVALID, "overlapping by a byte");
    is_status(snug_copy(c.stream, a, 0, a, 0, 1), SNUG_INVALID, "onto itself");
    succeeds(snug_copy(c.stream, a, 0, a, 0, 0));
    const struct {
        uint64_t offset, bytes;
        bool     held;
    } ranges[] = {{0, 1000, true},        {0, 1001, false},       {1000, 0, true},
                  {1001, 0, false},       {999, 1, true},         {999, 2, false},
                  {UINT64_MAX, 1, false}, {1, UINT64_MAX, false}, {500, UINT64_MAX - 499, false}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        snug_status status = ranges[i].held ? SNUG_OK : SNUG_RANGE;
        uint64_t    offset = ranges[i].offset, bytes = ranges[i].bytes;
        is_status(snug_write(c.stream, a, offset, put, bytes), status, "write at %" PRIu64 ", %" PRIu64 " bytes",
                  offset, bytes);
        is_status(snug_read(c.stream, a, offset, got, bytes), status, "read");
        is_status(snug_fill(c.stream, a, offset, 0, bytes), status, "fill");
        is_status(snug_copy(c.stream, a, offset, b, 0, bytes), status, "copy to");
        is_status(snug_copy(c.stream, b, 0, a, offset, bytes), status, "copy from");
    }
    is_status(snug_write(c.stream, a, 0, NULL, 1), SNUG_INVALID, "no host memory");
    is_u64(client_info(c.pool, a).pins, 0, "nothing stays pinned");
    is_u64(client_info(c.pool, b).pins, 0, "nor there");
    succeeds(client_close(&c));
}

static void test_tags(void) {
    static const char *names[] = {"weights", "cache", NULL, "a name that is much longer than thirty-one characters"};
    client             c       = client_open(1 * MiB);
    snug_handle        h[4];
    snug_alloc_options options = snug_alloc_options_default();
    snug_tag_stats     tags[8];
    size_t             count = 0;
    for (int i = 0; i < 4; i++) {
        options.tag = names[i];
        succeeds(snug_alloc(c.pool, 1000 * (unsigned)(i + 1), &options, &h[i]));
    }
    succeeds(snug_tags_get(c.pool, tags, 8, &count));
    is_u64(count, 4, "four tags");
    is_string(tags[0].tag, "a name that is much longer than", "the largest first, its name cut");
    is_u64(tags[0].live_bytes, 4000, "its bytes");
    is_string(tags[1].tag, "", "the one without a name");
    is_string(tags[3].tag, "weights", "the smallest last");
    is_string(client_info(c.pool, h[1]).tag, "cache", "told by the handle too");
    succeeds(snug_resize(c.pool, h[0], 9000));
    succeeds(snug_free(c.pool, h[3]));
    succeeds(snug_tags_get(c.pool, tags, 1, &count));
    is_u64(count, 4, "count is of all, though only one was asked for");
    is_string(tags[0].tag, "weights", "resized: it comes first now");
    is_u64(tags[0].live_bytes, 9000, "with its new size");
    is_u64(tags[0].buffers, 1, "one buffer");
    succeeds(snug_tags_get(c.pool, NULL, 0, &count));
    is_status(snug_tags_get(c.pool, NULL, 1, &count), SNUG_INVALID, "nowhere to put them");
    succeeds(client_close(&c));
}

static void test_immovable(void) {
    snug_pool_options options = snug_pool_options_default();
    options.capacity          = 256 * KiB;
    options.jumble            = 1;
    client      c             = client_open_with(options);
    snug_handle small[8], h, low;
    void       *address, *again;
    for (int i = 0; i < 8; i++)
        succeeds(snug_alloc(c.pool, 3000, NULL, &small[i]));
    for (int i = 0; i < 8; i += 2)
        succeeds(snug_free(c.pool, small[i]));
    succeeds(client_alloc(c.pool, 5000, 0, SNUG_ALLOC_IMMOVABLE, &h));
    ok(client_info(c.pool, h).flags & SNUG_ALLOC_IMMOVABLE, "the flag is told");
    ok(client_info(c.pool, h).offset < 32 * KiB, "placed at the low end: %" PRIu64, client_info(c.pool, h).offset);
    succeeds(client_alloc(c.pool, 5000, 0, SNUG_ALLOC_LONG_PINNED, &low));
    ok(client_info(c.pool, low).offset < 32 * KiB, "as is LONG_PINNED: %" PRIu64, client_info(c.pool, low).offset);
    is_u64(client_stats(c.pool).pinned_bytes, GRANULES(20), "immovable bytes count as pinned");
    succeeds(snug_resolve(c.stream, &h, 1, NULL, &address));
    succeeds(snug_release(c.stream, &h, 1, NULL));
    uint64_t moves = snug_moves(c.pool);
    bool     stays = true;
    for (int i = 0; i < 50; i++) {
        stays &= snug_compact(c.pool, NULL, NULL) == SNUG_OK &&
                 snug_resolve(c.stream, &h, 1, NULL, &again) == SNUG_OK && again == address &&
                 snug_release(c.stream, &h, 1, NULL) == SNUG_OK;
    }
    ok(stays, "its address holds through 50 jumble steps");
    ok(snug_moves(c.pool) != moves, "in which others moved");
    succeeds(snug_free(c.pool, h));
    is_u64(client_stats(c.pool).pinned_bytes, 0, "freed: no longer pinned");
    succeeds(client_close(&c));
}

/* snug_moves changes if an address has changed; and where nothing moves it stands still. */
static void test_moves_counter(void) {
    snug_pool_options options = snug_pool_options_default();
    options.capacity          = 64 * KiB;
    options.jumble            = 1;
    client      c             = client_open_with(options);
    snug_handle h[10];
    void       *was[10], *now[10];
    uint64_t    quiet = snug_moves(c.pool);
    for (int i = 0; i < 10; i++)
        succeeds(snug_alloc(c.pool, 2000, NULL, &h[i]));
    is_u64(snug_moves(c.pool), quiet, "allocation into holes moves nothing");
    bool told = true, moved = false;
    for (int i = 0; i < 200; i++) {
        uint64_t before = snug_moves(c.pool);
        told &= snug_resolve(c.stream, h, 10, NULL, was) == SNUG_OK && snug_release(c.stream, h, 10, NULL) == SNUG_OK;
        if (i % 3 == 0)
            told &= snug_compact(c.pool, NULL, NULL) == SNUG_OK;
        told &= snug_resolve(c.stream, h, 10, NULL, now) == SNUG_OK && snug_release(c.stream, h, 10, NULL) == SNUG_OK;
        bool same = memcmp(was, now, sizeof was) == 0;
        told &= same || snug_moves(c.pool) != before;
        told &= i % 3 == 0 || (same && snug_moves(c.pool) == before);
        moved |= !same;
    }
    ok(told && moved, "it tells of every change of an address");
    succeeds(snug_compaction_set(c.pool, 0));
    uint64_t before = snug_moves(c.pool);
    succeeds(snug_compact(c.pool, NULL, NULL));
    is_u64(snug_moves(c.pool), before, "with compaction off nothing moves");
    succeeds(client_close(&c));
}

int main(void) {
    test_sizes();
    test_size_zero();
    test_sizes_near_the_top();
    test_bad_arguments();
    test_alignments();
    test_handles();
    test_handles_max();
    test_generations_end();
    test_resize();
    test_resize_busy();
    test_resize_beside_a_pin();
    test_resize_away_from_a_pin();
    test_resize_of_an_immovable();
    test_transfers();
    test_tags();
    test_immovable();
    test_moves_counter();
    return done_testing();
}
