/* pools.c - of simulation runs: what is done with whole pools, streams, the compactor and the machine. */
#include "world.h"

#include "compactor.h"
#include "options.h"

/* ------------------------------------------------------------------------------------------------ pools */

static snug_status pool_create(world *w, arena *a) {
    snug__settings settings;
    if (!w->row)
        return snug_pool_create(&a->options, &a->pool);
    snug_status status = snug__settings_make(&a->options, NULL, &settings);
    return status == SNUG_OK ? snug__pool_create_on(w->row, &settings.pool, &a->pool) : status;
}

static void options_draw(world *w, arena *a, dice *d) {
    snug_pool_options *o = &a->options;
    *o                   = snug_pool_options_default();
    o->device            = "sim";
    o->device_index      = w->mode == LARGE ? SNUG_SIM_H200 : (int)below(d, SNUG_SIM_PROFILES);
    uint64_t memory      = snug_sim_profile_get(o->device_index)->memory_bytes;
    switch (w->mode == LARGE ? 4 : w->mode == TINY ? 3 : below(d, 3)) {
    case 0: o->capacity = GRANULES(16 + below(d, 4080)); break;
    case 1: o->capacity = MiB * (1 + below(d, 256)); break;
    case 2: o->capacity = UINT64_C(1) << (12 + below(d, 22)); break;
    case 3: o->capacity = GRANULES(1 + below(d, 8)) + below(d, SNUG_GRANULE); break;
    default: o->capacity = memory; break;
    }
    o->handles_max = w->mode == TINY   ? 1 + (uint32_t)below(d, 4)
                     : w->mode == WRAP ? a->slots / 2 + (uint32_t)below(d, a->slots)
                                       : 0;
    o->generation_first =
        w->mode == WRAP || (w->mode == TINY && chance(d, 30)) ? UINT32_MAX - (uint32_t)below(d, 6) : 0;
    o->commit_bytes     = chance(d, 40) ? SNUG_GRANULE : 0;
    o->bounce_bytes     = chance(d, 50) ? GRANULES(1 + below(d, 8)) : 0;
    o->jumble           = w->mode == JUMBLE;
    o->demand_bytes_max = chance(d, 10) ? 1 + below(d, o->capacity) : 0;
    o->pin_wait_ns      = 5000;
    o->destroy_wait_ns  = w->mode == STALL && chance(d, 50) ? 50000 : 0;
    o->log_level        = w->trace ? SNUG_LOG_INFO : SNUG_LOG_OFF;
    o->compaction_off   = w->mode == PLAIN && chance(d, 10);
    o->address_table    = chance(d, 30);
    if (o->address_table && !o->handles_max)
        o->handles_max = 4 * a->slots;
}

bool arena_open(world *w, arena *a, dice *d) {
    options_draw(w, a, d);
    snug_status status = pool_create(w, a);
    w->calls++;
    if (status != SNUG_OK && struck(w, status) &&
        !w->lost) { /* gives way at the first failure, leaves nothing behind */
        snug_sim_fail_nth(w->armed_call, 0, SNUG_OK);
        w->armed = false;
        status   = pool_create(w, a);
    }
    if (status != SNUG_OK && w->lost)
        return true;
    EXPECT(status == SNUG_OK, "a pool of %" PRIu64 " bytes: %s", a->options.capacity, snug_status_name(status));
    a->capacity   = a->options.capacity / SNUG_GRANULE;
    a->compaction = !a->options.compaction_off;
    snug_stats s  = {.struct_size = sizeof s};
    EXPECT(snug_stats_get(a->pool, &s) == SNUG_OK && s.limit_bytes == GRANULES(a->capacity) + s.bounce_bytes,
           "limit %" PRIu64, s.limit_bytes);
    a->options.capacity = s.limit_bytes - s.bounce_bytes;
    a->bounce           = s.bounce_bytes;
    note(w, "pool of %" PRIu64 " bytes, bounce %" PRIu64 ", committed %" PRIu64, a->options.capacity, a->bounce,
         s.committed_bytes);
    for (unsigned i = 0; i < w->streams; i++)
        if ((w->mode == STALL || i == 0 || chance(d, 90)) &&
            snug_stream_attach(a->pool, w->native[i], &a->stream[i]) != SNUG_OK)
            a->stream[i] = NULL;
    return true;
}

