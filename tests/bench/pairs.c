/* pairs.c - (b) an allocation and a free, with everything that belongs to them, beside glibc's malloc and free.
 *
 * 1 GiB without bytes; slots are filled to 80 or 90 % of it, then each pair frees a slot and allocates it anew. All three
 * sides (compaction on demand, none, malloc) get the same precomputed sequence, one after the other in each repetition. Of
 * malloc's memory nothing is touched but what malloc writes there itself. Two threads have half of the slots and of the
 * pairs each; all sides get them through the same two threads. What is refused leaves its slot empty.
 * Compaction copies nothing here: its share of a pair is planning and bookkeeping. */
#include "sequence.h"

#include <stdio.h>
#include <stdlib.h>

enum { SIDES = 3, PAIRS = 2000000 };

#define CAPACITY (UINT64_C(1) << 30)

typedef enum side { SIDE_OFF, SIDE_ON, SIDE_MALLOC } side;

/* One thread's part of one side. */
typedef struct pair_client {
    const sequence *sequence;
    snug_pool      *pool;    /* or NULL: malloc */
    snug_handle    *handles; /* by slot; HANDLE_NONE where refused */
    void          **pointers;
    uint64_t        refused;
} pair_client;

typedef struct pair_case {
    const sizes *sizes;
    unsigned     live_percent, threads;
    series       ns[SIDES];
    series       refused[2], hole_mib[2], fragmentation[2], moved[2]; /* by snug's sides */
} pair_case;

static void snug_fill_slot(pair_client *c, size_t slot, uint64_t bytes) {
    snug_status status = snug_alloc(c->pool, bytes, NULL, &c->handles[slot]);
    if (status == SNUG_OK)
        return;
    if (status > SNUG_DEVICE) /* no verdict */
        need(status, "alloc");
    c->handles[slot] = SNUG_HANDLE_NONE;
    c->refused++;
}

static void malloc_fill_slot(pair_client *c, size_t slot, size_t bytes) {
    c->pointers[slot] = malloc(bytes);
    if (!c->pointers[slot])
        need(SNUG_NO_MEMORY, "malloc");
    consume(c->pointers[slot]);
}

static void client_fill(void *argument) {
    pair_client *c = argument;
    for (size_t i = 0; i < c->sequence->slots; i++)
        if (c->pool)
            snug_fill_slot(c, i, c->sequence->fill[i]);
        else
            malloc_fill_slot(c, i, c->sequence->fill[i]);
}

static void snug_pairs(void *argument) {
    pair_client *c = argument;
    for (size_t i = 0; i < c->sequence->pairs_count; i++) {
        const pair *p = &c->sequence->pairs[i];
        if (c->handles[p->slot] != SNUG_HANDLE_NONE)
            need(snug_free(c->pool, c->handles[p->slot]), "free");
        snug_fill_slot(c, p->slot, p->bytes);
    }
}

static void malloc_pairs(void *argument) {
    pair_client *c = argument;
    for (size_t i = 0; i < c->sequence->pairs_count; i++) {
        const pair *p = &c->sequence->pairs[i];
        free(c->pointers[p->slot]);
        malloc_fill_slot(c, p->slot, p->bytes);
    }
}

static void client_empty(pair_client *c) {
    for (size_t i = 0; i < c->sequence->slots; i++)
        if (!c->pool)
            free(c->pointers[i]);
        else if (c->handles[i] != SNUG_HANDLE_NONE)
            need(snug_free(c->pool, c->handles[i]), "free");
}

static void side_note(pair_case *c, side side, snug_pool *pool, const pair_client *clients, uint64_t moved_before) {
    snug_stats stats   = pool_stats(pool);
    uint64_t   refused = 0;
    for (unsigned t = 0; t < c->threads; t++)
        refused += clients[t].refused;
    series_add(&c->refused[side], (double)refused);
    series_add(&c->hole_mib[side], (double)stats.largest_hole_bytes / 0x1p20);
    series_add(&c->fragmentation[side], stats.fragmentation);
    series_add(&c->moved[side], (double)(stats.moved_bytes - moved_before) / 0x1p20);
}

