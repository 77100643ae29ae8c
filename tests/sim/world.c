/* world.c - of simulation runs: a whole run: its shape, the drawing of operations, the checks after each, the end. */
#include "world.h"

#include <stdarg.h>
#include <stdlib.h>

const char *const mode_names[MODES] = {"plain", "background", "jumble", "abort", "wrap",
                                       "tiny",  "huge",       "faults", "stall", "between"};

static const char *const kind_names[KINDS] = {
#define KIND_NAME(name) #name,
    KIND_MAP(KIND_NAME)
#undef KIND_NAME
};

void op_describe(const op *o, char *text, size_t size) {
    snprintf(text, size, "%s slot %u, stream %u, pool %u, r %#" PRIx64, kind_names[o->kind], o->slot, o->stream,
             o->arena, o->r);
}

void note(world *w, const char *format, ...) {
    va_list list;
    if (!w->trace)
        return;
    va_start(list, format);
    printf("#     ");
    vprintf(format, list);
    printf("\n");
    va_end(list);
}

bool fault(world *w, const char *file, int line, const char *condition, const char *format, ...) {
    char        text[360];
    const char *base = strrchr(file, '/');
    va_list     list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    w->failed      = true;
    w->failed_line = line + (int)(base ? base[1] : file[0]) * 10000;
    snprintf(w->failure, sizeof w->failure, "%s:%d, %s: false: %.160s: %s", base ? base + 1 : file, line,
             kind_names[w->doing.kind], condition, text);
    note(w, "%s", w->failure);
    return false;
}

/* ------------------------------------------------------------------------------------------------ begin */

world *world_new(uint64_t seed, mode mode, const snug__device_row *row) {
    world *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    w->seed       = seed;
    w->mode       = mode;
    w->row        = mode == BETWEEN && !row ? between_row(w) : row;
    dice whole    = {seed * MODES + mode}; /* neighbouring states would give the same numbers, one later */
    w->draw.state = roll(&whole);
    w->walks      = true;
    w->stalled    = -1;
    return w;
}

static void shape_draw(world *w) {
    dice *d               = &w->draw;
    w->machine            = snug_sim_options_default();
    w->machine.seed       = roll(d);
    w->machine.style      = (snug_sim_style)below(d, 4);
    w->machine.timeout_ns = UINT64_C(10000000000);
    w->machine.patience   = 2 + (uint32_t)below(d, chance(d, 50) ? 20 : 1000);
    w->machine.call_ns    = chance(d, 50) ? 500 : 1 + below(d, 5000);
    w->streams            = w->mode == STALL ? 2 + (unsigned)below(d, 4)
                            : chance(d, 5)   ? 64 + (unsigned)below(d, 8)
                                             : 1 + (unsigned)below(d, 8);
    w->arenas             = w->mode == STALL || w->mode == LARGE || chance(d, 70) ? 1 : 2;
    w->short_pins         = chance(d, 50);
    w->long_pins          = chance(d, 40);
    w->alignments         = chance(d, 30);
    w->settled_steps =
        w->mode == BACKGROUND || (w->mode != JUMBLE && w->mode != ABORT && w->mode != BETWEEN && chance(d, 30));
    w->many = w->mode == TINY    ? 8
              : w->mode == LARGE ? 1500 + (uint32_t)below(d, 3000)
              : chance(d, 15)    ? 400
                                 : 12 + (uint32_t)below(d, 110);
}

bool world_open(world *w) {
    shape_draw(w);
    EXPECT(snug_sim_setup(&w->machine) == SNUG_OK, "the machine is busy");
    for (unsigned i = 0; i < w->streams; i++)
        EXPECT(snug_sim_stream_create(&w->native[i]) == SNUG_OK, "no stream");
    for (unsigned k = 0; k < w->arenas; k++) {
        arena *a   = &w->arena[k];
        a->slots   = w->many;
        a->buffers = calloc(a->slots, sizeof *a->buffers);
        a->live    = calloc(a->slots, sizeof *a->live);
        a->held    = calloc(a->slots, sizeof *a->held);
        if (!a->buffers || !a->live || !a->held)
            abort();
        if (!arena_open(w, a, &w->draw))
            return false;
    }
    note(w, "style %d, %u streams, %u slots, pins%s%s, steps %s", (int)w->machine.style, w->streams, w->many,
         w->short_pins ? " short" : "", w->long_pins ? " long" : "", w->settled_steps ? "of settled only" : "of all");
    return true;
}

/* ------------------------------------------------------------------------------------------------ operations */

