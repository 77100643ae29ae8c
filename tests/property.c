/* property.c - promise 1 against a naive model: a request is granted exactly if the model has granules enough, whatever the
 * history; a refusal's figures are the model's sums; no byte of a buffer changes unless its client changes it.
 *
 *     property [SEED [MODE [RUN]]]        a failure prints the three that replay it
 *
 * Each run makes a pool of random shape and does random calls on it, with work queued on several streams. One thread calls
 * (and in some modes the background compactor beside it), so the model is exact. */
#include "tap.h"

#include "client.h"
#include "property_model.h"

static const struct mode {
    const char *name;
    unsigned    flags, runs, steps;
} modes[] = {
    {"plain", 0, 24, 500},
    {"full", FULL, 24, 500},
    {"aligned", ALIGNED, 12, 500},
    {"short-pins", SHORT_PINS, 16, 500},
    {"long-pins", LONG_PINS, 16, 500},
    {"long-and-short-pins", LONG_PINS | SHORT_PINS, 12, 500},
    {"jumble", JUMBLE | SHORT_PINS, 16, 400},
    {"jumble-aligned", JUMBLE | ALIGNED | LONG_PINS, 8, 400},
    {"wrap", WRAP | SHORT_PINS, 12, 500},
    {"tiny", TINY, 60, 200},
    {"tiny-pins", TINY | SHORT_PINS | LONG_PINS, 40, 200},
    {"tiny-wrap", TINY | WRAP | SHORT_PINS, 40, 200},
    {"commit", COMMIT, 8, 200},
    {"background", BACKGROUND | FULL, 8, 500},
    {"background-jumble", BACKGROUND | JUMBLE | SHORT_PINS, 8, 500},
};

/* ------------------------------------------------------------------------------------------------ calls */

static buffer *any_live(world *w) {
    return w->live_count ? &w->live[random_below(&w->random, w->live_count)] : NULL;
}

static void buffer_drop(buffer *list, unsigned *count, buffer *b) {
    *b = list[--*count];
}

static uint64_t any_size(world *w) {
    uint64_t free = model(w).free, granules;
    unsigned kind = (unsigned)random_below(&w->random, 100);
    if (kind < 3)
        return 0;
    if (kind < (w->flags & FULL ? 40 : 12))
        granules = free;
    else if (kind < 16 || (w->flags & FULL && kind < 46))
        granules = free + 1;
    else if (kind < 18)
        granules = w->capacity + random_below(&w->random, 2);
    else if (kind < 30)
        granules = random_below(&w->random, free + 2);
    else
        granules = 1 + random_below(&w->random, w->capacity / (kind < 40 ? 4 : 24) + 1);
    return granules ? GRANULES(granules) - random_below(&w->random, random_chance(&w->random, 50) ? SNUG_GRANULE : 1)
                    : 0;
}

/* Fills on any stream, so that its memory is in use on another than its last owner's. */
static bool use(world *w, buffer *b, bool write) {
    unsigned   s   = (unsigned)random_below(&w->random, STREAMS);
    client_job job = {.check = b->valid, .before = b->version, .id = w->step};
    for (unsigned i = 0; i < STREAMS; i++)
        if (i != s && (b->users & 1u << i))
            snug_host_stream_wait(w->native[s], w->native[i]);
    if (random_chance(&w->random, 4))
        job.dawdle_us = 1 + random_below(&w->random, 300);
    if (write) {
        job.put = b->valid = b->size;
        job.after = b->version = ++w->versions;
    }
    b->users = 1u << s;
    EXPECT_OK(client_launch(w->stream[s], w->native[s], b->handle, job));
    return true;
}

static bool streams_sync(world *w) {
    for (unsigned i = 0; i < STREAMS; i++)
        EXPECT_OK(snug_stream_sync(w->stream[i]));
    return true;
}

static bool do_quote(world *w, uint64_t size, snug_quotation *q) {
    *q = (snug_quotation){.struct_size = sizeof *q};
    EXPECT_OK(snug_quote(w->pool, size, q));
    return true;
}

