/* plan_best.c - what the planner moves to make room on small random maps, beside the best plan there is: pools on the sim
 * device, and an exhaustive search. Without arguments a test of some seconds; with them a report:
 *
 *     tests/unit/plan_best --maps 2000 --seed 1 --worst 5
 *
 * made: gaps that both made, with the distribution of moved over best among them. low: the live granules of the cheapest place
 * for the gap, which no plan is below. missed: gaps not made though they can be; sliding: of these, though sliding everything
 * would do. above: more moved than that takes. unknown: too many layouts to search. */
#include "tap.h"

#include "fixture.h"
#include "plan_search.h"
#include "snug_sim.h"

enum { MAPS_MAX = 100000, TRIES_MAX = 1000 };

/* ------------------------------------------------------------------------------------------------ maps */

typedef struct class {
    const char *name;
    uint32_t    free_least, free_most; /* percent of the arena */
    uint32_t    alignments, fixed;     /* log2 below that; most fixed buffers */
    uint32_t    gap_least, gap_most;   /* percent of the way from the largest hole to all that is free */
    double      median_max, mean_max;  /* of moved over best; 0: not checked */
} class;

static const class classes[] = {
    {"plain", 15, 50, 1, 0, 0, 100, 1.1, 1.5},     {"nearly full", 6, 15, 1, 0, 0, 100, 1.1, 1.5},
    {"gap of half", 25, 50, 1, 0, 0, 0, 1.1, 1.5}, {"aligned", 25, 50, 4, 0, 0, 100, 0, 0},
    {"pinned", 25, 50, 1, 2, 0, 100, 0, 0},
};
enum { CLASSES = sizeof classes / sizeof classes[0], HALF = 2 };

/* Cuts a length into so many parts, each of at least a size, anywhere. */
static void cut(dice *d, uint32_t length, uint32_t parts, uint32_t least, uint32_t *sizes) {
    uint32_t cuts[PIECES_MAX + 2] = {0}, rest = length - parts * least;
    for (uint32_t i = 1; i < parts; i++) {
        uint32_t at = dice_below(d, rest + 1), k = i;
        for (; k > 1 && cuts[k - 1] > at; k--)
            cuts[k] = cuts[k - 1];
        cuts[k] = at;
    }
    cuts[parts] = rest;
    for (uint32_t i = 0; i < parts; i++)
        sizes[i] = cuts[i + 1] - cuts[i] + least;
}

static uint32_t free_of(const puzzle *p) {
    uint32_t free = p->granules;
    for (uint32_t i = 0; i < p->count; i++)
        free -= p->pieces[i].size;
    return free;
}

/* The largest gap at the wanted alignment that is there. */
static uint32_t largest_hole(const puzzle *p) {
    puzzle   q       = *p;
    uint32_t largest = 0;
    for (q.size = 1; q.size <= p->granules && least_cost(&q, puzzle_places(p)) == 0; q.size++)
        largest = q.size;
    return largest;
}

static bool puzzle_try(puzzle *p, const class *class, dice *d) {
    uint32_t sizes[PIECES_MAX], holes[PIECES_MAX + 1], at = 0;
    *p            = (puzzle){.granules = 32 + dice_below(d, 32), .count = 4 + dice_below(d, PIECES_MAX - 3)};
    uint32_t free = p->granules * (class->free_least + dice_below(d, class->free_most - class->free_least + 1)) / 100;
    cut(d, p->granules - free, p->count, 1, sizes);
    cut(d, free, p->count + 1, 0, holes);
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t alignment = 1u << dice_below(d, class->alignments);
        at                 = snug__align_up(at + holes[i], alignment);
        if (at + sizes[i] > p->granules)
            return false;
        p->pieces[i] = (piece){(uint8_t)at, (uint8_t)sizes[i], (uint8_t)alignment, false};
        at += sizes[i];
    }
    for (uint32_t fixed = class->fixed ? 1 + dice_below(d, class->fixed) : 0; fixed > 0; fixed--)
        p->pieces[dice_below(d, p->count)].fixed = true;
    p->alignment  = 1u << dice_below(d, class->alignments);
    uint32_t hole = largest_hole(p);
    free          = free_of(p);
    if (hole + 1 > free)
        return false;
    uint32_t least = hole + 1, more = free - least;
    p->size = least + (dice_below(d, more + 1) * (class->gap_most - class->gap_least) + more * class->gap_least) / 100;
    if (class == &classes[HALF])
        p->size = free / 2;
    return p->size > hole;
}

static void puzzle_make(puzzle *p, const class *class, dice *d) {
    for (unsigned tries = 0; !puzzle_try(p, class, d); tries++)
        if (tries == TRIES_MAX)
            bail_out("no map of the class %s", class->name);
}

