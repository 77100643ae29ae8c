/* range.c - the map of the arena: taking, freeing, searching, gaps, and the check that finds damage. */
#include "tap.h"

#include "fixture.h"

static world w;

static void map_of(uint32_t granules) {
    world_open(&w, granules, 65536);
    snug__map_grow(&w.map, granules);
}

static uint32_t take(uint32_t offset, uint32_t size) {
    uint32_t node = w.map.first;
    while (snug__range_at(&w.map, node)->offset + snug__range_at(&w.map, node)->size <= offset)
        node = snug__range_at(&w.map, node)->next;
    return snug__range_take(&w.map, node, offset, size, SNUG__RANGE_LIVE, SNUG__NONE);
}

static snug__stamp fence_at(uint32_t offset) {
    return snug__range_at(&w.map, map_at(&w.map, offset))->fence;
}

/* ------------------------------------------------------------------------------------------------ take and free */

static void take_leaves_what_it_does_not_take(void) {
    map_of(100);
    uint32_t middle = take(40, 20);
    is_map(&w.map, "free 0+40, live 40+20, free 60+40", "a take in the middle leaves both ends free");
    take(0, 40);
    is_map(&w.map, "live 0+40, live 40+20, free 60+40", "a whole range is taken without a rest");
    take(60, 10);
    is_map(&w.map, "live 0+40, live 40+20, live 60+10, free 70+30", "a take at the start leaves the end");
    snug__range_free(&w.map, middle, SNUG__STAMP_NONE);
    is_map(&w.map, "live 0+40, free 40+20, live 60+10, free 70+30", "between live ranges it is free by itself");
    is_u64(w.map.granules[SNUG__RANGE_LIVE], 50, "live granules");
    is_u64(w.map.granules[SNUG__RANGE_FREE], 50, "free granules");
    is_u64(w.map.count[SNUG__RANGE_FREE], 2, "free ranges");
    is_u64(snug__map_largest(&w.map), 30, "the largest hole");
    is_sound(&w.map, "sound");
    world_close(&w);
}

static void free_merges_with_both_neighbours(void) {
    map_of(30);
    uint32_t a = take(0, 10), b = take(10, 10), c = take(20, 10);
    is_u64(snug__map_largest(&w.map), 0, "a full map has no hole");
    snug__range_free(&w.map, a, SNUG__STAMP_NONE);
    snug__range_free(&w.map, c, SNUG__STAMP_NONE);
    is_map(&w.map, "free 0+10, live 10+10, free 20+10", "apart");
    snug__range_free(&w.map, b, SNUG__STAMP_NONE);
    is_map(&w.map, "free 0+30", "one");
    is_sound(&w.map, "sound");
    world_close(&w);
}

static void changes_count_takes_and_frees(void) {
    map_of(30);
    uint64_t before = w.map.changes;
    uint32_t a = take(0, 10);
    ok(w.map.changes > before, "a take is a change");
    before = w.map.changes;
    snug__range_free(&w.map, a, SNUG__STAMP_NONE);
    ok(w.map.changes > before, "a free is a change");
    world_close(&w);
}

static void split_and_extend_are_each_others_inverse(void) {
    map_of(30);
    uint32_t a    = take(0, 20);
    uint32_t tail = snug__range_split(&w.map, a, 5);
    is_map(&w.map, "live 0+5, live 5+15, free 20+10", "cut in two of one kind");
    snug__range_free(&w.map, tail, SNUG__STAMP_NONE);
    is_map(&w.map, "live 0+5, free 5+25", "the second is freed by itself");
    snug__range_extend(&w.map, a, 7);
    is_map(&w.map, "live 0+12, free 12+18", "extended by a part of the hole");
    snug__range_extend(&w.map, a, 18);
    is_map(&w.map, "live 0+30", "extended by all of it");
    is_sound(&w.map, "sound");
    world_close(&w);
}

