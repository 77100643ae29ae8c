/* plan_random.c - plans for random maps, carried out: is the room there, what did it cost, what was touched. */
#include "tap.h"

#include "fixture.h"
#include "plan_world.h"

typedef struct shape {
    uint32_t granules, size_max, alignments, fixed_in; /* fixed_in: one in so many ranges is fixed; 0 none */
} shape;

static void random_map(dice *d, shape s) {
    world_open(&w, s.granules, 200000);
    snug__map_grow(&w.map, s.granules);
    for (uint32_t at = 0; at < s.granules;) {
        uint32_t size = 1 + dice_below(d, s.size_max), alignment = 1u << dice_below(d, s.alignments);
        if (dice_below(d, 5) < 2)
            at += size;
        else {
            at = snug__align_up(at, alignment);
            if (at + size > s.granules)
                break;
            uint32_t node = world_put(&w, at, size, alignment);
            snug__range_at(&w.map, node)->fixed = s.fixed_in && dice_below(d, s.fixed_in) == 0;
            at += size;
        }
    }
}

static bool barrier(uint32_t node) {
    const snug__range *r = snug__range_at(&w.map, node);
    return r->kind != SNUG__RANGE_FREE && r->fixed;
}

/* By brute force: the least live granules of any run of ranges that spans size granules (slide: has so many free ones). */
static uint64_t cheapest(uint32_t size, bool slide) {
    uint64_t best = UINT64_MAX;
    for (uint32_t first = w.map.first; first != SNUG__NONE; first = snug__range_at(&w.map, first)->next) {
        uint64_t span = 0, live = 0;
        for (uint32_t node = first; node != SNUG__NONE && !barrier(node); node = snug__range_at(&w.map, node)->next) {
            const snug__range *r = snug__range_at(&w.map, node);
            span += r->size;
            live += r->kind == SNUG__RANGE_LIVE ? r->size : 0;
            if ((slide ? span - live : span) >= size) {
                best = live < best ? live : best;
                break;
            }
        }
    }
    return best;
}

static uint64_t fixed_sum(void) { /* where the fixed ranges are, and how large */
    uint64_t sum = 0;
    for (uint32_t node = w.map.first; node != SNUG__NONE; node = snug__range_at(&w.map, node)->next)
        if (snug__range_at(&w.map, node)->fixed)
            sum = sum * 31 + snug__range_at(&w.map, node)->offset * UINT64_C(977) + snug__range_at(&w.map, node)->size;
    return sum;
}

/* A plan that is cut goes on with the next. */
static void plan_whole(const snug__goal *goal) {
    plan_simulate(&(snug__goal){.size = plan.size, .alignment = plan.alignment});
    for (unsigned steps = 0; plan.cut && !hole_is_there(goal->size, goal->alignment) && steps < 16; steps++) {
        snug__plan_room(PLANNER, goal, &plan);
        plan_simulate(&(snug__goal){.size = plan.size, .alignment = plan.alignment});
    }
}

static const char *one_plan_makes_room(dice *d) {
    random_map(d, (shape){200 + dice_below(d, 800), 1 + dice_below(d, 40), 1, 0});
    uint32_t    free  = (uint32_t)w.map.granules[SNUG__RANGE_FREE];
    uint32_t    size  = free ? 1 + dice_below(d, free) : 0;
    snug__goal  goal  = goal_of(size);
    const char *fault = NULL;
    if (size && dice_below(d, 4) == 0)
        goal.size = size = free;
    if (size) {
        uint64_t least = cheapest(size, false), most = cheapest(size, true);
        snug__plan_room(PLANNER, &goal, &plan);
        if (plan.kind == SNUG__PLAN_NONE)
            fault = "enough is free and nothing is fixed, but there is no plan";
        else if (plan.granules < least || plan.granules > most)
            fault = "it moves more than the cheapest slide, or less than any window holds";
        else
            plan_whole(&goal);
        if (!fault && !hole_is_there(size, 1))
            fault = "the plan was carried out and there is no room";
    }
    if (!fault)
        fault = snug__map_check(&w.map);
    world_close(&w);
    return fault;
}

