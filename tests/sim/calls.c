/* calls.c - of simulation runs: what clients do with buffers, each call's outcome compared with the model's. */
#include "world.h"

#include <math.h>

snug_handle_info info_of(world *w, arena *a, snug_handle handle) {
    snug_handle_info info = {.struct_size = sizeof info};
    (void)w;
    if (snug_handle_info_get(a->pool, handle, &info) != SNUG_OK)
        info.pins = UINT32_MAX;
    return info;
}

/* An attached stream, from s on. */
static bool stream_pick(const world *w, const arena *a, unsigned *s) {
    for (unsigned i = 0; i < w->streams; i++, *s = (*s + 1) % w->streams)
        if (a->stream[*s])
            return true;
    return false;
}

static buffer *live_at(arena *a, uint32_t slot) {
    buffer *b = &a->buffers[slot % a->slots];
    return b->state == LIVE ? b : NULL;
}

/* ------------------------------------------------------------------------------------------------ lists */

void held_update(arena *a, buffer *b) {
    uint32_t slot = (uint32_t)(b - a->buffers), at = 0;
    while (at < a->held_count && a->held[at] != slot)
        at++;
    bool held = b->state != NOBODY && (b->holds || b->long_pins);
    if (held && at == a->held_count)
        a->held[a->held_count++] = slot;
    else if (!held && at < a->held_count)
        a->held[at] = a->held[--a->held_count];
}

static void unlist(arena *a, buffer *b) {
    a->live[b->live_at]                     = a->live[--a->live_count];
    a->buffers[a->live[b->live_at]].live_at = b->live_at;
}

/* Freed while held, it can still be let go, and nothing else. */
static bool check_dying(world *w, arena *a, const buffer *b, unsigned s) {
    void       *address = w;
    snug_access read    = SNUG_READ;
    w->calls += 4;
    EXPECT(snug_free(a->pool, b->handle) == SNUG_STALE, "a second free");
    EXPECT(snug_resize(a->pool, b->handle, b->size + 1) == SNUG_STALE, "a dying buffer is resized");
    EXPECT(snug_pin(a->pool, &b->handle, 1, &address) == SNUG_STALE, "a dying buffer is pinned");
    if (stream_pick(w, a, &s))
        EXPECT(snug_resolve(a->stream[s], &b->handle, 1, &read, &address) == SNUG_STALE && !address,
               "a dying buffer is resolved");
    return true;
}

/* Its bytes are free, its handle dead for good. */
void buffer_gone(arena *a, buffer *b) {
    model_count(a, b, false);
    if (b->state == LIVE)
        unlist(a, b);
    a->retired += (uint32_t)(b->handle >> 24) == UINT32_MAX; /* the last generation of its entry */
    a->dead[a->dead_count++ % DEAD_MAX] = b->handle;
    b->state                            = NOBODY;
    held_update(a, b);
}

/* ------------------------------------------------------------------------------------------------ alloc, free */

uint64_t size_draw(arena *a, dice *d) {
    uint64_t free = model_free(a), r = below(d, 100), granules;
    if (r < 2)
        return 0;
    if (r < 8)
        granules = free;
    else if (r < 11)
        granules = free + 1;
    else if (r < 12)
        granules = a->capacity + below(d, 2);
    else if (r < 18)
        granules = below(d, free + 2);
    else {
        double most = log2((double)GRANULES(a->capacity) / (r < 40 ? 2 : r < 70 ? 16 : 64));
        double bits = (double)(roll(d) >> 11) * 0x1p-53 * (most > 9 ? most : 9);
        return (uint64_t)exp2(bits);
    }
    return granules ? GRANULES(granules) - below(d, chance(d, 50) ? SNUG_GRANULE : 1) : 0;
}