static void grow_and_shrink_move_the_end(void) {
    world_open(&w, 100, 1000);
    is_map(&w.map, "", "nothing committed");
    uint32_t offset;
    is_u64(snug__map_find(&w.map, (snug__fit){1, 1, false}, &offset), SNUG__NONE, "nothing to be found in nothing");
    succeeds(snug__map_grow(&w.map, 40));
    uint32_t a = take(30, 10);
    succeeds(snug__map_grow(&w.map, 10));
    is_map(&w.map, "free 0+30, live 30+10, free 40+10", "growth behind a live range is a range of its own");
    succeeds(snug__map_grow(&w.map, 50));
    is_map(&w.map, "free 0+30, live 30+10, free 40+60", "growth behind a free one lengthens it");
    is_u64(w.map.committed, 100, "committed");
    snug__map_shrink(&w.map, 20);
    is_map(&w.map, "free 0+30, live 30+10, free 40+40", "a part of the last hole goes");
    snug__map_shrink(&w.map, 40);
    is_map(&w.map, "free 0+30, live 30+10", "all of it goes");
    snug__range_free(&w.map, a, SNUG__STAMP_NONE);
    snug__map_shrink(&w.map, 40);
    is_map(&w.map, "", "everything goes");
    is_u64(w.map.committed, 0, "nothing is committed");
    is_sound(&w.map, "sound");
    succeeds(snug__map_grow(&w.map, 1));
    is_map(&w.map, "free 0+1", "and grows again");
    world_close(&w);
}

static void a_full_table_of_nodes_refuses_and_changes_nothing(void) {
    world_open(&w, 1000, 12);
    succeeds(snug__map_grow(&w.map, 1000));
    uint32_t taken = 0, node = w.map.first;
    char     before[4096], after[4096];
    while (taken < 100) {
        map_text(&w.map, before, sizeof before);
        node = snug__range_take(&w.map, w.map.last, snug__range_at(&w.map, w.map.last)->offset + 2, 9, SNUG__RANGE_LIVE, SNUG__NONE);
        if (node == SNUG__NONE)
            break;
        taken++;
    }
    ok(taken > 0 && taken < 7, "of 12 nodes %u takes are granted, some nodes being kept for slides", taken);
    is_string(map_text(&w.map, after, sizeof after), before, "the refused take has changed nothing");
    uint32_t live = map_at(&w.map, 2), tail = live;
    while (tail != SNUG__NONE && snug__range_at(&w.map, live)->size > 1) {
        map_text(&w.map, before, sizeof before);
        tail = snug__range_split(&w.map, live, snug__range_at(&w.map, live)->size - 1);
    }
    is_u64(tail, SNUG__NONE, "a split is refused too in the end");
    is_string(map_text(&w.map, after, sizeof after), before, "and has changed nothing");
    is_sound(&w.map, "sound");
    world_close(&w);
}

/* ------------------------------------------------------------------------------------------------ fences */

static void fences_unite_on_merge_and_copy_on_split(void) {
    map_of(30);
    uint32_t a = take(0, 10), b = take(10, 10);
    snug__range_free(&w.map, a, (snug__stamp){1, LATER});
    is_hex(fence_at(0).mask, 1, "the freed range has its fence");
    is_hex(fence_at(20).mask, 0, "its neighbour hasn't");
    snug__range_free(&w.map, b, (snug__stamp){2, LATER + 5});
    is_map(&w.map, "free 0+30", "all merged");
    is_hex(fence_at(0).mask, 3, "the merged range has the streams of both");
    is_u64(fence_at(0).epoch, LATER + 5, "and the later epoch");
    take(10, 10);
    is_hex(fence_at(0).mask, 3, "the part before a take keeps the fence");
    is_hex(fence_at(10).mask, 3, "the taken part has it too");
    is_hex(fence_at(20).mask, 3, "and so has the part behind");
    is_u64(fence_at(20).epoch, LATER + 5, "with the epoch");
    world_close(&w);
}

static void a_settled_fence_dissolves(void) {
    map_of(30);
    uint32_t a = take(0, 10), b = take(10, 10);
    atomic_store(&w.order.done[3], 50);
    snug__range_free(&w.map, a, (snug__stamp){1 << 3, 50});
    is_hex(fence_at(0).mask, 0, "a fence that is settled when the range is freed isn't kept");
    snug__range_free(&w.map, b, (snug__stamp){1 << 3, 51});
    is_hex(fence_at(0).mask, 1 << 3, "one that isn't is");
    world_close(&w);
}