static bool check_quote(world *w, const snug_quotation *q, snug_status status, const snug_stats *before) {
    snug_stats after = client_stats(w->pool);
    EXPECT(q->verdict == status, "quoted %s, was %s", snug_status_name(q->verdict), snug_status_name(status));
    /* steps of a plan plan anew, for less or for more; but never for more than sliding everything */
    uint64_t moved = after.moved_bytes - before->moved_bytes;
    EXPECT(status != SNUG_OK || (moved <= after.live_bytes + after.padding_bytes && (moved > 0) == (q->move_bytes > 0)),
           "quoted %" PRIu64 " bytes in %u moves, was %" PRIu64 " in %" PRIu64, q->move_bytes, q->moves,
           after.moved_bytes - before->moved_bytes, after.moves - before->moves);
    return true;
}

static bool check_new(world *w, const buffer *b) {
    for (unsigned i = 0; i < w->issued_count; i++)
        EXPECT(w->issued[i] != b->handle, "handle %" PRIx64 " comes back", b->handle);
    if (w->issued_count < ISSUED_MAX)
        w->issued[w->issued_count++] = b->handle;
    EXPECT(client_info(w->pool, b->handle).offset % b->alignment == 0, "offset %" PRIu64 ", alignment %" PRIu64,
           client_info(w->pool, b->handle).offset, b->alignment);
    return true;
}

static bool do_alloc(world *w) {
    snug_alloc_options options = snug_alloc_options_default();
    buffer             b       = {.size = any_size(w), .alignment = SNUG_GRANULE, .handle = 77};
    if (w->live_count + w->dying_count == BUFFERS_MAX)
        return true;
    if (w->flags & ALIGNED && random_chance(&w->random, 25))
        options.alignment = b.alignment = SNUG_GRANULE << random_below(&w->random, 5);
    if (w->flags & LONG_PINS && random_chance(&w->random, 10))
        options.flags = random_chance(&w->random, 50) ? SNUG_ALLOC_LONG_PINNED : SNUG_ALLOC_IMMOVABLE;
    if (random_chance(&w->random, 10))
        options.grows_to = b.size * 2;
    b.immovable           = options.flags & SNUG_ALLOC_IMMOVABLE;
    bool           quoted = !w->flags && options.grows_to == 0 && random_chance(&w->random, 20);
    snug_quotation quote;
    snug_stats     before;
    if (quoted) {
        if (!do_quote(w, b.size, &quote))
            return false;
        before = client_stats(w->pool);
    }
    uint64_t    need   = granules_of(b.size);
    snug_status status = snug_alloc(w->pool, b.size, &options, &b.handle);
    if (quoted && !check_quote(w, &quote, status, &before))
        return false;
    if (status == SNUG_HANDLES) {
        EXPECT(b.handle == 77, "written");
        EXPECT(w->flags & WRAP || w->live_count + w->dying_count >= w->options.handles_max, "%u live", w->live_count);
        if (w->largest_request < b.size) /* it has been asked for */
            w->largest_request = client_stats(w->pool).largest_request_bytes == b.size ? b.size : w->largest_request;
        return true;
    }
    EXPECT(w->options.handles_max == 0 || w->live_count < w->options.handles_max || status == SNUG_LIMIT, "%u live",
           w->live_count);
    if (w->largest_request < b.size)
        w->largest_request = b.size;
    if (need > w->capacity)
        EXPECT(status == SNUG_LIMIT, "%s for %" PRIu64, snug_status_name(status), need);
    else if (!check_verdict(w, status, need, b.alignment / SNUG_GRANULE - 1))
        return false;
    if (status != SNUG_OK) {
        EXPECT(b.handle == 77, "written");
        EXPECT(status != SNUG_PINNED || w->flags & ALIGNED || model(w).held || w->dying_count || stretch_free(w) < need,
               "a slide between pins would do: need %" PRIu64 ", of %" PRIu64 " free", need, model(w).free);
        return check_refusal(w, status, b.size, b.alignment);
    }
    w->granted++;
    if (b.size && random_chance(&w->random, 90)) {
        w->live[w->live_count++] = b;
        return check_new(w, &b) && use(w, &w->live[w->live_count - 1], true);
    }
    w->live[w->live_count++] = b;
    return check_new(w, &b);
}