bool alloc_into(world *w, arena *a, buffer *b, uint64_t size, const snug_alloc_options *o, snug_status *status) {
    snug_handle handle = 77;
    *status            = snug_alloc(a->pool, size, o, &handle);
    w->calls++;
    note(w, "alloc %" PRIu64 " bytes, alignment %" PRIu64 ", flags %u: %s", size, o->alignment, o->flags,
         snug_status_name(*status));
    if (!check_alloc(w, a, *status, size, o))
        return false;
    EXPECT((*status == SNUG_OK) != (handle == 77), "handle %" PRIx64 " after %s", handle, snug_status_name(*status));
    if (*status != SNUG_OK)
        return true;
    *b                       = (buffer){.state     = LIVE,
                                        .handle    = handle,
                                        .number    = ++w->numbers,
                                        .size      = size,
                                        .flags     = o->flags,
                                        .writer    = -1,
                                        .alignment = o->alignment > SNUG_GRANULE ? o->alignment : SNUG_GRANULE,
                                        .live_at   = a->live_count,
                                        .home      = (unsigned)(w->numbers * 7 % w->streams)};
    a->live[a->live_count++] = (uint32_t)(b - a->buffers);
    model_count(a, b, true);
    for (uint64_t i = 0; i < DEAD_MAX && i < a->dead_count; i++)
        EXPECT(a->dead[i] != handle, "handle %" PRIx64 " comes back", handle);
    return true;
}

static bool do_alloc(world *w, arena *a, op o, dice *d) {
    buffer            *b       = &a->buffers[o.slot % a->slots];
    snug_alloc_options options = snug_alloc_options_default();
    snug_status        status;
    uint64_t           size = size_draw(a, d);
    if (b->state != NOBODY)
        return true;
    if (w->alignments && chance(d, 25))
        options.alignment = UINT64_C(1) << below(d, a->capacity > 65536 ? 22 : 13);
    if (w->long_pins && a->sum.fixed < HELD_MAX && chance(d, 8))
        options.flags = 1u << below(d, 2);
    if (chance(d, 3))
        options.flags |= SNUG_ALLOC_SETTLED;
    if (chance(d, 10))
        options.grows_to = size * 2;
    if (chance(d, 5))
        options.wait_ns = 5000;
    if (chance(d, 30))
        options.tag = (const char *[]){"kv", "weights", "scratch"}[below(d, 3)];
    return alloc_into(w, a, b, size, &options, &status);
}

bool do_free(world *w, arena *a, op o, dice *d) {
    buffer *b = live_at(a, o.slot);
    if (!b)
        return true;
    uint64_t offset = info_of(w, a, b->handle).offset;
    EXPECT_OK(snug_free(a->pool, b->handle));
    if (chance(d, 25))
        EXPECT((w->calls++, snug_free(a->pool, b->handle)) == SNUG_STALE, "a second free");
    if (!b->holds && !b->long_pins) {
        buffer_gone(a, b);
        return true;
    }
    model_count(a, b, false);
    unlist(a, b);
    b->state  = DYING;
    b->offset = offset;
    model_count(a, b, true);
    return w->armed || chance(d, 75) || check_dying(w, a, b, o.stream % w->streams);
}

bool do_resize(world *w, arena *a, op o, dice *d) {
    buffer *b = live_at(a, o.slot);
    if (!b)
        return true;
    uint64_t    size   = chance(d, 40) ? b->size + GRANULES(below(d, model_free(a) + 2)) : size_draw(a, d);
    snug_status status = snug_resize(a->pool, b->handle, size);
    w->calls++;
    note(w, "resize %" PRIu64 " to %" PRIu64 " bytes: %s", b->size, size, snug_status_name(status));
    if (!check_resize(w, a, b, status, size))
        return false;
    if (status != SNUG_OK)
        return true;
    model_count(a, b, false);
    segments_clear(b, size, UINT64_MAX);
    if (granules_of(size) == 0 || granules_of(b->size) == 0)
        b->address = NULL;
    b->size = size;
    model_count(a, b, true);
    EXPECT(atomic_load(&a->pool->state) == SNUG__POOL_LOST || info_of(w, a, b->handle).size == size, "size %" PRIu64,
           info_of(w, a, b->handle).size);
    return true;
}

/* ------------------------------------------------------------------------------------------------ launches */

