/* bench.c - the program behind `make bench`: picks measurements, runs them one after the other, tells the results.
 *
 * The exit status is 0, or 1 where something happened that must not (a gap that wasn't made, a refusal without need), or
 * 2 after a bad option. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "harness.h"

#include "../../tools/arguments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "bench"

static const struct measurement {
    char letter;
    void (*run)(bench *b);
} measurements[] = {{'a', bench_launches}, {'b', bench_pairs},  {'c', bench_refusals},  {'d', bench_gaps},
                    {'d', bench_plans},    {'e', bench_copies}, {'f', bench_compactors}};

#define MEASUREMENTS (sizeof measurements / sizeof measurements[0])

static bool known(char letter) {
    for (size_t i = 0; i < MEASUREMENTS; i++)
        if (measurements[i].letter == letter)
            return true;
    return false;
}

/* "a,b": letters with commas between. */
static bool letters_valid(const char *only) {
    for (const char *c = only;; c += 2) {
        if (!known(*c))
            return false;
        if (!c[1])
            return true;
        if (c[1] != ',')
            return false;
    }
}

/* Now rather than after minutes of measuring. */
static bool writable(const char *path) {
    FILE *file = fopen(path, "a");
    return file && fclose(file) == 0;
}

int main(int argc, char **argv) {
    static bench   b    = {.seed = 1};
    const char    *only = "a,b,c,d,e,f", *json = NULL;
    const argument table[] = {
        {"only", ARGUMENT_TEXT, &only, "LETTERS", "what to measure", 0, 0, NULL, NULL},
        {"quick", ARGUMENT_FLAG, &b.quick, NULL, "few repetitions and short runs: shows that all works", 0, 0, NULL,
         NULL},
        {"repeats", ARGUMENT_COUNT, &b.repeats, "N", "repetitions, or seeds; default: each measurement's own", 1, 64,
         NULL, NULL},
        {"seed", ARGUMENT_COUNT, &b.seed, "N", "of all sequences and layouts", 0, 0, NULL, NULL},
        {"json", ARGUMENT_TEXT, &json, "FILE", "write the results there as well", 0, 0, NULL, NULL},
    };
    const arguments all = {COMMAND, NULL, "Measures the library; doc/performance.md says what and how.", table,
                           sizeof table / sizeof table[0]};
    int             first;
    switch (arguments_parse(&all, argc, argv, &first)) {
    case ARGUMENTS_GO: break;
    case ARGUMENTS_DONE: return 0;
    case ARGUMENTS_BAD: return 2;
    }
    if (!letters_valid(only))
        return arguments_error(COMMAND, "--only '%s': must be letters from a to f with commas between", only);
    if (json && !results_json_available())
        return arguments_error(COMMAND, "--json: this build lacks jansson, which writes JSON");
    if (json && !writable(json))
        return arguments_error(COMMAND, "--json %s: %s", json, strerror(errno));
    unsetenv("SNUG_OPTIONS");
    results_open(&b.results, json != NULL, b.seed, b.quick);
#ifdef SNUG_DEBUG
    fputs(COMMAND ": this build has its debug asserts on: its figures mean nothing\n", stderr);
#endif
    for (size_t i = 0; i < MEASUREMENTS; i++)
        if (strchr(only, measurements[i].letter))
            measurements[i].run(&b);
    if (!results_close(&b.results, json, b.faults))
        return arguments_error(COMMAND, "--json %s: %s", json, strerror(errno));
    return b.faults ? 1 : 0;
}
