/* run.c - simulation runs: a seed makes everything (see world.h), the model predicts every outcome, the sim device's order
 * checker looks on.
 *
 *     run                                    the test: fixed seeds of every mode, then fresh ones
 *     run --seed N [--mode M] [--trace]      one run again, exactly; without a mode, the seed's own
 *     run [--seed N] [--seeds COUNT] [--steps TOTAL] [--mode M] [--seconds S]   many runs, until one of these is reached
 *         [--length STEPS]                   steps of one run, default 3000; another length is another run
 *         [--walks off]                      no invariants walked, for measuring speed
 *         [--hunt]                           ends at the first failure and says only what it is and how soon: see mutants.sh
 *
 * TOTAL counts public calls and takes K, M, G. A failure prints its seed, mode and step and a shortened sequence. */
#include "tap.h"

#include "process.h"

#include <time.h>
#include <unistd.h>

enum { LENGTH = 3000 };

static mode mode_of_seed(uint64_t seed) {
    return (mode)(seed % MODES);
}

static uint64_t length_of(mode mode) {
    return mode == TINY || mode == WRAP ? LENGTH / 2 : LENGTH;
}

static void print_sequence(outcome *o, run *r, uint64_t n, bool complete) {
    r->trace = r->replay = true;
    r->steps             = n;
    diag("shortened to %" PRIu64 " operations%s:", n, complete ? "" : " (first 60 shown)");
    fflush(stdout);
    if (n <= 60) {
        run_process(o, r);
        return;
    }
    for (uint64_t i = 0; i < 60; i++) {
        char text[128];
        op_describe(&o->ops[i], text, sizeof text);
        diag("%s", text);
    }
}

static void report_failure(outcome *o, const run *failed) {
    run r = *failed;
    diag("failed: seed %" PRIu64 ", mode %s, step %" PRIu64 ": %s", r.seed, mode_names[r.mode], o->steps, o->failure);
    if (r.steps != length_of(r.mode))
        diag("again: run --seed %" PRIu64 " --mode %s --length %" PRIu64, r.seed, mode_names[r.mode], r.steps);
    else
        diag("again: run --seed %" PRIu64 " --mode %s", r.seed, mode_names[r.mode]);
    uint64_t n = run_shrink(o, &r, 10);
    print_sequence(o, &r, n, n <= 60);
}

/* ------------------------------------------------------------------------------------------------ the test */

typedef struct tally {
    uint64_t runs, steps, calls, failures;
} tally;

static void run_one(outcome *o, uint64_t seed, mode mode, tally *t) {
    run  r      = {.seed = seed, .mode = mode, .steps = length_of(mode)};
    bool passed = run_process(o, &r);
    t->runs++;
    t->steps += o->steps;
    t->calls += o->calls;
    t->failures += !passed;
    if (!passed && t->failures <= 2)
        report_failure(o, &r);
}

static int test(void) {
    outcome *o     = outcome_new();
    double   until = seconds_now() + 30.0 * (double)tap_scaled(10000) / 10000;
    uint64_t fixed = tap_scaled(20), fresh = tap_seed((uint64_t)time(NULL) % 1000000007);
    tally    all[MODES] = {0};
    for (int mode = 0; mode < MODES; mode++)
        for (uint64_t seed = 1; seed <= fixed && all[mode].failures < 3; seed++)
            run_one(o, seed, (enum mode)mode, &all[mode]);
    for (uint64_t seed = fresh, n = 0; n < MODES || seconds_now() < until; seed++, n++)
        if (all[n % MODES].failures < 3)
            run_one(o, seed, (mode)(n % MODES), &all[n % MODES]);
        else if (seconds_now() > until)
            break;
    for (int mode = 0; mode < MODES; mode++)
        ok(all[mode].failures == 0, "%s: %" PRIu64 " runs, %" PRIu64 " steps, %" PRIu64 " calls", mode_names[mode],
           all[mode].runs, all[mode].steps, all[mode].calls);
    return done_testing();
}

