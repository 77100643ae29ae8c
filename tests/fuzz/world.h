/* world.h - the bare map of tests/unit/fixture.h, kept from one input to the next: its order opens streams with threads,
 * which takes longer than an input does. Include after tap.h and fixture.h.
 * Stamps here count: each free draws the next epoch, and settling a bit settles all that was drawn before. */
#ifndef SNUG_TESTS_FUZZ_WORLD_H
#define SNUG_TESTS_FUZZ_WORLD_H

enum { STAMP_BITS = 4 };

static uint64_t stamps_drawn;

/* A fresh map and fresh handles; everything settled, nothing drawn. */
static inline void world_renew(world *world, uint32_t granules, uint32_t ranges_max) {
    if (!world->device) {
        world_open(world, granules, ranges_max);
    } else {
        snug__map_close(&world->map);
        snug__handles_close(&world->handles);
        if (snug__handles_open(&world->handles, 7, SNUG__HANDLES_MAX, 1) != SNUG_OK ||
            snug__map_open(&world->map, &world->order, granules, ranges_max) != SNUG_OK)
            bail_out("no memory for a map");
    }
    stamps_drawn = 0;
    for (unsigned bit = 0; bit < SNUG__BITS; bit++)
        atomic_store(&world->order.done[bit], bit < STAMP_BITS ? 0 : UINT64_MAX);
    atomic_store(&world->order.floor, 0);
}

static inline snug__stamp stamp_draw(uint64_t mask) {
    return mask ? (snug__stamp){mask, ++stamps_drawn} : SNUG__STAMP_NONE;
}

static inline void stamps_settle(world *world, unsigned bit) {
    uint64_t floor = UINT64_MAX;
    atomic_store(&world->order.done[bit], stamps_drawn);
    for (unsigned i = 0; i < STAMP_BITS; i++)
        floor = atomic_load(&world->order.done[i]) < floor ? atomic_load(&world->order.done[i]) : floor;
    atomic_store(&world->order.floor, floor);
}

#endif
