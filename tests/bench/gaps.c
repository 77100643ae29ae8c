/* gaps.c - (d) what a gap costs: the bytes moved to make one of 25, 50, 75 % of the free bytes.
 *
 * The gap is made as a client makes it, by an allocation of that size with compaction on, in a layout made afresh for each.
 * Beside the bytes moved stand the live bytes of the cheapest window of that size, below which no plan can go, and those
 * that sliding everything down would move. Where a hole of that size is there already nothing has to move, and the case
 * counts for the share of gaps made only. */
#include "layout.h"

#include <stdio.h>

#define CAPACITY (UINT64_C(1) << 30)

enum { LIVES = 3, SHARES = 3, SIZES = 2 };

static const unsigned     lives[LIVES]   = {70, 80, 90};
static const unsigned     shares[SHARES] = {25, 50, 75};
static const sizes *const kinds[SIZES]   = {&sizes_large, &sizes_small};

/* One cell of the table; a series has a value for each seed in which something had to move. */
typedef struct cell {
    series   moved, cheapest, slide, live;
    unsigned asked, made, there; /* there: as a hole already */
} cell;

static void gap_make(bench *b, const layout_options *options, unsigned share, unsigned seed, cell *c) {
    layout layout;
    layout_make(&layout, options, dice_make(b->seed, seed));
    layout_facts facts  = layout_look(&layout, 0);
    uint64_t     gap    = facts.free / 100 * share / SNUG_GRANULE * SNUG_GRANULE;
    uint64_t     before = pool_stats(layout.pool).moved_bytes;
    snug_handle  handle;
    facts              = layout_look(&layout, gap);
    snug_status status = snug_alloc(layout.pool, gap, NULL, &handle);
    uint64_t    moved  = pool_stats(layout.pool).moved_bytes - before;
    c->asked++;
    if (status == SNUG_OK) {
        c->made++;
        need(snug_free(layout.pool, handle), "free");
    } else {
        bench_fault(b, "d: %s, sizes %s, %u %% live, seed %u: a gap of %u %% of the free bytes wasn't made: %s",
                    layout_names[options->kind], options->sizes->name, options->live_percent, seed, share,
                    snug_status_name(status));
    }
    if (facts.largest_hole >= gap) {
        c->there++;
        if (moved)
            bench_fault(b, "d: %llu bytes were moved although a hole was there", (unsigned long long)moved);
    } else if (status == SNUG_OK) {
        if (moved < facts.cheapest)
            bench_fault(b, "d: %llu bytes were moved, fewer than the cheapest window holds: %llu",
                        (unsigned long long)moved, (unsigned long long)facts.cheapest);
        series_add(&c->moved, (double)moved / 0x1p20);
        series_add(&c->cheapest, (double)facts.cheapest / 0x1p20);
        series_add(&c->slide, (double)facts.slide / 0x1p20);
        series_add(&c->live, 100.0 * (double)facts.live / (double)CAPACITY);
    }
    layout_free(&layout);
}

/* What concerns a whole kind of layout. */
typedef struct total {
    series   moved, cheapest, slide; /* gaps up to half the free bytes */
    unsigned asked, made, there;
} total;

static void total_add(total *t, const cell *c, unsigned share) {
    t->asked += c->asked;
    t->made += c->made;
    t->there += c->there;
    for (unsigned i = 0; share <= 50 && i < c->moved.count; i++) {
        series_add(&t->moved, c->moved.values[i]);
        series_add(&t->cheapest, c->cheapest.values[i]);
        series_add(&t->slide, c->slide.values[i]);
    }
}

static void cell_tell(bench *b, const cell *c, const char *where, unsigned live, unsigned share) {
    char there[32] = "";
    if (c->there)
        snprintf(there, sizeof there, ", %u there", c->there);
    results_row(&b->results, "MiB", &c->moved,
                (ratio[]){{"the cheapest window", &c->cheapest}, {"sliding all", &c->slide}, {0}},
                "%s, %u %% live, gap %u %%%s", where, live, share, there);
}

static void kind_measure(bench *b, layout_kind kind, const sizes *sizes, unsigned seeds) {
    static cell  cells[LIVES][SHARES];
    static total total;
    char         where[64];
    snprintf(where, sizeof where, "%s %s", layout_names[kind], sizes->name);
    total = (struct total){.asked = 0};
    for (unsigned l = 0; l < LIVES; l++)
        for (unsigned s = 0; s < SHARES; s++) {
            layout_options options = {.kind = kind, .capacity = CAPACITY, .sizes = sizes, .live_percent = lives[l]};
            cells[l][s]            = (cell){.asked = 0};
            for (unsigned seed = 0; seed < seeds; seed++) {
                progress_update(&b->progress, (l * SHARES + s) * seeds + seed, (uint64_t)LIVES * SHARES * seeds, where);
                gap_make(b, &options, shares[s], seed, &cells[l][s]);
            }
            total_add(&total, &cells[l][s], shares[s]);
        }
    progress_end(&b->progress);
    for (unsigned l = 0; l < LIVES; l++)
        for (unsigned s = 0; s < SHARES; s++)
            cell_tell(b, &cells[l][s], where, lives[l], shares[s]);
    results_row(&b->results, "MiB", &total.moved,
                (ratio[]){{"the cheapest window", &total.cheapest}, {"sliding all", &total.slide}, {0}},
                "%s, gaps up to 50 %%", where);
    results_note(&b->results, "%s: %u of %u gaps made, of which %u were there as a hole already", where, total.made,
                 total.asked, total.there);
}

void bench_gaps(bench *b) {
    unsigned seeds = bench_repeats(b, 9, 2);
    results_section(&b->results, 'd', "bytes moved to make a gap, 1 GiB; gaps in shares of the free bytes");
    progress_start(&b->progress, "d: gaps");
    for (unsigned s = 0; s < SIZES; s++)
        for (layout_kind kind = LAYOUT_CHURNED; kind < LAYOUT_KINDS; kind++)
            kind_measure(b, kind, kinds[s], b->quick && s ? 1 : seeds);
}
