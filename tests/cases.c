/* cases.c - what others ran into, as scenarios: fragmentation, accounting, ordering, overflow, alignment. Each test's name
 * begins with the report's id. Bytes are scaled down where the report's don't fit a laptop; the test says by how much.
 * The rest of them: cases_2.c. */
#include "tap.h"

#include "client.h"

/* ------------------------------------------------------------------------------------------------ fragmentation */

enum { SURVIVORS_MAX = 128 };

typedef struct survivors {
    snug_handle h[SURVIVORS_MAX];
    uint64_t    size[SURVIVORS_MAX], bytes;
    unsigned    n;
} survivors;

/* 1/1024 of the report. Blocks are carved from where the huge one was, every fourth is freed again, until so much lives. */
static void carve(client *c, survivors *s, uint64_t live, bool spread) {
    static const uint64_t sizes[] = {16515072 / 1024, 11400192 / 1024, 18191360 / 1024};
    snug_handle           ballast[1024];
    unsigned              n_ballast = 0;
    s->n = 0, s->bytes = 0;
    for (unsigned i = 0; s->bytes < live && s->n < SURVIVORS_MAX; i++) {
        snug_handle h;
        uint64_t    size = sizes[i % 3];
        if (size > live - s->bytes)
            size = live - s->bytes;
        if (snug_alloc(c->pool, size, NULL, &h) != SNUG_OK)
            bail_out("no block of %" PRIu64, size);
        if (i % 4 == 3) {
            ballast[n_ballast++] = h;
            continue;
        }
        client_fill(c->stream, c->native, h, size, 100 + s->n);
        s->h[s->n] = h, s->size[s->n++] = size, s->bytes += size;
        for (int k = 0; spread && k < 18; k++) /* what lies between the survivors */
            if (snug_alloc(c->pool, 16384, NULL, &ballast[n_ballast]) == SNUG_OK)
                n_ballast++;
    }
    for (unsigned i = 0; i < n_ballast; i++)
        snug_free(c->pool, ballast[i]);
}

static void check_survivors(client *c, survivors *s, const char *name) {
    bool alive = true;
    for (unsigned i = 0; i < s->n; i++)
        alive &= client_check(c->stream, c->native, s->h[i], s->size[i], 100 + i) == SNUG_OK;
    snug_stream_sync(c->stream);
    ok(alive && atomic_load(&client_faults) == 0, "%s: every survivor is valid and unchanged", name);
}

static void pytorch_35901(bool spread, int how) {
    const char       *name = spread ? "pytorch/pytorch#35901 (spread)" : "pytorch/pytorch#35901";
    uint64_t          huge = UINT64_C(11643387904) / 1024, live = 499214336 / 1024;
    snug_pool_options options = snug_pool_options_default();
    options.capacity =
        huge + live + 32 * KiB; /* one huge block, not two, and hardly more than is asked for in the end */
    options.compaction_off = how == 1;
    client      c          = client_open_with(options);
    survivors   s;
    snug_handle h;
    void       *address[SURVIVORS_MAX];
    succeeds(snug_alloc(c.pool, huge, NULL, &h));
    succeeds(client_fill(c.stream, c.native, h, huge, 1));
    succeeds(snug_free(c.pool, h));
    carve(&c, &s, live, spread);
    if (how == 2)
        succeeds(snug_pin(c.pool, s.h, s.n, address));
    uint64_t    moved = client_stats(c.pool).moved_bytes, hole = client_stats(c.pool).largest_hole_bytes;
    snug_status status = snug_alloc(c.pool, huge, NULL, &h);
    if (how == 0 || hole >= huge) {
        is_status(status, SNUG_OK, "%s: the huge block fits again", name);
        moved = client_stats(c.pool).moved_bytes - moved;
        ok(moved <= s.bytes + s.n * 256 + 32 * KiB, "%s: only survivors were copied: %" PRIu64 " bytes", name, moved);
        succeeds(client_fill(c.stream, c.native, h, huge, 2));
        succeeds(client_check(c.stream, c.native, h, huge, 2));
    } else {
        is_status(status, how == 1 ? SNUG_FRAGMENTED : SNUG_PINNED, "%s: refused for what it is", name);
        snug_refusal r = client_refusal();
        ok(r.free_bytes >= huge && r.largest_hole_bytes == hole && hole < huge,
           "%s: with the free bytes and the largest hole", name);
        ok(how == 1 || (r.blocking_pins > 0 && r.blocking[0] != SNUG_HANDLE_NONE), "%s: and what blocks it", name);
    }
    check_survivors(&c, &s, name);
    if (how == 2)
        succeeds(snug_unpin(c.pool, s.h, s.n, NULL, 0));
    succeeds(client_close(&c));
}

