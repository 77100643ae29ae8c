/* stats.c - figures: the ledger in every reading, peaks, tags, the summary, refusals, and the check of the whole pool. */
#include "tap.h"

#include "fixture.h"

enum { G = SNUG_GRANULE };

static snug_pool *pool;
static client     c;

static void open_pool(uint64_t granules) {
    pool = pool_of(granules);
    c    = client_make(pool);
}

static void close_pool(void) {
    succeeds(snug_pool_check(pool));
    client_end(c);
    succeeds(snug_pool_destroy(pool));
}

static bool ledger_holds(const snug_stats *s) {
    return s->live_bytes + s->padding_bytes + s->free_bytes + s->pending_bytes + s->in_flight_bytes + s->bounce_bytes ==
               s->committed_bytes &&
           s->committed_bytes <= s->limit_bytes && s->unsettled_bytes <= s->free_bytes && s->largest_hole_bytes <= s->free_bytes;
}

static snug_handle tagged(uint64_t bytes, const char *tag) {
    snug_alloc_options o = snug_alloc_options_default();
    snug_handle        handle;
    o.tag = tag;
    if (snug_alloc(pool, bytes, &o, &handle) != SNUG_OK)
        bail_out("not granted");
    return handle;
}

/* ------------------------------------------------------------------------------------------------ figures */

static void an_empty_pool_has_empty_figures(void) {
    open_pool(100);
    snug_stats s = stats_of(pool);
    is_u64(s.live_bytes + s.padding_bytes + s.pending_bytes + s.in_flight_bytes + s.pinned_bytes, 0, "nothing is live");
    is_u64(s.free_bytes, 100 * G, "all is free");
    is_u64(s.largest_hole_bytes, 100 * G, "in one hole");
    is_u64(s.holes, 1, "exactly one");
    ok(s.fragmentation == 0, "not fragmented");
    is_u64(s.bounce_bytes, 64 << 10, "but for the bounce buffer");
    is_u64(s.committed_bytes, (100 * G) + (64 << 10), "committed");
    is_u64(s.limit_bytes, s.committed_bytes, "and the limit");
    is_u64(s.streams_attached, 1, "one stream");
    ok(ledger_holds(&s), "the ledger holds");
    close_pool();
}

static void sizes_are_counted_as_requested(void) {
    open_pool(100);
    snug_handle a = tagged(1000, NULL), b = tagged(1, NULL), z = tagged(0, NULL);
    snug_stats  s = stats_of(pool);
    is_u64(s.live_bytes, 1001, "as requested");
    is_u64(s.padding_bytes, 5 * G - 1001, "and what rounding adds");
    is_u64(s.handles_live, 3, "three handles");
    is_u64(s.buffers.current, 3, "three buffers");
    is_u64(s.largest_request_bytes, 1000, "the largest request");
    snug_free(pool, a);
    s = stats_of(pool);
    is_u64(s.bytes.current, 1, "after a free");
    is_u64(s.bytes.peak, 1001, "the peak stays");
    is_u64(s.bytes.allocated, 1001, "what was ever allocated");
    is_u64(s.bytes.freed, 1000, "and freed");
    is_u64(s.buffers.peak, 3, "three at most");
    is_u64(s.buffers.freed, 1, "one freed");
    ok(s.fragmentation > 0.03 && s.fragmentation < 0.05, "4 of 99 free granules lie apart: %.3f", s.fragmentation);
    is_u64(s.requests, 3, "requests");
    is_u64(s.granted, 3, "all granted");
    snug_free(pool, b);
    snug_free(pool, z);
    close_pool();
}

static void resizes_are_counted(void) {
    open_pool(100);
    snug_handle a = tagged(10 * G, "a");
    snug_resize(pool, a, 20 * G - 5);
    snug_stats s = stats_of(pool);
    is_u64(s.live_bytes, 20 * G - 5, "live");
    is_u64(s.padding_bytes, 5, "padding");
    is_u64(s.requests, 2, "growing is a request");
    is_u64(s.granted, 2, "granted");
    snug_resize(pool, a, 3 * G);
    s = stats_of(pool);
    is_u64(s.live_bytes, 3 * G, "live");
    is_u64(s.bytes.peak, 20 * G - 5, "peak");
    is_u64(s.requests, 2, "shrinking isn't one");
    is_u64(s.buffers.allocated, 1, "one buffer");
    close_pool();
}

