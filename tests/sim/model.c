/* model.c - of simulation runs: the naive model: sums over the buffers, a list of holes made by sorting, and from these what
 * every figure and every verdict must be. */
#include "world.h"

#include <stdlib.h>

/* ------------------------------------------------------------------------------------------------ sums */

void model_count(arena *a, const buffer *b, bool born) {
    uint64_t one = born ? 1 : -UINT64_C(1), granules = granules_of(b->size) * one;
    if (b->state == DYING) {
        a->sum.pending += granules;
        a->dying_count += (uint32_t)one;
        return;
    }
    bool fixed = b->long_pins || (b->flags & SNUG_ALLOC_IMMOVABLE);
    a->sum.live_bytes += b->size * one;
    a->sum.live += granules;
    a->sum.pinned += fixed ? granules : 0;
    a->sum.slack += b->size ? (b->alignment / SNUG_GRANULE - 1) * one : 0;
    a->sum.held += b->holds ? (uint32_t)one : 0;
    a->sum.fixed += fixed ? (uint32_t)one : 0;
}

uint64_t model_free(const arena *a) {
    return a->capacity - a->sum.live - a->sum.pending;
}

static bool check_sums(world *w, const arena *a) {
    arena anew = {.capacity = a->capacity};
    for (uint32_t i = 0; i < a->slots; i++)
        if (a->buffers[i].state != NOBODY)
            model_count(&anew, &a->buffers[i], true);
    EXPECT(memcmp(&anew.sum, &a->sum, sizeof a->sum) == 0 && anew.dying_count == a->dying_count,
           "the model itself is wrong");
    return true;
}

/* ------------------------------------------------------------------------------------------------ holes */

typedef struct place {
    uint64_t start, size;
    bool     barrier; /* nothing slides over it: pinned, immovable, or waiting for its last release */
} place;

static place   *places;
static uint32_t places_count, places_max;