/* ------------------------------------------------------------------------------------------------ long runs */

static uint64_t number(const char *text) {
    char    *end;
    uint64_t n = strtoull(text, &end, 0);
    return *end == 'K' ? n * 1000 : *end == 'M' ? n * 1000000 : *end == 'G' ? n * 1000000000 : n;
}

static void say_how_soon(const outcome *o, const run *r, const tally *t) {
    printf("seed %" PRIu64 ", mode %s, step %" PRIu64 ", %" PRIu64 " runs and %" PRIu64 " calls on: %s\n", r->seed,
           mode_names[r->mode], o->steps, t->runs, t->calls, o->failure);
}

static void progress(const tally *t, uint64_t calls_max, double began) {
    double spent = seconds_now() - began;
    if (isatty(2))
        fprintf(stderr, "\r%" PRIu64 " calls of %" PRIu64 ", %" PRIu64 " seeds, %.0f calls/s ", t->calls, calls_max,
                t->runs, (double)t->calls / spent);
}

int main(int argc, char **argv) {
    if (argc == 1)
        return test();
    run      r     = {.seed = 1, .steps = 0};
    uint64_t seeds = UINT64_MAX, calls_max = UINT64_MAX;
    int      mode   = -1;
    bool     seeded = false, hunt = false;
    double   seconds = 1e9, began = seconds_now();
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(name, "--trace") == 0) {
            r.trace = true;
            continue;
        }
        if (strcmp(name, "--hunt") == 0) {
            hunt = true;
            continue;
        }
        i++;
        if (strcmp(name, "--seed") == 0)
            r.seed = number(value), seeded = true;
        else if (strcmp(name, "--seeds") == 0)
            seeds = number(value);
        else if (strcmp(name, "--steps") == 0)
            calls_max = number(value);
        else if (strcmp(name, "--length") == 0)
            r.steps = number(value);
        else if (strcmp(name, "--seconds") == 0)
            seconds = (double)number(value);
        else if (strcmp(name, "--walks") == 0)
            r.no_walks = strcmp(value, "off") == 0;
        else if (strcmp(name, "--mode") == 0) {
            for (mode = MODES - 1; mode >= 0 && strcmp(mode_names[mode], value) != 0; mode--)
                ;
            if (mode < 0)
                bail_out("no mode %s", value);
        } else
            bail_out("what is %s?", name);
    }
    if (r.steps > STEPS_MAX)
        bail_out("a run has %d steps at most", STEPS_MAX);
    if (seeded && seeds == UINT64_MAX && calls_max == UINT64_MAX && seconds == 1e9)
        seeds = 1;
    outcome *o      = outcome_new();
    uint64_t length = r.steps, first = r.seed;
    tally    t = {0};
    for (; t.runs < seeds && t.calls < calls_max && seconds_now() - began < seconds && t.failures < 5; r.seed++) {
        run one     = r;
        one.mode    = mode >= 0 ? (enum mode)mode : mode_of_seed(r.seed);
        one.steps   = length ? length : length_of(one.mode);
        bool passed = run_process(o, &one);
        t.runs++;
        t.steps += o->steps;
        t.calls += o->calls;
        if (!passed && hunt) {
            say_how_soon(o, &one, &t);
            return 1;
        }
        if (!passed)
            t.failures++, report_failure(o, &one);
        if (t.runs % 64 == 0)
            progress(&t, calls_max, began);
    }
    double spent = seconds_now() - began;
    printf("%s%" PRIu64 " seeds from %" PRIu64 ", %" PRIu64 " steps, %" PRIu64
           " calls in %.1f s: %.0f calls/s; %" PRIu64 " failed\n",
           isatty(2) ? "\n" : "", t.runs, first, t.steps, t.calls, spent, (double)t.calls / spent, t.failures);
    return t.failures != 0;
}
