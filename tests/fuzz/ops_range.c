/* ops_range.c - the map of the arena against an array of granules: finds, takes, frees, splits, growth, and the gaps of
 * plans. After each operation the map is checked and compared with the array; searches are compared with a plain walk. */
#include "tap.h"

#include "fuzz/fuzz.h"
#include "unit/fixture.h"

#include "fuzz/world.h"

enum { GRANULES = 320, OPS_MAX = 300 };

static world w;

static struct {
    uint32_t committed;
    uint32_t owner[GRANULES]; /* node + 1; 0: free */
    uint8_t  kind[GRANULES];
    uint64_t fences[GRANULES]; /* bits that a fence over this granule must have */
} model;

static snug__range *at(uint32_t node) {
    return snug__range_at(&w.map, node);
}

static bool of_kind(uint32_t node, snug__range_kind kind) {
    return node != SNUG__NONE && at(node)->kind == kind;
}

FUZZ_MODEL static void model_compare(void) {
    uint32_t granule = 0;
    for (uint32_t node = w.map.first; node != SNUG__NONE; node = at(node)->next) {
        const snug__range *r    = at(node);
        bool               free = r->kind == SNUG__RANGE_FREE;
        bool bare = r->kind == SNUG__RANGE_LIVE || r->kind == SNUG__RANGE_PENDING; /* the buffer has the stamps */
        for (; granule < r->offset + r->size; granule++) {
            EXPECT(model.owner[granule] == (free ? 0 : node + 1), "granule %u: owner", granule);
            EXPECT(model.kind[granule] == r->kind, "granule %u: kind %u, model %u", granule, r->kind,
                   model.kind[granule]);
            EXPECT(bare || !(model.fences[granule] & ~r->fence.mask), "granule %u: a fence is lost", granule);
        }
        EXPECT(stamps_drawn >= r->fence.epoch, "an epoch from nowhere");
    }
    EXPECT(granule == model.committed, "%u granules, model %u", granule, model.committed);
}

FUZZ_MODEL static void model_own(uint32_t node) {
    const snug__range *r = at(node);
    for (uint32_t i = r->offset; i < r->offset + r->size; i++) {
        model.owner[i] = r->kind == SNUG__RANGE_FREE ? 0 : node + 1;
        model.kind[i]  = r->kind;
    }
}

FUZZ_MODEL static void model_fences(uint32_t from, uint32_t to, uint64_t keep, uint64_t add) {
    for (uint32_t i = from; i < to; i++)
        model.fences[i] = (model.fences[i] & keep) | add;
}

/* The nth range from a byte on that passes; SNUG__NONE: there is none. */
static uint32_t pick(fuzz_input *in, bool (*passes)(uint32_t node)) {
    uint32_t count = 0, n;
    for (uint32_t node = w.map.first; node != SNUG__NONE; node = at(node)->next)
        count += passes(node);
    if (!count)
        return SNUG__NONE;
    n = fuzz_below(in, count);
    for (uint32_t node = w.map.first;; node = at(node)->next)
        if (passes(node) && n-- == 0)
            return node;
}

static bool taken(uint32_t node) {
    return !of_kind(node, SNUG__RANGE_FREE);
}
static bool live(uint32_t node) {
    return of_kind(node, SNUG__RANGE_LIVE);
}
static bool unused(uint32_t node) {
    return of_kind(node, SNUG__RANGE_FREE);
}
static bool gap(uint32_t node) {
    return of_kind(node, SNUG__RANGE_GAP);
}
static bool divisible(uint32_t node) {
    return taken(node) && at(node)->size > 1;
}
static bool extensible(uint32_t node) {
    return live(node) && of_kind(at(node)->next, SNUG__RANGE_FREE);
}

static bool absorbable(uint32_t node) {
    return of_kind(node, SNUG__RANGE_FREE) || of_kind(node, SNUG__RANGE_GAP);
}

static bool gap_fed(uint32_t node) {
    return gap(node) && (absorbable(at(node)->previous) || absorbable(at(node)->next));
}

static bool gap_movable(uint32_t node) {
    return gap(node) && (live(at(node)->next) || live(at(node)->previous));
}

/* ------------------------------------------------------------------------------------------------ search */

static bool walk_fits(uint32_t node, snug__fit fit, uint32_t *offset) {
    *offset = snug__align_up(at(node)->offset, fit.alignment);
    return of_kind(node, SNUG__RANGE_FREE) && *offset + fit.size <= at(node)->offset + at(node)->size &&
           (!fit.settled || snug__order_settled(&w.order, at(node)->fence));
}

static uint32_t walk_find(snug__fit fit, uint32_t limit, uint32_t *offset) {
    for (uint32_t node = w.map.first; node != SNUG__NONE && at(node)->offset < limit; node = at(node)->next)
        if (walk_fits(node, fit, offset))
            return node;
    return SNUG__NONE;
}

