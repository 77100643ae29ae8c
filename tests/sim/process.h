/* process.h - of simulation runs: one run in a process of its own, so that each begins with the library as it is at the start
 * of a program, repeats exactly, and may crash or hang; and the search for a shorter sequence that fails in the same way. */
#ifndef SNUG_TESTS_SIM_PROCESS_H
#define SNUG_TESTS_SIM_PROCESS_H

#include "world.h"

enum { STEPS_MAX = 1 << 20 };

typedef struct outcome { /* shared with the run's process */
    uint64_t steps, calls, violations;
    uint32_t by_kind[SNUG_SIM_VIOLATIONS];
    bool     failed;
    int      line; /* where, or the signal that ended it, negative: failures alike have it equal */
    char     failure[640];
    op       ops[STEPS_MAX];
} outcome;

typedef struct run {
    uint64_t                seed, steps;
    mode                    mode;
    const snug__device_row *row;
    bool                    no_walks, trace, replay; /* replay: the operations are there, steps of them */
} run;

outcome *outcome_new(void);
bool     run_process(outcome *o, const run *r); /* true: it passed */
/* Leaves out what isn't needed for the failure, for so many seconds at most; returns how many operations remain. */
uint64_t run_shrink(outcome *o, const run *r, double seconds);
double   seconds_now(void);

#endif