static bool release_all(world *w, arena *a, unsigned s, const snug_handle *handles, size_t n,
                        const snug_access *access) {
    snug_status status = snug_release(a->stream[s], handles, n, access);
    w->calls++;
    if (status != SNUG_OK && struck(w, status) && status != SNUG_LOST) { /* all stay pinned: once more */
        status = snug_release(a->stream[s], handles, n, access);
        w->calls++;
    }
    EXPECT(status == SNUG_OK || struck(w, status), "release: %s", snug_status_name(status));
    return true;
}

static bool do_launch(world *w, arena *a, op o, dice *d) {
    buffer     *b[LAUNCH_MAX];
    snug_handle handles[LAUNCH_MAX];
    snug_access access[LAUNCH_MAX];
    void       *addresses[LAUNCH_MAX];
    size_t      want = chance(d, 60) ? 1 : 1 + below(d, LAUNCH_MAX), n = 0;
    unsigned    s = o.stream % w->streams;
    if (!stream_pick(w, a, &s))
        return true;
    for (size_t i = 0; i < want; i++) {
        b[n] = live_at(a, i ? o.slot + (uint32_t)roll(d) % 16 : o.slot);
        if (!b[n])
            continue;
        handles[n]  = b[n]->handle;
        access[n++] = chance(d, 55) ? SNUG_WRITE : SNUG_READ;
    }
    for (size_t i = 0; i < n; i++) /* one that occurs twice is asked for alike */
        for (size_t k = 0; k < i; k++)
            if (b[k] == b[i])
                access[i] = access[k];
    if (!n)
        return true;
    bool first = chance(d, 50); /* what the clients order among themselves may come before the resolve or after */
    for (size_t i = 0; first && i < n; i++)
        if (!order_use(w, b[i], s, access[i] == SNUG_WRITE))
            return false;
    EXPECT_OK(snug_resolve(a->stream[s], handles, n, access, addresses));
    for (size_t i = 0; i < n; i++)
        if (!check_address(w, a, b[i], addresses[i]))
            return false;
    for (size_t i = 0; !first && i < n; i++)
        if (!order_use(w, b[i], s, access[i] == SNUG_WRITE))
            return false;
    if (!launch(w, d, s, b, (char *const *)addresses, access, n, true))
        return false;
    return release_all(w, a, s, handles, n, access);
}

static bool do_hold(world *w, arena *a, op o, dice *d) {
    buffer  *b = live_at(a, o.slot);
    unsigned s = o.stream % w->streams;
    void    *address;
    if (!b || !stream_pick(w, a, &s) || (!b->holds && !b->long_pins && a->held_count == HELD_MAX))
        return true;
    if (!b->holds) {
        b->hold_stream = s;
        b->hold_access = chance(d, 50) ? SNUG_WRITE : SNUG_READ;
    }
    s = b->hold_stream;
    EXPECT_OK(snug_resolve(a->stream[s], &b->handle, 1, &b->hold_access, &address));
    if (!check_address(w, a, b, address))
        return false;
    model_count(a, b, false);
    b->holds++;
    model_count(a, b, true);
    held_update(a, b);
    char *at = address;
    return order_use(w, b, s, b->hold_access == SNUG_WRITE) && launch(w, d, s, &b, &at, &b->hold_access, 1, true);
}

bool buffer_release(world *w, arena *a, buffer *b) {
    snug_status status = snug_release(a->stream[b->hold_stream], &b->handle, 1, &b->hold_access);
    w->calls++;
    if (status != SNUG_OK && struck(w, status))
        return true;
    EXPECT(status == SNUG_OK, "release of a %s buffer: %s", b->state == DYING ? "dying" : "live",
           snug_status_name(status));
    model_count(a, b, false);
    b->holds--;
    model_count(a, b, true);
    if (b->state == DYING && !b->holds && !b->long_pins)
        buffer_gone(a, b);
    held_update(a, b);
    return true;
}

static bool do_release(world *w, arena *a, op o, dice *d) {
    (void)d;
    buffer *b = &a->buffers[o.slot % a->slots];
    if (b->state == NOBODY || !b->holds)
        return true;
    return buffer_release(w, a, b);
}

