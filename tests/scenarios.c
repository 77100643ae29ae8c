/* scenarios.c: the scenario kinds that the field's own defragmentation tests use, contents checked in every one. */
#include "tap.h"

#include "client.h"

enum { BUFFERS_MAX = 4096 };

typedef struct scene {
    client        c;
    client_random random;
    snug_handle   handles[BUFFERS_MAX]; /* SNUG_HANDLE_NONE: freed */
    uint64_t      sizes[BUFFERS_MAX];
    unsigned      n;
} scene;

static scene s;

static void scene_open(uint64_t capacity, uint64_t seed) {
    s.c      = client_open(capacity);
    s.n      = 0;
    s.random = (client_random){seed};
    atomic_store(&client_faults, 0);
}

/* The version of a buffer's contents is its number. */
static snug_status scene_add(uint64_t size, const snug_alloc_options *options) {
    if (s.n == BUFFERS_MAX)
        bail_out("too many buffers");
    snug_status status = snug_alloc(s.c.pool, size, options, &s.handles[s.n]);
    if (status != SNUG_OK)
        return status;
    s.sizes[s.n] = size;
    if (client_fill(s.c.stream, s.c.native, s.handles[s.n], size, s.n) != SNUG_OK)
        bail_out("no fill");
    s.n++;
    return SNUG_OK;
}

static void scene_drop(unsigned i) {
    if (s.handles[i] != SNUG_HANDLE_NONE && snug_free(s.c.pool, s.handles[i]) != SNUG_OK)
        bail_out("no free");
    s.handles[i] = SNUG_HANDLE_NONE;
}

static void scene_check(const char *name) {
    for (unsigned i = 0; i < s.n; i++)
        if (s.handles[i] != SNUG_HANDLE_NONE &&
            client_check(s.c.stream, s.c.native, s.handles[i], s.sizes[i], i) != SNUG_OK)
            bail_out("no launch");
    succeeds(snug_stream_sync(s.c.stream));
    is_u64(atomic_load(&client_faults), 0, "%s: every buffer holds what it held", name);
    is_status(snug_pool_check(s.c.pool), SNUG_OK, "%s: the pool is sound", name);
}

static void scene_close(const char *name) {
    scene_check(name);
    for (unsigned i = 0; i < s.n; i++)
        scene_drop(i);
    is_u64(client_stats(s.c.pool).live_bytes + client_stats(s.c.pool).pending_bytes, 0, "%s: nothing is left", name);
    is_status(client_close(&s.c), SNUG_OK, "%s: and the pool closes", name);
}

/* Steps until DONE, or BLOCKED with everything settled; the number of steps that moved something. */
static unsigned scene_tidy(snug_budget budget, uint64_t *moves) {
    snug_compact_result r        = {.struct_size = sizeof r};
    unsigned            steps    = 0;
    uint64_t            moved_at = client_now_ns();
    *moves                       = 0;
    do {
        if (snug_compact(s.c.pool, &budget, &r) != SNUG_OK)
            bail_out("no compact");
        if (budget.bytes_max && r.moved_bytes > budget.bytes_max)
            bail_out("%" PRIu64 " bytes moved in a step of %" PRIu64, r.moved_bytes, budget.bytes_max);
        *moves += r.moves;
        steps += r.moved_bytes > 0;
        if (r.moved_bytes)
            moved_at = client_now_ns();
        else if (r.state == SNUG_COMPACT_BLOCKED) /* for good, or while its own copies wait for a busy core */
            usleep(200);
    } while (r.state != SNUG_COMPACT_DONE && client_now_ns() - moved_at < 1000000000 && steps < 100000);
    return steps;
}

/* ------------------------------------------------------------------------------------------------ the kinds */

static void empty_pool(void) {
    uint64_t moves;
    scene_open(16 * MiB, 0);
    is_u64(scene_tidy((snug_budget){0, 0, 0}, &moves), 0, "an empty pool has nothing to do");
    is_u64(moves, 0, "no moves");
    is_u64(client_stats(s.c.pool).largest_hole_bytes, 16 * MiB, "it is one hole");
    scene_close("empty");
}