/* Nothing in the model outlives its pool but the handles, which are foreign from now on. */
static void arena_forget(arena *a) {
    for (uint32_t i = 0; i < a->slots; i++)
        if (a->buffers[i].state != NOBODY) {
            a->foreign[a->foreign_count++ % DEAD_MAX] = a->buffers[i].handle;
            a->buffers[i].state                       = NOBODY;
        }
    arena empty = {
        .buffers = a->buffers, .live = a->live, .held = a->held, .slots = a->slots, .foreign_count = a->foreign_count};
    memcpy(empty.foreign, a->foreign, sizeof empty.foreign);
    *a = empty;
}

static bool pool_destroy(world *w, arena *a, bool detach_first) {
    snug_pool   *pool   = a->pool;
    snug_stream *stream = NULL;
    for (unsigned i = 0; i < w->streams; i++)
        if (a->stream[i] && detach_first)
            EXPECT((w->calls++, snug_stream_detach(a->stream[i])) == SNUG_OK, "detach of stream %u", i);
        else if (a->stream[i])
            stream = a->stream[i];
    bool        lost   = atomic_load(&pool->state) == SNUG__POOL_LOST;
    snug_status status = snug_pool_destroy(pool);
    w->calls++;
    EXPECT(status == SNUG_OK || (status == SNUG_LOST && (lost || struck(w, status))), "destroy: %s",
           snug_status_name(status));
    snug_stats  s = {.struct_size = sizeof s};
    void       *address;
    snug_handle none = SNUG_HANDLE_NONE;
    EXPECT(snug_pool_destroy(pool) == SNUG_GONE && snug_stats_get(pool, &s) == SNUG_GONE,
           "a destroyed pool isn't gone");
    EXPECT(!stream || snug_resolve(stream, &none, 1, NULL, &address) == SNUG_GONE,
           "a destroyed pool's stream isn't gone");
    a->pool = NULL;
    return true;
}

bool do_repool(world *w, arena *a, op o, dice *d) {
    (void)o;
    if (!check_walk(w, a) || !pool_destroy(w, a, chance(d, 50)))
        return false;
    arena_forget(a);
    return w->lost || arena_open(w, a, d);
}

/* ------------------------------------------------------------------------------------------------ compaction */

/* What a step adds to the time for which the background mover is busy: see check_step. */
static void bound_count(world *w, arena *a, uint64_t copies, uint64_t bytes) {
    const snug_sim_profile *profile = snug_sim_profile_get(a->options.device_index);
    uint64_t                now     = snug__sim.now_ns;
    a->mover_end_ns = (a->mover_end_ns > now ? a->mover_end_ns : now) + copies * (profile->copy_overhead_ns + 1) +
                      (uint64_t)((double)bytes * 1e9 / (double)profile->copy_bytes_per_second);
    if (w->wait_bound_ns < a->mover_end_ns - now)
        w->wait_bound_ns = a->mover_end_ns - now;
}

/* A step as the compactor's thread makes it. */
static snug_status step_background(arena *a, const snug_budget *budget, dice *d, snug_compact_result *result) {
    snug__tidy tidy = {.budget             = *budget,
                       .stop_fragmentation = (double)below(d, 20) / 100,
                       .gain_min           = 1 + below(d, 4),
                       .cooldown_ns        = chance(d, 30) ? 10000 : 0,
                       .settled_only       = true};
    pthread_mutex_lock(&a->pool->mover);
    snug_status status = a->pool->compaction_on ? snug__compactor_step(a->pool, &tidy, result) : SNUG_OK;
    pthread_mutex_unlock(&a->pool->mover);
    return status;
}