static bool do_pin(world *w, arena *a, op o, dice *d) {
    buffer *b = live_at(a, o.slot);
    void   *address;
    (void)d;
    if (!b || (!b->holds && !b->long_pins && a->held_count == HELD_MAX))
        return true;
    EXPECT_OK(snug_pin(a->pool, &b->handle, 1, &address));
    if (!check_address(w, a, b, address))
        return false;
    model_count(a, b, false);
    b->long_pins++;
    model_count(a, b, true);
    held_update(a, b);
    return true;
}

/* A use by the address alone, as of a captured graph. */
static bool do_raw(world *w, arena *a, op o, dice *d) {
    buffer     *b      = &a->buffers[o.slot % a->slots];
    unsigned    s      = o.stream % w->streams;
    snug_access access = chance(d, 60) ? SNUG_WRITE : SNUG_READ;
    if (b->state == NOBODY || !b->long_pins || !b->address || !stream_pick(w, a, &s))
        return true;
    b->raw |= set_of(s);
    return order_use(w, b, s, access == SNUG_WRITE) && launch(w, d, s, &b, &b->address, &access, 1, false);
}

bool buffer_unpin(world *w, arena *a, buffer *b, bool all) {
    snug_stream *used[STREAMS_MAX];
    size_t       n = 0;
    for (unsigned i = 0; i < w->streams; i++)
        if (b->raw & set_of(i))
            used[n++] = a->stream[i];
    do {
        snug_status status = snug_unpin(a->pool, &b->handle, 1, used, n);
        w->calls++;
        if (status != SNUG_OK && struck(w, status))
            return true;
        EXPECT(status == SNUG_OK, "unpin of a %s buffer: %s", b->state == DYING ? "dying" : "live",
               snug_status_name(status));
        n = 0;
        model_count(a, b, false);
        b->long_pins--;
        model_count(a, b, true);
    } while (all && b->long_pins);
    b->raw = 0;
    if (b->state == DYING && !b->holds && !b->long_pins)
        buffer_gone(a, b);
    held_update(a, b);
    return true;
}

static bool do_unpin(world *w, arena *a, op o, dice *d) {
    buffer *b = &a->buffers[o.slot % a->slots];
    if (b->state == NOBODY || !b->long_pins)
        return true;
    return buffer_unpin(w, a, b, chance(d, 50));
}

/* ------------------------------------------------------------------------------------------------ transfers */

/* After a transfer that failed, on purpose or not: whether it runs is open, but nothing is left pinned. */
static bool transfer_failed(world *w, arena *a, const buffer *b) {
    uint32_t pins = w->lost ? 0 : info_of(w, a, b->handle).pins;
    EXPECT(w->lost || pins == b->holds + (b->long_pins > 0), "%u pins", pins);
    return true;
}

static bool do_copy(world *w, arena *a, unsigned s, buffer *to, buffer *from, dice *d) {
    uint64_t most  = to->size < from->size ? to->size : from->size;
    uint64_t bytes = below(d, most + 1), at = below(d, to->size - bytes + 1), origin = below(d, from->size - bytes + 1);
    bool     overlap = to == from && bytes && at < origin + bytes && origin < at + bytes;
    if (!segments_room(to) && to->segments > 0)
        segments_clear(to, 0, to->size);
    if (!order_use(w, to, s, true) || (to != from && !order_use(w, from, s, false)))
        return false;
    snug_status status = snug_copy(a->stream[s], to->handle, at, from->handle, origin, bytes);
    w->calls++;
    if (status != SNUG_OK && struck(w, status)) {
        segments_clear(to, at, at + bytes);
        return transfer_failed(w, a, to) && transfer_failed(w, a, from);
    }
    EXPECT(status == (overlap ? SNUG_INVALID : SNUG_OK), "copy: %s", snug_status_name(status));
    if (overlap && !(transfer_failed(w, a, to) && transfer_failed(w, a, from)))
        return false;
    if (status == SNUG_OK)
        segments_copy(to, at, from, origin, bytes);
    return true;
}