static void a_settled_part_is_left_out_of_a_union(void) {
    map_of(30);
    uint32_t a = take(0, 10), b = take(10, 10);
    snug__range_free(&w.map, a, (snug__stamp){1, 10});
    atomic_store(&w.order.done[0], 10);
    snug__range_free(&w.map, b, (snug__stamp){2, LATER});
    is_hex(fence_at(0).mask, 2, "what had settled is left out of the union");
    world_close(&w);
}

static void free_keeps_the_fence_that_a_range_had(void) {
    map_of(10);
    uint32_t a = take(0, 10);
    snug__range_at(&w.map, a)->fence = (snug__stamp){4, LATER};
    snug__range_free(&w.map, a, (snug__stamp){8, LATER});
    is_hex(fence_at(0).mask, 12, "its own fence and the new one");
    world_close(&w);
}

static void extend_tells_the_fence_of_what_it_took(void) {
    map_of(30);
    uint32_t a = take(0, 10), b = take(10, 20);
    snug__range_free(&w.map, b, (snug__stamp){16, LATER});
    snug__stamp fence = snug__range_extend(&w.map, a, 5);
    is_hex(fence.mask, 16, "the fence of the hole is the caller's to wait for");
    is_hex(fence_at(15).mask, 16, "what is left of the hole keeps it");
    world_close(&w);
}

/* ------------------------------------------------------------------------------------------------ search */

static void find_takes_the_best_fit(void) {
    map_of(1000);
    uint32_t offset, at = 0, sizes[] = {20, 8, 65, 9, 64, 8, 300};
    for (unsigned i = 0; i < 7; i++) { /* holes of these sizes, a live granule after each */
        take(at + sizes[i], 1);
        at += sizes[i] + 1;
    }
    take(at, 1000 - at);
    snug__map_find(&w.map, (snug__fit){9, 1, false}, &offset);
    is_u64(snug__range_at(&w.map, map_at(&w.map, offset))->size, 9, "9 goes into the hole of 9");
    snug__map_find(&w.map, (snug__fit){10, 1, false}, &offset);
    is_u64(snug__range_at(&w.map, map_at(&w.map, offset))->size, 20, "10 into the next larger");
    snug__map_find(&w.map, (snug__fit){64, 1, false}, &offset);
    is_u64(snug__range_at(&w.map, map_at(&w.map, offset))->size, 64, "64 into 64, though 65 is in the same bin");
    snug__map_find(&w.map, (snug__fit){65, 1, false}, &offset);
    is_u64(snug__range_at(&w.map, map_at(&w.map, offset))->size, 65, "65 into 65");
    is_u64(snug__map_find(&w.map, (snug__fit){301, 1, false}, &offset), SNUG__NONE, "301 into none");
    world_close(&w);
}

static void find_prefers_settled_ranges(void) {
    map_of(200);
    uint32_t a = take(0, 64), b = take(70, 65);
    take(64, 6);
    take(135, 65);
    uint32_t offset;
    snug__range_free(&w.map, a, (snug__stamp){1, LATER});
    snug__range_free(&w.map, b, SNUG__STAMP_NONE);
    snug__map_find(&w.map, (snug__fit){64, 1, false}, &offset);
    is_u64(offset, 70, "a settled hole that is larger goes before an unsettled one that fits exactly");
    snug__map_find(&w.map, (snug__fit){64, 1, true}, &offset);
    is_u64(offset, 70, "also when asked for settled ones");
    take(70, 65);
    is_u64(snug__map_find(&w.map, (snug__fit){64, 1, true}, &offset), SNUG__NONE, "no settled one is left");
    ok(snug__map_find(&w.map, (snug__fit){64, 1, false}, &offset) != SNUG__NONE, "an unsettled one is");
    world_settle(&w, 0);
    ok(snug__map_find(&w.map, (snug__fit){64, 1, true}, &offset) != SNUG__NONE, "which then settles");
    world_close(&w);
}

static void find_looks_at_more_than_the_quick_looks(void) {
    map_of(1 << 16);
    uint32_t offset, last = SNUG__NONE, nodes[100];
    for (uint32_t i = 0; i < 100; i++) { /* 100 unsettled holes of one size, of which the first freed is last in its bin */
        nodes[i] = take(i * 200, 100);
        take(i * 200 + 100, 100);
    }
    take(20000, (1 << 16) - 20000);
    for (uint32_t i = 0; i < 100; i++)
        snug__range_free(&w.map, nodes[i], (snug__stamp){i == 0 ? 2 : 1, LATER});
    world_settle(&w, 1);
    last = snug__map_find(&w.map, (snug__fit){100, 1, true}, &offset);
    ok(last != SNUG__NONE && offset == 0, "the one settled hole at the end of a long bin is found");
    world_close(&w);
}

