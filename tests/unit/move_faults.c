/* move_faults.c - the mover on a device that fails, once or for good, and on one of the size of a real card. */
#include "tap.h"

#include "compactor.h"
#include "fixture.h"

enum { G = SNUG_GRANULE, N = 24, SIZE = 16 };

static snug_pool  *pool;
static client      c;
static snug_handle kept[N];

static uint64_t size_of(unsigned i) {
    return SIZE + i % 5;
}

/* Every other buffer is freed, so that holes of 16 to 20 granules lie between the rest. */
static void scene(void) {
    uint64_t total = 0;
    for (unsigned i = 0; i < N; i++)
        total += size_of(i);
    static char last_line[256];
    pool              = pool_of(total);
    pool->log.context = last_line; /* what is lost is lost on purpose: not to be shown */
    c                 = client_make(pool);
    for (unsigned i = 0; i < N; i++) {
        kept[i] = must_alloc(pool, size_of(i));
        buffer_fill(c, kept[i], size_of(i) * G, i);
    }
    for (unsigned i = 0; i < N; i += 2) {
        snug_free(pool, kept[i]);
        kept[i] = 0;
    }
}

static unsigned torn(void) {
    unsigned wrong = 0;
    for (unsigned i = 0; i < N; i++)
        wrong += kept[i] && !buffer_holds(c, kept[i], size_of(i) * G, i);
    return wrong;
}

static void close_pool(void) {
    client_end(c);
    succeeds(snug_pool_destroy(pool));
}

static snug_status on_demand(void) {
    snug_handle large;
    uint64_t    half   = stats_of(pool).free_bytes / 2;
    snug_status status = snug_alloc(pool, half, NULL, &large);
    return status == SNUG_OK ? snug_free(pool, large) : status;
}

static snug_status tidy(void) {
    return snug_compact(pool, NULL, NULL);
}

static snug_status late(void) {
    snug_budget budget = {.bytes_max = 5 * G};
    snug_status first  = SNUG_OK;
    for (unsigned i = 0; i < 6; i++) {
        snug_status status = snug_compact(pool, &budget, NULL);
        first              = first == SNUG_OK ? status : first;
    }
    return first;
}

static snug_status trim(void) {
    return snug_trim(pool, 0, NULL);
}

static snug_status grow(void) {
    uint64_t    grown  = size_of(1) * 2 * G;
    snug_status status = snug_resize(pool, kept[1], grown);
    return status == SNUG_OK ? snug_resize(pool, kept[1], size_of(1) * G) : status;
}

static snug_status pin(void) {
    void       *address;
    snug_status status = snug_pin(pool, &kept[N - 1], 1, &address);
    return status == SNUG_OK ? snug_unpin(pool, &kept[N - 1], 1, NULL, 0) : status;
}

static const struct { const char *name; snug_status (*call)(void); bool slides; } calls[] = {
    {"an allocation that compacts", on_demand, true}, {"a step", tidy, true}, {"late steps", late, false},
    {"a trim", trim, true}, {"a resize", grow, true}, {"a long pin", pin, false}};

static const struct { const char *name; _Atomic int *countdown; } faults[] = {
    {"move", &hooks.fail_move}, {"event_record", &hooks.fail_record}, {"stream_wait", &hooks.fail_wait},
    {"event_query", &hooks.fail_query}, {"event_sync", &hooks.fail_sync}};

/* The nth call of one function of the device fails, once. A pool that is lost is lost by the middle of a slide only. */
static void one_failure(size_t call, size_t fault) {
    unsigned wrong = 0, unsound = 0, dead = 0, strange = 0, lost = 0, hit = 0;
    for (int nth = 1; nth <= 24; nth++) {
        scene();
        atomic_store(faults[fault].countdown, nth);
        snug_status status = calls[call].call();
        bool        met    = atomic_load(faults[fault].countdown) == 0;
        atomic_store(faults[fault].countdown, 0);
        hit += met;
        lost += status == SNUG_LOST;
        if (status != SNUG_LOST) {
            strange += status != SNUG_OK && status != SNUG_DEVICE;
            unsound += snug_pool_check(pool) != SNUG_OK;
            wrong += torn() != 0;
            dead += calls[call].call() != SNUG_OK;
            unsound += snug_pool_check(pool) != SNUG_OK;
            wrong += torn() != 0;
            close_pool();
        } else {
            client_end(c);
            snug_pool_destroy(pool);
        }
        if (!met)
            break;
    }
    ok(!strange, "%s, %s failing: DEVICE or nothing (%u failures met)", calls[call].name, faults[fault].name, hit);
    ok(!unsound, "  the pool is sound after each");
    ok(!wrong, "  all contents are what they were");
    ok(!dead, "  the next such call succeeds");
    ok(!lost || (calls[call].slides && fault == 0), "  the pool is lost by the middle of a slide only (%u times)", lost);
}

