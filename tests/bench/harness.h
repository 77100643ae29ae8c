/* harness.h - what measurements share: the run's options, random numbers, a clock, threads that begin together, and pools
 * whose device leaves out the bytes.
 *
 * A bench belongs to main; a measurement borrows it. What can't be measured ends the program with one line: a figure that
 * stands on a failed call is worth nothing. */
#ifndef SNUG_BENCH_HARNESS_H
#define SNUG_BENCH_HARNESS_H

#include "results.h"

#include "../../tools/progress.h"

#include <snug.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct bench {
    bool     quick;
    uint64_t seed;
    uint64_t repeats; /* 0: what each measurement takes for right */
    unsigned faults;  /* things that must not happen, and did: the program fails */
    results  results;
    progress progress;
} bench;

/* The measurements, by the letters that --only knows. */
void bench_launches(bench *b);   /* a */
void bench_pairs(bench *b);      /* b */
void bench_refusals(bench *b);   /* c */
void bench_gaps(bench *b);       /* d: what they cost */
void bench_plans(bench *b);      /* d: how long planning takes */
void bench_copies(bench *b);     /* e */
void bench_compactors(bench *b); /* f */

/* Repetitions to make: the user's, else the fewer in a quick run. At most SERIES_MAX. */
unsigned bench_repeats(const bench *b, unsigned usual, unsigned quick);

/* On stderr at once, and the program's exit status is 1 at the end. */
void bench_fault(bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

void  need(snug_status status, const char *what); /* exits if it isn't OK */
void *need_memory(size_t count, size_t size);     /* zeroed; exits if there is none */

double clock_ns(void);
void   nap_ns(uint64_t ns);

/* The compiler has to assume that somebody reads what lies there. */
static inline void consume(const void *memory) {
    __asm__ volatile("" : : "r"(memory) : "memory");
}

/* ------------------------------------------------------------------------------------------------ random numbers */

typedef struct dice {
    uint64_t state;
} dice;

static inline uint64_t dice_roll(dice *d) { /* splitmix64 */
    uint64_t z = d->state += UINT64_C(0x9e3779b97f4a7c15);
    z          = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z          = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint64_t dice_below(dice *d, uint64_t n) {
    return dice_roll(d) % n;
}

static inline double dice_share(dice *d) { /* [0, 1) */
    return (double)(dice_roll(d) >> 11) * 0x1p-53;
}

/* Independent of what other keys give for the same seed. */
dice dice_make(uint64_t seed, uint64_t key);

/* ------------------------------------------------------------------------------------------------ threads */

enum { CREW_MAX = 2 };

/* Runs work(arguments[i]) on so many threads at once, one on the calling thread. Returns the nanoseconds from the moment
 * when all were ready to the end of the last. */
double crew_run(unsigned threads, void (*work)(void *argument), void *const *arguments);

/* ------------------------------------------------------------------------------------------------ pools */

/* The host device with gaps: COPYLESS, copies do nothing and no memory is committed, so that any capacity can be had and
 * only the library's own work is measured. RECORDLESS, that and no event is recorded: everything has always run. */
typedef enum pool_device { POOL_COPYLESS, POOL_RECORDLESS } pool_device;

snug_pool *pool_with_bytes(uint64_t capacity, bool compaction); /* the host device as it is */
snug_pool *pool_without_bytes(pool_device device, uint64_t capacity, bool compaction);

snug_stats pool_stats(snug_pool *pool);

#endif