static snug__fit fit_of(fuzz_input *in) {
    uint32_t how = fuzz_byte(in), size = 1 + fuzz_byte(in);
    return (snug__fit){how & 16 ? size : 1 + size % 24, UINT32_C(1) << (how & 8 ? how & 7 : 0), (how & 96) == 96};
}

/* low: by the lowest address, below a limit. */
static uint32_t find(fuzz_input *in, snug__fit fit, bool low, uint32_t *offset) {
    uint32_t limit = low ? fuzz_below(in, GRANULES + 1) : SNUG__NONE, lowest_offset = 0, bound = 0, largest = 0;
    uint32_t lowest = walk_find(fit, limit, &lowest_offset);
    uint32_t node   = low ? snug__map_find_low(&w.map, fit, limit, offset) : snug__map_find(&w.map, fit, offset);
    EXPECT((node == SNUG__NONE) == (lowest == SNUG__NONE), "found %u, a walk finds %u", node, lowest);
    EXPECT(!low || node == lowest, "found %u, the lowest is %u", node, lowest);
    if (node != SNUG__NONE)
        EXPECT(walk_fits(node, fit, &bound) && bound == *offset, "offset %u, not %u", *offset, bound);
    for (uint32_t n = w.map.first; n != SNUG__NONE; n = at(n)->next)
        if (unused(n) && at(n)->size > largest)
            largest = at(n)->size;
    EXPECT(snug__map_largest(&w.map) == largest, "largest %u, a walk finds %u", snug__map_largest(&w.map), largest);
    return node;
}

/* ------------------------------------------------------------------------------------------------ operations */

static void do_take(fuzz_input *in, bool low) {
    static const snug__range_kind kinds[] = {SNUG__RANGE_LIVE, SNUG__RANGE_LIVE, SNUG__RANGE_LIVE, SNUG__RANGE_TARGET};
    snug__range_kind              kind    = kinds[fuzz_below(in, 4)];
    snug__fit                     fit     = fit_of(in);
    uint32_t                      offset = 0, node = find(in, fit, low, &offset);
    if (node == SNUG__NONE)
        return;
    node = snug__range_take(&w.map, node, offset, fit.size, kind, 3);
    if (node == SNUG__NONE) {
        EXPECT(w.map.nodes_made == w.map.nodes_max, "no node, though there are some left");
        return;
    }
    EXPECT(at(node)->offset == offset && at(node)->size == fit.size && at(node)->entry == 3, "not what was asked for");
    uint64_t lost = 0;
    for (uint32_t i = offset; i < offset + fit.size; i++)
        lost |= model.fences[i] & ~at(node)->fence.mask;
    EXPECT(!lost, "the taken range has lost a fence");
    if (kind == SNUG__RANGE_LIVE) { /* as an allocation does: the fence is the buffer's now */
        at(node)->fence = SNUG__STAMP_NONE;
        model_fences(offset, offset + fit.size, 0, 0);
    }
    model_own(node);
}

static void do_free(fuzz_input *in) {
    uint32_t node = pick(in, taken);
    if (node == SNUG__NONE)
        return;
    snug__range was  = *at(node);
    uint64_t    mask = fuzz_byte(in) & ((1u << STAMP_BITS) - 1);
    for (uint32_t i = was.offset; i < was.offset + was.size; i++) {
        model.owner[i] = 0;
        model.kind[i]  = SNUG__RANGE_FREE;
    }
    model_fences(was.offset, was.offset + was.size, UINT64_MAX, mask);
    snug__range_free(&w.map, node, stamp_draw(mask));
}

static void do_split(fuzz_input *in) {
    uint32_t node = pick(in, divisible);
    if (node == SNUG__NONE)
        return;
    uint32_t size = 1 + fuzz_below(in, at(node)->size - 1), tail = snug__range_split(&w.map, node, size);
    if (tail == SNUG__NONE)
        EXPECT(w.map.nodes_made == w.map.nodes_max, "no node, though there are some left");
    else
        model_own(tail);
}

static void do_extend(fuzz_input *in) {
    uint32_t node = pick(in, extensible);
    if (node == SNUG__NONE)
        return;
    uint32_t    from = at(node)->offset + at(node)->size, more = 1 + fuzz_below(in, at(at(node)->next)->size);
    uint64_t    needed = 0;
    snug__stamp fence  = snug__range_extend(&w.map, node, more);
    for (uint32_t i = from; i < from + more; i++)
        needed |= model.fences[i];
    EXPECT(!(needed & ~fence.mask), "the fence of what came to it is lost");
    model_fences(from, from + more, 0, 0);
    model_own(node);
}

static void do_set_kind(fuzz_input *in) {
    bool     to_gap = fuzz_byte(in) & 1;
    uint32_t node   = pick(in, to_gap ? unused : live);
    if (node == SNUG__NONE)
        return;
    snug__range_set_kind(&w.map, node, to_gap ? SNUG__RANGE_GAP : SNUG__RANGE_PENDING);
    model_own(node);
}