static bool do_free(world *w) {
    buffer *b = any_live(w);
    if (!b)
        return true;
    EXPECT_OK(snug_free(w->pool, b->handle));
    EXPECT(snug_free(w->pool, b->handle) == SNUG_STALE, "a second free");
    if (b->pins || b->long_pins)
        w->dying[w->dying_count++] = *b;
    buffer_drop(w->live, &w->live_count, b);
    return true;
}

static bool do_resize(world *w) {
    buffer *b = any_live(w);
    if (!b)
        return true;
    uint64_t size =
        random_chance(&w->random, 40) ? b->size + GRANULES(random_below(&w->random, model(w).free + 2)) : any_size(w);
    uint64_t    old = granules_of(b->size), need = granules_of(size), moves = snug_moves(w->pool);
    snug_status status = snug_resize(w->pool, b->handle, size);
    if (w->largest_request < size) /* of a refused one it may be left open whether it was a request */
        w->largest_request = client_stats(w->pool).largest_request_bytes == size ? size : w->largest_request;
    if (b->pins || b->long_pins) {
        EXPECT(status == SNUG_BUSY || need == old || (status >= SNUG_LIMIT && status <= SNUG_DEVICE), "%s",
               snug_status_name(status));
    } else if (need > w->capacity) {
        EXPECT(status == SNUG_LIMIT, "%s", snug_status_name(status));
    } else if (need <= old) {
        EXPECT(status == SNUG_OK, "%s from %" PRIu64 " to %" PRIu64, snug_status_name(status), old, need);
    } else if (!b->immovable && !check_verdict(w, status, need - old, old ? 0 : b->alignment / SNUG_GRANULE - 1)) {
        return false;
    }
    if (status != SNUG_OK)
        return status == SNUG_BUSY || check_refusal(w, status, size, b->alignment);
    w->granted += size > b->size;
    b->size  = size;
    b->valid = b->valid < size ? b->valid : size;
    EXPECT(client_info(w->pool, b->handle).size == size, "%" PRIu64, client_info(w->pool, b->handle).size);
    EXPECT(!b->immovable || old == 0 || need == 0 || snug_moves(w->pool) >= moves, "moves went back");
    return true;
}

static bool do_use(world *w) {
    buffer *b = any_live(w);
    return !b || use(w, b, random_chance(&w->random, 60));
}

static bool do_transfer(world *w) {
    buffer  *b = any_live(w), *from = any_live(w);
    uint64_t bytes = b ? random_below(&w->random, b->size + 1) : 0, offset = b ? b->size - bytes : 0;
    if (!b || !streams_sync(w))
        return b == NULL;
    unsigned char *host = malloc(b->size + 1);
    snug_stream   *s    = w->stream[random_below(&w->random, STREAMS)];
    bool           same = true;
    snug_status    status;
    switch (random_below(&w->random, 3)) {
    case 0: /* a constant at the end, seen again by a read */
        b->valid = b->valid < offset ? b->valid : offset;
        status   = snug_fill(s, b->handle, offset, 0xa5, bytes);
        status   = status == SNUG_OK ? snug_read(s, b->handle, offset, host, bytes) : status;
        status   = status == SNUG_OK ? snug_stream_sync(s) : status;
        for (uint64_t i = 0; i < bytes; i++)
            same &= host[i] == 0xa5;
        break;
    case 1:
        pattern_put(host, b->size, ++w->versions);
        status     = snug_write(s, b->handle, 0, host, b->size);
        status     = status == SNUG_OK ? snug_stream_sync(s) : status;
        b->version = w->versions;
        b->valid   = b->size;
        break;
    default:
        bytes      = b == from ? 0 : b->size < from->valid ? b->size : from->valid;
        status     = snug_copy(s, b->handle, 0, from->handle, 0, bytes);
        status     = status == SNUG_OK ? snug_stream_sync(s) : status;
        b->version = b == from ? b->version : from->version;
        b->valid   = b == from ? b->valid : bytes;
    }
    b->users = from->users = 0;
    free(host);
    EXPECT(status == SNUG_OK && same, "%s, same %d", snug_status_name(status), same);
    return true;
}

