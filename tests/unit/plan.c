/* plan.c - the planner on maps built by hand: which window, which targets, what it never names, budgets, the other goals. */
#include "tap.h"

#include "fixture.h"
#include "plan_world.h"

static void plan_for(snug__goal goal) {
    snug__plan_room(PLANNER, &goal, &plan);
}

/* ------------------------------------------------------------------------------------------------ windows */

static void the_cheapest_window_is_evacuated(void) {
    lay_out("l10 f20 l3 f20 l30 f30 l5 f10 l1");
    plan_for(goal_of(35));
    is_u64(plan.kind, SNUG__PLAN_EVACUATE, "evacuation");
    is_u64(plan.granules, 3, "of the window with the fewest live bytes");
    is_u64(plan.moves, 1, "in one move");
    is_u64(plan.count, 1, "in one step");
    ok(!plan.cut, "not cut");
    is_map(&w.map,
           "live 0+10, gap 10+20, live 30+3, gap 33+20, live 53+30, free 83+30, live 113+5, target 118+3, free 121+7, "
           "live 128+1",
           "the window's holes are gaps; the target is the best fit outside");
    ok(snug__range_at(&w.map, map_at(&w.map, 30))->copying, "the source is marked");
    is_sound(&w.map, "sound");
    plan_simulate(&(snug__goal){.size = 35, .alignment = 1});
    is_u64(snug__map_largest(&w.map), 43, "carried out, the hole is there");
    world_close(&w);
}

static void the_cost_of_a_copy_counts(void) {
    lay_out("x1 f10 l1 l1 l1 l1 f10 x1 f10 l6 f10 x1 f6 x1");
    plan_for(goal_of(27));
    is_u64(plan.kind, SNUG__PLAN_NONE, "no stretch has 27");
    snug__goal goal = goal_of(20);
    snug__plan_room(PLANNER, &goal, &plan);
    is_u64(plan.granules, 4, "copies for nothing: four of one granule");
    snug__plan_undo(PLANNER, &plan);
    goal.overhead = 3;
    snug__plan_room(PLANNER, &goal, &plan);
    is_u64(plan.granules, 6, "copies for 3 granules each: one of six");
    snug__plan_undo(PLANNER, &plan);
    world_close(&w);
}

static void every_other_of_n_needs_a_quarter_of_n_moves(void) {
    for (uint32_t n = 8; n <= 4096; n *= 8) {
        world_open(&w, n * 4, 200000);
        snug__map_grow(&w.map, n * 4);
        for (uint32_t i = 0; i < n; i += 2)
            world_put(&w, i * 4, 4, 1);
        snug__goal goal = goal_of(n / 2 * 4);
        snug__plan_room(PLANNER, &goal, &plan);
        is_u64(plan.kind, SNUG__PLAN_EVACUATE, "%u equal buffers, every other free: evacuation", n);
        is_u64(plan.moves, n / 4, "of %u", n / 4);
        plan_simulate(&goal);
        is_u64(snug__map_largest(&w.map), n / 2 * 4, "makes one hole of all that is free");
        is_sound(&w.map, "sound");
        world_close(&w);
    }
}

static void targets_lie_outside_the_window(void) {
    lay_out("f8 l4 f8 l4 f8 l40 f4 l1 f4 l1");
    plan_for(goal_of(30));
    is_u64(plan.kind, SNUG__PLAN_EVACUATE, "evacuation");
    for (uint32_t i = 0; i < plan.count; i++)
        ok(snug__range_at(&w.map, plan.items[i].target)->offset >= 72, "target %u is beyond the window", i);
    is_u64(plan.count, 2, "both of its buffers");
    world_close(&w);
}

static void no_hole_elsewhere_means_a_slide(void) {
    lay_out("l5 f4 l10 f4 l10");
    plan_for(goal_of(8));
    is_u64(plan.kind, SNUG__PLAN_SLIDE, "slide");
    is_u64(plan.granules, 10, "over the one buffer between");
    is_map(&w.map, "live 0+5, gap 5+4, live 9+10, free 19+4, live 23+10", "the hole that is carried is reserved");
    plan_simulate(&(snug__goal){.size = 8, .alignment = 1});
    is_map(&w.map, "live 0+5, live 5+10, free 15+8, live 23+10", "carried out");
    is_sound(&w.map, "sound");
    world_close(&w);
}