static void pins_pending_and_fences_have_lines_of_their_own(void) {
    void *address;
    gate  g = {0};
    open_pool(100);
    snug_handle a = tagged(10 * G, NULL), b = tagged(20 * G, NULL);
    snug_pin(pool, &a, 1, &address);
    is_u64(stats_of(pool).pinned_bytes, 10 * G, "pinned long");
    snug_unpin(pool, &a, 1, NULL, 0);
    is_u64(stats_of(pool).pinned_bytes, 0, "no more");
    snug_resolve(c.stream, &b, 1, NULL, &address);
    snug_free(pool, b);
    snug_stats s = stats_of(pool);
    is_u64(s.pending_bytes, 20 * G, "freed while resolved: pending");
    is_u64(s.live_bytes, 10 * G, "not live any more");
    ok(ledger_holds(&s), "the ledger holds");
    gate_put(&g, c.native);
    snug_release(c.stream, &b, 1, NULL);
    s = stats_of(pool);
    is_u64(s.pending_bytes, 0, "released: free");
    ok(s.unsettled_bytes >= 20 * G, "behind a fence");
    gate_open(&g);
    snug_stream_sync(c.stream);
    snug_compact(pool, NULL, NULL); /* polls */
    is_u64(stats_of(pool).unsettled_bytes, 0, "which settles");
    close_pool();
}

static void smaller_structs_are_honoured(void) {
    open_pool(100);
    snug_stats s;
    memset(&s, 0xee, sizeof s);
    s.struct_size = offsetof(snug_stats, free_bytes);
    succeeds(snug_stats_get(pool, &s));
    is_u64(s.live_bytes, 0, "what it has is filled");
    is_hex(s.free_bytes, UINT64_C(0xeeeeeeeeeeeeeeee), "what lies behind isn't touched");
    s.struct_size = 0;
    is_status(snug_stats_get(pool, &s), SNUG_INVALID, "a struct without its size");
    is_status(snug_stats_get(pool, NULL), SNUG_INVALID, "no struct");
    close_pool();
}

/* ------------------------------------------------------------------------------------------------ under load */

typedef struct worker {
    uint64_t  seed, rounds;
    pthread_t thread;
} worker;

static _Atomic int working;

static void *work(void *argument) {
    worker     *w = argument;
    dice        d = {w->seed};
    snug_handle mine[16] = {0};
    client      own = client_make(pool);
    for (uint64_t i = 0; i < w->rounds; i++) {
        snug_handle *h = &mine[dice_below(&d, 16)];
        void        *address;
        if (!*h) {
            if (snug_alloc(pool, dice_below(&d, 30 * G), NULL, h) != SNUG_OK)
                *h = 0;
            continue;
        }
        switch (dice_below(&d, 4)) {
        case 0:
            snug_resize(pool, *h, dice_below(&d, 40 * G));
            break;
        case 1:
            if (snug_resolve(own.stream, h, 1, NULL, &address) == SNUG_OK) {
                if (dice_below(&d, 2)) {
                    snug_free(pool, *h);
                    snug_release(own.stream, h, 1, NULL);
                    *h = 0;
                } else {
                    snug_release(own.stream, h, 1, NULL);
                }
            }
            break;
        case 2:
            snug_compact(pool, &(snug_budget){.moves_max = 4}, NULL);
            break;
        default:
            snug_free(pool, *h);
            *h = 0;
        }
    }
    for (unsigned i = 0; i < 16; i++)
        if (mine[i])
            snug_free(pool, mine[i]);
    client_end(own);
    atomic_fetch_sub(&working, 1);
    return NULL;
}