static bool do_transfer(world *w, arena *a, op o, dice *d) {
    buffer  *b = live_at(a, o.slot), *from = live_at(a, o.slot + (uint32_t)roll(d) % 16);
    unsigned s = o.stream % w->streams, what = (unsigned)below(d, 5);
    if (!b || !stream_pick(w, a, &s))
        return true;
    if (what == 3)
        return from == NULL || do_copy(w, a, s, b, from, d);
    if (what == 4) {
        uint64_t beyond = b->size + 1 + below(d, 99);
        w->calls++;
        snug_status status = snug_fill(a->stream[s], b->handle, below(d, beyond), 0, beyond);
        EXPECT(status == SNUG_RANGE || struck(w, status), "beyond the end: %s", snug_status_name(status));
        return transfer_failed(w, a, b);
    }
    uint64_t most  = what != 2 && b->size > TRANSFER_MAX ? TRANSFER_MAX : b->size;
    uint64_t bytes = below(d, most + 1), at = below(d, b->size - bytes + 1);
    bool     write = what != 1;
    if (write && !segments_room(b)) /* no new part fits into what is kept of it */
        segments_clear(b, 0, b->size);
    if (!order_use(w, b, s, write))
        return false;
    segment     put    = {at, at + bytes, 0, 0, 0};
    snug_status status = SNUG_OK;
    if (what == 0) {
        memcpy(w->host, &w->step, sizeof w->step);
        put.id = snug_sim_hash(w->host, bytes);
        status = snug_write(a->stream[s], b->handle, at, w->host, bytes);
    } else if (what == 1) {
        status = snug_read(a->stream[s], b->handle, at, w->host, bytes);
    } else {
        int byte = (int)below(d, 256);
        put.id   = SNUG_SIM_FILL(byte);
        status   = snug_fill(a->stream[s], b->handle, at, byte, bytes);
    }
    w->calls++;
    if (status != SNUG_OK && struck(w, status)) {
        if (write)
            segments_clear(b, at, at + bytes);
        return transfer_failed(w, a, b);
    }
    EXPECT(status == SNUG_OK, "transfer %u of %" PRIu64 " bytes: %s", what, bytes, snug_status_name(status));
    if (write)
        segments_put(b, put);
    return true;
}

/* ------------------------------------------------------------------------------------------------ wrong handles */

static bool check_refused(world *w, arena *a, snug_handle handle, snug_status expected, unsigned s) {
    void       *addresses[2] = {w, w};
    snug_status status       = snug_free(a->pool, handle);
    EXPECT(status == expected, "free: %s, expected %s", snug_status_name(status), snug_status_name(expected));
    status = snug_resize(a->pool, handle, 1);
    EXPECT(status == expected, "resize: %s", snug_status_name(status));
    status = snug_pin(a->pool, &handle, 1, addresses);
    EXPECT(status == expected, "pin: %s", snug_status_name(status));
    status = snug_unpin(a->pool, &handle, 1, NULL, 0);
    EXPECT(status == expected, "unpin: %s", snug_status_name(status));
    status = snug_resolve(a->stream[s], &handle, 1, NULL, addresses);
    EXPECT(status == expected && !addresses[0], "resolve: %s", snug_status_name(status));
    w->calls += 5;
    if (!a->live_count)
        return true;
    buffer     *b          = &a->buffers[a->live[w->step % a->live_count]]; /* all or nothing */
    snug_handle handles[2] = {b->handle, handle};
    uint32_t    pins       = info_of(w, a, b->handle).pins;
    addresses[0]           = w;
    status                 = snug_resolve(a->stream[s], handles, 2, NULL, addresses);
    w->calls++;
    EXPECT((status == expected || struck(w, status)) && !addresses[0], "resolve of two: %s", snug_status_name(status));
    EXPECT(info_of(w, a, b->handle).pins == pins, "a failed resolve has left a pin");
    return true;
}