/* 1/128: nine regions of 2.3 MiB. declared: LONG_PINNED at allocation, else pinned when everything is full. */
static void coreclr_1236(bool declared) {
    const char *name   = declared ? "dotnet/coreclr#1236 (declared)" : "dotnet/coreclr#1236";
    uint64_t    region = UINT64_C(300) * MiB / 128, bounce, returned = 0;
    client      c = client_open(9 * region / SNUG_GRANULE * SNUG_GRANULE);
    snug_handle fill[9][64], tiny[9][2], h;
    void       *address[18];
    unsigned    filled[9] = {0};
    bounce                = client_stats(c.pool).bounce_bytes;
    for (unsigned r = 0; r < 9; r++) {
        uint64_t used = 0;
        for (unsigned i = 0; i < 2; i++) {
            for (uint64_t until = (i + 1) * region / 2 - 2048; used + 60000 < until; used += 59904)
                succeeds(snug_alloc(c.pool, 59904, NULL, &fill[r][filled[r]++]));
            succeeds(client_alloc(c.pool, 900, 0, declared ? SNUG_ALLOC_LONG_PINNED : 0, &tiny[r][i]));
            succeeds(client_fill(c.stream, c.native, tiny[r][i], 900, r * 2 + i));
            if (declared)
                succeeds(snug_pin(c.pool, &tiny[r][i], 1, &address[r * 2 + i]));
        }
    }
    snug_handle rest[64];
    unsigned    n_rest = 0;
    while (n_rest < 64 && client_stats(c.pool).largest_hole_bytes &&
           snug_alloc(c.pool, client_stats(c.pool).largest_hole_bytes, NULL, &rest[n_rest]) == SNUG_OK)
        n_rest++;
    for (unsigned r = 0; r < 9 && !declared; r++)
        succeeds(snug_pin(c.pool, tiny[r], 2, &address[r * 2]));
    for (unsigned i = 0; i < n_rest; i++)
        succeeds(snug_free(c.pool, rest[i]));
    for (unsigned r = 0; r < 9; r++)
        for (unsigned i = 0; i < filled[r]; i++)
            snug_free(c.pool, fill[r][i]);
    succeeds(snug_compact(c.pool, NULL, NULL));
    succeeds(snug_trim(c.pool, 0, &returned));
    snug_stats s = client_stats(c.pool);
    is_u64(s.live_bytes, 18 * 900, "%s: hardly anything lives", name);
    is_u64(s.pinned_bytes, 18 * 1024, "%s: all of it pinned", name);
    snug_status status = snug_alloc(c.pool, UINT64_C(1024) * MiB / 128, NULL, &h);
    if (declared) {
        ok(s.committed_bytes - bounce <= 2 * MiB + region, "%s: the other regions were trimmed: %" PRIu64 " bytes left",
           name, s.committed_bytes - bounce);
        is_status(status, SNUG_OK, "%s: the large block is granted", name);
    } else {
        is_status(status, SNUG_PINNED, "%s: the refusal names pins", name);
        snug_refusal r = client_refusal();
        ok(r.blocking_pins >= 9, "%s: their number: %u", name, r.blocking_pins);
        ok(r.oldest_pin_ns > 0, "%s: their age", name);
        ok(r.free_bytes > 8 * MiB && r.pinned_bytes == 18 * 1024, "%s: stranded: %" PRIu64 " bytes by %" PRIu64, name,
           r.free_bytes, r.pinned_bytes);
        for (unsigned k = 0; k < 9; k++)
            succeeds(snug_unpin(c.pool, tiny[k], 2, NULL, 0));
        is_status(snug_alloc(c.pool, UINT64_C(1024) * MiB / 128, NULL, &h), SNUG_OK,
                  "%s: unpinned they are movable at once", name);
    }
    for (unsigned k = 0; k < 18; k++)
        client_check(c.stream, c.native, tiny[k / 2][k % 2], 900, k);
    snug_stream_sync(c.stream);
    is_u64(atomic_load(&client_faults), 0, "%s: contents", name);
    succeeds(client_close(&c));
}