static int by_start(const void *a, const void *b) {
    const place *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static void places_make(world *w, arena *a) {
    if (places_max < a->slots) {
        places_max = a->slots;
        places     = realloc(places, places_max * sizeof *places);
    }
    places_count = 0;
    for (uint32_t i = 0; i < a->slots; i++) {
        const buffer *b = &a->buffers[i];
        if (b->state == NOBODY || !b->size)
            continue;
        bool     barrier       = b->state == DYING || b->holds || b->long_pins || (b->flags & SNUG_ALLOC_IMMOVABLE);
        uint64_t offset        = b->state == DYING ? b->offset : info_of(w, a, b->handle).offset;
        places[places_count++] = (place){offset / SNUG_GRANULE, granules_of(b->size), barrier};
    }
    qsort(places, places_count, sizeof *places, by_start);
}

/* Is there a hole of that size as things lie? What isn't committed counts. */
static bool hole_fits(const arena *a, uint64_t size, uint64_t alignment) {
    uint64_t start = 0;
    for (uint32_t i = 0; i <= places_count; i++) {
        uint64_t end  = i < places_count ? places[i].start : a->capacity,
                 from = (start + alignment - 1) / alignment * alignment;
        if (from + size <= end)
            return true;
        start = i < places_count ? end + places[i].size : end;
    }
    return false;
}

/* The most free granules between two neighbouring barriers; around: between those around that place only. */
static uint64_t stretch_free(const arena *a, uint64_t around) {
    uint64_t start = 0, live = 0, most = 0;
    for (uint32_t i = 0; i <= places_count; i++) {
        uint64_t end = i < places_count ? places[i].start : a->capacity;
        if (i < places_count && !places[i].barrier) {
            live += places[i].size;
            continue;
        }
        bool asked = around == UINT64_MAX || (start <= around && around < end);
        if (asked && end - start - live > most)
            most = end - start - live;
        start = i < places_count ? end + places[i].size : end;
        live  = 0;
    }
    return most;
}

/* ------------------------------------------------------------------------------------------------ verdicts */

static bool costly(const world *w, const arena *a) { /* too many buffers to sort at every refusal */
    return a->live_count > 1024 && w->step % 16 != 0;
}

static bool check_lack(world *w, const arena *a, snug_status status, uint64_t need) {
    uint64_t free = model_free(a);
    EXPECT(status == (free + a->sum.pending >= need ? SNUG_PENDING : SNUG_CAPACITY),
           "%s: need %" PRIu64 ", free %" PRIu64 ", pending %" PRIu64, snug_status_name(status), need, free,
           a->sum.pending);
    return true;
}

/* A refusal although there are bytes enough. slack: what its own alignment may waste. */
static bool check_verdict(world *w, arena *a, snug_status status, uint64_t need, uint64_t slack) {
    const sums *s    = &a->sum;
    uint64_t    free = model_free(a);
    bool        pins = s->held + s->fixed + a->dying_count > 0;
    EXPECT(pins || free < need + s->slack + slack,
           "it fits: need %" PRIu64 ", free %" PRIu64 ", slack %" PRIu64 ", but %s", need, free, s->slack + slack,
           snug_status_name(status));
    EXPECT((status == SNUG_PINNED && pins) || (status == SNUG_BUSY && s->held) ||
               (status == SNUG_PENDING && s->pending) || (status == SNUG_CAPACITY && s->slack + slack),
           "%s: need %" PRIu64 ", free %" PRIu64 ", pending %" PRIu64, snug_status_name(status), need, free,
           s->pending);
    return true;
}

/* The work of somebody who came between and had a buffer pinned, or wrote what was on its way. */
static bool disturbed(const world *w, snug_status status) {
    return w->intruded && (status == SNUG_PINNED || status == SNUG_BUSY);
}

bool check_alloc(world *w, arena *a, snug_status status, uint64_t size, const snug_alloc_options *o) {
    uint64_t need = granules_of(size), alignment = o->alignment > SNUG_GRANULE ? o->alignment / SNUG_GRANULE : 1;
    bool     full = a->options.handles_max && a->live_count + a->dying_count + a->retired >= a->options.handles_max;
    a->requests++;
    if (size > a->largest_request)
        a->largest_request = size;
    if (full) {
        EXPECT(status == SNUG_HANDLES, "%s with all %u entries taken", snug_status_name(status),
               a->options.handles_max);
        return true;
    }
    a->granted += status == SNUG_OK;
    a->refused[status] += status >= SNUG_LIMIT && status <= SNUG_DEVICE;
    if (status != SNUG_OK && struck(w, status))
        return true;
    if (need > a->capacity || size > a->options.capacity) {
        EXPECT(status == SNUG_LIMIT, "%s for %" PRIu64 " granules", snug_status_name(status), need);
        return check_refusal(w, a, status, size, alignment * SNUG_GRANULE);
    }
    if (model_free(a) < need)
        return check_lack(w, a, status, need) && check_refusal(w, a, status, size, alignment * SNUG_GRANULE);
    if (o->flags & SNUG_ALLOC_SETTLED) {
        EXPECT(status == SNUG_OK || status == SNUG_PENDING || status == SNUG_FRAGMENTED, "settled: %s",
               snug_status_name(status));
    } else if (!a->compaction && size) {
        if (!costly(w, a) || status != SNUG_OK) {
            places_make(w, a);
            bool fits = hole_fits(a, need, alignment);
            EXPECT((status == SNUG_OK) == fits || status == SNUG_OK, "compaction off: %s though a hole fits",
                   snug_status_name(status));
        }
        EXPECT(status == SNUG_OK || status == SNUG_FRAGMENTED, "compaction off: %s", snug_status_name(status));
    } else if (status != SNUG_OK && a->options.demand_bytes_max) {
        EXPECT(status == SNUG_FRAGMENTED || status == SNUG_PINNED || status == SNUG_PENDING ||
                   a->sum.slack + alignment > 1,
               "%s", snug_status_name(status));
    } else if (status != SNUG_OK && !disturbed(w, status)) {
        if (!check_verdict(w, a, status, need, alignment - 1))
            return false;
        if (a->sum.slack + alignment == 1 && !costly(w, a)) {
            places_make(w, a);
            EXPECT(stretch_free(a, UINT64_MAX) < need,
                   "%s, but a slide between pins would do: need %" PRIu64 " of %" PRIu64 " free",
                   snug_status_name(status), need, model_free(a));
        }
    }
    return status == SNUG_OK || check_refusal(w, a, status, size, alignment * SNUG_GRANULE);
}

/* b as it was before. */
bool check_resize(world *w, arena *a, const buffer *b, snug_status status, uint64_t size) {
    uint64_t need = granules_of(size), old = granules_of(b->size);
    bool     pinned = b->holds || b->long_pins, verdict = status >= SNUG_LIMIT && status <= SNUG_DEVICE;
    bool     fixed = b->flags & SNUG_ALLOC_IMMOVABLE;
    a->requests += size > b->size && (status == SNUG_OK || verdict);
    a->granted += size > b->size && status == SNUG_OK;
    a->refused[status] += verdict;
    if (status != SNUG_OK && struck(w, status))
        return true;
    if (size > a->options.capacity) {
        EXPECT(status == SNUG_LIMIT, "%s", snug_status_name(status));
    } else if (pinned) {
        EXPECT(need == old ? status == SNUG_OK : status == SNUG_BUSY || verdict, "pinned: %s",
               snug_status_name(status));
        EXPECT(status != SNUG_CAPACITY || model_free(a) < need - old || a->sum.slack ||
                   (!old && b->alignment > SNUG_GRANULE),
               "pinned: CAPACITY");
    } else if (need <= old) {
        EXPECT(status == SNUG_OK, "%s from %" PRIu64 " to %" PRIu64, snug_status_name(status), old, need);
    } else if (model_free(a) < need - old) {
        if (!check_lack(w, a, status, need - old))
            return false;
    } else if (status != SNUG_OK && !a->compaction) {
        EXPECT(status == SNUG_FRAGMENTED || (status == SNUG_PINNED && a->sum.fixed), "compaction off: %s",
               snug_status_name(status));
    } else if (status != SNUG_OK && a->options.demand_bytes_max) {
        EXPECT(status == SNUG_FRAGMENTED || status == SNUG_PINNED || status == SNUG_PENDING || a->sum.slack, "%s",
               snug_status_name(status));
    } else if (status != SNUG_OK && !fixed && !disturbed(w, status)) {
        if (!check_verdict(w, a, status, need - old, old ? 0 : b->alignment / SNUG_GRANULE - 1))
            return false;
        if (a->sum.slack == 0 && (old || b->alignment == SNUG_GRANULE) && !costly(w, a)) {
            places_make(w, a);
            uint64_t at = old ? info_of(w, a, b->handle).offset / SNUG_GRANULE : UINT64_MAX;
            EXPECT(stretch_free(a, at) < need - old,
                   "%s, but a slide between pins would do: %" PRIu64 " to %" PRIu64 " of %" PRIu64 " free",
                   snug_status_name(status), old, need, model_free(a));
        }
    }
    return !verdict || check_refusal(w, a, status, size, b->alignment);
}

static bool is_fixed(const arena *a, snug_handle handle) {
    for (uint32_t i = 0; i < a->live_count; i++) {
        const buffer *b = &a->buffers[a->live[i]];
        if (b->handle == handle)
            return b->long_pins || (b->flags & SNUG_ALLOC_IMMOVABLE);
    }
    return false;
}

bool check_refusal(world *w, arena *a, snug_status verdict, uint64_t size, uint64_t alignment) {
    const sums  *s = &a->sum;
    snug_refusal r = {.struct_size = sizeof r};
    snug_refusal_get(&r);
    EXPECT(r.verdict == verdict, "%s, returned %s", snug_status_name(r.verdict), snug_status_name(verdict));
    EXPECT(r.request_bytes == size && r.alignment == alignment, "%" PRIu64 " at %" PRIu64, r.request_bytes,
           r.alignment);
    EXPECT(r.live_bytes == s->live_bytes, "%" PRIu64 ", model %" PRIu64, r.live_bytes, s->live_bytes);
    EXPECT(r.padding_bytes == GRANULES(s->live) - s->live_bytes, "%" PRIu64, r.padding_bytes);
    EXPECT(r.pending_bytes == GRANULES(s->pending), "%" PRIu64 ", model %" PRIu64, r.pending_bytes,
           GRANULES(s->pending));
    EXPECT(r.free_bytes + r.in_flight_bytes + r.limit_bytes - r.committed_bytes == GRANULES(model_free(a)),
           "free %" PRIu64 ", model %" PRIu64, r.free_bytes, GRANULES(model_free(a)));
    EXPECT(r.limit_bytes == GRANULES(a->capacity) + a->bounce, "%" PRIu64, r.limit_bytes);
    EXPECT(r.pinned_bytes == GRANULES(s->pinned), "%" PRIu64 ", model %" PRIu64, r.pinned_bytes, GRANULES(s->pinned));
    EXPECT(r.largest_request_bytes == a->largest_request, "%" PRIu64 ", model %" PRIu64, r.largest_request_bytes,
           a->largest_request);
    EXPECT(verdict != SNUG_PINNED || s->held + s->fixed + a->dying_count + w->intruded > 0, "PINNED without a pin");
    if (verdict != SNUG_PINNED)
        return true;
    EXPECT(r.blocking_pins <= s->fixed, "%u of %u", r.blocking_pins, s->fixed);
    for (unsigned i = 0; i < r.blocking_pins && i < 8; i++)
        EXPECT(is_fixed(a, r.blocking[i]), "blocking %" PRIx64, r.blocking[i]);
    return true;
}

/* ------------------------------------------------------------------------------------------------ addresses */

/* Of a buffer just resolved or pinned: aligned, inside, where it was if nothing is said to have moved or it can't have. */
bool check_address(world *w, arena *a, buffer *b, const void *address) {
    uint64_t moves = snug_moves(a->pool), at = (uint64_t)((const char *)address - a->pool->base);
    if (!b->size) {
        EXPECT(!address, "an address without bytes: %p", address);
        b->address = NULL;
        return true;
    }
    EXPECT(at % b->alignment == 0 && at + b->size <= GRANULES(a->capacity), "at %" PRIu64, at);
    if (b->address) {
        bool still = b->holds || b->long_pins || (b->flags & SNUG_ALLOC_IMMOVABLE);
        EXPECT(!still || b->address == address, "moved while pinned or immovable: %p, was %p", address,
               (void *)b->address);
        EXPECT(b->moves != moves || b->address == address, "moved, but snug_moves is the same: %p, was %p", address,
               (void *)b->address);
    }
    b->address = (char *)(uintptr_t)address;
    b->moves   = moves;
    return true;
}

/* ------------------------------------------------------------------------------------------------ checks */

bool check_stats(world *w, arena *a) {
    const sums *s = &a->sum;
    snug_stats  t = {.struct_size = sizeof t};
    EXPECT(snug_stats_get(a->pool, &t) == SNUG_OK, "no statistics");
    EXPECT(t.live_bytes == s->live_bytes, "%" PRIu64 ", model %" PRIu64, t.live_bytes, s->live_bytes);
    EXPECT(t.padding_bytes == GRANULES(s->live) - s->live_bytes, "%" PRIu64, t.padding_bytes);
    EXPECT(t.pending_bytes == GRANULES(s->pending), "%" PRIu64 ", model %" PRIu64, t.pending_bytes,
           GRANULES(s->pending));
    EXPECT(t.committed_bytes <= t.limit_bytes && t.limit_bytes == GRANULES(a->capacity) + a->bounce, "%" PRIu64,
           t.committed_bytes);
    EXPECT(t.free_bytes + t.in_flight_bytes + t.limit_bytes - t.committed_bytes == GRANULES(model_free(a)),
           "free %" PRIu64 " in flight %" PRIu64 ", model %" PRIu64, t.free_bytes, t.in_flight_bytes,
           GRANULES(model_free(a)));
    EXPECT(t.live_bytes + t.padding_bytes + t.free_bytes + t.pending_bytes + t.in_flight_bytes + t.bounce_bytes ==
               t.committed_bytes,
           "I3, committed %" PRIu64, t.committed_bytes);
    EXPECT(t.pinned_bytes == GRANULES(s->pinned), "%" PRIu64 ", model %" PRIu64, t.pinned_bytes, GRANULES(s->pinned));
    EXPECT(t.handles_live == a->live_count && t.buffers.current == a->live_count &&
               t.buffers.allocated - t.buffers.freed == a->live_count,
           "%" PRIu64 ", model %u", t.handles_live, a->live_count);
    EXPECT(t.bytes.current == s->live_bytes && t.bytes.allocated - t.bytes.freed == s->live_bytes, "%" PRIu64,
           t.bytes.current);
    EXPECT(t.requests == a->requests && t.granted == a->granted,
           "%" PRIu64 " of %" PRIu64 ", model %" PRIu64 " of %" PRIu64, t.granted, t.requests, a->granted, a->requests);
    EXPECT(memcmp(t.refused, a->refused, sizeof t.refused) == 0, "refusals by verdict");
    EXPECT(t.largest_request_bytes == a->largest_request, "%" PRIu64 ", model %" PRIu64, t.largest_request_bytes,
           a->largest_request);
    EXPECT(t.largest_hole_bytes <= t.free_bytes && t.unsettled_bytes <= t.free_bytes, "%" PRIu64, t.largest_hole_bytes);
    EXPECT((t.holes == 0) == (t.free_bytes == 0), "%" PRIu64 " holes", t.holes);
    return true;
}

bool check_walk(world *w, arena *a) {
    EXPECT(snug_pool_check(a->pool) == SNUG_OK, "an invariant is broken");
    for (uint32_t i = 0; i < a->held_count; i++) {
        const buffer *b = &a->buffers[a->held[i]];
        if (b->state != LIVE)
            continue;
        snug_handle_info info = info_of(w, a, b->handle);
        EXPECT(info.pins == b->holds + (b->long_pins > 0) && info.long_pins == b->long_pins, "%u pins, %u of them long",
               info.pins, info.long_pins);
        EXPECT(!b->size || a->pool->base + info.offset == b->address, "moved while pinned, to %" PRIu64, info.offset);
    }
    for (uint32_t i = 0; i < a->live_count; i++) {
        buffer *b = &a->buffers[a->live[i]];
        if (!(b->flags & SNUG_ALLOC_IMMOVABLE) || !b->size)
            continue;
        const char *at = a->pool->base + info_of(w, a, b->handle).offset;
        EXPECT(!b->address || b->address == at, "immovable, but moved");
        b->address = (char *)(uintptr_t)at;
    }
    return check_sums(w, a);
}

bool check_step(world *w) {
    const snug_sim_report *r = &snug__sim.report;
    EXPECT(r->violations == 0, "%s", r->text[0]);
    EXPECT(r->shortages == 0, "the simulated machine is out of memory");
    EXPECT(!w->settled_steps || r->cross_waits == 0, "%s", r->cross_wait_text);
    /* Promise 8. A background mover does its copies one after the other, and takes nothing that is in use, so it never
     * waits: at the end of a step it has before it what it had left of earlier ones and the step's own copies, each bytes /
     * rate + overhead. Nobody who waits for it then waits for longer; and every resolve here is followed by a launch, so
     * that the report's longest hold is of one resolve. A step copies its budget at most, a slide over itself twice (into
     * the bounce buffer and out of it); where steps are as far apart as their copies take, the bound is that of one step. */
    EXPECT(!w->settled_steps || r->mover_wait_max_ns[SNUG_SIM_BACKGROUND] <= w->wait_bound_ns,
           "background moves held a stream for %" PRIu64 " ns, %" PRIu64 " at most",
           r->mover_wait_max_ns[SNUG_SIM_BACKGROUND], w->wait_bound_ns);
    for (unsigned i = 0; i < w->arenas && !w->lost; i++) {
        arena *a     = &w->arena[i];
        bool   small = w->walks && a->live_count + a->dying_count <= SMALL_MAP / 2;
        if (a->pool && (small || w->step % 128 == 0) && !check_stats(w, a))
            return false;
        if (a->pool && (small || (w->walks && w->step % 128 == 0)) && !check_walk(w, a))
            return false;
    }
    return true;
}
