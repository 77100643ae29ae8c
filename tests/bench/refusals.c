/* refusals.c - (c) how much of the arena is live when a request is first refused.
 *
 * 1 GiB without bytes, sizes to 4 MiB. The live target starts at 50 % and grows by 1 KiB a step; each step frees one buffer,
 * chosen at random, and allocates new ones until the target is reached. The share is that of the live bytes at the moment
 * of the refusal, the refused request not among them. Every seed goes through it without compaction and with. */
#include "sequence.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY (UINT64_C(1) << 30)
#define STEP     UINT64_C(1024)

typedef struct client {
    snug_pool   *pool;
    snug_handle *handles;
    uint32_t    *bytes;
    size_t       count, room;
    uint64_t     live;
} client;

typedef struct outcome {
    double      share; /* percent */
    double      moved; /* bytes for each byte allocated */
    snug_status verdict;
} outcome;

/* OK, or the verdict. */
static snug_status client_take(client *c, uint64_t bytes) {
    if (c->count == c->room)
        need(SNUG_NO_MEMORY, "slots for the buffers");
    snug_status status = snug_alloc(c->pool, bytes, NULL, &c->handles[c->count]);
    if (status != SNUG_OK)
        return status;
    c->bytes[c->count++] = (uint32_t)bytes;
    c->live += bytes;
    return SNUG_OK;
}

static void client_drop(client *c, size_t at) {
    need(snug_free(c->pool, c->handles[at]), "free");
    c->live -= c->bytes[at];
    c->count--;
    c->handles[at] = c->handles[c->count];
    c->bytes[at]   = c->bytes[c->count];
}

static outcome outcome_of(bool compaction, dice d) {
    client      c      = {.pool = pool_without_bytes(POOL_COPYLESS, CAPACITY, compaction), .room = CAPACITY / 65536};
    snug_status status = SNUG_OK;
    c.handles          = need_memory(c.room, sizeof c.handles[0]);
    c.bytes            = need_memory(c.room, sizeof c.bytes[0]);
    for (uint64_t target = CAPACITY / 2; status == SNUG_OK; target += STEP) {
        if (c.count)
            client_drop(&c, dice_below(&d, c.count));
        while (status == SNUG_OK && c.live < target)
            status = client_take(&c, size_draw(&sizes_large, &d));
    }
    if (status > SNUG_DEVICE) /* no verdict */
        need(status, "alloc");
    snug_stats stats  = pool_stats(c.pool);
    outcome    result = {100.0 * (double)c.live / (double)CAPACITY,
                         (double)stats.moved_bytes / (double)stats.bytes.allocated, status};
    while (c.count)
        client_drop(&c, c.count - 1);
    need(snug_pool_destroy(c.pool), "destroying a pool");
    free(c.handles);
    free(c.bytes);
    return result;
}

void bench_refusals(bench *b) {
    static series share[2], moved;
    unsigned      seeds     = bench_repeats(b, 15, 2);
    unsigned      otherwise = 0;
    results_section(&b->results, 'c', "live share at the first refusal, 1 GiB, sizes to 4 MiB");
    progress_start(&b->progress, "c: refusals");
    for (unsigned seed = 0; seed < seeds; seed++)
        for (int on = 0; on < 2; on++) {
            progress_update(&b->progress, 2 * seed + (unsigned)on, 2 * seeds, "runs");
            outcome outcome = outcome_of(on, dice_make(b->seed, seed));
            series_add(&share[on], outcome.share);
            if (on)
                series_add(&moved, outcome.moved);
            if (on && outcome.verdict != SNUG_CAPACITY) {
                bench_fault(b, "c: seed %u: refused with compaction on as %s", seed, snug_status_name(outcome.verdict));
                otherwise++;
            }
        }
    progress_end(&b->progress);
    results_row(&b->results, "% live", &share[0], NULL, "compaction off");
    results_row(&b->results, "% live", &share[1], (ratio[]){{"off", &share[0]}, {0}}, "compaction on");
    results_row(&b->results, "", &moved, NULL, "compaction on: bytes moved for each byte allocated");
    results_note(&b->results, "with compaction on, %u of %u seeds ended otherwise than for want of bytes", otherwise,
                 seeds);
}