/* ------------------------------------------------------------------------------------------------ accounting */

static void llama_14059(client_random *random) {
    const char *name = "ggml-org/llama.cpp#14059";
    enum { OWNERS = 64 };
    client      c             = client_open(GRANULES(12260));
    snug_handle h[OWNERS]     = {0};
    uint64_t    cells[OWNERS] = {0}, used = 0, rounds = tap_scaled(1500);
    bool        held = true;
    for (uint64_t i = 0; i < rounds && held; i++) {
        unsigned    k    = (unsigned)random_below(random, OWNERS);
        uint64_t    want = 100 + random_below(random, 501), grown = cells[k] + 8 + random_below(random, 200);
        snug_status status = SNUG_OK;
        if (!cells[k]) {
            status = snug_alloc(c.pool, GRANULES(want), NULL, &h[k]);
            if (status == SNUG_OK)
                cells[k] = want, used += want, client_fill(c.stream, c.native, h[k], GRANULES(want), i);
            held &= (status == SNUG_OK) == (used - (status == SNUG_OK ? want : 0) + want <= 12260);
        } else if (random_chance(random, 50)) {
            status = snug_resize(c.pool, h[k], GRANULES(grown));
            held &= (status == SNUG_OK) == (used - cells[k] + grown <= 12260);
            if (status == SNUG_OK)
                used += grown - cells[k], cells[k] = grown;
        } else if (random_chance(random, 60) && cells[k] > 20) { /* the oldest half goes, the rest is shifted down */
            uint64_t dropped = cells[k] / 2 + 1;
            held &= snug_copy(c.stream, h[k], 0, h[k], GRANULES(dropped), GRANULES(cells[k] - dropped)) == SNUG_OK;
            held &= snug_resize(c.pool, h[k], GRANULES(cells[k] - dropped)) == SNUG_OK;
            used -= dropped, cells[k] -= dropped;
        } else {
            held &= snug_free(c.pool, h[k]) == SNUG_OK;
            used -= cells[k], cells[k] = 0;
        }
        held &= status == SNUG_OK || status == SNUG_CAPACITY;
        if (i % 8 == 0)
            held &= snug_compact(c.pool, NULL, NULL) == SNUG_OK;
        held &= client_stats(c.pool).live_bytes == GRANULES(used) && snug_pool_check(c.pool) == SNUG_OK;
    }
    ok(held, "%s: counters equal a scan and the model, before and after every compaction", name);
    succeeds(client_close(&c));
}

static void vma_241(void) {
    const char *name  = "GPUOpen-LibrariesAndSDKs/VulkanMemoryAllocator#241";
    bool        held  = true;
    snug_stats  first = {0};
    for (int round = 0; round < 20; round++) {
        client      c = client_open(16 * MiB);
        snug_handle h[96];
        snug_stats  start = client_stats(c.pool), s;
        if (round == 0)
            first = start;
        for (int i = 0; i < 96; i++)
            held &= snug_alloc(c.pool, 128 * KiB, NULL, &h[i]) == SNUG_OK;
        for (int i = 0; i < 96; i += 2)
            held &= snug_free(c.pool, h[i]) == SNUG_OK;
        snug_compact_result result = {.struct_size = sizeof result, .state = SNUG_COMPACT_MORE};
        for (int i = 0; i < 1000 && result.state != SNUG_COMPACT_DONE; i++) {
            snug_budget budget = {300 * KiB, 0, 0};
            held &= snug_compact(c.pool, &budget, &result) == SNUG_OK;
            s = client_stats(c.pool);
            held &=
                s.live_bytes == 48 * 128 * KiB && s.bytes.current == s.live_bytes &&
                s.committed_bytes <= s.limit_bytes &&
                s.live_bytes + s.padding_bytes + s.free_bytes + s.pending_bytes + s.in_flight_bytes + s.bounce_bytes ==
                    s.committed_bytes;
            if (result.state == SNUG_COMPACT_BLOCKED)
                usleep(500);
        }
        held &= result.state == SNUG_COMPACT_DONE;
        for (int i = 1; i < 96; i += 2)
            held &= snug_free(c.pool, h[i]) == SNUG_OK;
        s = client_stats(c.pool);
        held &= s.live_bytes == 0 && s.handles_live == 0 && s.in_flight_bytes == 0 &&
                s.free_bytes == start.free_bytes && s.committed_bytes == first.committed_bytes &&
                start.free_bytes == first.free_bytes;
        held &= client_close(&c) == SNUG_OK;
    }
    ok(held, "%s: after each of 20 rounds every figure is back where it began", name);
}

