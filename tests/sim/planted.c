/* planted.c - planted bugs: the sim device's row with one protection taken out, and how soon simulation runs see it. Only what
 * lies at the device's table can be taken out so; for the library's own protections see mutants.list, and tests/model/, where
 * the spin models have bugs of their own. */
#include "tap.h"

#include "process.h"

enum { RUNS = 40, STEPS = 2000 };

static snug__device_row row;   /* the sim's, but for what is planted */
static uint64_t         every; /* so many calls are right, one is wrong; 1: all are wrong */
static uint64_t         count;

static bool now(void) {
    return ++count % every == 0;
}

static bool mover(void *native) {
    return ((snug_sim_stream *)native)->role != SNUG__SIM_CLIENT;
}

static snug_status wait_not_mover(snug__device *device, void *native, snug__event *event) {
    return mover(native) && now() ? SNUG_OK : snug__device_sim.stream_wait(device, native, event);
}

static snug_status wait_not_client(snug__device *device, void *native, snug__event *event) {
    return !mover(native) && now() ? SNUG_OK : snug__device_sim.stream_wait(device, native, event);
}

static snug_status record_nothing(snug__device *device, snug__event *event, void *native) {
    return now() ? SNUG_OK : snug__device_sim.event_record(device, event, native);
}

static snug_status record_nothing_mover(snug__device *device, snug__event *event, void *native) {
    return mover(native) && now() ? SNUG_OK : snug__device_sim.event_record(device, event, native);
}

static snug_status query_lies(snug__device *device, snug__event *event, bool *complete) {
    snug_status status = snug__device_sim.event_query(device, event, complete);
    *complete |= now();
    return status;
}

static snug_status event_sync_none(snug__device *device, snug__event *event) {
    return now() ? SNUG_OK : snug__device_sim.event_sync(device, event);
}

/* Copies of a move one by one, as the sim has them. */
static snug_status move_one(snug__device *device, void *native, uint64_t to, uint64_t from, uint64_t bytes) {
    return snug__device_sim.move(device, native, &(snug__copy){to, from, bytes}, 1);
}

static snug_status move_short(snug__device *device, void *native, const snug__copy *copies, uint32_t n) {
    snug_status status = SNUG_OK;
    for (uint32_t i = 0; i < n && status == SNUG_OK; i++) {
        uint64_t bytes = copies[i].bytes - (now() ? SNUG_GRANULE : 0);
        status         = bytes ? move_one(device, native, copies[i].to, copies[i].from, bytes) : SNUG_OK;
    }
    return status;
}

static snug_status move_none(snug__device *device, void *native, const snug__copy *copies, uint32_t n) {
    snug_status status = SNUG_OK;
    for (uint32_t i = 0; i < n && status == SNUG_OK; i++)
        status = now() ? SNUG_OK : snug__device_sim.move(device, native, &copies[i], 1);
    return status;
}

static snug_status move_off(snug__device *device, void *native, const snug__copy *copies, uint32_t n) {
    snug_status status = SNUG_OK;
    for (uint32_t i = 0; i < n && status == SNUG_OK; i++) {
        uint64_t off = copies[i].from >= SNUG_GRANULE && now() ? SNUG_GRANULE : 0;
        status       = move_one(device, native, copies[i].to, copies[i].from - off, copies[i].bytes);
    }
    return status;
}

static snug_status copy_for_move(snug__device *device, void *native, const snug__copy *copies, uint32_t n) {
    snug_status status = SNUG_OK;
    for (uint32_t i = 0; i < n && status == SNUG_OK; i++)
        status = now() ? snug__device_sim.copy(device, native, copies[i].to, copies[i].from, copies[i].bytes)
                       : snug__device_sim.move(device, native, &copies[i], 1);
    return status;
}

/* A background move that comes after a client's queued work, whatever it moves: promise 8. */
static snug_status move_after_others(snug__device *device, void *native, const snug__copy *copies, uint32_t n) {
    for (uint32_t slot = 1; slot < snug__sim.slots && ((snug_sim_stream *)native)->role == SNUG__SIM_LOW; slot++)
        if (snug__sim.streams[slot]->open && snug__sim.streams[slot]->role == SNUG__SIM_CLIENT)
            snug_sim_stream_wait(native, snug__sim.streams[slot]);
    return snug__device_sim.move(device, native, copies, n);
}

static snug_status commit_less(snug__device *device, uint64_t offset, uint64_t bytes) {
    uint64_t unit = snug__device_sim.commit_granule(device);
    return bytes > unit && now() ? snug__device_sim.arena_commit(device, offset, bytes - unit)
                                 : snug__device_sim.arena_commit(device, offset, bytes);
}