bool do_stale(world *w, arena *a, op o, dice *d) {
    unsigned s     = o.stream % w->streams;
    arena   *other = &w->arena[(a - w->arena + 1) % w->arenas];
    if (!stream_pick(w, a, &s) || w->armed)
        return true;
    buffer *b = live_at(a, o.slot), *theirs = live_at(other, o.slot);
    switch (below(d, 4)) {
    case 0:
        return !a->dead_count ||
               check_refused(w, a, a->dead[below(d, a->dead_count < DEAD_MAX ? a->dead_count : DEAD_MAX)], SNUG_STALE,
                             s);
    case 1:
        if (other != a && theirs)
            return check_refused(w, a, theirs->handle, SNUG_FOREIGN, s);
        return !a->foreign_count ||
               check_refused(w, a, a->foreign[below(d, a->foreign_count < DEAD_MAX ? a->foreign_count : DEAD_MAX)],
                             SNUG_FOREIGN, s);
    case 2: return check_refused(w, a, SNUG_HANDLE_NONE, SNUG_UNKNOWN, s);
    default: /* a generation yet to come */
        if (!b || (uint32_t)(b->handle >> 24) == UINT32_MAX)
            return true;
        return check_refused(w, a, b->handle + (UINT64_C(1) << 24), SNUG_UNKNOWN, s);
    }
}

/* ------------------------------------------------------------------------------------------------ all of them */

static bool do_quote(world *w, arena *a, op o, dice *d);

bool op_apply(world *w, op o) {
    static bool (*const table[KINDS])(world *, arena *, op, dice *) = {[OP_ALLOC]      = do_alloc,
                                                                       [OP_FREE]       = do_free,
                                                                       [OP_RESIZE]     = do_resize,
                                                                       [OP_LAUNCH]     = do_launch,
                                                                       [OP_HOLD]       = do_hold,
                                                                       [OP_RELEASE]    = do_release,
                                                                       [OP_PIN]        = do_pin,
                                                                       [OP_RAW]        = do_raw,
                                                                       [OP_UNPIN]      = do_unpin,
                                                                       [OP_TRANSFER]   = do_transfer,
                                                                       [OP_STALE]      = do_stale,
                                                                       [OP_COMPACT]    = do_compact,
                                                                       [OP_TRIM]       = do_trim,
                                                                       [OP_QUOTE]      = do_quote,
                                                                       [OP_COMPACTION] = do_compaction,
                                                                       [OP_ATTACH]     = do_attach,
                                                                       [OP_RESTREAM]   = do_restream,
                                                                       [OP_REPOOL]     = do_repool,
                                                                       [OP_SYNC]       = do_sync,
                                                                       [OP_FAULT]      = do_fault,
                                                                       [OP_CANCEL]     = do_cancel,
                                                                       [OP_STALL_STEP] = do_stall_step};
    arena *a                                                        = &w->arena[o.arena % w->arenas];
    dice   d                                                        = {o.r};
    w->doing                                                        = o;
    if (w->trace) {
        char text[128];
        op_describe(&o, text, sizeof text);
        printf("# step %" PRIu64 ": %s\n", w->step, text);
    }
    return table[o.kind](w, a, o, &d);
}

/* What is quoted is what then happens. */
static bool do_quote(world *w, arena *a, op o, dice *d) {
    snug_alloc_options options = snug_alloc_options_default();
    snug_quotation     q       = {.struct_size = sizeof q};
    buffer            *b       = &a->buffers[o.slot % a->slots];
    uint64_t           size    = size_draw(a, d);
    EXPECT_OK(snug_quote(a->pool, size, &q));
    if (b->state != NOBODY || a->held_count || a->dying_count || a->sum.fixed || a->sum.slack ||
        a->options.demand_bytes_max || w->armed || a->options.handles_max)
        return true;
    snug_stats  before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};
    snug_status status;
    snug_stats_get(a->pool, &before);
    if (!alloc_into(w, a, b, size, &options, &status))
        return false;
    snug_stats_get(a->pool, &after);
    EXPECT(q.verdict == status, "quoted %s, was %s", snug_status_name(q.verdict), snug_status_name(status));
    /* steps of a plan plan anew, for less or for more; but never for more than sliding everything */
    uint64_t moved = after.moved_bytes - before.moved_bytes;
    EXPECT(status != SNUG_OK || (moved <= GRANULES(a->sum.live) && (moved > 0) == (q.move_bytes > 0)),
           "quoted %u moves of %" PRIu64 " bytes, was %" PRIu64 " of %" PRIu64, q.moves, q.move_bytes,
           after.moves - before.moves, after.moved_bytes - before.moved_bytes);
    return true;
}