/* ------------------------------------------------------------------------------------------------ ordering */

static void rmm_2489(bool as_destination) {
    const char       *name = as_destination ? "rapidsai/rmm#2489 (a move's target)" : "rapidsai/rmm#2489";
    client            b    = client_open(GRANULES(64));
    snug_host_stream *native_a, *native_c;
    snug_stream      *a, *c;
    snug_handle       x, y, z, more = SNUG_HANDLE_NONE, got;
    client_gate       gate;
    succeeds(snug_host_stream_create(&native_a));
    succeeds(snug_host_stream_create(&native_c));
    succeeds(snug_stream_attach(b.pool, native_a, &a));
    succeeds(snug_stream_attach(b.pool, native_c, &c));
    succeeds(snug_alloc(b.pool, GRANULES(16), NULL, &x));
    succeeds(snug_alloc(b.pool, GRANULES(16), NULL, &y));
    succeeds(snug_alloc(b.pool, GRANULES(16), NULL, &z));
    succeeds(snug_alloc(b.pool, GRANULES(16), NULL, &more));
    succeeds(client_fill(c, native_c, z, GRANULES(16), 3));
    succeeds(client_fill(c, native_c, more, GRANULES(16), 4));
    gate_shut(&gate, native_a);
    succeeds(client_fill(a, native_a, x, GRANULES(16), 1));
    succeeds(client_fill(b.stream, b.native, y, GRANULES(16), 2)); /* another fence for the neighbour */
    succeeds(snug_free(b.pool, x));
    if (as_destination) { /* [x free][y][z free][more]: half of what is live moves into what A still writes */
        succeeds(snug_free(b.pool, z));
        succeeds(snug_alloc(b.pool, GRANULES(32), NULL, &got));
    } else {
        succeeds(snug_free(b.pool, y)); /* merged with x: the union of both fences */
        is_status(snug_alloc(b.pool, GRANULES(33), NULL, &got), SNUG_CAPACITY, "%s: too much for any merger", name);
        succeeds(snug_alloc(b.pool, GRANULES(16), NULL, &got));
    }
    succeeds(client_fill(c, native_c, got, GRANULES(16), 5));
    usleep(2000);
    gate_open(&gate);
    succeeds(snug_stream_sync(a));
    succeeds(client_check(c, native_c, got, GRANULES(16), 5));
    if (as_destination)
        succeeds(client_check(b.stream, b.native, y, GRANULES(16), 2));
    else
        succeeds(client_check(c, native_c, z, GRANULES(16), 3));
    succeeds(client_check(c, native_c, more, GRANULES(16), 4));
    succeeds(snug_stream_sync(c));
    succeeds(snug_stream_sync(b.stream));
    is_u64(atomic_load(&client_faults), 0, "%s: nobody's bytes were overwritten", name);
    succeeds(snug_stream_detach(a));
    succeeds(snug_stream_detach(c));
    snug_host_stream_destroy(native_a);
    snug_host_stream_destroy(native_c);
    succeeds(client_close(&b));
}

static void *churn(void *argument) {
    snug_pool  *pool = argument;
    snug_handle h[32];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 32; i++)
            if (snug_alloc(pool, 3000, NULL, &h[i]) != SNUG_OK)
                h[i] = SNUG_HANDLE_NONE;
        for (int i = 0; i < 32; i++)
            snug_free(pool, h[i]);
        snug_compact(pool, NULL, NULL);
    }
    return NULL;
}