static bool do_hold(world *w) {
    buffer *b = any_live(w);
    if (!b || !(w->flags & SHORT_PINS) || model(w).held > 3)
        return true;
    void *address;
    if (!b->pins)
        b->pin_stream = (unsigned)random_below(&w->random, STREAMS);
    EXPECT_OK(snug_resolve(w->stream[b->pin_stream], &b->handle, 1, NULL, &address));
    EXPECT(!(b->pins || b->long_pins) || (char *)address == b->address, "moved while pinned: %p, was %p", address,
           (void *)b->address);
    b->address = address;
    b->pins++;
    return true;
}

static bool unhold(world *w, buffer *b) {
    while (b->pins) {
        EXPECT_OK(snug_release(w->stream[b->pin_stream], &b->handle, 1, NULL));
        b->pins--;
    }
    return true;
}

static bool unpin(world *w, buffer *b) {
    while (b->long_pins) { /* what it was used for outside a resolve */
        unsigned   s    = (unsigned)random_below(&w->random, STREAMS);
        client_job job  = {.at = b->address, .put = b->size, .after = ++w->versions};
        bool       used = random_chance(&w->random, 50);
        for (unsigned i = 0; i < STREAMS; i++)
            if (b->users & 1u << i)
                snug_host_stream_wait(w->native[s], w->native[i]);
        if (used) {
            snug_host_launch(w->native[s], client_job_run, &job, sizeof job);
            b->version = w->versions;
            b->valid   = b->size;
            b->users   = 1u << s;
        }
        EXPECT_OK(snug_unpin(w->pool, &b->handle, 1, &w->stream[s], used));
        b->long_pins--;
    }
    return true;
}

static bool do_release(world *w) {
    bool    dying = w->dying_count && random_chance(&w->random, 50);
    buffer *b     = dying ? &w->dying[random_below(&w->random, w->dying_count)] : any_live(w);
    if (!b)
        return true;
    if (!unhold(w, b) || !unpin(w, b))
        return false;
    if (dying)
        buffer_drop(w->dying, &w->dying_count, b);
    return true;
}

static bool do_pin(world *w) {
    buffer *b = any_live(w);
    if (!b || !(w->flags & LONG_PINS) || model(w).long_held > 4 || !streams_sync(w))
        return true;
    void *address;
    EXPECT_OK(snug_pin(w->pool, &b->handle, 1, &address));
    EXPECT(!(b->pins || b->long_pins) || (char *)address == b->address, "moved while pinned: %p", address);
    b->address = address;
    b->long_pins++;
    EXPECT(pattern_differs(address, b->valid, b->version) == UINT64_MAX, "seen by the host: wrong bytes at %" PRIu64,
           pattern_differs(address, b->valid, b->version));
    return true;
}