static void a_commit_that_fails_refuses_and_changes_nothing(void) {
    snug_handle  handle = 0;
    snug_refusal r      = {.struct_size = sizeof r};
    pool = pool_make((snug_pool_options){.capacity = 16 << 20, .commit_bytes = 2 << 20});
    atomic_store(&hooks.fail_commit, 1);
    is_status(snug_alloc(pool, 4 << 20, NULL, &handle), SNUG_DEVICE, "the arena can't grow");
    is_hex(handle, 0, "no handle");
    succeeds(snug_refusal_get(&r));
    is_status(r.verdict, SNUG_DEVICE, "the refusal says so");
    is_string(r.device_error, "failed on purpose", "in the device's own words");
    succeeds(snug_pool_check(pool));
    is_status(snug_alloc(pool, 4 << 20, NULL, &handle), SNUG_OK, "it can the next time");
    succeeds(snug_pool_destroy(pool));
}

static void a_resolve_whose_wait_fails_pins_nothing(void) {
    snug_handle handles[2];
    void       *addresses[2];
    gate        g = {0};
    pool          = pool_of(100);
    c             = client_make(pool);
    client      d = client_make(pool);
    snug_handle a = must_alloc(pool, 100);
    snug_resolve(c.stream, &a, 1, NULL, addresses);
    gate_put(&g, c.native);
    snug_release(c.stream, &a, 1, NULL);
    snug_free(pool, a);
    handles[0] = must_alloc(pool, 50); /* behind the gate's fence */
    handles[1] = must_alloc(pool, 50);
    atomic_store(&hooks.fail_wait, 2);
    snug_status status = snug_resolve(d.stream, handles, 2, NULL, addresses);
    atomic_store(&hooks.fail_wait, 0);
    ok(status == SNUG_OK || status == SNUG_DEVICE, "one wait may do for both");
    if (status == SNUG_OK)
        snug_release(d.stream, handles, 2, NULL);
    client e = client_make(pool);
    atomic_store(&hooks.fail_wait, 1);
    is_status(snug_resolve(e.stream, handles, 2, NULL, addresses), SNUG_DEVICE, "the first wait fails");
    snug_handle_info info = {.struct_size = sizeof info};
    snug_handle_info_get(pool, handles[0], &info);
    is_u64(info.pins, 0, "nothing is pinned");
    is_status(snug_resolve(e.stream, handles, 2, NULL, addresses), SNUG_OK, "the next try succeeds");
    atomic_store(&hooks.fail_record, 1);
    is_status(snug_release(e.stream, handles, 2, NULL), SNUG_DEVICE, "a release that can't record");
    snug_handle_info_get(pool, handles[1], &info);
    is_u64(info.pins, 1, "leaves everything pinned");
    is_status(snug_release(e.stream, handles, 2, NULL), SNUG_OK, "the next try succeeds");
    gate_open(&g);
    succeeds(snug_pool_check(pool));
    client_end(d);
    client_end(e);
    close_pool();
}

/* ------------------------------------------------------------------------------------------------ lost for good */

static void a_lost_device_makes_the_pool_lost(void) {
    void       *address;
    snug_handle handle = 0, other;
    char        line[256] = "";
    scene();
    pool->log.context = line;
    snug_pin(pool, &kept[1], 1, &address);
    snug_resolve(c.stream, &kept[3], 1, NULL, &address);
    atomic_store(&hooks.lost, 1);
    is_status(tidy(), SNUG_LOST, "the step that meets it says LOST");
    is_string(line, "pool lost: lost on purpose", "the log has the device's words");
    is_status(snug_alloc(pool, G, NULL, &handle), SNUG_LOST, "alloc");
    is_status(snug_resolve(c.stream, &kept[5], 1, NULL, &address), SNUG_LOST, "resolve");
    is_status(snug_release(c.stream, &kept[3], 1, NULL), SNUG_LOST, "release");
    is_status(snug_resize(pool, kept[5], G), SNUG_LOST, "resize");
    is_status(snug_compact(pool, NULL, NULL), SNUG_LOST, "compact");
    is_status(snug_trim(pool, 0, NULL), SNUG_LOST, "trim");
    is_status(snug_pin(pool, &kept[5], 1, &address), SNUG_LOST, "pin");
    is_status(snug_stream_attach(pool, c.native, &(snug_stream *){0}), SNUG_LOST, "attach");
    is_status(snug_unpin(pool, &kept[1], 1, NULL, 0), SNUG_OK, "unpin still works");
    is_status(snug_unpin(pool, &kept[1], 1, NULL, 0), SNUG_NOT_PINNED, "and is still exact");
    other = kept[5];
    is_status(snug_free(pool, other), SNUG_OK, "free still works");
    is_status(snug_free(pool, other), SNUG_STALE, "and is still exact");
    is_status(snug_free(pool, kept[3]), SNUG_OK, "also of what is pinned");
    snug_host_stream_sync(c.native);
    is_status(snug_stream_detach(c.stream), SNUG_OK, "detach still works");
    is_status(snug_pool_destroy(pool), SNUG_LOST, "destroy works, and says LOST");
    is_status(snug_pool_destroy(pool), SNUG_GONE, "then the pool is gone");
    is_status(snug_free(pool, kept[7]), SNUG_GONE, "for everybody");
    snug_host_stream_destroy(c.native);
}