/* What it costs to slide everything as far down (or up) as it goes; IMPOSSIBLE if no gap comes of it. */
static uint32_t slide_cost(const puzzle *p, bool up) {
    uint64_t places = puzzle_places(p);
    uint32_t cost = 0, edge = up ? p->granules : 0;
    for (uint32_t k = 0; k < p->count; k++) {
        uint32_t     i     = up ? p->count - 1 - k : k;
        const piece *piece = &p->pieces[i];
        uint32_t     to =
            up ? (edge - piece->size) & ~(uint32_t)(piece->alignment - 1) : snug__align_up(edge, piece->alignment);
        if (piece->fixed)
            to = piece->at;
        cost += to != piece->at ? piece->size : 0;
        edge   = up ? to : to + piece->size;
        places = place_set(places, i, to);
    }
    return least_cost(p, places) == 0 ? cost : IMPOSSIBLE;
}

/* ------------------------------------------------------------------------------------------------ pools */

static uint64_t no_overhead(snug__device *device) {
    (void)device;
    return 0;
}

/* A machine on which copies cost their bytes and nothing else. */
static snug_pool *pool_on_sim(uint64_t granules) {
    static snug__device_row row;
    snug_sim_options        sim     = snug_sim_options_default();
    snug_pool_options       options = snug_pool_options_default();
    snug__settings          settings;
    snug_pool              *pool;
    row                     = snug__device_sim;
    row.copy_overhead_bytes = no_overhead;
    sim.style               = SNUG_SIM_EAGER;
    options.capacity        = granules * SNUG_GRANULE;
    options.log             = quiet;
    options.compaction_off  = 1;
    if (snug_sim_setup(&sim) != SNUG_OK || snug__settings_make(&options, NULL, &settings) != SNUG_OK ||
        snug__pool_create_on(&row, &settings.pool, &pool) != SNUG_OK)
        bail_out("no pool");
    return pool;
}

static snug_handle must_alloc_aligned(snug_pool *pool, uint32_t granules, uint32_t alignment) {
    snug_alloc_options options = snug_alloc_options_default();
    snug_handle        handle;
    options.alignment = (uint64_t)alignment * SNUG_GRANULE;
    if (snug_alloc(pool, (uint64_t)granules * SNUG_GRANULE, &options, &handle) != SNUG_OK)
        bail_out("not laid out");
    return handle;
}

/* Without compaction what is allocated into one hole lies there in its order: the holes are filled, then freed. */
static void lay_pieces(snug_pool *pool, const puzzle *p, snug_handle *handles) {
    snug_handle fillers[PIECES_MAX + 1];
    uint32_t    count = 0, at = 0;
    void       *address;
    for (uint32_t i = 0; i <= p->count; i++) {
        uint32_t next = i < p->count ? p->pieces[i].at : p->granules;
        if (next > at)
            fillers[count++] = must_alloc(pool, next - at);
        if (i == p->count)
            break;
        handles[i] = must_alloc_aligned(pool, p->pieces[i].size, p->pieces[i].alignment);
        at         = next + p->pieces[i].size;
        if (offset_of(pool, handles[i]) != next ||
            (p->pieces[i].fixed && snug_pin(pool, &handles[i], 1, &address) != SNUG_OK))
            bail_out("not laid out");
    }
    while (count > 0)
        snug_free(pool, fillers[--count]);
}

/* Asks a pool for the gap. Returns what was moved for it, or IMPOSSIBLE; places: where the pieces are then. */
static uint32_t planner_moves(const puzzle *p, uint64_t *places) {
    snug_pool         *pool    = pool_on_sim(p->granules);
    snug_alloc_options options = snug_alloc_options_default();
    snug_handle        handles[PIECES_MAX], gap;
    lay_pieces(pool, p, handles);
    snug_compaction_set(pool, 1);
    options.alignment  = (uint64_t)p->alignment * SNUG_GRANULE;
    snug_status status = snug_alloc(pool, (uint64_t)p->size * SNUG_GRANULE, &options, &gap);
    uint64_t    moved  = stats_of(pool).moved_bytes / SNUG_GRANULE;
    *places            = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        *places = place_set(*places, i, (uint32_t)offset_of(pool, handles[i]));
        if (p->pieces[i].fixed)
            snug_unpin(pool, &handles[i], 1, NULL, 0);
        snug_free(pool, handles[i]);
    }
    if (status == SNUG_OK)
        snug_free(pool, gap);
    if (snug_pool_check(pool) != SNUG_OK || snug_pool_destroy(pool) != SNUG_OK)
        bail_out("the pool is broken");
    return status == SNUG_OK ? (uint32_t)moved : IMPOSSIBLE;
}

/* ------------------------------------------------------------------------------------------------ comparison */