static void a_cheaper_slide_beats_an_evacuation(void) {
    lay_out("x1 f5 l2 f5 x1 f3 l30 f33 x1 f2 x1");
    snug__goal goal = goal_of(36);
    snug__plan_room(PLANNER, &goal, &plan);
    is_u64(plan.kind, SNUG__PLAN_SLIDE, "nothing holds the 30 elsewhere");
    snug__plan_undo(PLANNER, &plan);
    goal.size = 10;
    snug__plan_room(PLANNER, &goal, &plan);
    is_u64(plan.granules, 0, "ten are there already");
    snug__plan_undo(PLANNER, &plan);
    world_close(&w);
}

static void an_aligned_goal_gets_an_aligned_window(void) {
    lay_out("l3 f30 l1 f30 l3 f3");
    snug__goal goal = goal_of(32);
    goal.alignment  = 32;
    snug__plan_room(PLANNER, &goal, &plan);
    is_u64(plan.kind, SNUG__PLAN_EVACUATE, "a plan");
    plan_simulate(&goal);
    ok(hole_is_there(32, 32), "32 granules at a multiple of 32");
    world_close(&w);
}

static void buffers_keep_their_alignment(void) {
    world_open(&w, 200, 1000);
    snug__map_grow(&w.map, 200);
    world_put(&w, 32, 4, 32);
    world_put(&w, 65, 30, 1); /* holes: 0+32, 36+29, 95+... */
    world_put(&w, 101, 99, 1);
    snug__goal goal = goal_of(60);
    snug__plan_room(PLANNER, &goal, &plan);
    is_u64(plan.kind, SNUG__PLAN_EVACUATE, "a plan");
    is_u64(plan.count, 1, "of one move");
    is_u64(snug__range_at(&w.map, plan.items[0].target)->offset % 32, 0, "to an aligned place: 96 is the only one");
    world_close(&w);
}

/* ------------------------------------------------------------------------------------------------ never named */

static void fixed_ranges_are_never_named(void) {
    lay_out("f10 x2 f10 l50 f10 l3 f10 l1 f3 l1");
    plan_for(goal_of(20));
    is_u64(plan.granules, 3, "the window without a fixed range, though the other would cost 2");
    plan_simulate(&(snug__goal){.size = 20, .alignment = 1});
    is_u64(snug__range_at(&w.map, map_at(&w.map, 10))->fixed, 1, "the fixed one is where it was");
    world_close(&w);
    lay_out("x2 f10 x2 f10 x2 f10 x2");
    plan_for(goal_of(20));
    is_u64(plan.kind, SNUG__PLAN_NONE, "between fixed ranges only: no plan");
    is_map(&w.map, "live 0+2, free 2+10, live 12+2, free 14+10, live 24+2, free 26+10, live 36+2",
           "nothing is reserved");
    world_close(&w);
}

static void ranges_in_a_plan_are_never_named(void) {
    lay_out("f10 l2 f10 l50 f10 l3 f10 l1 f3 l1");
    snug__range_at(&w.map, map_at(&w.map, 10))->copying = 1;
    plan_for(goal_of(20));
    is_u64(plan.granules, 3, "the other window");
    world_close(&w);
}

static void idle_only_leaves_the_pinned_alone(void) {
    lay_out("f10 l2 f10 l50 f10 l3 f10 l1 f3 l1");
    snug__goal goal = goal_of(20);
    uint64_t   word;
    snug__entry_pin(world_entry(&w, map_at(&w.map, 10)), 1, false, &word);
    goal.idle_only = true;
    snug__plan_room(PLANNER, &goal, &plan);
    is_u64(plan.granules, 3, "idle ones only: the other window");
    snug__plan_undo(PLANNER, &plan);
    goal.idle_only = false;
    snug__plan_room(PLANNER, &goal, &plan);
    is_u64(plan.granules, 2, "otherwise the cheap one: its pin may go");
    snug__plan_undo(PLANNER, &plan);
    world_close(&w);
}