static void losing_it_at_any_moment_hangs_nothing(void) {
    unsigned wrong = 0, rounds = 0;
    for (size_t call = 0; call < sizeof calls / sizeof *calls; call++)
        for (int nth = 1; nth <= 12; nth++, rounds++) {
            scene();
            _Atomic int *countdown = faults[nth % 3].countdown;
            atomic_store(countdown, 1 + nth / 3);
            calls[call].call(); /* perhaps with one failure on the way */
            atomic_store(countdown, 0);
            atomic_store(&hooks.lost, 1);
            calls[call].call();
            calls[call].call();
            for (unsigned i = 1; i < N; i += 2)
                wrong += snug_free(pool, kept[i]) != SNUG_OK;
            snug_host_stream_sync(c.native);
            wrong += snug_stream_detach(c.stream) != SNUG_OK;
            wrong += snug_pool_destroy(pool) == SNUG_GONE;
            snug_host_stream_destroy(c.native);
            hooks_clear();
        }
    is_u64(wrong, 0, "in %u rounds everything could still be freed, detached and destroyed", rounds);
}

/* ------------------------------------------------------------------------------------------------ a large card */

static uint64_t copied, overlapping;

static snug_status no_arena(snug__device *device, uint64_t bytes) {
    (void)device, (void)bytes;
    return SNUG_OK;
}

static snug_status no_bytes(snug__device *device, uint64_t offset, uint64_t bytes) {
    (void)device, (void)offset, (void)bytes;
    return SNUG_OK;
}

static char *no_base(snug__device *device) {
    (void)device;
    return (char *)(uintptr_t)SNUG_ALIGNMENT_MAX;
}

static snug_status no_move(snug__device *device, void *native, const snug__copy *copies, uint32_t n) {
    (void)device, (void)native;
    for (uint32_t i = 0; i < n; i++) {
        const snug__copy *c = &copies[i];
        copied += c->bytes;
        overlapping += !(c->to + c->bytes <= c->from || c->from + c->bytes <= c->to);
    }
    return SNUG_OK;
}

static void slide_down(uint64_t hole_gib, uint64_t buffer_gib) {
    const uint64_t   GiB  = UINT64_C(1) << 30;
    snug__device_row row  = snug__device_host;
    snug_pool_options o   = {.struct_size = sizeof o, .capacity = 128 * GiB, .handles_max = 1000, .log = quiet};
    snug__settings   settings;
    snug_handle      hole, buffer, rest, large;
    row.arena_reserve = no_arena;
    row.arena_commit = row.arena_decommit = no_bytes;
    row.arena_base    = no_base;
    row.move          = no_move;
    copied = overlapping = 0;
    if (snug__settings_make(&o, NULL, &settings) != SNUG_OK || snug__pool_create_on(&row, &settings.pool, &pool) != SNUG_OK)
        bail_out("no pool");
    diag("a buffer of %d GiB over a hole of %d GiB", (int)buffer_gib, (int)hole_gib);
    snug_alloc(pool, hole_gib * GiB, NULL, &hole);
    snug_alloc(pool, buffer_gib * GiB, NULL, &buffer);
    snug_alloc(pool, (126 - hole_gib - buffer_gib) * GiB, NULL, &rest);
    snug_free(pool, hole);
    is_status(snug_alloc(pool, (hole_gib + 2) * GiB, NULL, &large), SNUG_OK, "room by sliding %d GiB down by %d",
              (int)buffer_gib, (int)hole_gib);
    is_u64(overlapping, 0, "no copy overlaps itself");
    ok(copied >= buffer_gib * GiB, "all of it was copied");
    succeeds(snug_pool_check(pool));
    succeeds(snug_pool_destroy(pool));
}

int main(void) {
    for (size_t call = 0; call < sizeof calls / sizeof *calls; call++)
        for (size_t fault = 0; fault < sizeof faults / sizeof *faults; fault++)
            one_failure(call, fault);
    a_commit_that_fails_refuses_and_changes_nothing();
    a_resolve_whose_wait_fails_pins_nothing();
    a_lost_device_makes_the_pool_lost();
    losing_it_at_any_moment_hangs_nothing();
    slide_down(1, 40);
    slide_down(15, 40);
    slide_down(16, 40);
    slide_down(32, 80);
    return done_testing();
}
