/* ops_plan.c - plans for maps and goals out of the input: what they reserve, what they leave alone (I4), that undoing one
 * leaves no trace, and that carrying it out makes the gap that was asked for. */
#include "tap.h"

#include "fuzz/fuzz.h"
#include "unit/fixture.h"
#include "unit/plan_world.h"

#include "fuzz/world.h"

enum { GRANULES = 512, RANGES_MAX = 100, ROUNDS_MAX = 12, PLANS_PER_INPUT = 4 };

typedef struct shape { /* one range of the map, as far as a plan must not change it without being asked */
    uint32_t    node, offset, size, entry;
    uint8_t     kind;
    bool        copying, fixed;
    snug__stamp fence;
} shape;

typedef struct shapes {
    shape    range[4 * RANGES_MAX];
    uint32_t count;
} shapes;

static bool aligned_world, fixed_world;

static snug__range *range_at(uint32_t node) {
    return snug__range_at(&w.map, node);
}

FUZZ_MODEL static void model_take(shapes *s) {
    s->count = 0;
    for (uint32_t node = w.map.first; node != SNUG__NONE; node = range_at(node)->next) {
        const snug__range *r = range_at(node);
        EXPECT(s->count < 4 * RANGES_MAX, "too many ranges");
        s->range[s->count++] = (shape){node,    r->offset,  r->size,  r->kind == SNUG__RANGE_LIVE ? r->entry : 0,
                                       r->kind, r->copying, r->fixed, r->fence};
    }
}

/* Nodes of free ranges may have changed; what is where may not. Fences may have been united, never dropped. */
FUZZ_MODEL static void model_same(const shapes *a) {
    static shapes b;
    model_take(&b);
    EXPECT(a->count == b.count, "%u ranges, before %u", b.count, a->count);
    for (uint32_t i = 0; i < a->count; i++) {
        const shape *x = &a->range[i], *y = &b.range[i];
        EXPECT(x->offset == y->offset && x->size == y->size && x->kind == y->kind && x->entry == y->entry, "range %u",
               i);
        EXPECT(x->copying == y->copying && x->fixed == y->fixed, "range %u is marked", i);
        EXPECT(x->kind != SNUG__RANGE_LIVE || x->node == y->node, "range %u: another node", i);
        EXPECT(snug__order_settled(&w.order, x->fence) || !(x->fence.mask & ~y->fence.mask), "range %u lost its fence",
               i);
    }
}

static void map_make(fuzz_input *in) {
    uint32_t how = fuzz_byte(in), at = 0, live_at[RANGES_MAX], lives = 0;
    aligned_world = how & 1;
    fixed_world   = false;
    world_renew(&w, GRANULES, 4 * RANGES_MAX);
    uint32_t granules = 64 + how / 2 * 3;
    uint32_t ranges   = 1 + fuzz_below(in, RANGES_MAX);
    snug__map_grow(&w.map, granules);
    for (uint32_t i = 0; i < ranges && at < granules; i++) {
        uint32_t what = fuzz_byte(in), size = 1 + (what >> 3) % 16, alignment = 1;
        if ((what & 7) < 3) { /* a hole */
            at += size;
            continue;
        }
        if (aligned_world && fuzz_more(in))
            alignment = 1u << fuzz_byte(in) % 4;
        at = snug__align_up(at, alignment);
        if (at + size > granules)
            break;
        uint32_t     node  = world_put(&w, at, size, alignment);
        snug__entry *entry = world_entry(&w, node);
        uint64_t     word;
        range_at(node)->fixed = (what & 7) == 7;
        fixed_world |= range_at(node)->fixed;
        if ((what & 7) == 6) /* pinned short */
            snug__entry_pin(entry, 1, true, &word);
        if ((what & 7) == 5)
            snug__atomic_stamp_set(&entry->writers, stamp_draw(1 + what % 7));
        if (what == 0xfc && snug__entry_pin(entry, 1, true, &word) == SNUG_OK) { /* dying */
            snug__entry_kill(&w.handles, &w.order, snug__handles_name(&w.handles, entry));
            snug__range_set_kind(&w.map, node, SNUG__RANGE_PENDING);
            w.handles.live--;
        }
        live_at[lives++] = node;
        at += size;
    }
    /* some go again, behind fences */
    for (uint32_t i = 0, n = fuzz_byte(in) % 8; i < n && lives; i++) {
        uint32_t k = fuzz_below(in, lives), node = live_at[k];
        if (range_at(node)->kind != SNUG__RANGE_LIVE || atomic_load(&world_entry(&w, node)->word) & SNUG__PINS)
            continue;
        range_at(node)->fence = stamp_draw(fuzz_byte(in) % 16);
        range_at(node)->fixed = 0;
        world_free(&w, node);
        live_at[k] = live_at[--lives];
    }
}