static void a_moved_buffer_rests(void) {
    lay_out("l1 f5 l3");
    uint32_t   node  = map_at(&w.map, 0);
    snug__goal goal  = goal_of(1);
    goal.idle_only   = true;
    goal.cooldown_ns = 100;
    goal.now_ns      = 1000;
    ok(snug__plan_movable(PLANNER, &goal, node), "never moved");
    world_entry(&w, node)->moved_at_ns = 901;
    ok(!snug__plan_movable(PLANNER, &goal, node), "moved 99 ns ago");
    world_entry(&w, node)->moved_at_ns = 900;
    ok(snug__plan_movable(PLANNER, &goal, node), "moved 100 ns ago");
    ok(!snug__plan_movable(PLANNER, &goal, map_at(&w.map, 1)), "a hole isn't movable");
    world_close(&w);
}

static void settled_only_leaves_the_unfinished_alone(void) {
    lay_out("f10 l2 f10 l50 f10 l3 f10 l1 f3 l1 f3 l1");
    snug__goal   goal  = goal_of(20);
    snug__entry *entry = world_entry(&w, map_at(&w.map, 10));
    goal.idle_only = goal.settled_only = true;
    snug__atomic_stamp_add(&entry->readers, 1, LATER);
    snug__plan_room(PLANNER, &goal, &plan);
    is_u64(plan.granules, 2, "unfinished readers don't matter");
    snug__plan_undo(PLANNER, &plan);
    snug__atomic_stamp_add(&entry->writers, 1, LATER);
    snug__plan_room(PLANNER, &goal, &plan);
    is_u64(plan.granules, 3, "unfinished writers do");
    snug__plan_undo(PLANNER, &plan);
    snug__range_at(&w.map, map_at(&w.map, 96))->fence = (snug__stamp){1, LATER};
    snug__plan_room(PLANNER, &goal, &plan);
    is_u64(snug__range_at(&w.map, plan.items[0].target)->offset, 100, "nor does it take an unsettled hole as target");
    snug__plan_undo(PLANNER, &plan);
    world_close(&w);
}

/* ------------------------------------------------------------------------------------------------ budgets, relief, undo */

static void budgets_cut_a_plan(void) {
    lay_out("f4 l8 f4 l4 f4 l2 f4 x1 f14 x1");
    snug__goal goal = goal_of(25);
    snug__plan_room(PLANNER, &goal, &plan);
    is_u64(plan.granules, 14, "all three are to be moved");
    is_u64(plan.count, 3, "in one step without a budget");
    snug__plan_undo(PLANNER, &plan);
    goal.step_max = 7;
    snug__plan_room(PLANNER, &goal, &plan);
    is_u64(plan.granules, 14, "with a budget of 7 the plan is the same");
    is_u64(plan.count, 2, "but this step does two of it");
    ok(plan.cut, "it is cut");
    is_u64(plan.items[0].size + plan.items[1].size, 6, "the smaller ones");
    snug__plan_undo(PLANNER, &plan);
    goal.step_max  = UINT64_MAX;
    goal.moves_max = 1;
    snug__plan_room(PLANNER, &goal, &plan);
    is_u64(plan.count, 1, "one move");
    ok(plan.cut, "cut");
    snug__plan_undo(PLANNER, &plan);
    goal.step_max = 1;
    snug__plan_room(PLANNER, &goal, &plan);
    is_u64(plan.count, 0, "a budget below every buffer does nothing");
    is_u64(plan.least, 2, "and says what the smallest needs");
    snug__plan_undo(PLANNER, &plan);
    goal              = goal_of(25);
    goal.granules_max = 7;
    snug__plan_room(PLANNER, &goal, &plan);
    is_u64(plan.kind, SNUG__PLAN_NONE, "what costs more than the goal allows isn't a plan");
    is_map(
        &w.map,
        "free 0+4, live 4+8, free 12+4, live 16+4, free 20+4, live 24+2, free 26+4, live 30+1, free 31+14, live 45+1",
        "and nothing is reserved");
    world_close(&w);
}

