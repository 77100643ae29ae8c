/* harness.c: see harness.h. */
#include "harness.h"

#include "options.h"
#include "pool.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

unsigned bench_repeats(const bench *b, unsigned usual, unsigned quick) {
    if (b->repeats)
        return (unsigned)b->repeats;
    return b->quick ? quick : usual;
}

void bench_fault(bench *b, const char *format, ...) {
    va_list list;
    progress_end(&b->progress);
    fflush(stdout); /* so that the two keep their order where they go to one place */
    fputs("bench: ", stderr);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    b->faults++;
}

void need(snug_status status, const char *what) {
    if (status == SNUG_OK)
        return;
    fflush(stdout);
    fprintf(stderr, "bench: %s: %s (%s)\n", what, snug_status_name(status), snug_status_string(status));
    exit(1);
}

void *need_memory(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory)
        need(SNUG_NO_MEMORY, "memory for the measurement");
    return memory;
}

double clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

void nap_ns(uint64_t ns) {
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    nanosleep(&t, NULL);
}

dice dice_make(uint64_t seed, uint64_t key) {
    dice d  = {seed};
    d.state = dice_roll(&d) ^ key;
    d.state = dice_roll(&d);
    return d;
}

/* ------------------------------------------------------------------------------------------------ threads */

typedef struct crew {
    unsigned         threads;
    _Atomic unsigned ready;
    void (*work)(void *argument);
} crew;

typedef struct sailor {
    crew  *crew;
    void  *argument;
    double began, ended;
} sailor;

static void *sailor_main(void *argument) {
    sailor *s = argument;
    atomic_fetch_add(&s->crew->ready, 1);
    while (atomic_load(&s->crew->ready) < s->crew->threads)
        sched_yield(); /* the other may need this very core to get here */
    s->began = clock_ns();
    s->crew->work(s->argument);
    s->ended = clock_ns();
    return NULL;
}

double crew_run(unsigned threads, void (*work)(void *argument), void *const *arguments) {
    crew      crew              = {.threads = threads, .work = work};
    sailor    sailors[CREW_MAX] = {{0}};
    pthread_t ids[CREW_MAX];
    for (unsigned i = 0; i < threads; i++) {
        sailors[i] = (sailor){.crew = &crew, .argument = arguments[i]};
        if (i > 0 && pthread_create(&ids[i], NULL, sailor_main, &sailors[i]) != 0)
            need(SNUG_NO_MEMORY, "a thread for the measurement");
    }
    sailor_main(&sailors[0]);
    double began = sailors[0].began, ended = sailors[0].ended;
    for (unsigned i = 1; i < threads; i++) {
        pthread_join(ids[i], NULL);
        began = fmin(began, sailors[i].began);
        ended = fmax(ended, sailors[i].ended);
    }
    return ended - began;
}

/* ------------------------------------------------------------------------------------------------ pools */

static snug_status nothing_copied(snug__device *device, void *native, uint64_t to, uint64_t from, uint64_t bytes) {
    (void)device, (void)native, (void)to, (void)from, (void)bytes;
    return SNUG_OK;
}

static snug_status nothing_moved(snug__device *device, void *native, const snug__copy *copies, uint32_t n) {
    (void)device, (void)native, (void)copies, (void)n;
    return SNUG_OK;
}

static snug_status nothing_committed(snug__device *device, uint64_t offset, uint64_t bytes) {
    (void)device, (void)offset, (void)bytes;
    return SNUG_OK;
}

static snug_status nothing_recorded(snug__device *device, snug__event *event, void *native) {
    (void)device, (void)event, (void)native;
    return SNUG_OK;
}

static const snug__device_row *row_of(pool_device device) {
    static snug__device_row rows[2]; /* pools keep them */
    snug__device_row       *row = &rows[device];
    *row                        = snug__device_host;
    row->move                   = nothing_moved;
    row->copy                   = nothing_copied;
    row->arena_commit           = nothing_committed;
    row->arena_decommit         = nothing_committed;
    if (device == POOL_RECORDLESS)
        row->event_record = nothing_recorded;
    return row;
}

snug_pool *pool_with_bytes(uint64_t capacity, bool compaction) {
    snug_pool_options options = snug_pool_options_default();
    snug_pool        *pool;
    options.capacity       = capacity;
    options.compaction_off = !compaction;
    need(snug_pool_create(&options, &pool), "a pool on the host device");
    return pool;
}

snug_pool *pool_without_bytes(pool_device device, uint64_t capacity, bool compaction) {
    snug_pool_options options = snug_pool_options_default();
    snug__settings    settings;
    snug_pool        *pool;
    options.capacity       = capacity;
    options.compaction_off = !compaction;
    need(snug__settings_make(&options, NULL, &settings), "options of a pool");
    need(snug__pool_create_on(row_of(device), &settings.pool, &pool), "a pool");
    return pool;
}

snug_stats pool_stats(snug_pool *pool) {
    snug_stats stats = {.struct_size = sizeof stats};
    need(snug_stats_get(pool, &stats), "statistics");
    return stats;
}