/* Gives memory back that is still in use: what lies just below, too. */
static snug_status decommit_more(snug__device *device, uint64_t offset, uint64_t bytes) {
    uint64_t unit = snug__device_sim.commit_granule(device), more = offset >= unit && now() ? unit : 0;
    return snug__device_sim.arena_decommit(device, offset - more, bytes + more);
}

typedef struct bug {
    const char             *name;
    const snug__device_row *wrong; /* its slots that aren't NULL replace the sim's */
    uint64_t                every;
    mode                    mode;
} bug;

#define WRONG(slot, function)                                                                                          \
    &(const snug__device_row) {                                                                                        \
        .slot = function                                                                                               \
    }

static const bug bugs[] = {
    {"movers never wait", WRONG(stream_wait, wait_not_mover), 1, JUMBLE},
    {"movers skip one wait in 50", WRONG(stream_wait, wait_not_mover), 50, JUMBLE},
    {"clients' streams never wait", WRONG(stream_wait, wait_not_client), 1, PLAIN},
    {"clients' streams skip one wait in 50", WRONG(stream_wait, wait_not_client), 50, PLAIN},
    {"one record in 10 records nothing", WRONG(event_record, record_nothing), 10, PLAIN},
    {"one record in 200 records nothing", WRONG(event_record, record_nothing), 200, PLAIN},
    {"movers' records record nothing", WRONG(event_record, record_nothing_mover), 1, JUMBLE},
    {"one query in 10 says complete too early", WRONG(event_query, query_lies), 10, PLAIN},
    {"one query in 200 says complete too early", WRONG(event_query, query_lies), 200, PLAIN},
    {"the host doesn't wait for events", WRONG(event_sync, event_sync_none), 1, PLAIN},
    {"moves leave out their last granule", WRONG(move, move_short), 1, PLAIN},
    {"one move in 50 leaves out its last granule", WRONG(move, move_short), 50, JUMBLE},
    {"one move in 50 copies nothing", WRONG(move, move_none), 50, JUMBLE},
    {"one move in 50 copies from a granule lower", WRONG(move, move_off), 50, JUMBLE},
    {"moves demand order with the client's writes", WRONG(move, copy_for_move), 1, ABORT},
    {"background moves wait for clients' work", WRONG(move, move_after_others), 1, BACKGROUND},
    {"one commit leaves out its end", WRONG(arena_commit, commit_less), 1, PLAIN},
    {"more is decommitted than is free", WRONG(arena_decommit, decommit_more), 1, PLAIN},
};

static void plant(const bug *b) {
    const snug__device_row *wrong = b->wrong;
    row                           = snug__device_sim;
    every                         = b->every;
    count                         = 0;
#define PLANT(slot) row.slot = wrong->slot ? wrong->slot : row.slot
    PLANT(arena_commit);
    PLANT(arena_decommit);
    PLANT(event_record);
    PLANT(event_query);
    PLANT(event_sync);
    PLANT(stream_wait);
    PLANT(move);
#undef PLANT
}

/* Runs until one fails: how soon, and as what. */
static void hunt(outcome *o, const bug *b, uint64_t first) {
    uint64_t steps = 0, calls = 0;
    for (uint64_t seed = first; seed < first + RUNS; seed++) {
        run r = {.seed = seed, .steps = STEPS, .mode = b->mode, .row = &row};
        plant(b);
        bool passed = run_process(o, &r);
        steps += o->steps;
        calls += o->calls;
        if (passed)
            continue;
        ok(true, "%s: seen", b->name);
        diag("in run %" PRIu64 ", after %" PRIu64 " steps and %" PRIu64 " calls: %s", seed - first + 1, steps, calls,
             o->failure);
        return;
    }
    ok(false, "%s: not seen in %d runs", b->name, RUNS);
}

int main(int argc, char **argv) {
    outcome *o     = outcome_new();
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    for (size_t i = 0; i < sizeof bugs / sizeof bugs[0]; i++)
        hunt(o, &bugs[i], first);
    row         = snug__device_sim; /* and nothing is seen where nothing is planted */
    unsigned no = 0;
    for (uint64_t seed = first; seed < first + 20; seed++) {
        run r = {.seed = seed, .steps = STEPS, .mode = seed % 2 ? JUMBLE : PLAIN, .row = &row};
        no += !run_process(o, &r);
    }
    ok(no == 0, "nothing planted, nothing seen in 20 runs");
    return done_testing();
}