typedef struct comparison {
    puzzle      puzzle;
    uint32_t    moved, best, slide, least;
    uint64_t    places; /* what the planner left */
    search_move moves[MOVES_MAX];
    uint32_t    moves_count;
} comparison;

typedef struct result {
    uint64_t seed;
    double   ratio;
} result;

typedef struct summary {
    result   results[MAPS_MAX]; /* of the maps that both can do; then by ratio */
    uint32_t count, impossible, unknown;
    uint32_t missed, missed_slides; /* gaps not made though they can be; by sliding everything */
    uint32_t above;                 /* more moved than that takes */
    double   sum, least_sum;
} summary;

static void compare(const class *class, uint64_t seed, comparison *c) {
    dice d = {seed};
    *c     = (comparison){.best = IMPOSSIBLE};
    puzzle_make(&c->puzzle, class, &d);
    uint32_t down = slide_cost(&c->puzzle, false), up = slide_cost(&c->puzzle, true);
    c->slide       = down < up ? down : up;
    c->moved       = planner_moves(&c->puzzle, &c->places);
    c->least       = least_cost(&c->puzzle, puzzle_places(&c->puzzle));
    uint32_t known = c->moved < c->slide ? c->moved : c->slide;
    uint32_t limit = known < IMPOSSIBLE ? known : 2 * (c->puzzle.granules - free_of(&c->puzzle));
    uint32_t found = search_best(&c->puzzle, limit, c->moves, &c->moves_count);
    c->best        = found == IMPOSSIBLE ? known : found;
}

static int by_ratio(const void *a, const void *b) {
    const result *x = a, *y = b;
    return x->ratio < y->ratio ? -1 : x->ratio > y->ratio;
}

static void count_one(summary *s, const comparison *c, uint64_t seed) {
    if (c->slide != IMPOSSIBLE && c->moved == IMPOSSIBLE)
        s->missed_slides++;
    else if (c->slide != IMPOSSIBLE && c->moved > c->slide)
        s->above++;
    if (c->best == UNKNOWN) {
        s->unknown++;
    } else if (c->best == IMPOSSIBLE) {
        s->impossible++;
    } else if (c->moved == IMPOSSIBLE) {
        s->missed++;
    } else {
        double ratio           = (double)c->moved / c->best;
        s->results[s->count++] = (result){seed, ratio};
        s->sum += ratio;
        s->least_sum += (double)c->best / c->least;
    }
}

static void compare_all(const class *class, uint64_t seed, uint32_t maps, summary *s) {
    static comparison c;
    memset(s, 0, sizeof *s);
    for (uint32_t i = 0; i < maps; i++) {
        compare(class, seed + i, &c);
        count_one(s, &c, seed + i);
    }
    qsort(s->results, s->count, sizeof s->results[0], by_ratio);
}

static double quantile(const summary *s, unsigned percent) {
    return s->count ? s->results[(uint64_t)(s->count - 1) * percent / 100].ratio : 0;
}

static double mean(const summary *s) {
    return s->count ? s->sum / s->count : 0;
}

/* ------------------------------------------------------------------------------------------------ report */

static void map_print(const puzzle *p, uint64_t places) {
    char text[GRANULES_MAX + 1];
    memset(text, '.', p->granules);
    text[p->granules] = 0;
    for (uint32_t i = 0; i < p->count; i++)
        memset(text + place_get(places, i), p->pieces[i].fixed ? 'X' : 'a' + (int)i, p->pieces[i].size);
    printf("    |%s|\n", text);
}

static void case_print(const class *class, uint64_t seed) {
    static comparison c;
    compare(class, seed, &c);
    const puzzle *p = &c.puzzle;
    printf("  --seed %" PRIu64 ": a gap of %u", seed, p->size);
    if (p->alignment > 1)
        printf(" at multiples of %u", p->alignment);
    printf(", %u free; moved %u, best %u, cheapest window %u, sliding everything %u\n", free_of(p), c.moved, c.best,
           c.least, c.slide);
    map_print(p, puzzle_places(p));
    map_print(p, c.places);
    printf("    best:");
    uint64_t places = puzzle_places(p);
    for (uint32_t k = 0; k < c.moves_count; k++)
        for (uint32_t i = 0; i < p->count; i++)
            if (place_get(places, i) == c.moves[k].from) {
                printf(" %c%u %u->%u", 'a' + (int)i, c.moves[k].size, c.moves[k].from, c.moves[k].to);
                places = place_set(places, i, c.moves[k].to);
                break;
            }
    printf("\n");
    map_print(p, places);
}