static void the_ledger_holds_in_every_reading(uint64_t seed) {
    worker   w[3];
    uint64_t readings = 0, broken = 0, peaks_fell = 0, peak = 0, unsound = 0;
    open_pool(600);
    atomic_store(&working, 3);
    for (unsigned i = 0; i < 3; i++) {
        w[i] = (worker){seed + i, tap_scaled(4000), 0};
        pthread_create(&w[i].thread, NULL, work, &w[i]);
    }
    for (; atomic_load(&working); readings++) {
        snug_stats s = stats_of(pool);
        broken += !ledger_holds(&s);
        peaks_fell += s.bytes.peak < peak || s.bytes.current > s.bytes.peak;
        peak = s.bytes.peak;
        if (readings % 16 == 0)
            unsound += snug_pool_check(pool) != SNUG_OK;
    }
    for (unsigned i = 0; i < 3; i++)
        pthread_join(w[i].thread, NULL);
    is_u64(broken, 0, "in %" PRIu64 " readings while three threads allocate, resize, move and free", readings);
    is_u64(peaks_fell, 0, "peaks never fall");
    is_u64(unsound, 0, "the pool was sound whenever it was checked");
    snug_stats s = stats_of(pool);
    is_u64(s.live_bytes, 0, "nothing is live in the end");
    is_u64(s.buffers.allocated, s.buffers.freed, "as much was freed as allocated");
    is_u64(s.bytes.allocated, s.bytes.freed, "in bytes, too");
    uint64_t refused = 0;
    for (int v = 0; v < SNUG_STATUS_COUNT; v++)
        refused += s.refused[v];
    ok(s.granted + refused <= s.requests, "requests: %" PRIu64 " granted, %" PRIu64 " refused, of %" PRIu64, s.granted, refused,
       s.requests);
    close_pool();
}

/* ------------------------------------------------------------------------------------------------ tags, summary */

static void tags_are_sorted_and_cut(void) {
    snug_tag_stats tags[3], all[10];
    size_t         n = 0;
    open_pool(1000);
    tagged(5 * G, "five");
    tagged(30 * G, "weights");
    tagged(10 * G, "kv");
    tagged(15 * G, "kv");
    tagged(1 * G, NULL);
    snug_handle gone = tagged(100 * G, "scratch");
    snug_free(pool, gone);
    tagged(2 * G, "a name of more than thirty-one characters");
    succeeds(snug_tags_get(pool, tags, 3, &n));
    is_u64(n, 6, "six tags in all, that of none included");
    is_string(tags[0].tag, "weights", "the largest first");
    is_string(tags[1].tag, "kv", "then the next");
    is_u64(tags[1].live_bytes, 25 * G, "its live bytes");
    is_u64(tags[1].buffers, 2, "its buffers");
    is_string(tags[2].tag, "five", "cut at three");
    succeeds(snug_tags_get(pool, all, 10, &n));
    is_string(all[3].tag, "a name of more than thirty-one ", "a long tag is cut");
    is_string(all[4].tag, "", "the one without a name");
    is_u64(all[4].live_bytes, G, "counts as well");
    is_string(all[5].tag, "scratch", "what is gone is last");
    is_u64(all[5].live_bytes, 0, "with nothing live");
    is_u64(all[5].peak_bytes, 100 * G, "and its peak");
    succeeds(snug_tags_get(pool, NULL, 0, &n));
    is_u64(n, 6, "asked for the number only");
    is_status(snug_tags_get(pool, NULL, 1, &n), SNUG_INVALID, "no room for one");
    is_status(snug_tags_get(pool, tags, 3, NULL), SNUG_INVALID, "no place for the number");
    close_pool();
}

static void more_tags_than_there_is_room_for_count_as_none(void) {
    size_t n = 0;
    open_pool(10000);
    for (unsigned i = 0; i < SNUG__TAGS_MAX + 10; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%u", i);
        tagged(G, name);
    }
    succeeds(snug_tags_get(pool, NULL, 0, &n));
    is_u64(n, SNUG__TAGS_MAX, "no more than the most");
    snug_tag_stats first;
    snug_tags_get(pool, &first, 1, &n);
    is_string(first.tag, "", "the rest has none");
    is_u64(first.buffers, 11, "eleven of them");
    close_pool();
}