static void a_slide_beyond_the_budget_says_what_it_needs(void) {
    lay_out("l5 f4 l10 f4 l10");
    snug__goal goal = goal_of(8);
    goal.step_max   = 9;
    snug__plan_room(PLANNER, &goal, &plan);
    is_u64(plan.kind, SNUG__PLAN_NONE, "no slide with a budget of 9");
    is_u64(plan.least, 10, "it takes 10");
    goal.step_max = 10;
    snug__plan_room(PLANNER, &goal, &plan);
    is_u64(plan.kind, SNUG__PLAN_SLIDE, "with 10 there is one");
    world_close(&w);
}

static void a_stretch_between_fixed_ranges_is_relieved(void) {
    lay_out("x1 l6 f4 l6 x1 l2 f6 x1");
    snug__goal goal = goal_of(10);
    snug__plan_room(PLANNER, &goal, &plan);
    is_u64(plan.kind, SNUG__PLAN_EVACUATE, "a buffer is carried to the other stretch");
    is_u64(plan.moves, 1, "one suffices");
    plan_simulate(&goal);
    is_sound(&w.map, "sound");
    if (!hole_is_there(10, 1)) {
        snug__plan_room(PLANNER, &goal, &plan);
        is_u64(plan.kind, SNUG__PLAN_SLIDE, "a slide does the rest");
        plan_simulate(&goal);
    }
    ok(hole_is_there(10, 1), "then there is room");
    world_close(&w);
    lay_out("x1 l6 f4 l6 x1 l2 f5 x1");
    plan_for(goal_of(10));
    is_u64(plan.kind, SNUG__PLAN_NONE, "a hole too small elsewhere: no plan");
    is_map(&w.map, "live 0+1, live 1+6, free 7+4, live 11+6, live 17+1, live 18+2, free 20+5, live 25+1",
           "nothing is reserved");
    world_close(&w);
}

static void undo_restores_the_map(void) {
    const char *layouts[] = {"l10 f20 l3 f20 l30 f30 l5 f10 l1", "l5 f4 l10 f4 l10", "x1 l6 f4 l6 x1 l2 f6 x1",
                             "f4 l8 f4 l4 f4 l2 f4 x1 f14 x1"};
    uint32_t    sizes[]   = {35, 8, 10, 25};
    for (unsigned i = 0; i < 4; i++) {
        char before[4096], after[4096];
        lay_out(layouts[i]);
        map_text(&w.map, before, sizeof before);
        plan_for(goal_of(sizes[i]));
        ok(plan.kind != SNUG__PLAN_NONE, "a plan for \"%s\"", layouts[i]);
        snug__plan_undo(PLANNER, &plan);
        is_string(map_text(&w.map, after, sizeof after), before, "undone");
        uint32_t copying = 0;
        for (uint32_t node = w.map.first; node != SNUG__NONE; node = snug__range_at(&w.map, node)->next)
            copying += snug__range_at(&w.map, node)->copying;
        is_u64(copying, 0, "nothing is marked");
        is_sound(&w.map, "sound");
        world_close(&w);
    }
}

/* ------------------------------------------------------------------------------------------------ other goals */

static void low_makes_room_at_the_lowest_address(void) {
    lay_out("x4 l3 f2 l20 f40 l5 f10");
    snug__goal goal = goal_of(5);
    snug__plan_low(PLANNER, &goal, 69, &plan);
    is_u64(plan.kind, SNUG__PLAN_EVACUATE, "evacuation");
    is_u64(plan.granules, 3, "of what lies lowest behind the fixed range");
    plan_simulate(&goal);
    uint32_t offset = 0;
    snug__map_find_low(&w.map, (snug__fit){5, 1, false}, SNUG__NONE, &offset);
    is_u64(offset, 4, "there it is");
    snug__plan_low(PLANNER, &goal, 8, &plan);
    is_u64(plan.kind, SNUG__PLAN_NONE, "nothing that ends at 8");
    goal.size         = 9;
    goal.granules_max = 10;
    snug__plan_low(PLANNER, &goal, SNUG__NONE, &plan);
    ok(plan.kind == SNUG__PLAN_NONE || plan.granules <= 10, "no more than it may cost");
    is_sound(&w.map, "sound");
    world_close(&w);
}