static snug__goal goal_make(fuzz_input *in) {
    uint32_t   how  = fuzz_byte(in);
    uint32_t   free = (uint32_t)w.map.granules[SNUG__RANGE_FREE];
    snug__goal goal = goal_of(free ? 1 + fuzz_below(in, free) : 1);
    if (how & 1)
        goal.alignment = 1u << fuzz_byte(in) % 6;
    if (how & 2)
        goal.granules_max = fuzz_below(in, GRANULES);
    if (how & 4)
        goal.step_max = 1 + fuzz_below(in, 64);
    if (how & 8)
        goal.moves_max = 1 + fuzz_below(in, 6);
    if (how & 16)
        goal.overhead = fuzz_byte(in) % 20;
    goal.idle_only    = how & 32;
    goal.settled_only = goal.idle_only && how & 64;
    return goal;
}

/* ------------------------------------------------------------------------------------------------ what a plan may do */

FUZZ_MODEL static void model_items(const snug__goal *goal, bool room) {
    uint64_t granules = 0;
    EXPECT(plan.count <= goal->moves_max, "%u moves of at most %u", plan.count, goal->moves_max);
    for (uint32_t i = 0; i < plan.count; i++) {
        const snug__item  *item = &plan.items[i];
        const snug__range *s = range_at(item->source), *t = range_at(item->target);
        granules += item->size;
        EXPECT(s->kind == SNUG__RANGE_LIVE && s->copying && !s->fixed, "item %u: its source", i); /* I4 */
        EXPECT(t->kind == SNUG__RANGE_TARGET && t->size == item->size && s->size == item->size, "item %u: its target",
               i);
        EXPECT(t->entry == s->entry, "item %u: a target for another's", i);
        snug__entry *entry = world_entry(&w, item->source);
        uint64_t     word  = atomic_load(&entry->word);
        EXPECT(t->offset % (1u << (entry->alignment_log2 - 8)) == 0, "item %u: alignment", i);
        EXPECT(item->generation == snug__word_generation(word), "item %u: generation", i);
        EXPECT(!goal->idle_only || !(word & SNUG__PINS), "item %u is pinned", i);
        if (goal->settled_only) {
            EXPECT(snug__order_settled(&w.order, t->fence), "item %u: a target that hasn't settled", i);
            EXPECT(snug__order_settled(&w.order, snug__atomic_stamp_get(&entry->writers)), "item %u: unsettled writers",
                   i);
        }
        for (uint32_t k = 0; k < i; k++)
            EXPECT(plan.items[k].source != item->source && plan.items[k].target != item->target, "item %u: named twice",
                   i);
    }
    EXPECT(granules <= goal->step_max, "a step of %llu, at most %llu", (unsigned long long)granules,
           (unsigned long long)goal->step_max);
    if (room)
        EXPECT(plan.granules <= goal->granules_max, "%llu granules in all", (unsigned long long)plan.granules);
}

/* The window between first and last is wide enough, is kept, and nothing of it is anybody's target. */
FUZZ_MODEL static void model_window(const snug__goal *goal, uint32_t limit) {
    uint32_t start = range_at(plan.first)->offset, end = range_at(plan.last)->offset + range_at(plan.last)->size;
    bool     detour = plan.size != goal->size || plan.alignment != goal->alignment;
    EXPECT(!detour || plan.cut, "a whole plan for %u, but %u are wanted", plan.size, goal->size);
    EXPECT(snug__align_up(start, plan.alignment) + plan.size <= end, "the window is too narrow");
    EXPECT(end <= limit, "the window ends at %u, beyond %u", end, limit);
    uint32_t lives = 0;
    for (uint32_t node = plan.first;; node = range_at(node)->next) {
        const snug__range *r = range_at(node);
        EXPECT(r->kind == SNUG__RANGE_GAP || r->kind == SNUG__RANGE_LIVE, "kind %u in the window", r->kind);
        EXPECT(!r->fixed || r->kind == SNUG__RANGE_GAP, "a fixed range in the window");
        lives += r->kind == SNUG__RANGE_LIVE;
        if (node == plan.last)
            break;
    }
    EXPECT(plan.cut ? lives <= plan.moves : lives == plan.moves, "%u live ranges, %u moves", lives, plan.moves);
    EXPECT(plan.cut == (plan.count < plan.moves), "%u of %u, cut %d", plan.count, plan.moves, plan.cut);
}