static void the_summary_has_the_figures(void) {
    char  *text = NULL;
    size_t size = 0;
    open_pool(1000);
    tagged(123456, NULL);
    FILE *out = open_memstream(&text, &size);
    succeeds(snug_summary_write(pool, out));
    fclose(out);
    snug_stats  s = stats_of(pool);
    char        live[32], free_[32], committed[32];
    snprintf(live, sizeof live, " %" PRIu64 " ", s.live_bytes);
    snprintf(free_, sizeof free_, " %" PRIu64 " ", s.free_bytes);
    snprintf(committed, sizeof committed, " %" PRIu64 " ", s.committed_bytes);
    ok(strstr(text, live) != NULL, "live bytes");
    ok(strstr(text, free_) != NULL, "free bytes");
    ok(strstr(text, committed) != NULL, "committed bytes");
    ok(strstr(text, "fragmentation") != NULL, "fragmentation");
    free(text);
    is_status(snug_summary_write(pool, NULL), SNUG_INVALID, "to nowhere");
    close_pool();
}

/* ------------------------------------------------------------------------------------------------ the check */

#define corrupts(damage)                                                                                               \
    do {                                                                                                               \
        char line_[256] = "";                                                                                          \
        open_pool(100);                                                                                                \
        pool->log.context      = line_;                                                                                \
        snug_handle  a_        = tagged(10 * G, "a");                                                                  \
        snug__entry *entry     = snug__handles_at(&pool->handles, snug__handle_index(a_));                             \
        snug__range *range     = snug__range_at(&pool->map, entry->range);                                             \
        static snug_pool saved_was; /* too large for a stack under a sanitizer */                                     \
        saved_was              = *pool;                                                                               \
        snug__entry  entry_was = *entry;                                                                               \
        snug__range  range_was = *range;                                                                               \
        (void)range;                                                                                                   \
        damage;                                                                                                        \
        is_status(snug_pool_check(pool), SNUG_CORRUPT, "found: %s (%s)", #damage, line_);                              \
        ok(strncmp(line_, "pool check: ", 12) == 0, "the log says what");                                              \
        pool->live_bytes = saved_was.live_bytes, pool->bytes = saved_was.bytes, pool->buffers = saved_was.buffers;     \
        pool->map = saved_was.map, pool->handles.live = saved_was.handles.live, pool->capacity = saved_was.capacity;   \
        pool->pinned_granules = saved_was.pinned_granules;                                                             \
        *entry = entry_was, *range = range_was;                                                                        \
        for (uint16_t i_ = 0; i_ < pool->tags_made; i_++)                                                              \
            pool->tag_list[i_]->live_bytes = i_ == entry->tag ? 10 * G : 0;                                            \
        pool->log.context = NULL;                                                                                      \
        close_pool();                                                                                                  \
    } while (0)

static void the_check_finds_planted_damage(void) {
    corrupts(pool->live_bytes++);
    corrupts(pool->bytes.current--);
    corrupts(pool->bytes.freed++);
    corrupts(pool->buffers.current++);
    corrupts(pool->handles.live++);
    corrupts(pool->pinned_granules++);
    corrupts(pool->tag_list[entry->tag]->live_bytes--);
    corrupts(pool->capacity = 50 * G);
    corrupts(pool->map.granules[SNUG__RANGE_FREE]++);
    corrupts(range->fixed = 1);
    corrupts(range->entry = 5000);
    corrupts(entry->range = SNUG__NONE);
    corrupts(atomic_fetch_add(&entry->size, G));
    corrupts(atomic_fetch_add(&entry->offset[0], 1));
    corrupts(atomic_fetch_xor(&entry->word, SNUG__LIVE));
    corrupts(entry->long_pins = 1);
}

int main(int argc, char **argv) {
    uint64_t seed = fixture_seed(argc, argv);
    an_empty_pool_has_empty_figures();
    sizes_are_counted_as_requested();
    resizes_are_counted();
    pins_pending_and_fences_have_lines_of_their_own();
    smaller_structs_are_honoured();
    the_ledger_holds_in_every_reading(seed);
    tags_are_sorted_and_cut();
    more_tags_than_there_is_room_for_count_as_none();
    the_summary_has_the_figures();
    the_check_finds_planted_damage();
    return done_testing();
}