static void side_run(pair_case *c, side side, const sequence *sequences, bool keep) {
    pair_client clients[CREW_MAX] = {{0}};
    void       *arguments[CREW_MAX];
    snug_pool  *pool  = side == SIDE_MALLOC ? NULL : pool_without_bytes(POOL_COPYLESS, CAPACITY, side == SIDE_ON);
    size_t      pairs = 0;
    for (unsigned t = 0; t < c->threads; t++) {
        size_t slots = sequences[t].slots;
        clients[t]   = (pair_client){.sequence = &sequences[t], .pool = pool};
        if (pool)
            clients[t].handles = need_memory(slots, sizeof clients[t].handles[0]);
        else
            clients[t].pointers = need_memory(slots, sizeof clients[t].pointers[0]);
        arguments[t] = &clients[t];
        pairs += sequences[t].pairs_count;
    }
    crew_run(c->threads, client_fill, arguments);
    for (unsigned t = 0; t < c->threads; t++)
        clients[t].refused = 0; /* those of the fill left their slots empty, and are not what is counted */
    uint64_t moved = pool ? pool_stats(pool).moved_bytes : 0;
    double   ns    = crew_run(c->threads, pool ? snug_pairs : malloc_pairs, arguments);
    if (keep) {
        series_add(&c->ns[side], ns / (double)pairs);
        if (pool)
            side_note(c, side, pool, clients, moved);
    }
    for (unsigned t = 0; t < c->threads; t++) {
        client_empty(&clients[t]);
        free(clients[t].handles);
        free(clients[t].pointers);
    }
    if (pool)
        need(snug_pool_destroy(pool), "destroying a pool");
}

/* The first repetition warms up: a tenth of it is enough, and it counts in a quick run only, which is as short. */
static void case_repeat(const bench *b, pair_case *c, unsigned repetition) {
    bool             warm = repetition == 0;
    sequence         sequences[CREW_MAX];
    sequence_options options = {.sizes        = c->sizes,
                                .live_bytes   = CAPACITY / 100 * c->live_percent / c->threads,
                                .window_bytes = CAPACITY / c->threads,
                                .pairs        = (warm || b->quick ? PAIRS / 10 : PAIRS) / c->threads};
    for (unsigned t = 0; t < c->threads; t++)
        sequence_make(&sequences[t], &options, dice_make(b->seed, (uint64_t)repetition * CREW_MAX + t));
    for (unsigned s = 0; s < SIDES; s++)
        side_run(c, (side)((s + repetition) % SIDES), sequences, !warm || b->quick);
    for (unsigned t = 0; t < c->threads; t++)
        sequence_free(&sequences[t]);
}

static void case_tell(bench *b, const pair_case *c) {
    static const char *const names[] = {"compaction off", "compaction on", "malloc"};
    results                 *r       = &b->results;
    char                     where[96];
    snprintf(where, sizeof where, "%s, %u %%, %u thread%s", c->sizes->name, c->live_percent, c->threads,
             c->threads > 1 ? "s" : "");
    results_row(r, "ns/pair", &c->ns[SIDE_MALLOC], NULL, "%s, malloc", where);
    for (side s = SIDE_OFF; s <= SIDE_ON; s++)
        results_row(r, "ns/pair", &c->ns[s], (ratio[]){{"malloc", &c->ns[SIDE_MALLOC]}, {0}}, "%s, %s", where,
                    names[s]);
    for (side s = SIDE_OFF; s <= SIDE_ON; s++) {
        results_row(r, "", &c->refused[s], NULL, "%s, %s: refused", where, names[s]);
        results_row(r, "MiB", &c->hole_mib[s], NULL, "%s, %s: largest hole", where, names[s]);
        results_row(r, "", &c->fragmentation[s], NULL, "%s, %s: fragmentation", where, names[s]);
    }
    results_row(r, "MiB", &c->moved[SIDE_ON], NULL, "%s, %s: moved", where, names[SIDE_ON]);
    if (series_summary(&c->refused[SIDE_ON]).most > 0)
        bench_fault(b, "b: %s: requests were refused with compaction on, though enough bytes were free", where);
}

void bench_pairs(bench *b) {
    static const unsigned lives[] = {80, 90};
    const sizes *const    kinds[] = {&sizes_large, &sizes_small};
    static pair_case      cases[8];
    unsigned              count = 0, repeats = bench_repeats(b, 5, 1);
    results_section(&b->results, 'b', "an alloc and a free, 1 GiB, beside malloc and free");
    progress_start(&b->progress, "b: pairs");
    for (unsigned threads = 1; threads <= CREW_MAX; threads++)
        for (unsigned k = 0; k < 2; k++)
            for (unsigned l = 0; l < 2; l++)
                cases[count++] = (pair_case){.sizes = kinds[k], .live_percent = lives[l], .threads = threads};
    for (unsigned r = 0; r <= repeats; r++)
        for (unsigned i = 0; i < count; i++) {
            progress_update(&b->progress, r * count + i, (repeats + 1) * count, "runs");
            case_repeat(b, &cases[i], r);
        }
    progress_end(&b->progress);
    for (unsigned i = 0; i < count; i++)
        case_tell(b, &cases[i]);
    results_note(&b->results, "two threads: wall time over the pairs of both");
}