bool do_compact(world *w, arena *a, op o, dice *d) {
    snug_budget         budget = {0, 0, 0};
    snug_compact_result result = {.struct_size = sizeof result};
    bool                small  = w->mode == ABORT;
    (void)o;
    if (chance(d, small ? 100 : 70))
        budget.bytes_max = chance(d, 50) ? GRANULES(1 + below(d, a->capacity / (small ? 64 : 4) + 1))
                                         : GRANULES(1 + (a->capacity >> below(d, 20)) / 4);
    if (chance(d, 50))
        budget.moves_max = 1 + (uint32_t)below(d, 4);
    if (chance(d, 20))
        budget.time_max_ns = 1 + below(d, 50000);
    const snug_sim_report *r      = &snug__sim.report;
    uint64_t               copies = r->copies, bytes = r->copied_bytes, moves = snug_moves(a->pool);
    if (w->settled_steps && chance(d, 50) && a->mover_end_ns > snug__sim.now_ns)
        snug_sim_advance(a->mover_end_ns - snug__sim.now_ns);
    snug_status status =
        w->settled_steps ? step_background(a, &budget, d, &result) : snug_compact(a->pool, &budget, &result);
    w->calls++;
    copies = r->copies - copies;
    bytes  = r->copied_bytes - bytes;
    note(w, "step of %" PRIu64 " bytes, %u moves: %s, state %d, %u moves of %" PRIu64 " bytes, %u cancelled",
         budget.bytes_max, budget.moves_max, snug_status_name(status), (int)result.state, result.moves,
         result.moved_bytes, result.cancelled);
    bound_count(w, a, copies, bytes);
    if (status != SNUG_OK && struck(w, status))
        return true;
    EXPECT(status == SNUG_OK, "a step: %s", snug_status_name(status));
    EXPECT(!budget.bytes_max || result.moved_bytes <= budget.bytes_max, "%" PRIu64 " of %" PRIu64, result.moved_bytes,
           budget.bytes_max);
    EXPECT(!budget.bytes_max || bytes <= 2 * budget.bytes_max, "copied %" PRIu64 ", budget %" PRIu64, bytes,
           budget.bytes_max);
    EXPECT(!budget.moves_max || result.moves <= budget.moves_max, "%u of %u", result.moves, budget.moves_max);
    EXPECT(result.moves + result.cancelled || snug_moves(a->pool) == moves,
           "snug_moves has changed and nothing has moved");
    EXPECT(!result.moves || snug_moves(a->pool) != moves, "moved, but snug_moves is the same");
    EXPECT(a->compaction || (result.state == SNUG_COMPACT_DONE && copies == 0), "a step with compaction off");
    return true;
}

bool do_trim(world *w, arena *a, op o, dice *d) {
    uint64_t   returned = 77, keep = chance(d, 50) ? 0 : below(d, GRANULES(a->capacity));
    snug_stats before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};
    (void)o;
    EXPECT(snug_stats_get(a->pool, &before) == SNUG_OK, "no statistics");
    EXPECT_OK(snug_trim(a->pool, keep, &returned));
    EXPECT(snug_stats_get(a->pool, &after) == SNUG_OK, "no statistics");
    EXPECT(before.committed_bytes - after.committed_bytes == returned,
           "returned %" PRIu64 ", committed %" PRIu64 ", was %" PRIu64, returned, after.committed_bytes,
           before.committed_bytes);
    bool exact =
        a->compaction && !a->sum.fixed && !a->sum.held && !a->dying_count && !a->sum.slack && !w->armed && !w->intruded;
    uint64_t left = GRANULES(a->sum.live), unit = a->pool->row->commit_granule(a->pool->device);
    left = ((left > keep ? left : keep) + unit - 1) / unit * unit;
    EXPECT(!exact || returned == 0 || after.committed_bytes - a->bounce <= left,
           "%" PRIu64 " committed, %" PRIu64 " live", after.committed_bytes, GRANULES(a->sum.live));
    return true;
}

bool do_compaction(world *w, arena *a, op o, dice *d) {
    (void)o;
    bool on = w->mode != PLAIN || chance(d, 70);
    EXPECT_OK(snug_compaction_set(a->pool, on));
    a->compaction = on;
    return true;
}