static void do_absorb(fuzz_input *in) {
    uint32_t node = pick(in, gap_fed);
    if (node == SNUG__NONE)
        return;
    uint32_t previous = at(node)->previous, next = at(node)->next;
    bool     up = absorbable(next) && (!absorbable(previous) || fuzz_byte(in) & 1);
    snug__gap_absorb(&w.map, node, up ? next : previous);
    model_own(node);
}

/* A live range steps over a gap. What its alignment leaves goes free; the gap gets the fence that the place left has. */
static void do_swap(fuzz_input *in) {
    uint32_t node = pick(in, gap_movable);
    if (node == SNUG__NONE || !snug__map_ready(&w.map))
        return;
    uint32_t    previous = at(node)->previous, next = at(node)->next;
    bool        down  = live(next) && (!live(previous) || fuzz_byte(in) & 1);
    uint32_t    other = down ? next : previous;
    uint32_t    log2 = fuzz_byte(in) & 3, mask = fuzz_byte(in) & ((1u << STAMP_BITS) - 1), to;
    snug__range g = *at(node), l = *at(other);
    to = down ? snug__align_up(g.offset, 1u << log2) : (g.offset + g.size - l.size) >> log2 << log2;
    if (down ? to >= l.offset : to <= l.offset || g.offset + g.size < l.size)
        return;
    uint32_t start = down ? g.offset : l.offset, end = start + g.size + l.size;
    uint64_t fences = mask;
    for (uint32_t i = g.offset; i < g.offset + g.size; i++)
        fences |= model.fences[i];
    snug__gap_swap(&w.map, node, other, to, stamp_draw(mask));
    EXPECT(at(other)->offset == to && at(other)->size == l.size && at(other)->kind == SNUG__RANGE_LIVE,
           "the live range");
    EXPECT(at(node)->size > 0 && at(node)->kind == SNUG__RANGE_GAP, "the gap");
    for (uint32_t i = start; i < end; i++) {
        model.owner[i]  = 0;
        model.kind[i]   = SNUG__RANGE_FREE;
        model.fences[i] = fences; /* over all of it: the gap has one fence */
    }
    model_fences(to, to + l.size, 0, 0);
    model_own(other);
    model_own(node);
}

static void do_gaps_free(void) {
    snug__gaps_free(&w.map);
    for (uint32_t i = 0; i < model.committed; i++)
        if (model.kind[i] == SNUG__RANGE_GAP) {
            model.kind[i]  = SNUG__RANGE_FREE;
            model.owner[i] = 0;
        }
    EXPECT(w.map.gaps == SNUG__NONE && w.map.count[SNUG__RANGE_GAP] == 0, "gaps are left");
}

static void do_end(fuzz_input *in) {
    uint32_t how = fuzz_byte(in), last = w.map.last;
    if (how & 1 && model.committed < GRANULES) {
        uint32_t more = 1 + fuzz_below(in, GRANULES - model.committed);
        if (snug__map_grow(&w.map, more) != SNUG_OK) {
            EXPECT(w.map.nodes_made == w.map.nodes_max, "no node, though there are some left");
            return;
        }
        for (uint32_t i = model.committed; i < model.committed + more; i++) {
            model.owner[i]  = 0;
            model.kind[i]   = SNUG__RANGE_FREE;
            model.fences[i] = 0;
        }
        model.committed += more;
    } else if (of_kind(last, SNUG__RANGE_FREE)) {
        uint32_t less = 1 + fuzz_below(in, at(last)->size);
        snug__map_shrink(&w.map, less);
        model.committed -= less;
    }
}

static void do_settle(fuzz_input *in) {
    unsigned bit = fuzz_below(in, STAMP_BITS);
    stamps_settle(&w, bit);
    model_fences(0, GRANULES, ~(UINT64_C(1) << bit), 0);
}

static void one_op(fuzz_input *in) {
    switch (fuzz_byte(in) % 16) {
    case 0:
    case 1:
    case 2:
    case 3: do_take(in, false); break;
    case 4: do_take(in, true); break;
    case 5:
    case 6:
    case 7: do_free(in); break;
    case 8: do_split(in); break;
    case 9: do_extend(in); break;
    case 10: do_set_kind(in); break;
    case 11: do_absorb(in); break;
    case 12: do_swap(in); break;
    case 13: do_gaps_free(); break;
    case 14: do_end(in); break;
    default: do_settle(in);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input in = {data, data + size};
    world_renew(&w, GRANULES, 12 + fuzz_byte(&in)); /* few nodes: some calls find none */
    memset(&model, 0, sizeof model);
    for (unsigned op = 0; op < OPS_MAX && fuzz_more(&in); op++) {
        one_op(&in);
        EXPECT_SOUND(snug__map_check(&w.map));
        model_compare();
    }
    return 0;
}