static void find_low_takes_the_lowest(void) {
    map_of(100);
    take(10, 10);
    take(40, 10);
    uint32_t offset = 0;
    snug__map_find_low(&w.map, (snug__fit){15, 1, false}, SNUG__NONE, &offset);
    is_u64(offset, 20, "the lowest hole that is large enough");
    is_u64(snug__map_find_low(&w.map, (snug__fit){15, 1, false}, 20, &offset), SNUG__NONE, "none below its offset");
    snug__map_find_low(&w.map, (snug__fit){4, 32, false}, SNUG__NONE, &offset);
    is_u64(offset, 0, "aligned where it happens to be");
    snug__map_find_low(&w.map, (snug__fit){8, 32, false}, SNUG__NONE, &offset);
    is_u64(offset, 0, "still");
    take(0, 10);
    snug__map_find_low(&w.map, (snug__fit){8, 32, false}, SNUG__NONE, &offset);
    is_u64(offset, 32, "else at the first multiple");
    world_close(&w);
}

static void find_low_honours_settled(void) {
    map_of(100);
    uint32_t a = take(0, 10), offset = 0;
    take(10, 10);
    snug__range_free(&w.map, a, (snug__stamp){1, LATER});
    snug__map_find_low(&w.map, (snug__fit){8, 1, true}, SNUG__NONE, &offset);
    is_u64(offset, 20, "asked for a settled range, the unsettled lower one is passed over");
    world_close(&w);
}

static void every_alignment_is_found(void) {
    map_of(40000);
    take(0, 1);
    for (uint32_t alignment = 1; alignment <= 8192; alignment *= 2) {
        uint32_t offset = 0, node = snug__map_find(&w.map, (snug__fit){5, alignment, false}, &offset);
        ok(node != SNUG__NONE && offset % alignment == 0 && offset > 0, "alignment of %u granules: offset %u", alignment, offset);
    }
    world_close(&w);
}

/* ------------------------------------------------------------------------------------------------ gaps */

static void gaps_are_freed_all_at_once(void) {
    map_of(100);
    take(20, 20);
    take(60, 20);
    for (uint32_t offset = 0; offset <= 80; offset += 40)
        snug__range_set_kind(&w.map, map_at(&w.map, offset), SNUG__RANGE_GAP);
    is_map(&w.map, "gap 0+20, live 20+20, gap 40+20, live 60+20, gap 80+20", "three gaps");
    uint32_t offset;
    is_u64(snug__map_find(&w.map, (snug__fit){1, 1, false}, &offset), SNUG__NONE, "which nobody else is given");
    is_u64(w.map.count[SNUG__RANGE_GAP], 3, "counted");
    is_sound(&w.map, "sound with gaps");
    snug__gaps_free(&w.map);
    is_map(&w.map, "free 0+20, live 20+20, free 40+20, live 60+20, free 80+20", "all free");
    is_u64(w.map.gaps, SNUG__NONE, "none listed");
    is_sound(&w.map, "sound");
    world_close(&w);
}

static void neighbouring_gaps_become_one_hole(void) {
    map_of(30);
    uint32_t a = take(0, 10), b = take(10, 10);
    snug__range_set_kind(&w.map, a, SNUG__RANGE_GAP);
    snug__range_set_kind(&w.map, b, SNUG__RANGE_GAP);
    snug__gaps_free(&w.map);
    is_map(&w.map, "free 0+30", "merged with each other and with the hole behind");
    is_sound(&w.map, "sound");
    world_close(&w);
}

static void absorb_merges_on_either_side(void) {
    map_of(40);
    uint32_t a = take(0, 10), gap = take(10, 10);
    snug__range_free(&w.map, a, (snug__stamp){1, LATER});
    snug__range_set_kind(&w.map, gap, SNUG__RANGE_GAP);
    snug__gap_absorb(&w.map, gap, map_at(&w.map, 20));
    is_map(&w.map, "free 0+10, gap 10+30", "the hole above");
    is_hex(snug__range_at(&w.map, gap)->fence.mask, 0, "which had no fence");
    snug__gap_absorb(&w.map, gap, map_at(&w.map, 0));
    is_map(&w.map, "gap 0+40", "and the one below");
    is_hex(snug__range_at(&w.map, gap)->fence.mask, 1, "with its fence");
    is_sound(&w.map, "sound");
    world_close(&w);
}