static void pack_brings_the_top_down(void) {
    lay_out("f5 l3 f8 l4 f2 l5 x1 l2");
    snug__goal goal = goal_of(1);
    snug__plan_pack(PLANNER, &goal, &plan);
    is_u64(plan.kind, SNUG__PLAN_EVACUATE, "a plan");
    for (uint32_t i = 0; i < plan.count; i++)
        ok(snug__range_at(&w.map, plan.items[i].target)->offset < snug__range_at(&w.map, plan.items[i].source)->offset,
           "item %u goes down", i);
    is_u64(plan.items[0].size, 2, "the topmost first");
    plan_simulate(&goal);
    is_sound(&w.map, "sound");
    is_map(&w.map, "live 0+2, free 2+3, live 5+3, live 8+5, free 13+3, live 16+4, free 20+7, live 27+1, free 28+2",
           "packed as far as one step goes");
    world_close(&w);
}

static void jumble_moves_everything_once_around(void) {
    lay_out("l4 f4 l4 f4 l4 f4 x4 l4 f20");
    snug__goal goal   = goal_of(1);
    uint32_t   cursor = 0, moves = 0;
    goal.moves_max = 2;
    snug__plan_jumble(PLANNER, &goal, &cursor, &plan);
    is_u64(plan.count, 2, "two of them in the first step");
    ok(cursor > 0, "the cursor says where to go on");
    for (unsigned step = 0; step < 10; step++) {
        moves += plan.count;
        for (uint32_t i = 0; i < plan.count; i++)
            if (snug__range_at(&w.map, plan.items[i].source)->fixed)
                ok(false, "a fixed range is moved");
        plan_simulate(&goal);
        if (cursor == 0)
            break;
        snug__plan_jumble(PLANNER, &goal, &cursor, &plan);
    }
    is_u64(cursor, 0, "the cursor comes back to the start");
    ok(moves >= 4, "each of the four has been moved: %u moves", moves);
    is_sound(&w.map, "sound");
    world_close(&w);
}

static void around_finds_the_nearest_holes(void) {
    lay_out("f9 l5 f3 l4 f2 l9 f6 x1 f50");
    uint32_t first = 0, last = 0, node = map_at(&w.map, 17); /* the l4 */
    ok(snug__plan_around(PLANNER, (snug__around){.node = node, .extra = 2}, &first, &last), "2 more");
    is_u64(last, map_at(&w.map, 21), "are just above it");
    is_u64(first, SNUG__NONE, "nothing is needed below");
    ok(snug__plan_around(PLANNER, (snug__around){.node = node, .extra = 5}, &first, &last), "5 more");
    is_u64(first, map_at(&w.map, 14), "are above and below");
    ok(snug__plan_around(PLANNER, (snug__around){.node = node, .extra = 20}, &first, &last), "20 more");
    is_u64(first, map_at(&w.map, 0), "are all there is on this side of the fixed range");
    is_u64(last, map_at(&w.map, 32), "up to it");
    ok(!snug__plan_around(PLANNER, (snug__around){.node = node, .extra = 21}, &first, &last), "21 aren't there");
    ok(snug__plan_around(PLANNER, (snug__around){.node = node, .extra = 2, .all = true}, &first, &last),
       "all there is");
    is_u64(first, map_at(&w.map, 0), "from the lowest");
    is_u64(last, map_at(&w.map, 32), "to the highest");
    world_close(&w);
}

int main(void) {
    the_cheapest_window_is_evacuated();
    the_cost_of_a_copy_counts();
    every_other_of_n_needs_a_quarter_of_n_moves();
    targets_lie_outside_the_window();
    no_hole_elsewhere_means_a_slide();
    a_cheaper_slide_beats_an_evacuation();
    an_aligned_goal_gets_an_aligned_window();
    buffers_keep_their_alignment();
    fixed_ranges_are_never_named();
    ranges_in_a_plan_are_never_named();
    idle_only_leaves_the_pinned_alone();
    a_moved_buffer_rests();
    settled_only_leaves_the_unfinished_alone();
    budgets_cut_a_plan();
    a_slide_beyond_the_budget_says_what_it_needs();
    a_stretch_between_fixed_ranges_is_relieved();
    undo_restores_the_map();
    low_makes_room_at_the_lowest_address();
    pack_brings_the_top_down();
    jumble_moves_everything_once_around();
    around_finds_the_nearest_holes();
    return done_testing();
}