FUZZ_MODEL static void model_plan(const snug__goal *goal, bool room, uint32_t limit) {
    EXPECT_SOUND(snug__map_check(&w.map));
    if (plan.kind == SNUG__PLAN_EVACUATE) {
        model_items(goal, room);
        if (plan.first != SNUG__NONE)
            model_window(goal, limit);
    } else if (plan.kind == SNUG__PLAN_SLIDE) {
        EXPECT(range_at(plan.first)->kind == SNUG__RANGE_GAP, "the hole isn't kept");
        EXPECT(plan.granules <= goal->granules_max, "%llu granules in all", (unsigned long long)plan.granules);
        for (uint32_t node = plan.first;; node = plan.up ? range_at(node)->previous : range_at(node)->next) {
            EXPECT(range_at(node)->kind == SNUG__RANGE_FREE || snug__plan_movable(PLANNER, goal, node) ||
                       node == plan.first,
                   "a range that may not be moved in a slide");
            if (node == plan.last)
                break;
        }
    } else {
        EXPECT(plan.count == 0, "items of no plan");
        EXPECT(w.map.count[SNUG__RANGE_GAP] == 0 && w.map.count[SNUG__RANGE_TARGET] == 0, "reserved by no plan");
    }
}

/* Nothing but what the plan named has moved; what is live is live, with its size. */
FUZZ_MODEL static void model_lives(const shapes *before) {
    uint64_t live = 0;
    for (uint32_t i = 0; i < before->count; i++) {
        const shape *s = &before->range[i];
        live += s->kind == SNUG__RANGE_LIVE ? s->size : 0;
        if (s->kind == SNUG__RANGE_LIVE && s->fixed)
            EXPECT(range_at(s->node)->offset == s->offset && range_at(s->node)->fixed &&
                       range_at(s->node)->entry == s->entry,
                   "the fixed range at %u was moved", s->offset);
        if (s->kind == SNUG__RANGE_LIVE) {
            uint32_t node = snug__handles_at(&w.handles, s->entry)->range;
            EXPECT(range_at(node)->kind == SNUG__RANGE_LIVE && range_at(node)->entry == s->entry &&
                       range_at(node)->size == s->size,
                   "the buffer at %u is lost", s->offset);
            EXPECT(!range_at(node)->copying, "still marked");
            EXPECT(range_at(node)->offset % (1u << (snug__handles_at(&w.handles, s->entry)->alignment_log2 - 8)) == 0,
                   "alignment");
        }
    }
    EXPECT(w.map.granules[SNUG__RANGE_LIVE] == live, "live granules were lost or found");
}

/* By brute force: the most free granules of a stretch without barriers. */
FUZZ_MODEL static uint64_t model_stretch_free(void) {
    uint64_t most = 0, free = 0;
    for (uint32_t node = w.map.first; node != SNUG__NONE; node = range_at(node)->next) {
        const snug__range *r = range_at(node);
        if (r->kind == SNUG__RANGE_FREE)
            free += r->size;
        else if (r->kind != SNUG__RANGE_LIVE || r->fixed)
            free = 0;
        most = free > most ? free : most;
    }
    return most;
}

static bool unlimited(const snug__goal *goal) {
    return goal->granules_max == UINT64_MAX && goal->step_max == UINT64_MAX && goal->moves_max == UINT32_MAX &&
           !goal->idle_only;
}

/* ------------------------------------------------------------------------------------------------ plans */

static void one_room(const snug__goal *goal, bool undo) {
    static shapes before;
    model_take(&before);
    uint64_t most = model_stretch_free();
    snug__plan_room(PLANNER, goal, &plan);
    model_plan(goal, true, UINT32_MAX);
    if (unlimited(goal) && !aligned_world && most >= goal->size + goal->alignment - 1)
        EXPECT(plan.kind != SNUG__PLAN_NONE, "%llu are free without a barrier between, but no plan for %u",
               (unsigned long long)most, goal->size);
    if (undo) {
        snug__plan_undo(PLANNER, &plan);
        EXPECT_SOUND(snug__map_check(&w.map));
        model_same(&before);
        return;
    }
    bool evacuates = plan.kind == SNUG__PLAN_EVACUATE && plan.first != SNUG__NONE && !plan.cut;
    bool slides    = plan.kind == SNUG__PLAN_SLIDE && !aligned_world && !plan.cut;
    plan_simulate(&(snug__goal){.size = plan.size, .alignment = plan.alignment});
    EXPECT_SOUND(snug__map_check(&w.map));
    model_lives(&before);
    if (evacuates || slides)
        EXPECT(hole_is_there(goal->size, goal->alignment), "carried out, and there is no room for %u at %u", goal->size,
               goal->alignment);
}

static void rooms(const snug__goal *goal, bool undo) {
    for (unsigned round = 0; round < ROUNDS_MAX && !hole_is_there(goal->size, goal->alignment); round++) {
        one_room(goal, undo);
        if (undo || plan.kind == SNUG__PLAN_NONE)
            break;
    }
}