/* Two regions of equal buffers, every other one freed: the live half of one region goes into the holes of the other. */
static void every_other_freed(uint32_t moves_max) {
    enum { N = 64 };
    uint64_t moves;
    scene_open(N * 64 * KiB, 0);
    for (unsigned i = 0; i < N; i++)
        succeeds(scene_add(64 * KiB, NULL));
    for (unsigned i = 0; i < N; i += 2)
        scene_drop(i);
    unsigned steps = scene_tidy((snug_budget){0, moves_max, 0}, &moves);
    is_u64(moves, N / 4, "every other of %d freed: exactly a quarter is moved, %u at a time", (int)N, moves_max);
    is_u64(steps, moves_max ? N / 4 / moves_max : 1, "in so many steps");
    is_u64(client_stats(s.c.pool).largest_hole_bytes, N / 2 * 64 * KiB, "half the pool is one hole");
    scene_close("every other");
}

static uint64_t random_size(uint64_t least, uint64_t most) {
    return least + random_below(&s.random, most - least + 1);
}

static void random_freed(unsigned percent, uint64_t seed) {
    uint64_t           moves;
    snug_alloc_options fixed = snug_alloc_options_default();
    fixed.flags              = SNUG_ALLOC_IMMOVABLE;
    bool immovable[BUFFERS_MAX];
    scene_open(32 * MiB, seed);
    do
        immovable[s.n] = random_chance(&s.random, 20);
    while (s.n < BUFFERS_MAX - 1 && scene_add(random_size(1, 64 * KiB), immovable[s.n] ? &fixed : NULL) == SNUG_OK);
    void *before[BUFFERS_MAX];
    for (unsigned i = 0; i < s.n; i++) {
        if (random_chance(&s.random, percent))
            scene_drop(i);
        else if (immovable[i] && snug_pin(s.c.pool, &s.handles[i], 1, &before[i]) != SNUG_OK)
            bail_out("no pin");
    }
    uint64_t largest = client_stats(s.c.pool).largest_hole_bytes;
    scene_tidy((snug_budget){512 * KiB, 0, 0}, &moves);
    ok(moves > 0 && client_stats(s.c.pool).largest_hole_bytes > largest,
       "%u %% freed, a fifth immovable: the largest hole grows from %" PRIu64 " to %" PRIu64 " by %" PRIu64 " moves", percent,
       largest, client_stats(s.c.pool).largest_hole_bytes, moves);
    unsigned moved = 0;
    for (unsigned i = 0; i < s.n; i++) {
        void *now;
        if (!immovable[i] || s.handles[i] == SNUG_HANDLE_NONE)
            continue;
        if (snug_pin(s.c.pool, &s.handles[i], 1, &now) != SNUG_OK)
            bail_out("no pin");
        moved += now != before[i];
        for (int twice = 0; twice < 2; twice++)
            if (snug_unpin(s.c.pool, &s.handles[i], 1, NULL, 0) != SNUG_OK)
                bail_out("no unpin");
    }
    is_u64(moved, 0, "no immovable one has moved");
    scene_close("random sizes");
}

/* One change of each kind now and then, while steps of a small budget go on. */
static void changes_between_steps(uint64_t seed) {
    snug_compact_result r = {.struct_size = sizeof r};
    const snug_budget   budget = {96 * KiB, 0, 0};
    uint64_t            moves;
    scene_open(16 * MiB, seed);
    while (scene_add(random_size(1, 128 * KiB), NULL) == SNUG_OK)
        ;
    for (unsigned i = 0; i < s.n; i += 2)
        scene_drop(i);
    unsigned refused = 0, n = s.n, rounds = tap_scaled(600);
    for (unsigned round = 0; round < rounds; round++) {
        unsigned i = (unsigned)random_below(&s.random, n);
        refused += snug_compact(s.c.pool, &budget, &r) != SNUG_OK;
        if (s.handles[i] == SNUG_HANDLE_NONE) {
            uint64_t size = random_size(1, 128 * KiB);
            if (snug_alloc(s.c.pool, size, NULL, &s.handles[i]) != SNUG_OK)
                s.handles[i] = SNUG_HANDLE_NONE;
            else if (client_fill(s.c.stream, s.c.native, s.handles[i], s.sizes[i] = size, i) != SNUG_OK)
                bail_out("no fill");
        } else if (random_chance(&s.random, 50)) {
            scene_drop(i);
        } else {
            uint64_t size = random_size(1, 128 * KiB);
            if (snug_resize(s.c.pool, s.handles[i], size) == SNUG_OK) {
                uint64_t kept = size < s.sizes[i] ? size : s.sizes[i];
                client_launch(s.c.stream, s.c.native, s.handles[i],
                              (client_job){.check = kept, .before = i, .put = size, .after = i, .id = i});
                s.sizes[i] = size;
            }
        }
    }
    is_u64(refused, 0, "no step fails between allocations, frees and resizes");
    scene_tidy((snug_budget){0, 0, 0}, &moves);
    is_u64(client_stats(s.c.pool).largest_hole_bytes, client_stats(s.c.pool).free_bytes, "in the end one hole");
    scene_close("changes between steps");
}