static void swap_carries_a_gap_up(void) {
    map_of(40);
    uint32_t gap = take(0, 10), live = take(10, 20);
    snug__range_set_kind(&w.map, gap, SNUG__RANGE_GAP);
    snug__gap_swap(&w.map, gap, live, 0, (snug__stamp){2, LATER});
    is_map(&w.map, "live 0+20, gap 20+10, free 30+10", "the live range steps down, the gap is above it");
    is_hex(snug__range_at(&w.map, gap)->fence.mask, 2, "behind the fence of what may still use the place");
    is_sound(&w.map, "sound");
    world_close(&w);
}

static void swap_carries_a_gap_down(void) {
    map_of(40);
    uint32_t live = take(5, 20), gap = take(25, 10);
    snug__range_set_kind(&w.map, gap, SNUG__RANGE_GAP);
    snug__gap_swap(&w.map, gap, live, 15, SNUG__STAMP_NONE);
    is_map(&w.map, "free 0+5, gap 5+10, live 15+20, free 35+5", "the live range steps up, the gap is below it");
    is_sound(&w.map, "sound");
    world_close(&w);
}

static void swap_gives_back_what_alignment_leaves(void) {
    map_of(64);
    take(0, 3);
    uint32_t gap = take(3, 13), live = take(16, 8);
    take(24, 40);
    snug__range_set_kind(&w.map, gap, SNUG__RANGE_GAP);
    snug__range_at(&w.map, gap)->fence = (snug__stamp){1, LATER};
    snug__gap_swap(&w.map, gap, live, 8, SNUG__STAMP_NONE);
    is_map(&w.map, "live 0+3, free 3+5, live 8+8, gap 16+8, live 24+40", "up: a leftover below the live range");
    is_hex(fence_at(3).mask, 1, "which keeps the gap's fence");
    is_sound(&w.map, "sound");
    snug__gap_swap(&w.map, gap, live, 12, SNUG__STAMP_NONE);
    is_map(&w.map, "live 0+3, free 3+5, gap 8+4, live 12+8, free 20+4, live 24+40", "down: a leftover above it");
    is_hex(fence_at(20).mask, 1, "with the fence as well");
    is_sound(&w.map, "sound");
    world_close(&w);
}

static void a_leftover_merges_with_the_hole_beside_it(void) {
    map_of(64);
    uint32_t gap = take(3, 13), live = take(16, 8);
    take(24, 40);
    snug__range_set_kind(&w.map, gap, SNUG__RANGE_GAP);
    snug__gap_swap(&w.map, gap, live, 8, SNUG__STAMP_NONE);
    is_map(&w.map, "free 0+8, live 8+8, gap 16+8, live 24+40", "one hole of both");
    is_sound(&w.map, "sound");
    world_close(&w);
}

/* A gap of 2^13 - 1 granules that steps over ranges aligned to 2, 4, ... 4096 leaves something behind at each step. */
static void a_gap_can_leave_a_leftover_at_each_alignment(void) {
    map_of(1 << 17);
    take(0, 1);
    uint32_t gap = take(1, 8191), live[12];
    for (uint32_t i = 0; i < 12; i++)
        live[i] = take(8192 * (i + 1), 8192);
    snug__range_set_kind(&w.map, gap, SNUG__RANGE_GAP);
    uint32_t steps = 0;
    for (uint32_t i = 0; i < 12 && snug__map_ready(&w.map); i++, steps++)
        snug__gap_swap(&w.map, gap, live[i], snug__align_up(snug__range_at(&w.map, gap)->offset, 2u << i), SNUG__STAMP_NONE);
    is_u64(steps, 12, "a map that is made ready before each has nodes for twelve leftovers");
    is_sound(&w.map, "sound");
    world_close(&w);
}

/* ------------------------------------------------------------------------------------------------ planted damage */

static uint32_t scene_nodes[3]; /* live 0+10, free 10+20, live 30+10, gap 40+10, free 50+50 */