static bool do_compact(world *w) {
    snug_budget         budget = {0, 0, 0};
    snug_compact_result result = {.struct_size = sizeof result};
    if (random_chance(&w->random, 70))
        budget.bytes_max = GRANULES(1 + random_below(&w->random, w->capacity / 4 + 1));
    if (random_chance(&w->random, 50))
        budget.moves_max = 1 + (uint32_t)random_below(&w->random, 4);
    EXPECT_OK(snug_compact(w->pool, &budget, &result));
    EXPECT(!budget.bytes_max || result.moved_bytes <= budget.bytes_max || w->flags & BACKGROUND,
           "%" PRIu64 " of %" PRIu64, result.moved_bytes, budget.bytes_max);
    EXPECT(!budget.moves_max || result.moves <= budget.moves_max || w->flags & JUMBLE, "%u of %u", result.moves,
           budget.moves_max);
    if (w->flags || random_chance(&w->random, 50))
        return true;
    for (unsigned i = 0; i < 1000 && result.state != SNUG_COMPACT_DONE;
         i++) { /* nothing stands in its way but unfinished work */
        if (result.state == SNUG_COMPACT_BLOCKED && (!streams_sync(w) || usleep(200) != 0))
            return false;
        EXPECT_OK(snug_compact(w->pool, NULL, &result));
    }
    EXPECT(result.state == SNUG_COMPACT_DONE, "state %d, largest %" PRIu64 " of %" PRIu64, (int)result.state,
           result.largest_hole_bytes, result.free_bytes);
    EXPECT(result.largest_hole_bytes == result.free_bytes, "%" PRIu64 " of %" PRIu64, result.largest_hole_bytes,
           result.free_bytes);
    return true;
}

static bool do_trim(world *w) {
    uint64_t returned, keep = random_below(&w->random, 2) * random_below(&w->random, GRANULES(w->capacity));
    EXPECT_OK(snug_trim(w->pool, keep, &returned));
    return true;
}

static bool do_stale(world *w) {
    if (!w->issued_count)
        return true;
    snug_handle handle  = w->issued[random_below(&w->random, w->issued_count)];
    void       *address = w;
    for (unsigned i = 0; i < w->live_count; i++)
        if (w->live[i].handle == handle)
            return true;
    EXPECT(snug_resolve(w->stream[0], &handle, 1, NULL, &address) == SNUG_STALE, "resolve");
    EXPECT(snug_free(w->pool, handle) == SNUG_STALE && snug_resize(w->pool, handle, 1) == SNUG_STALE, "free, resize");
    EXPECT(snug_pin(w->pool, &handle, 1, &address) == SNUG_STALE, "pin");
    return true;
}

static bool check_all(world *w) {
    for (unsigned i = 0; i < w->live_count; i++)
        if (!use(w, &w->live[i], false))
            return false;
    return streams_sync(w);
}

/* ------------------------------------------------------------------------------------------------ a run */

static const struct call {
    bool (*make)(world *w);
    const char *name;
    unsigned    weight;
} calls[] = {{do_alloc, "alloc", 32},      {do_free, "free", 20}, {do_resize, "resize", 16}, {do_use, "use", 14},
             {do_transfer, "transfer", 3}, {do_hold, "hold", 6},  {do_pin, "pin", 3},        {do_release, "release", 6},
             {do_compact, "compact", 4},   {do_trim, "trim", 1},  {do_stale, "stale", 3}};

static bool world_open(world *w) {
    snug_pool_options *o         = &w->options;
    *o                           = snug_pool_options_default();
    w->doing                     = "open";
    static const uint64_t most[] = {8, 64, 512, 4096};
    w->capacity                  = w->flags & TINY     ? 1 + random_below(&w->random, 8)
                                   : w->flags & COMMIT ? 16384 + random_below(&w->random, 32768)
                                                       : 1 + random_below(&w->random, most[random_below(&w->random, 4)]);
    o->capacity                  = GRANULES(w->capacity) + random_below(&w->random, SNUG_GRANULE);
    o->handles_max               = w->flags & TINY ? 1 + (uint32_t)random_below(&w->random, 4) : 0;
    o->generation_first          = w->flags & WRAP ? UINT32_MAX - (uint32_t)random_below(&w->random, 4) : 0;
    o->commit_bytes              = w->flags & COMMIT ? SNUG_GRANULE : 0;
    o->jumble                    = (w->flags & JUMBLE) != 0;
    o->pin_wait_ns               = 20000;
    o->log_level                 = SNUG_LOG_OFF;
    EXPECT_OK(snug_pool_create(o, &w->pool));
    w->bounce = client_stats(w->pool).bounce_bytes;
    for (unsigned i = 0; i < STREAMS; i++) {
        EXPECT_OK(snug_host_stream_create(&w->native[i]));
        EXPECT_OK(snug_stream_attach(w->pool, w->native[i], &w->stream[i]));
    }
    if (w->flags & BACKGROUND) {
        snug_compactor_options c = snug_compactor_options_default();
        c.start_fragmentation    = 0.01;
        c.stop_fragmentation     = 0.005;
        c.floor_bytes            = 1;
        c.interval_ns            = 20000;
        c.cooldown_ns            = 1000;
        c.duty_max               = 1;
        c.step.bytes_max         = GRANULES(1 + w->capacity / 16);
        EXPECT_OK(snug_compactor_start(w->pool, &c));
    }
    return true;
}