static void full_to_the_last_byte(void) {
    snug_handle h;
    scene_open(256 * MiB, 0);
    unsigned granted = 0;
    for (unsigned i = 0; i < 256; i++)
        granted += scene_add(1 * MiB, NULL) == SNUG_OK;
    is_u64(granted, 256, "256 times 1 MiB fill 256 MiB");
    is_u64(client_stats(s.c.pool).free_bytes, 0, "to the last byte");
    is_status(snug_alloc(s.c.pool, 1, NULL, &h), SNUG_CAPACITY, "not a byte more");
    for (unsigned i = 0; i < 256; i += 4)
        scene_drop(i);
    is_status(scene_add(64 * MiB, NULL), SNUG_OK, "64 scattered megabytes are one again, in a pool without any other room");
    scene_close("full");
}

static void alignments(uint64_t seed) {
    static const uint64_t all[] = {1, 16, 64, 256, 64 * KiB, 2 * MiB};
    uint64_t              moves;
    unsigned              wrong = 0;
    scene_open(64 * MiB, seed);
    uint64_t alignment[BUFFERS_MAX];
    for (;;) {
        snug_alloc_options o = snug_alloc_options_default();
        o.alignment = alignment[s.n] = all[random_below(&s.random, 6)];
        if (s.n == BUFFERS_MAX - 1 || scene_add(random_size(1, 256 * KiB), &o) != SNUG_OK)
            break;
    }
    for (unsigned i = 0; i < s.n; i++)
        if (random_chance(&s.random, 60))
            scene_drop(i);
    scene_tidy((snug_budget){1 * MiB, 0, 0}, &moves);
    for (unsigned i = 0; i < s.n; i++) {
        void *at;
        if (s.handles[i] == SNUG_HANDLE_NONE)
            continue;
        if (snug_resolve(s.c.stream, &s.handles[i], 1, NULL, &at) != SNUG_OK ||
            snug_release(s.c.stream, &s.handles[i], 1, NULL) != SNUG_OK)
            bail_out("no resolve");
        wrong += (uintptr_t)at % alignment[i] != 0;
    }
    ok(moves > 0, "alignments 1 to 2 MiB: %" PRIu64 " moves", moves);
    is_u64(wrong, 0, "every address is aligned afterwards");
    scene_close("alignments");
}

/* One large buffer between two holes, and steps of a sixteenth of it. */
static void budget_below_the_largest(void) {
    uint64_t moves;
    scene_open(16 * MiB, 0);
    succeeds(scene_add(6 * MiB, NULL));
    succeeds(scene_add(4 * MiB, NULL));
    succeeds(scene_add(6 * MiB, NULL));
    scene_drop(0);
    scene_drop(2);
    unsigned steps = scene_tidy((snug_budget){256 * KiB, 0, 0}, &moves);
    is_u64(moves, 1, "a buffer sixteen times the budget is moved");
    is_u64(steps, 16, "in sixteen steps");
    is_u64(client_stats(s.c.pool).largest_hole_bytes, 12 * MiB, "and the hole is one");
    scene_close("small budget");
}

int main(int argc, char **argv) {
    uint64_t              seed       = client_seed(argc, argv);
    static const unsigned percents[] = {55, 60, 70, 80};
    empty_pool();
    every_other_freed(0);
    every_other_freed(1);
    for (unsigned i = 0; i < 4; i++)
        random_freed(percents[i], seed + i);
    changes_between_steps(seed + 10);
    full_to_the_last_byte();
    alignments(seed + 20);
    budget_below_the_largest();
    return done_testing();
}