static void scene(void) {
    map_of(100);
    scene_nodes[0] = take(0, 10);
    scene_nodes[1] = take(30, 10);
    scene_nodes[2] = take(40, 10);
    snug__range_set_kind(&w.map, scene_nodes[2], SNUG__RANGE_GAP);
}

#define finds(damage, expected)                                                                                        \
    do {                                                                                                               \
        scene();                                                                                                       \
        snug__range *live = snug__range_at(&w.map, scene_nodes[0]);                                                    \
        snug__range *hole = snug__range_at(&w.map, map_at(&w.map, 10));                                                \
        snug__range *gap  = snug__range_at(&w.map, scene_nodes[2]);                                                    \
        (void)live, (void)hole, (void)gap;                                                                             \
        damage;                                                                                                        \
        is_string(snug__map_check(&w.map), expected, "found: %s", #damage);                                            \
        world_close(&w);                                                                                               \
    } while (0)

static void the_check_finds_planted_damage(void) {
    scene();
    is_sound(&w.map, "the scene is sound before");
    world_close(&w);
    const char *overlap = "two ranges overlap, or leave bytes between them", *counter = "a counter disagrees with the map";
    finds(live->size++, overlap);
    finds(live->size--, overlap);
    finds(hole->offset++, overlap);
    finds(live->size = 0, "a range is empty");
    finds(hole->previous = scene_nodes[1], "the address list is broken");
    finds(live->kind = SNUG__RANGE_UNUSED, "a range in the list has no kind");
    finds(live->kind = SNUG__RANGE_KINDS, "a range in the list has no kind");
    finds((live->kind = SNUG__RANGE_FREE, live->bin = 10, hole->kind = SNUG__RANGE_FREE), "a free range is in no bin");
    finds(hole->bin++, "a free range is in the wrong bin");
    finds(hole->kind = SNUG__RANGE_LIVE, counter);
    finds(live->kind = SNUG__RANGE_PENDING, counter);
    finds(w.map.granules[SNUG__RANGE_FREE]++, counter);
    finds(w.map.count[SNUG__RANGE_LIVE]--, counter);
    finds(w.map.committed++, "the ranges don't add up to the committed bytes");
    finds(w.map.limit = 99, "the ranges don't add up to the committed bytes");
    finds(w.map.last = scene_nodes[0], "the ranges don't add up to the committed bytes");
    finds(w.map.rows = 0, "a bin's bit is wrong");
    finds(w.map.rows |= 1u << 20, "a bin's bit is wrong");
    finds(w.map.columns[0] = 0, "a bin's bit is wrong");
    finds(hole->bin_next = map_at(&w.map, 50), "a bin's list is broken");
    finds(w.map.free_bits.base[scene_nodes[0] / 8] ^= (char)(1 << scene_nodes[0] % 8), "the bit of a free range is wrong");
    finds(w.map.gaps = SNUG__NONE, "a gap is in no list");
    finds(gap->bin_next = scene_nodes[0], "the list of gaps is broken");
    finds(gap->bin_next = scene_nodes[2], "the list of gaps is broken");
}

int main(void) {
    take_leaves_what_it_does_not_take();
    free_merges_with_both_neighbours();
    changes_count_takes_and_frees();
    split_and_extend_are_each_others_inverse();
    grow_and_shrink_move_the_end();
    a_full_table_of_nodes_refuses_and_changes_nothing();
    fences_unite_on_merge_and_copy_on_split();
    a_settled_fence_dissolves();
    a_settled_part_is_left_out_of_a_union();
    free_keeps_the_fence_that_a_range_had();
    extend_tells_the_fence_of_what_it_took();
    find_takes_the_best_fit();
    find_prefers_settled_ranges();
    find_looks_at_more_than_the_quick_looks();
    find_low_takes_the_lowest();
    find_low_honours_settled();
    every_alignment_is_found();
    gaps_are_freed_all_at_once();
    neighbouring_gaps_become_one_hole();
    absorb_merges_on_either_side();
    swap_carries_a_gap_up();
    swap_carries_a_gap_down();
    swap_gives_back_what_alignment_leaves();
    a_leftover_merges_with_the_hole_beside_it();
    a_gap_can_leave_a_leftover_at_each_alignment();
    the_check_finds_planted_damage();
    return done_testing();
}