static bool world_end(world *w) {
    w->doing = "end";
    while (w->dying_count) {
        if (!unhold(w, &w->dying[0]) || !unpin(w, &w->dying[0]))
            return false;
        buffer_drop(w->dying, &w->dying_count, &w->dying[0]);
    }
    for (unsigned i = 0; i < w->live_count; i++)
        if (!unhold(w, &w->live[i]) || !unpin(w, &w->live[i]))
            return false;
    if (!check_stats(w) || !check_all(w))
        return false;
    while (w->live_count)
        if (!do_free(w))
            return false;
    snug_handle all    = SNUG_HANDLE_NONE;
    snug_status status = snug_alloc(w->pool, GRANULES(w->capacity), NULL, &all);
    EXPECT(status == SNUG_OK || (status == SNUG_HANDLES && w->flags & WRAP), "all of it: %s", snug_status_name(status));
    w->granted += status == SNUG_OK;
    if (w->largest_request < GRANULES(w->capacity))
        w->largest_request = GRANULES(w->capacity);
    EXPECT(status != SNUG_OK || snug_free(w->pool, all) == SNUG_OK, "all of it can't be freed");
    return check_stats(w);
}

static bool steps(world *w, unsigned n) {
    unsigned total = 0;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        total += calls[i].weight;
    for (w->step = 1; w->step <= n; w->step++) {
        uint64_t           drawn = random_below(&w->random, total);
        const struct call *call  = calls;
        while (drawn >= call->weight)
            drawn -= call++->weight;
        w->doing = call->name;
        if (!call->make(w) || !check_stats(w))
            return false;
        w->doing = "jumble";
        if (w->flags & JUMBLE && !(w->flags & BACKGROUND))
            EXPECT_OK(snug_compact(w->pool, NULL, NULL));
        if (w->step % 64 == 0 && (!check_all(w) || !check_stats(w)))
            return false;
    }
    return true;
}

static bool run_one(uint64_t seed, const struct mode *mode, unsigned run) {
    world *w        = calloc(1, sizeof *w);
    w->random.state = seed * 1000003 + run;
    w->flags        = mode->flags;
    bool held       = world_open(w) && steps(w, mode->steps) && world_end(w);
    if (!held)
        diag("replay: property %" PRIu64 " %s %u", seed, mode->name, run);
    snug_status status = w->pool ? snug_pool_destroy(w->pool) : SNUG_OK;
    if (status != SNUG_OK)
        held = fault(w, __LINE__, "destroy", "%s", snug_status_name(status));
    for (unsigned i = 0; i < STREAMS; i++)
        if (w->native[i])
            snug_host_stream_destroy(w->native[i]);
    atomic_store(&client_faults, 0);
    free(w);
    return held;
}

int main(int argc, char **argv) {
    uint64_t seed = client_seed(argc, argv);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        const struct mode *mode = &modes[i];
        if (argc > 2 && strcmp(argv[2], mode->name) != 0)
            continue;
        unsigned runs = (unsigned)tap_scaled(mode->runs), first = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 0) : 0,
                 bad = 0;
        for (unsigned run = first; run < (argc > 3 ? first + 1 : runs) && bad < 3; run++)
            bad += !run_one(seed, mode, run);
        ok(bad == 0, "%s: %u runs of %u steps", mode->name, runs, mode->steps);
    }
    return done_testing();
}