static void sdl_15123(bool swapped) {
    const char       *name    = swapped ? "libsdl-org/SDL#15123 (other order)" : "libsdl-org/SDL#15123";
    snug_pool_options options = snug_pool_options_default();
    options.capacity          = 256 * KiB;
    options.jumble            = 1;
    client      c             = client_open_with(options);
    snug_handle h, k;
    pthread_t   thread;
    client_job  batch[2] = {{.check = 5000, .before = 1, .put = 5000, .after = 2},
                            {.check = 5000, .before = 11, .put = 5000, .after = 12}};
    void       *later;
    succeeds(snug_alloc(c.pool, 5000, NULL, &h));
    succeeds(snug_alloc(c.pool, 5000, NULL, &k));
    succeeds(client_fill(c.stream, c.native, h, 5000, 1));
    succeeds(client_fill(c.stream, c.native, k, 5000, 11));
    succeeds(snug_compact(c.pool, NULL, NULL)); /* a move of both is queued: resolve waits for it, on the stream */
    succeeds(snug_resolve(c.stream, &h, 1, NULL, &batch[0].at)); /* recorded now, submitted later */
    succeeds(snug_resolve(c.stream, &k, 1, NULL, &batch[1].at));
    pthread_create(&thread, NULL, churn, c.pool);
    pthread_join(thread, NULL);
    ok(client_stats(c.pool).moves > 2, "%s: others moved meanwhile", name);
    for (int i = 0; i < 2; i++)
        succeeds(snug_host_launch(c.native, client_job_run, &batch[swapped ? 1 - i : i], sizeof batch[0]));
    succeeds(snug_resolve(c.stream, &h, 1, NULL, &later));
    is_pointer(later, batch[0].at, "%s: not moved while recorded", name);
    succeeds(snug_release(c.stream, &h, 1, NULL));
    succeeds(snug_release(c.stream, &h, 1, NULL));
    succeeds(snug_release(c.stream, &k, 1, NULL));
    churn(c.pool);
    succeeds(client_check(c.stream, c.native, h, 5000, 2));
    succeeds(client_check(c.stream, c.native, k, 5000, 12));
    succeeds(snug_stream_sync(c.stream));
    is_u64(atomic_load(&client_faults), 0, "%s: no write is lost", name);
    succeeds(client_close(&c));
}

/* [low hole][block][high hole]: whoever asks for both holes together slides the block, over itself where the hole is short. */
static bool slide(uint64_t size, uint64_t low, uint64_t high) {
    client      c = client_open(GRANULES(low + granules_of(size) + high));
    snug_handle below, block, above, both = SNUG_HANDLE_NONE;
    bool        held = snug_alloc(c.pool, GRANULES(low), NULL, &below) == SNUG_OK &&
                snug_alloc(c.pool, size, NULL, &block) == SNUG_OK &&
                snug_alloc(c.pool, GRANULES(high), NULL, &above) == SNUG_OK &&
                client_fill(c.stream, c.native, block, size, size) == SNUG_OK && snug_free(c.pool, below) == SNUG_OK &&
                snug_free(c.pool, above) == SNUG_OK && snug_alloc(c.pool, GRANULES(low + high), NULL, &both) == SNUG_OK;
    held = held && client_fill(c.stream, c.native, both, GRANULES(low + high), 1) == SNUG_OK &&
           client_check(c.stream, c.native, block, size, size) == SNUG_OK;
    held = held && client_check(c.stream, c.native, both, GRANULES(low + high), 1) == SNUG_OK &&
           snug_stream_sync(c.stream) == SNUG_OK;
    uint64_t slides = client_stats(c.pool).slides;
    bool     over   = low < granules_of(size) && high < granules_of(size); /* whichever way it goes */
    return client_close(&c) == SNUG_OK && held && atomic_load(&client_faults) == 0 && (slides > 0 || !over);
}

