/* sim_world.h - what the tests of the sim device share: a machine of a given style and seed with a bare device on it, written
 * against its row, and the report. Include after tap.h, in one file of the program. */
#ifndef SNUG_TESTS_SIM_WORLD_H
#define SNUG_TESTS_SIM_WORLD_H

#include "sim/sim.h"

#define SIM_UNUSED __attribute__((unused))
#define KiB        (UINT64_C(1) << 10)
#define MiB        (UINT64_C(1) << 20)
#define GiB        (UINT64_C(1) << 30)

static const snug__device_row *const row = &snug__device_sim;

typedef struct world {
    snug__device    *device;
    char            *base;
    snug_sim_stream *s[3];  /* clients' */
    snug_sim_stream *mover; /* of low priority */
    snug__event     *e[2];
} world;

SIM_UNUSED static snug_sim_report report(void) {
    snug_sim_report r = {.struct_size = sizeof r};
    snug_sim_report_get(&r);
    return r;
}

SIM_UNUSED static void machine(snug_sim_style style, uint64_t seed) {
    snug_sim_options o = snug_sim_options_default();
    o.style            = style;
    o.seed             = seed;
    if (snug_sim_setup(&o) != SNUG_OK)
        bail_out("the machine is busy");
}

/* Reserves 16 GiB, commits the first. */
SIM_UNUSED static world world_open(snug_sim_style style, uint64_t seed, int profile) {
    world w;
    void *mover;
    machine(style, seed);
    bool made = row->open(profile, &w.device) == SNUG_OK && row->arena_reserve(w.device, 16 * GiB) == SNUG_OK &&
                row->arena_commit(w.device, 0, GiB) == SNUG_OK &&
                row->stream_open(w.device, SNUG__PRIORITY_LOW, &mover) == SNUG_OK;
    for (int i = 0; i < 3 && made; i++)
        made = snug_sim_stream_create(&w.s[i]) == SNUG_OK;
    for (int i = 0; i < 2 && made; i++)
        made = row->event_create(w.device, &w.e[i]) == SNUG_OK;
    if (!made)
        bail_out("no sim device");
    w.mover = mover;
    w.base  = row->arena_base(w.device);
    return w;
}

/* Waits for all first, so that the release of the arena is no violation; tells what there was. */
SIM_UNUSED static snug_sim_report world_close(world *w) {
    snug_sim_sync(NULL);
    row->stream_close(w->device, w->mover);
    for (int i = 0; i < 3; i++)
        snug_sim_stream_destroy(w->s[i]);
    for (int i = 0; i < 2; i++)
        row->event_destroy(w->device, w->e[i]);
    row->arena_release(w->device);
    row->close(w->device);
    return report();
}

/* A kernel that reads, or writes, one range: expects, or leaves, id and version, from offset 0 on. */
SIM_UNUSED static void touch(world *w, int s, snug_access access, uint64_t at, uint64_t bytes, uint64_t id,
                             uint32_t version) {
    snug_sim_access a = {w->base + at, bytes, access, version, id, 0};
    if (snug_sim_launch(w->s[s], &a, 1, 1000) != SNUG_OK)
        bail_out("no launch");
}

/* What stream s has enqueued so far comes before what t enqueues from now on. */
SIM_UNUSED static void then(world *w, int s, int t) {
    row->event_record(w->device, w->e[0], w->s[s]);
    row->stream_wait(w->device, w->s[t], w->e[0]);
}

enum { STYLES = SNUG_SIM_RANDOM + 1 };
SIM_UNUSED static const char *const style_names[] = {"timed", "eager", "lazy", "random"};

#endif