static const uint16_t weights[KINDS] = {
    [OP_ALLOC] = 220,  [OP_FREE] = 140,   [OP_RESIZE] = 90, [OP_LAUNCH] = 280, [OP_HOLD] = 30,
    [OP_RELEASE] = 40, [OP_PIN] = 15,     [OP_RAW] = 25,    [OP_UNPIN] = 20,   [OP_TRANSFER] = 60,
    [OP_STALE] = 12,   [OP_COMPACT] = 50, [OP_TRIM] = 5,    [OP_QUOTE] = 8,    [OP_COMPACTION] = 3,
    [OP_ATTACH] = 5,   [OP_RESTREAM] = 3, [OP_REPOOL] = 1,  [OP_SYNC] = 20};

static unsigned weight_of(const world *w, const arena *a, kind kind) {
    bool full = model_free(a) < a->capacity / 16, crowded = a->live_count + a->dying_count + 2 >= a->slots;
    switch (kind) {
    case OP_ALLOC: return crowded ? 0 : full ? 60 : w->mode == LARGE && a->live_count < a->slots / 2 ? 600 : 220;
    case OP_FREE: return crowded ? 300 : full ? 160 : w->mode == LARGE ? 100 : 140;
    case OP_HOLD: return w->short_pins ? 30 : 0;
    case OP_PIN: return w->long_pins ? 15 : 0;
    case OP_RELEASE:
    case OP_UNPIN:
    case OP_RAW: return a->held_count ? weights[kind] : 0;
    case OP_COMPACT: return w->mode == ABORT || w->mode == BACKGROUND || w->mode == BETWEEN ? 150 : 50;
    case OP_CANCEL: return w->mode == ABORT && a->pool->late.active ? 800 : 0;
    case OP_FAULT: return w->mode == FAULTS && !w->armed ? 60 : 0;
    case OP_REPOOL: return w->mode == STALL || w->mode == LARGE ? 0 : 1;
    case OP_QUOTE: return w->machine.call_ns > 100 ? 8 : 0;
    default: return weights[kind];
    }
}

/* With more streams than bits, most often one of those that share a bit with another. */
static uint16_t stream_draw(world *w, dice *d) {
    unsigned more = w->streams > SNUG__CLIENT_BITS ? w->streams - SNUG__CLIENT_BITS : 0;
    if (!more || chance(d, 20))
        return (uint16_t)below(d, w->streams);
    return (uint16_t)(below(d, more) + (chance(d, 50) ? SNUG__CLIENT_BITS : 0));
}

op op_draw(world *w) {
    dice    *d     = &w->draw;
    arena   *a     = &w->arena[below(d, w->arenas)];
    op       o     = {.arena = (uint8_t)(a - w->arena), .stream = stream_draw(w, d), .r = roll(d)};
    unsigned total = 0;
    if (w->stalled >= 0) {
        o.kind = OP_STALL_STEP;
        o.slot = (uint32_t)roll(d);
        return o;
    }
    for (int kind = 0; kind < KINDS; kind++)
        total += weight_of(w, a, (enum kind)kind);
    uint64_t drawn = below(d, total);
    for (; drawn >= weight_of(w, a, (enum kind)o.kind); o.kind++)
        drawn -= weight_of(w, a, (enum kind)o.kind);
    if (o.kind == OP_ALLOC || o.kind == OP_QUOTE) {
        o.slot = (uint32_t)below(d, a->slots);
        for (uint32_t i = 0; i < a->slots && a->buffers[o.slot].state != NOBODY; i++)
            o.slot = (o.slot + 1) % a->slots;
    } else if (o.kind == OP_RELEASE || o.kind == OP_RAW || o.kind == OP_UNPIN) {
        o.slot = a->held[below(d, a->held_count)];
    } else if (a->live_count) {
        o.slot = a->live[below(d, a->live_count)];
        /* most buffers stay with their stream, so that order isn't made by the client at every turn */
        if (chance(d, w->streams > SNUG__CLIENT_BITS ? 30 : 85))
            o.stream = (uint16_t)(a->buffers[o.slot].home % w->streams);
    }
    return o;
}

static bool jumble(world *w) {
    for (unsigned k = 0; k < w->arenas; k++)
        if (w->arena[k].pool && !w->lost)
            EXPECT((w->calls++, snug_compact(w->arena[k].pool, NULL, NULL)) == SNUG_OK, "a step of jumble");
    return true;
}

bool world_step(world *w, op o) {
    w->step++;
    if (w->armed && !snug__sim.faults[w->armed_call].left)
        w->armed = false;
    between_begin(w, o);
    if (!op_apply(w, o) || !between_end(w) || (w->mode == JUMBLE && !jumble(w)))
        return false;
    for (unsigned k = 0; k < w->arenas; k++)
        if (w->arena[k].pool && atomic_load(&w->arena[k].pool->state) == SNUG__POOL_LOST) {
            EXPECT(w->mode == FAULTS, "the pool is lost");
            w->lost = true;
        }
    return check_step(w);
}