static void pytorch_17746(client_random *random) {
    static const uint64_t sizes[] = {1,     255,   256,    257,     3000,    4095,    65535,
                                     65536, 65537, 200000, 1048575, 1800000, 2000000, 2097153};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t granules = granules_of(sizes[i]);
        bool held = slide(sizes[i], 1, 1) && slide(sizes[i], granules, granules) && slide(sizes[i], 1, granules + 3);
        held = held && slide(sizes[i], granules / 9 + 1, 2) && slide(sizes[i], 1 + random_below(random, granules), 1);
        ok(held, "pytorch/pytorch#17746: a block of %" PRIu64 " bytes slides over itself unharmed", sizes[i]);
    }
    ok(slide(UINT64_C(70) * MiB + 13, 3, 1) && slide(UINT64_C(70) * MiB + 13, 5000, 1),
       "pytorch/pytorch#17746: 70 MiB, by 3 and by 5,000 granules");
    bool same = true;
    for (uint64_t i = 0; i < tap_scaled(100); i++)
        same &= slide(1800000, 782, 1);
    ok(same, "pytorch/pytorch#17746: 1.8 MB over a hole of 0.2 MB, again and again");
    if (tap_scaled(100) < 400)
        skip(1, "pytorch/pytorch#17746: over 1 GiB only at SNUG_TEST_SCALE of 400 and more");
    else
        ok(slide(UINT64_C(1) << 30 | 4321, 1000, 7), "pytorch/pytorch#17746: over 1 GiB");
}

/* ------------------------------------------------------------------------------------------------ overflow, alignment */

static void rmm_1156(void) {
    const char           *name    = "rapidsai/rmm#1156";
    client                c       = client_open(1 * MiB);
    static const uint64_t sizes[] = {UINT64_C(18446744073709551612), UINT64_MAX, UINT64_C(1) << 63,
                                     (UINT64_C(1) << 63) + 1};
    snug_handle           h       = 77, zero;
    snug_stats            before  = client_stats(c.pool);
    for (size_t i = 0; i < 4; i++) {
        is_status(snug_alloc(c.pool, sizes[i], NULL, &h), SNUG_TOO_LARGE, "%s: %" PRIu64, name, sizes[i]);
        snug_alloc_options options = snug_alloc_options_default();
        options.alignment          = 256;
        is_status(snug_alloc(c.pool, sizes[i], &options, &h), SNUG_TOO_LARGE, "%s: %" PRIu64 " at 256", name, sizes[i]);
    }
    is_status(client_alloc(c.pool, 1, UINT64_C(1) << 63, 0, &h), SNUG_ALIGNMENT, "%s: size 1, alignment 2^63", name);
    snug_stats after = client_stats(c.pool);
    ok(memcmp(&before, &after, sizeof after) == 0, "%s: no counter, no device call", name);
    succeeds(
        snug_alloc(c.pool, 0, NULL, &zero)); /* zero: a handle that resolves to NULL, in pool_buffers.c at length */
    succeeds(snug_free(c.pool, zero));
    succeeds(client_close(&c));
}