static const char *fixed_ranges_stay(dice *d) {
    random_map(d, (shape){200 + dice_below(d, 800), 1 + dice_below(d, 40), 1 + dice_below(d, 4), 1 + dice_below(d, 12)});
    uint32_t    free  = (uint32_t)w.map.granules[SNUG__RANGE_FREE];
    uint64_t    fixed = fixed_sum(), live = w.map.granules[SNUG__RANGE_LIVE];
    const char *fault = NULL;
    snug__goal  goal  = goal_of(free ? 1 + dice_below(d, free) : 1);
    goal.alignment    = 1u << dice_below(d, 4);
    if (dice_below(d, 2))
        goal.step_max = 1 + dice_below(d, 60);
    if (dice_below(d, 2))
        goal.moves_max = 1 + dice_below(d, 6);
    unsigned rounds = 0;
    for (; rounds < 200 && !fault && !hole_is_there(goal.size, goal.alignment); rounds++) {
        char before[1 << 14], after[1 << 14];
        map_text(&w.map, before, sizeof before);
        snug__plan_room(PLANNER, &goal, &plan);
        bool none = plan.kind == SNUG__PLAN_NONE || (plan.kind == SNUG__PLAN_EVACUATE && plan.count == 0);
        if (dice_below(d, 4) == 0) {
            snug__plan_undo(PLANNER, &plan);
            if (strcmp(map_text(&w.map, after, sizeof after), before) != 0)
                fault = "an undone plan has left the map changed";
        } else {
            plan_simulate(&goal);
        }
        if (!fault)
            fault = snug__map_check(&w.map);
        if (fixed_sum() != fixed)
            fault = "a fixed range was moved";
        if (w.map.granules[SNUG__RANGE_LIVE] != live)
            fault = "live granules were lost or found";
        if (none)
            break;
    }
    world_close(&w);
    return fault;
}

/* With alignments the bytes that a slide leaves behind may have to be gone after again; but it ends. */
static const char *repeated_plans_make_aligned_room(dice *d) {
    random_map(d, (shape){400 + dice_below(d, 800), 1 + dice_below(d, 30), 1, 0});
    uint32_t    free  = (uint32_t)w.map.granules[SNUG__RANGE_FREE];
    const char *fault = NULL;
    snug__goal  goal  = goal_of(1);
    goal.alignment    = 1u << dice_below(d, 6);
    if (free > goal.alignment) {
        goal.size = 1 + dice_below(d, free - goal.alignment);
        if (!hole_is_there(goal.size, goal.alignment)) {
            snug__plan_room(PLANNER, &goal, &plan);
            if (plan.kind == SNUG__PLAN_NONE)
                fault = "free bytes and padding suffice, but there is no plan";
            plan_whole(&goal);
        }
        if (!fault && !hole_is_there(goal.size, goal.alignment))
            fault = "the aligned hole isn't there";
    }
    if (!fault)
        fault = snug__map_check(&w.map);
    world_close(&w);
    return fault;
}

static const char *pack_and_jumble_keep_everything(dice *d) {
    random_map(d, (shape){200 + dice_below(d, 800), 1 + dice_below(d, 40), 1 + dice_below(d, 4), dice_below(d, 12)});
    uint64_t    fixed = fixed_sum(), live = w.map.granules[SNUG__RANGE_LIVE];
    uint32_t    cursor = 0;
    const char *fault  = NULL;
    for (unsigned i = 0; i < 12 && !fault; i++) {
        snug__goal goal = goal_of(1);
        goal.moves_max  = 1 + dice_below(d, 20);
        if (dice_below(d, 2))
            snug__plan_pack(PLANNER, &goal, &plan);
        else
            snug__plan_jumble(PLANNER, &goal, &cursor, &plan);
        plan_simulate(&goal);
        fault = snug__map_check(&w.map);
        if (fixed_sum() != fixed || w.map.granules[SNUG__RANGE_LIVE] != live)
            fault = "a fixed range was moved, or something was lost";
    }
    world_close(&w);
    return fault;
}

static void many(uint64_t seed, const char *(*one)(dice *d), uint64_t times, const char *name) {
    const char *fault = NULL;
    times             = tap_scaled(times);
    for (uint64_t i = 0; i < times && !fault; i++) {
        dice d = {seed + i};
        fault  = one(&d);
        if (fault)
            diag("%s: replay with seed %" PRIu64, name, seed + i);
    }
    is_string(fault, NULL, "%s, %" PRIu64 " times", name, times);
}

int main(int argc, char **argv) {
    uint64_t seed = fixture_seed(argc, argv);
    many(seed, one_plan_makes_room, 1000, "one plan makes room wherever the bytes are free");
    many(seed, fixed_ranges_stay, 600, "fixed ranges stay, and what is undone leaves no trace");
    many(seed, repeated_plans_make_aligned_room, 600, "aligned room costs its padding and no more");
    many(seed, pack_and_jumble_keep_everything, 300, "packing and jumbling keep everything");
    return done_testing();
}