/* ------------------------------------------------------------------------------------------------ end */

static bool let_go(world *w, arena *a) {
    for (unsigned i = 0; i < w->streams; i++)
        if (!a->stream[i])
            EXPECT(snug_stream_attach(a->pool, w->native[i], &a->stream[i]) == SNUG_OK, "attach");
    while (a->held_count) {
        buffer *b = &a->buffers[a->held[0]];
        if (b->holds ? !buffer_release(w, a, b) : !buffer_unpin(w, a, b, true))
            return false;
    }
    return true;
}

static bool read_all(world *w, arena *a) {
    for (uint32_t i = 0; i < a->live_count; i++) {
        buffer         *b = &a->buffers[a->live[i]];
        snug_sim_access accesses[SEGMENTS_MAX];
        snug_access     read = SNUG_READ;
        unsigned        s    = i % w->streams;
        void           *at;
        EXPECT(snug_resolve(a->stream[s], &b->handle, 1, &read, &at) == SNUG_OK, "resolve");
        if (!check_address(w, a, b, at) || !order_use(w, b, s, false))
            return false;
        size_t n = segments_read(b, at, 0, b->size, accesses);
        EXPECT(snug_sim_launch(w->native[s], accesses, n, 1000) == SNUG_OK, "launch");
        EXPECT(snug_release(a->stream[s], &b->handle, 1, &read) == SNUG_OK, "release");
        w->calls += 3;
    }
    return true;
}

static bool arena_end(world *w, arena *a) {
    snug_stats         s       = {.struct_size = sizeof s};
    snug_alloc_options options = snug_alloc_options_default();
    snug_status        status;
    if (!let_go(w, a) || !check_stats(w, a) || !check_walk(w, a) || !read_all(w, a))
        return false;
    EXPECT(snug_sim_sync(NULL) == SNUG_OK, "sync");
    while (a->live_count) {
        buffer *b = &a->buffers[a->live[0]];
        EXPECT((w->calls++, snug_free(a->pool, b->handle)) == SNUG_OK, "free");
        buffer_gone(a, b);
    }
    EXPECT(snug_compaction_set(a->pool, 0) == SNUG_OK, "compaction off"); /* gives up a late move */
    EXPECT(snug_compaction_set(a->pool, 1) == SNUG_OK, "compaction on");
    a->compaction = true;
    if (!check_stats(w, a) || !alloc_into(w, a, &a->buffers[0], GRANULES(a->capacity), &options, &status))
        return false;
    EXPECT(status == SNUG_OK || (status == SNUG_HANDLES && a->retired), "all of it: %s", snug_status_name(status));
    if (status == SNUG_OK) {
        EXPECT(snug_free(a->pool, a->buffers[0].handle) == SNUG_OK, "free");
        buffer_gone(a, &a->buffers[0]);
    }
    if (!check_stats(w, a) || !check_walk(w, a))
        return false;
    EXPECT(snug_stats_get(a->pool, &s) == SNUG_OK, "no statistics");
    EXPECT(s.live_bytes + s.padding_bytes + s.pending_bytes + s.in_flight_bytes + s.pinned_bytes + s.handles_live == 0,
           "%" PRIu64 " bytes live, %" PRIu64 " pending, %" PRIu64 " in flight", s.live_bytes, s.pending_bytes,
           s.in_flight_bytes);
    for (unsigned i = 0; i < w->streams; i++)
        EXPECT(snug_stream_detach(a->stream[i]) == SNUG_OK, "detach");
    EXPECT(snug_pool_destroy(a->pool) == SNUG_OK, "destroy");
    return true;
}

bool world_close(world *w) {
    w->doing = (op){.kind = OP_SYNC};
    if (w->armed)
        snug_sim_fail_nth(w->armed_call, 0, SNUG_OK);
    w->armed = false;
    if (w->lost)
        return arena_lost_end(w);
    for (unsigned k = 0; k < w->arenas; k++)
        if (w->arena[k].pool && !arena_end(w, &w->arena[k]))
            return false;
    for (unsigned i = 0; i < w->streams; i++)
        EXPECT(snug_sim_stream_destroy(w->native[i]) == SNUG_OK, "native stream");
    w->arenas = 0;
    EXPECT(snug__sim.committed_bytes == 0, "%" PRIu64 " bytes are still committed", snug__sim.committed_bytes);
    return check_step(w);
}