/* The report's 32,768 cells, every second one free: far more moves than any plan holds. */
static void llama_6685(void) {
    const char *name = "ggml-org/llama.cpp#6685";
    enum { CELLS = 32768 };
    static snug_handle h[CELLS];
    for (int form = 0; form < 3; form++) {
        client              c      = client_open(GRANULES(CELLS));
        snug_compact_result result = {.struct_size = sizeof result, .state = SNUG_COMPACT_MORE};
        snug_budget         one    = {0, 1, 0};
        snug_handle         all;
        bool                held = true;
        for (int i = 0; i < CELLS; i++)
            held &= snug_alloc(c.pool, 200, NULL, &h[i]) == SNUG_OK &&
                    (i % 2 == 0 || i % 64 != 1 || client_fill(c.stream, c.native, h[i], 200, (unsigned)i) == SNUG_OK);
        for (int i = 0; i < CELLS; i += 2)
            held &= snug_free(c.pool, h[i]) == SNUG_OK;
        if (form == 0) {
            held &= snug_alloc(c.pool, GRANULES(CELLS / 2), NULL, &all) == SNUG_OK;
            ok(held, "%s: rounds go on until the request fits", name);
        } else if (form == 1) { /* a table of one */
            for (int i = 0; i < 200 && held; i++) {
                held &= snug_compact(c.pool, &one, &result) == SNUG_OK && result.moves <= 1;
                held &= result.moves == 1 || result.state != SNUG_COMPACT_MORE;
                held &= i % 20 != 0 || snug_pool_check(c.pool) == SNUG_OK;
                if (result.state == SNUG_COMPACT_BLOCKED)
                    usleep(100);
            }
            ok(held && result.largest_hole_bytes > GRANULES(1),
               "%s: one move a step makes progress, each leaves a valid map", name);
        } else {
            for (int i = 0; i < 20000 && result.state != SNUG_COMPACT_DONE; i++) {
                held &= snug_compact(c.pool, NULL, &result) == SNUG_OK;
                if (result.state == SNUG_COMPACT_BLOCKED)
                    usleep(100);
            }
            ok(held && result.state == SNUG_COMPACT_DONE && result.largest_hole_bytes == result.free_bytes,
               "%s: unbounded, to its end", name);
        }
        for (int i = 1; i < CELLS; i += 64)
            held &= client_check(c.stream, c.native, h[i], 200, (unsigned)i) == SNUG_OK;
        snug_stream_sync(c.stream);
        ok(held && atomic_load(&client_faults) == 0, "%s: contents", name);
        succeeds(client_close(&c));
    }
    client      c = client_open(GRANULES(4096)); /* one block, one hole behind which it lies: one move will do */
    snug_handle hole, block, big;
    succeeds(snug_alloc(c.pool, GRANULES(2000), NULL, &hole));
    succeeds(snug_alloc(c.pool, GRANULES(2000), NULL, &block));
    succeeds(snug_free(c.pool, hole));
    succeeds(snug_alloc(c.pool, GRANULES(2096), NULL, &big));
    is_u64(client_stats(c.pool).moves, 1, "%s: a single block is one move", name);
    succeeds(client_close(&c));
}

static void mimalloc_700(void) {
    const char       *name    = "microsoft/mimalloc#700";
    snug_pool_options options = snug_pool_options_default();
    options.capacity          = 40 * MiB;
    options.jumble            = 1;
    client c                  = client_open_with(options);
    for (uint64_t a = 1; a <= SNUG_ALIGNMENT_MAX; a *= 2) {
        bool held = true;
        for (int warm = 0; warm < 2; warm++) {
            const uint64_t sizes[4] = {a - 1, a, a + 1, 2 * a};
            snug_handle    h[4], odd;
            void          *address;
            held &= snug_alloc(c.pool, 300, NULL, &odd) == SNUG_OK; /* so that the next place is an odd one */
            for (int i = 0; i < 4; i++)
                held &= client_alloc(c.pool, sizes[i], a, 0, &h[i]) == SNUG_OK;
            for (int step = 0; step < 4; step++) {
                for (int i = 0; i < 4; i++)
                    held &= snug_resolve(c.stream, &h[i], 1, NULL, &address) == SNUG_OK &&
                            (uintptr_t)address % a == 0 && snug_release(c.stream, &h[i], 1, NULL) == SNUG_OK;
                held &= snug_compact(c.pool, NULL, NULL) == SNUG_OK;
            }
            for (int i = 0; i < 4; i++)
                held &= snug_free(c.pool, h[i]) == SNUG_OK;
            held &= snug_free(c.pool, odd) == SNUG_OK;
        }
        ok(held, "%s: alignment %" PRIu64 ", cold and warm, before and after moves", name, a);
    }
    succeeds(client_close(&c));
}

int main(int argc, char **argv) {
    client_random random = {client_seed(argc, argv)};
    for (int how = 0; how < 3; how++) {
        pytorch_35901(false, how);
        pytorch_35901(true, how);
    }
    coreclr_1236(false);
    coreclr_1236(true);
    llama_14059(&random);
    vma_241();
    rmm_2489(false);
    rmm_2489(true);
    sdl_15123(false);
    sdl_15123(true);
    pytorch_17746(&random);
    rmm_1156();
    llama_6685();
    mimalloc_700();
    return done_testing();
}