static void low(fuzz_input *in, const snug__goal *goal, bool undo) {
    static shapes before;
    uint32_t      limit = 1 + fuzz_below(in, GRANULES);
    model_take(&before);
    snug__plan_low(PLANNER, goal, limit, &plan);
    EXPECT(plan.kind != SNUG__PLAN_SLIDE, "a slide");
    model_plan(goal, false, limit);
    bool whole = plan.kind == SNUG__PLAN_EVACUATE && !plan.cut;
    if (undo) {
        snug__plan_undo(PLANNER, &plan);
        model_same(&before);
    } else {
        uint32_t offset;
        plan_simulate(goal);
        model_lives(&before);
        if (whole)
            EXPECT(snug__map_find_low(&w.map, (snug__fit){goal->size, goal->alignment, false}, limit, &offset) !=
                       SNUG__NONE,
                   "carried out, and there is no room below %u", limit);
    }
}

static void pack_or_jumble(fuzz_input *in, const snug__goal *goal, bool undo, bool jumble) {
    static shapes before;
    uint32_t      cursor = jumble ? fuzz_below(in, GRANULES) : 0;
    model_take(&before);
    if (jumble)
        snug__plan_jumble(PLANNER, goal, &cursor, &plan);
    else
        snug__plan_pack(PLANNER, goal, &plan);
    model_plan(goal, false, UINT32_MAX);
    for (uint32_t i = 0; i < plan.count && !jumble; i++)
        EXPECT(range_at(plan.items[i].target)->offset < range_at(plan.items[i].source)->offset, "packed upward");
    if (undo) {
        snug__plan_undo(PLANNER, &plan);
        model_same(&before);
    } else {
        plan_simulate(goal);
        model_lives(&before);
    }
}

static bool stops(uint32_t node, bool idle_only) {
    const snug__range *range = range_at(node);
    if (range->kind == SNUG__RANGE_FREE)
        return false;
    if (range->kind != SNUG__RANGE_LIVE || range->fixed)
        return true;
    return idle_only && (atomic_load(&snug__handles_at(&w.handles, range->entry)->word) & SNUG__PINS);
}

static void around(fuzz_input *in) {
    uint32_t node = w.map.first, n = fuzz_below(in, GRANULES), first = SNUG__NONE, last = SNUG__NONE;
    while (node != SNUG__NONE && range_at(node)->offset + range_at(node)->size <= n)
        node = range_at(node)->next;
    if (node == SNUG__NONE || range_at(node)->kind != SNUG__RANGE_LIVE)
        return;
    uint32_t     extra = 1 + fuzz_below(in, GRANULES), free = 0, how = fuzz_below(in, 4);
    snug__around asked   = {.node = node, .extra = extra, .all = how & 1, .idle_only = how & 2};
    bool         found   = snug__plan_around(PLANNER, asked, &first, &last);
    uint32_t     low_end = found && first != SNUG__NONE ? first : node,
             high_end    = found && last != SNUG__NONE ? last : node;
    if (!found) { /* then the whole stretch has too few */
        for (uint32_t to; (to = range_at(low_end)->previous) != SNUG__NONE && !stops(to, asked.idle_only);)
            low_end = to;
        for (uint32_t to; (to = range_at(high_end)->next) != SNUG__NONE && !stops(to, asked.idle_only);)
            high_end = to;
    }
    for (uint32_t i = low_end;; i = range_at(i)->next) {
        EXPECT(i == node || !stops(i, asked.idle_only), "a barrier between");
        free += range_at(i)->kind == SNUG__RANGE_FREE ? range_at(i)->size : 0;
        if (i == high_end)
            break;
    }
    EXPECT(found == (free >= extra), "%u free around it, %u wanted, found %d", free, extra, found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input in = {data, data + size};
    map_make(&in);
    EXPECT_SOUND(snug__map_check(&w.map));
    for (unsigned i = 0; i < PLANS_PER_INPUT && fuzz_more(&in); i++) {
        uint32_t   what = fuzz_byte(&in);
        bool       undo = what & 8;
        snug__goal goal = goal_make(&in);
        switch (what % 8) {
        case 0:
        case 1:
        case 2: rooms(&goal, undo); break;
        case 3: low(&in, &goal, undo); break;
        case 4: pack_or_jumble(&in, &goal, undo, false); break;
        case 5: pack_or_jumble(&in, &goal, undo, true); break;
        case 6: around(&in); break;
        default: stamps_settle(&w, what / 8 % STAMP_BITS);
        }
        EXPECT_SOUND(snug__map_check(&w.map));
    }
    return 0;
}