static void report(uint64_t seed, uint32_t maps, uint32_t worst) {
    static summary s;
    printf("moved over best  made  median    mean     p75     p90     p99     max  best/low missed sliding  above "
           "unknown\n");
    for (unsigned k = 0; k < CLASSES; k++) {
        compare_all(&classes[k], seed, maps, &s);
        printf("%-15s %5u %7.3f %7.3f %7.3f %7.3f %7.3f %7.2f %9.3f %6u %7u %6u %7u\n", classes[k].name, s.count,
               quantile(&s, 50), mean(&s), quantile(&s, 75), quantile(&s, 90), quantile(&s, 99), quantile(&s, 100),
               s.count ? s.least_sum / s.count : 0, s.missed, s.missed_slides, s.above, s.unknown);
        fflush(stdout);
        for (uint32_t i = 0; i < worst && i < s.count; i++)
            case_print(&classes[k], s.results[s.count - 1 - i].seed);
    }
}

/* The puzzle of "aa..b": buffers and holes by the granule. */
static puzzle puzzle_of(const char *text, uint32_t size) {
    puzzle p = {.granules = (uint32_t)strlen(text), .size = size, .alignment = 1};
    for (uint8_t at = 0; text[at]; at++)
        if (text[at] != '.' && (at == 0 || text[at] != text[at - 1]))
            p.pieces[p.count++] = (piece){at, (uint8_t)strspn(text + at, (char[]){text[at], 0}), 1, text[at] == 'X'};
    return p;
}

static void the_search_finds(uint32_t expected, const char *text, uint32_t size, const char *how) {
    search_move moves[MOVES_MAX];
    uint32_t    count = 0, sum = 0;
    puzzle      p      = puzzle_of(text, size);
    uint64_t    places = puzzle_places(&p);
    is_u64(search_best(&p, COST_MAX, moves, &count), expected, "%s, a gap of %u: %s", text, size, how);
    for (uint32_t k = 0; k < count; k++)
        for (uint32_t i = 0; i < p.count; i++)
            if (place_get(places, i) == moves[k].from) {
                places = place_set(places, i, moves[k].to);
                sum += p.pieces[i].size;
                break;
            }
    if (expected != IMPOSSIBLE)
        ok(sum == expected && least_cost(&p, places) == 0, "and says how");
}

static void the_search_is_right(void) {
    the_search_finds(0, "aa...b", 3, "it is there");
    the_search_finds(1, "..a..bbb.ccc", 5, "out of the window");
    the_search_finds(3, "bbb.ccc.", 2, "a slide of the one, over itself");
    the_search_finds(4, "aaaaaaaa..bddd..cccccccc.", 5, "one out, one slides to the edge");
    the_search_finds(3, "a.bbbbbb.ccccc.dd.eeee", 3, "two holes become one, for what is in the way");
    the_search_finds(8, "XX..aaaa.bbbb.XX", 4, "between fixed ones");
    the_search_finds(IMPOSSIBLE, "..X..", 3, "a fixed one in the way");
}

static void test(uint64_t seed) {
    static summary s;
    uint32_t       maps = (uint32_t)tap_scaled(200);
    for (unsigned k = 0; k < CLASSES; k++) {
        const class *class = &classes[k];
        compare_all(class, seed, maps, &s);
        diag("%s: %u gaps made, %u missed, %u not to be had, %u unknown; moved over best: median %.3f, mean %.3f, most "
             "%.2f",
             class->name, s.count, s.missed, s.impossible, s.unknown, quantile(&s, 50), mean(&s), quantile(&s, 100));
        ok(s.count > 0, "%s: there are maps to speak of", class->name);
        if (class->alignments > 1) { /* a packing puzzle; and an order of moves can stand in its own way */
            ok(s.missed_slides <= maps / 100, "%s: what sliding everything makes is made, but for one in 100: %u",
               class->name, s.missed_slides);
            ok(s.above <= maps / 100, "%s: nor is more moved than that takes: %u times", class->name, s.above);
        } else {
            is_u64(class->fixed ? s.missed_slides : s.missed, 0, "%s: every gap that can be made is made", class->name);
            is_u64(s.above, 0, "%s: never above sliding everything", class->name);
        }
        if (class->median_max > 0) {
            ok(quantile(&s, 50) <= class->median_max, "%s: within %.1f of the best plan in the median", class->name,
               class->median_max);
            ok(mean(&s) <= class->mean_max, "%s: and within %.1f in the mean", class->name, class->mean_max);
        }
    }
}

int main(int argc, char **argv) {
    uint64_t seed = 1;
    uint32_t maps = 1000, worst = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 0);
        if (strcmp(argv[i], "--seed") == 0)
            seed = value;
        else if (strcmp(argv[i], "--maps") == 0)
            maps = value < MAPS_MAX ? (uint32_t)value : MAPS_MAX;
        else if (strcmp(argv[i], "--worst") == 0)
            worst = (uint32_t)value;
    }
    if (argc > 1) {
        report(seed, maps, worst);
        return 0;
    }
    the_search_is_right();
    test(tap_seed(seed));
    return done_testing();
}