/* Writes to the very buffer that is on its way: the move must not be published. */
bool do_cancel(world *w, arena *a, op o, dice *d) {
    const snug_pool *p = a->pool;
    if (!p->late.active || snug__range_at(&p->map, p->late.item.source)->entry == SNUG__NONE)
        return true;
    const snug__entry *entry  = snug__handles_at(&p->handles, snug__range_at(&p->map, p->late.item.source)->entry);
    snug_handle        handle = snug__handles_name(&p->handles, entry);
    snug_stats         before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};
    bool               moving = atomic_load((_Atomic uint64_t *)&entry->word) & SNUG__MOVING;
    for (uint32_t i = 0; i < a->live_count; i++) {
        if (a->buffers[a->live[i]].handle != handle)
            continue;
        op use    = o;
        use.kind  = OP_TRANSFER;
        use.slot  = a->live[i];
        use.r     = o.r;
        buffer *b = &a->buffers[use.slot];
        if (!b->size || w->armed)
            return true;
        unsigned s = o.stream % w->streams;
        if (!a->stream[s] || !order_use(w, b, s, true))
            return a->stream[s] == NULL;
        snug_stats_get(a->pool, &before);
        EXPECT_OK(snug_fill(a->stream[s], handle, 0, 7, b->size));
        segments_put(b, (segment){0, b->size, SNUG_SIM_FILL(7), 0, 0});
        if (chance(d, 50))
            return true; /* the next call sees it */
        snug_budget budget = {GRANULES(1), 0, 0};
        EXPECT_OK(snug_compact(a->pool, &budget, NULL));
        w->wait_bound_ns = UINT64_MAX; /* not counted */
        snug_stats_get(a->pool, &after);
        EXPECT(!moving || after.cancelled_moves > before.cancelled_moves, "a write didn't cancel the move");
        return true;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------ streams */

static bool stream_bound(const arena *a, unsigned s) {
    for (uint32_t i = 0; i < a->held_count; i++) {
        const buffer *b = &a->buffers[a->held[i]];
        if ((b->holds && b->hold_stream == s) || (b->raw & set_of(s)))
            return true;
    }
    return false;
}

bool do_attach(world *w, arena *a, op o, dice *d) {
    unsigned     s = o.stream % w->streams;
    snug_stream *again;
    if (a->stream[s] && !stream_bound(a, s) && chance(d, 60)) {
        EXPECT_OK(snug_stream_detach(a->stream[s]));
        EXPECT(snug_stream_sync(a->stream[s]) == SNUG_GONE && snug_stream_detach(a->stream[s]) == SNUG_GONE,
               "detached, but there");
        a->stream[s] = NULL;
    } else if (a->stream[s]) {
        EXPECT_OK(snug_stream_attach(a->pool, w->native[s], &again));
        EXPECT(again == a->stream[s] && snug_stream_detach(again) == SNUG_OK, "attached twice");
    } else {
        EXPECT_OK(snug_stream_attach(a->pool, w->native[s], &a->stream[s]));
    }
    return true;
}

/* The native stream goes, with work pending; another comes, perhaps at the same address. */
bool do_restream(world *w, arena *a, op o, dice *d) {
    unsigned s = o.stream % w->streams, t = (s + 1) % w->streams;
    bool     attached[ARENAS] = {0};
    (void)a;
    (void)d;
    for (unsigned k = 0; k < w->arenas; k++)
        if (stream_bound(&w->arena[k], s))
            return true;
    if (t == s)
        EXPECT(snug_sim_sync(w->native[s]) == SNUG_OK, "sync");
    else
        EXPECT(snug_sim_stream_wait(w->native[t], w->native[s]) == SNUG_OK, "wait");
    order_replace(w, s, t);
    for (unsigned k = 0; k < w->arenas; k++) {
        attached[k] = w->arena[k].stream[s] != NULL;
        if (attached[k])
            EXPECT((w->calls++, snug_stream_detach(w->arena[k].stream[s])) == SNUG_OK, "detach");
        w->arena[k].stream[s] = NULL;
    }
    EXPECT(snug_sim_stream_destroy(w->native[s]) == SNUG_OK && snug_sim_stream_create(&w->native[s]) == SNUG_OK,
           "native stream");
    for (unsigned k = 0; k < w->arenas; k++)
        if (attached[k])
            EXPECT_OK(snug_stream_attach(w->arena[k].pool, w->native[s], &w->arena[k].stream[s]));
    return true;
}

bool do_sync(world *w, arena *a, op o, dice *d) {
    unsigned s = o.stream % w->streams;
    switch (below(d, 8)) {
    case 0:
    case 1:
        if (a->stream[s])
            EXPECT_OK(snug_stream_sync(a->stream[s]));
        break;
    case 2: EXPECT_OK(snug_sim_sync(w->native[s])); break;
    case 3: EXPECT_OK(snug_sim_sync(NULL)); break;
    default: snug_sim_advance(UINT64_C(1) << below(d, 24));
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------ faults */

bool struck(world *w, snug_status status) {
    if (status == SNUG_LOST && snug__sim.lost) /* perhaps since a call whose failure went unnoticed */
        return w->lost = true;
    if (!w->armed || snug__sim.faults[w->armed_call].left ||
        (status != SNUG_DEVICE && status != SNUG_NO_MEMORY && status != SNUG_LOST))
        return false;
    note(w, "a failure of %s comes out as %s", snug_sim_call_name(w->armed_call), snug_status_name(status));
    w->lost |= status == SNUG_LOST;
    return true;
}

bool do_fault(world *w, arena *a, op o, dice *d) {
    (void)a;
    (void)o;
    if (w->armed)
        return true;
    static const snug_status statuses[] = {SNUG_DEVICE, SNUG_DEVICE, SNUG_DEVICE, SNUG_NO_MEMORY};
    snug_status              status     = chance(d, 2) ? SNUG_LOST : statuses[below(d, 4)];
    w->armed_call                       = (snug_sim_call)below(d, SNUG_SIM_CALLS);
    w->armed                            = true;
    uint64_t n                          = 1 + below(d, chance(d, 50) ? 3 : 30);
    note(w, "call %" PRIu64 " of %s will fail with %s", n, snug_sim_call_name(w->armed_call), snug_status_name(status));
    EXPECT(snug_sim_fail_nth(w->armed_call, n, status) == SNUG_OK, "no failure");
    return true;
}

static bool lost_arena_end(world *w, arena *a) {
    snug_handle    handle  = 77;
    void          *address = w;
    snug_stats     s       = {.struct_size = sizeof s};
    snug_quotation q       = {.struct_size = sizeof q};
    snug_stream   *stream;
    EXPECT(snug_alloc(a->pool, 1, NULL, &handle) == SNUG_LOST && handle == 77, "alloc on a lost pool");
    EXPECT(snug_compact(a->pool, NULL, NULL) == SNUG_LOST && snug_trim(a->pool, 0, NULL) == SNUG_LOST, "compact, trim");
    EXPECT(snug_quote(a->pool, 1, &q) == SNUG_LOST && snug_pool_check(a->pool) == SNUG_LOST, "quote, check");
    EXPECT(snug_stats_get(a->pool, &s) == SNUG_OK && snug_compactor_stop(a->pool) == SNUG_OK, "statistics");
    EXPECT(snug_stream_attach(a->pool, w->native[0], &stream) == SNUG_LOST, "attach");
    for (unsigned i = 0; i < w->streams; i++)
        if (a->stream[i])
            EXPECT(snug_stream_sync(a->stream[i]) == SNUG_LOST, "sync");
    while (a->live_count) {
        buffer *b = &a->buffers[a->live[0]];
        for (unsigned i = 0; i < w->streams; i++)
            if (a->stream[i])
                EXPECT(snug_resolve(a->stream[i], &b->handle, 1, NULL, &address) == SNUG_LOST, "resolve");
        EXPECT(snug_resize(a->pool, b->handle, 1) == SNUG_LOST &&
                   snug_pin(a->pool, &b->handle, 1, &address) == SNUG_LOST,
               "resize, pin");
        for (; b->long_pins; b->long_pins--)
            EXPECT(snug_unpin(a->pool, &b->handle, 1, NULL, 0) == SNUG_OK, "unpin on a lost pool");
        EXPECT(snug_free(a->pool, b->handle) == SNUG_OK && snug_free(a->pool, b->handle) == SNUG_STALE,
               "free on a lost pool");
        unsigned last = --a->live_count;
        a->live[0]    = a->live[last];
    }
    EXPECT(snug_stats_get(a->pool, &s) == SNUG_OK && s.live_bytes == 0 && s.handles_live == 0, "%" PRIu64 " live",
           s.live_bytes);
    return pool_destroy(w, a, true);
}

bool arena_lost_end(world *w) {
    uint64_t violations = snug__sim.report.violations;
    for (unsigned k = 0; k < w->arenas; k++) {
        arena *a = &w->arena[k];
        if (!a->pool)
            continue;
        if (atomic_load(&a->pool->state) == SNUG__POOL_LOST) {
            if (!lost_arena_end(w, a))
                return false;
        } else {
            snug_pool_destroy(a->pool); /* what it says depends on whether the machine is lost too */
        }
    }
    note(w, "lost: %" PRIu64 " violations more at the end", snug__sim.report.violations - violations);
    return true;
}

/* ------------------------------------------------------------------------------------------------ stalls */

/* All is settled; then one stream has work, is stalled, and gets more. */
bool stall_begin(world *w) {
    arena *a   = &w->arena[0];
    dice   d   = {w->seed};
    w->stalled = (int)below(&d, w->streams);
    if (!a->stream[w->stalled])
        return true;
    EXPECT(snug_sim_sync(NULL) == SNUG_OK, "sync");
    EXPECT(snug__order_poll(&a->pool->order) == SNUG_OK,
           "poll"); /* as any slow call does; else the next resolves would wait */
    for (uint32_t i = 0; i < a->live_count; i++)
        a->buffers[a->live[i]].writer = -1, a->buffers[a->live[i]].readers = 0;
    for (int after = 0; after < 2; after++) {
        for (uint32_t i = 0; i < 3 && i < a->live_count; i++) {
            buffer     *b     = &a->buffers[a->live[i]];
            snug_access write = SNUG_WRITE;
            void       *at;
            if (b->holds || b->long_pins)
                continue;
            EXPECT_OK(snug_resolve(a->stream[w->stalled], &b->handle, 1, &write, &at));
            char *address = at;
            if (!order_use(w, b, (unsigned)w->stalled, true) ||
                !launch(w, &d, (unsigned)w->stalled, &b, &address, &write, 1, true))
                return false;
            EXPECT_OK(snug_release(a->stream[w->stalled], &b->handle, 1, &write));
        }
        EXPECT(snug_sim_stall(snug_sim_stream_number(w->native[w->stalled]), 1) == SNUG_OK, "stall");
    }
    return true;
}

/* Others go on: they use buffers that the stalled stream hasn't touched, which the compactor moves meanwhile. */
bool do_stall_step(world *w, arena *a, op o, dice *d) {
    if (w->stalled < 0 || !a->stream[w->stalled] || a->live_count == 0 || w->streams < 2)
        return true;
    unsigned    s     = (unsigned)(w->stalled + 1 + (int)(o.stream % (w->streams - 1))) % w->streams;
    buffer     *b     = &a->buffers[a->live[o.slot % a->live_count]];
    snug_access write = chance(d, 50) ? SNUG_WRITE : SNUG_READ;
    uint64_t    now   = snug__sim.now_ns;
    void       *at;
    snug_status status;
    bool        his = b->writer == w->stalled || (b->readers & set_of((unsigned)w->stalled));
    if (chance(d, 20)) { /* only steps that leave alone what is in use keep that promise */
        snug_compact_result result = {.struct_size = sizeof result};
        snug_budget         budget = {GRANULES(1 + below(d, a->capacity / 4 + 1)), 0, 0};
        uint64_t            copies = snug__sim.report.copies, bytes = snug__sim.report.copied_bytes;
        EXPECT(step_background(a, &budget, d, &result) == SNUG_OK, "step");
        bound_count(w, a, snug__sim.report.copies - copies, snug__sim.report.copied_bytes - bytes);
    } else if (his) {
        if (!b->holds && !b->long_pins && chance(d, 20))
            return do_free(w, a, (op){.slot = (uint32_t)(b - a->buffers)}, d);
    } else if (a->stream[s] && !b->holds && !b->long_pins) {
        EXPECT_OK(snug_resolve(a->stream[s], &b->handle, 1, &write, &at));
        char *address = at;
        if (!order_use(w, b, s, write == SNUG_WRITE) || !launch(w, d, s, &b, &address, &write, 1, true))
            return false;
        EXPECT_OK(snug_release(a->stream[s], &b->handle, 1, &write));
        if (chance(d, 20)) {
            status = snug_stream_sync(a->stream[s]);
            EXPECT(status == SNUG_OK, "stream %u is held up by stalled stream %d: %s, %s", s, w->stalled,
                   snug_status_name(status), snug__device_error());
        }
    }
    EXPECT(snug__sim.now_ns - now < w->machine.timeout_ns / 2, "something waited for the stalled stream");
    return true;
}

/* With a deadline the pool stays as it was, whoever waits for nothing of the stalled stream's can go on. */
static bool stall_outlasts(world *w, arena *a, bool used) {
    char     named[32];
    uint64_t now = snug__sim.now_ns;
    snprintf(named, sizeof named, "%p", (void *)w->native[w->stalled]);
    snug_status status = snug_pool_destroy(a->pool);
    w->calls++;
    if (status == SNUG_OK && !used) {
        a->pool = NULL;
        w->lost = true; /* there is no more to be done */
        return true;
    }
    /* waits at its end alone keep no pool; and the list of streams that wait for it, too, may be longer than the text */
    bool done = false, cut = strlen(snug_device_error()) > 100;
    EXPECT(a->pool->row->event_query(a->pool->device, a->stream[w->stalled]->main, &done) == SNUG_OK, "query");
    EXPECT(status == SNUG_TIMEOUT && (done || cut || strstr(snug_device_error(), named)), "destroy: %s, %s",
           snug_status_name(status), snug_device_error());
    EXPECT(snug__sim.now_ns - now <= (w->streams + 2) * MiB + a->options.destroy_wait_ns, "destroy took %" PRIu64 " ns",
           snug__sim.now_ns - now);
    EXPECT(snug_sim_stall(snug_sim_stream_number(w->native[w->stalled]), 0) == SNUG_OK, "go on");
    w->stalled = -1;
    return check_walk(w, a);
}

/* Goes on, or the pool is destroyed with the stream still stalled: in bounded time, and told which stream it was. */
bool stall_end(world *w) {
    dice     d      = {w->seed + 1};
    arena   *a      = &w->arena[0];
    uint32_t number = snug_sim_stream_number(w->native[w->stalled]);
    if (!a->stream[w->stalled] || chance(&d, 50)) {
        EXPECT(snug_sim_stall(number, 0) == SNUG_OK, "go on");
        w->stalled = -1;
        return true;
    }
    char     named[32];
    uint64_t now = snug__sim.now_ns;
    bool     used =
        snug__sim.streams[w->native[w->stalled]->slot]->tail > snug__sim.streams[w->native[w->stalled]->slot]->done;
    if (a->options.destroy_wait_ns)
        return stall_outlasts(w, a, used);
    snug_status status = snug_pool_destroy(a->pool);
    w->calls++;
    a->pool = NULL;
    snprintf(named, sizeof named, "stream %u", number);
    EXPECT(!used || status == SNUG_LOST || status == SNUG_TIMEOUT, "destroy: %s", snug_status_name(status));
    EXPECT(!used || strstr(snug__device_error(), named), "not named: %s", snug__device_error());
    EXPECT(snug__sim.now_ns - now <= (w->streams + 4) * (w->machine.timeout_ns + MiB), "destroy took %" PRIu64 " ns",
           snug__sim.now_ns - now);
    w->lost = true; /* what the stalled stream does to memory that is gone is no fault of the library's */
    return true;
}
