/* report.c - see report.h. The only state is the count of unexpected statuses, an atomic. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#ifdef HAVE_JANSSON
#include <jansson.h>
#endif

#define UNEXPECTED_LINES_MAX 20
#define LABEL_WIDTH          34
#define COLUMN_WIDTH         24

static _Atomic uint64_t unexpected_count;

static const snug_status verdicts[] = {SNUG_LIMIT,   SNUG_CAPACITY, SNUG_FRAGMENTED,
                                       SNUG_PENDING, SNUG_PINNED,   SNUG_DEVICE};
#define N_VERDICTS (sizeof verdicts / sizeof verdicts[0])

/* ---------------------------------------------------------------------------------------------- filling in */

void report_init(report *r) {
    *r = (report){
        .device = "host",
        .compaction = "off",
        .seed = REPORT_ABSENT,
        .live_share_at_first_refusal = NAN,
        .threads = REPORT_ABSENT,
        .streams = REPORT_ABSENT,
        .operations = REPORT_ABSENT,
        .launches = REPORT_ABSENT,
        .request_bytes = REPORT_ABSENT,
    };
}

snug_status report_pool_moves(report *r, snug_pool *pool) {
    snug_stats  stats = {.struct_size = sizeof stats};
    snug_status status = snug_stats_get(pool, &stats);
    if (status) return status;
    r->moves = stats.moves;
    r->moved_bytes = stats.moved_bytes;
    r->cancelled_moves = stats.cancelled_moves;
    r->device_records = stats.device_records;
    r->device_waits = stats.device_waits;
    r->device_queries = stats.device_queries;
    r->device_copies = stats.device_copies;
    return SNUG_OK;
}

snug_status report_pool(report *r, snug_pool *pool) {
    snug_stats  stats = {.struct_size = sizeof stats};
    snug_status status = snug_stats_get(pool, &stats);
    if (status) return status;
    r->largest_hole_bytes = stats.largest_hole_bytes;
    r->free_bytes = stats.free_bytes;
    return report_pool_moves(r, pool);
}

bool report_verdict(snug_status status) {
    for (size_t i = 0; i < N_VERDICTS; i++)
        if (verdicts[i] == status) return true;
    return false;
}

void report_refused(report *r, snug_status verdict) {
    r->refused++;
    if ((unsigned)verdict < SNUG_STATUS_COUNT) r->refused_by_verdict[verdict]++;
    if (!isnan(r->live_share_at_first_refusal) || !r->capacity_bytes) return;
    snug_refusal refusal = {.struct_size = sizeof refusal};
    if (snug_refusal_get(&refusal)) return;
    r->live_share_at_first_refusal = (double)(refusal.live_bytes + refusal.padding_bytes) / (double)r->capacity_bytes;
}

void report_live_add(report_live *live, uint64_t bytes) {
    uint64_t now = atomic_fetch_add_explicit(&live->current, bytes, memory_order_relaxed) + bytes;
    uint64_t peak = atomic_load_explicit(&live->peak, memory_order_relaxed);
    while (now > peak && !atomic_compare_exchange_weak_explicit(&live->peak, &peak, now, memory_order_relaxed,
                                                                memory_order_relaxed)) {
    }
}

void report_live_subtract(report_live *live, uint64_t bytes) {
    atomic_fetch_sub_explicit(&live->current, bytes, memory_order_relaxed);
}

uint64_t report_unexpected(const char *command, const char *call, const char *place, snug_status status) {
    uint64_t n = atomic_fetch_add(&unexpected_count, 1) + 1;
    if (n <= UNEXPECTED_LINES_MAX)
        fprintf(stderr, "%s: %s returned %s (%s) in %s%s\n", command, call, snug_status_name(status),
                snug_status_string(status), place, n == UNEXPECTED_LINES_MAX ? "; more of these are only counted" : "");
    return n;
}

uint64_t report_unexpected_count(void) { return atomic_load(&unexpected_count); }

int report_exit_status(const report *runs, int n) {
    for (int i = 0; i < n; i++)
        if (runs[i].corrupted_buffers || runs[i].unexpected) return 1;
    return 0;
}

/* ---------------------------------------------------------------------------------------------- table */

static void bytes_text(char *text, size_t size, uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int                      unit = 0;
    double                   value = (double)bytes;
    while (value >= 1024.0 && unit < 4) {
        value /= 1024.0;
        unit++;
    }
    snprintf(text, size, unit && value < 100.0 ? "%.2f %s" : "%.0f %s", value, units[unit]);
}

typedef void cell_writer(char *text, size_t size, const report *r);

static void row(FILE *out, const char *label, const report *runs, int n, cell_writer *write) {
    fprintf(out, "  %-*s", LABEL_WIDTH, label);
    for (int i = 0; i < n; i++) {
        char text[64];
        write(text, sizeof text, &runs[i]);
        fprintf(out, "%*s", COLUMN_WIDTH, text);
    }
    fputc('\n', out);
}

/* A cell that shows one whole number. */
#define COUNT_CELL(name, field)                                                                                        \
    static void name(char *text, size_t size, const report *r) { snprintf(text, size, "%" PRIu64, r->field); }

COUNT_CELL(cell_requests, requests)
COUNT_CELL(cell_granted, granted)
COUNT_CELL(cell_refused, refused)
COUNT_CELL(cell_verified, verified_buffers)
COUNT_CELL(cell_corrupted, corrupted_buffers)
COUNT_CELL(cell_unexpected, unexpected)
COUNT_CELL(cell_operations, operations)
COUNT_CELL(cell_launches, launches)

static void cell_compaction(char *text, size_t size, const report *r) { snprintf(text, size, "%s", r->compaction); }

static void cell_share(char *text, size_t size, const report *r) {
    if (isnan(r->live_share_at_first_refusal))
        snprintf(text, size, "never refused");
    else
        snprintf(text, size, "%.2f %%", 100.0 * r->live_share_at_first_refusal);
}

static void cell_hole(char *text, size_t size, const report *r) {
    char hole[24], whole[24];
    bytes_text(hole, sizeof hole, r->largest_hole_bytes);
    bytes_text(whole, sizeof whole, r->free_bytes);
    snprintf(text, size, "%s / %s", hole, whole);
}

static void cell_peak(char *text, size_t size, const report *r) { bytes_text(text, size, r->peak_live_bytes); }

static void cell_moved(char *text, size_t size, const report *r) { bytes_text(text, size, r->moved_bytes); }

static void cell_moves(char *text, size_t size, const report *r) {
    snprintf(text, size, "%" PRIu64 " / %" PRIu64, r->moves, r->cancelled_moves);
}

/* In microseconds, three figures or so. */
static void microseconds_text(char *text, size_t size, uint64_t ns) {
    snprintf(text, size, "%.*f", ns < 10000 ? 2 : ns < 1000000 ? 1 : 0, (double)ns / 1e3);
}

static void latency_text(char *text, size_t size, const histogram_summary *s) {
    char p50[16], p99[16], p999[16];
    microseconds_text(p50, sizeof p50, s->p50);
    microseconds_text(p99, sizeof p99, s->p99);
    microseconds_text(p999, sizeof p999, s->p999);
    snprintf(text, size, "%s / %s / %s", p50, p99, p999);
}

static void cell_resolve(char *text, size_t size, const report *r) { latency_text(text, size, &r->resolve_release); }

static void cell_alloc(char *text, size_t size, const report *r) { latency_text(text, size, &r->alloc); }

static void cell_device_seconds(char *text, size_t size, const report *r) {
    snprintf(text, size, "%.3f", r->device_seconds);
}

static void cell_seconds(char *text, size_t size, const report *r) { snprintf(text, size, "%.2f", r->seconds); }

static void title(FILE *out, const report *r) {
    char capacity[24];
    bytes_text(capacity, sizeof capacity, r->capacity_bytes);
    fprintf(out, "%s %s on %s, %s", r->command, r->workload ? r->workload : r->file, r->device, capacity);
    if (r->profile) fprintf(out, ", profile %s", r->profile);
    if (r->threads != REPORT_ABSENT) fprintf(out, ", %" PRIu64 " threads", r->threads);
    if (r->streams != REPORT_ABSENT) fprintf(out, ", %" PRIu64 " streams", r->streams);
    if (r->seed != REPORT_ABSENT) fprintf(out, ", seed %" PRIu64, r->seed);
    if (r->scale > 0.0) fprintf(out, ", scale %.4g", r->scale);
    if (r->unit) fprintf(out, ", unit %s", r->unit);
    if (r->models) fprintf(out, ", models %s", r->models);
    fputc('\n', out);
}

/* Verdicts that came in neither run are left out. */
static void refused_rows(FILE *out, const report *runs, int n) {
    for (size_t v = 0; v < N_VERDICTS; v++) {
        uint64_t sum = 0;
        for (int i = 0; i < n; i++) sum += runs[i].refused_by_verdict[verdicts[v]];
        if (!sum) continue;
        fprintf(out, "    %-*s", LABEL_WIDTH - 2, snug_status_name(verdicts[v]));
        for (int i = 0; i < n; i++) fprintf(out, "%*" PRIu64, COLUMN_WIDTH, runs[i].refused_by_verdict[verdicts[v]]);
        fputc('\n', out);
    }
}

void report_table_write(FILE *out, const report *runs, int n) {
    title(out, &runs[0]);
    row(out, "compaction", runs, n, cell_compaction);
    if (runs[0].operations != REPORT_ABSENT) row(out, "operations", runs, n, cell_operations);
    row(out, "requests", runs, n, cell_requests);
    row(out, "granted", runs, n, cell_granted);
    row(out, "refused", runs, n, cell_refused);
    refused_rows(out, runs, n);
    row(out, "live share at first refusal", runs, n, cell_share);
    row(out, "peak live", runs, n, cell_peak);
    row(out, "largest hole / free, at the end", runs, n, cell_hole);
    row(out, "moved, resizes included", runs, n, cell_moved);
    row(out, "moves published / cancelled", runs, n, cell_moves);
    if (runs[0].launches != REPORT_ABSENT) row(out, "launches", runs, n, cell_launches);
    row(out, "resolve+release p50/p99/p99.9 us", runs, n, cell_resolve);
    row(out, "alloc p50/p99/p99.9 us", runs, n, cell_alloc);
    row(out, "buffers verified", runs, n, cell_verified);
    row(out, "buffers corrupted", runs, n, cell_corrupted);
    row(out, "unexpected statuses", runs, n, cell_unexpected);
    if (runs[0].device_seconds > 0.0) row(out, "seconds on the device's clock", runs, n, cell_device_seconds);
    row(out, "seconds", runs, n, cell_seconds);
}

/* ---------------------------------------------------------------------------------------------- JSON */

#ifdef HAVE_JANSSON

bool report_json_available(void) { return true; }

/* Every put says whether it worked; a value of NULL (out of memory) doesn't. */
static bool put(json_t *object, const char *key, json_t *value) { return !json_object_set_new(object, key, value); }

static bool put_count(json_t *object, const char *key, uint64_t value) {
    return put(object, key, json_integer((json_int_t)value));
}

static bool put_optional(json_t *object, const char *key, uint64_t value) {
    return value == REPORT_ABSENT || put_count(object, key, value);
}

/* File names needn't be UTF-8: bytes that JSON can't carry become '?'. */
static bool put_text(json_t *object, const char *key, const char *text) {
    if (!text) return true;
    json_t *value = json_string(text);
    if (value) return put(object, key, value);
    char   plain[4096];
    size_t n = 0;
    for (; text[n] && n < sizeof plain - 1; n++) plain[n] = (unsigned char)text[n] < 0x80 ? text[n] : '?';
    plain[n] = 0;
    return put(object, key, json_string(plain));
}

static json_t *verdicts_object(const report *r) {
    json_t *object = json_object();
    for (size_t i = 0; i < N_VERDICTS; i++)
        if (!put_count(object, snug_status_name(verdicts[i]), r->refused_by_verdict[verdicts[i]])) {
            json_decref(object);
            return NULL;
        }
    return object;
}

static json_t *latency_object(const histogram_summary *s) {
    return json_pack("{s:I, s:I, s:I}", "p50", (json_int_t)s->p50, "p99", (json_int_t)s->p99, "p999",
                     (json_int_t)s->p999);
}

static json_t *calls_object(const report *r) {
    return json_pack("{s:I, s:I, s:I, s:I}", "record", (json_int_t)r->device_records, "wait",
                     (json_int_t)r->device_waits, "query", (json_int_t)r->device_queries, "copy",
                     (json_int_t)r->device_copies);
}

static bool fill_object(json_t *o, const report *r) {
    bool refused = !isnan(r->live_share_at_first_refusal);
    return put_text(o, "command", r->command) && put_text(o, "device", r->device) &&
           put_text(o, "workload", r->workload) && put_text(o, "file", r->file) &&
           put_text(o, "compaction", r->compaction) && put_optional(o, "seed", r->seed) &&
           put_count(o, "capacity_bytes", r->capacity_bytes) && put_count(o, "peak_live_bytes", r->peak_live_bytes) &&
           put_count(o, "requests", r->requests) && put_count(o, "granted", r->granted) &&
           put_count(o, "refused", r->refused) && put(o, "refused_by_verdict", verdicts_object(r)) &&
           put(o, "live_share_at_first_refusal", refused ? json_real(r->live_share_at_first_refusal) : json_null()) &&
           put_count(o, "largest_hole_bytes", r->largest_hole_bytes) && put_count(o, "free_bytes", r->free_bytes) &&
           put_count(o, "moves", r->moves) && put_count(o, "moved_bytes", r->moved_bytes) &&
           put_count(o, "cancelled_moves", r->cancelled_moves) && put(o, "device_calls", calls_object(r)) &&
           put(o, "resolve_release_ns", latency_object(&r->resolve_release)) &&
           put(o, "alloc_ns", latency_object(&r->alloc)) && put_count(o, "verified_buffers", r->verified_buffers) &&
           put_count(o, "corrupted_buffers", r->corrupted_buffers) &&
           put_count(o, "unexpected_statuses", r->unexpected) && put(o, "seconds", json_real(r->seconds)) &&
           put_optional(o, "threads", r->threads) && put_optional(o, "streams", r->streams) &&
           put_optional(o, "operations", r->operations) && put_optional(o, "launches", r->launches) &&
           put_optional(o, "request_bytes", r->request_bytes) &&
           (!(r->device_seconds > 0.0) || put(o, "device_seconds", json_real(r->device_seconds))) &&
           put_text(o, "profile", r->profile) &&
           (!(r->scale > 0.0) || put(o, "scale", json_real(r->scale))) && put_text(o, "unit", r->unit) &&
           put_text(o, "models", r->models) && put_text(o, "sequence", r->sequence);
}

bool report_json_write(FILE *out, const report *r) {
    json_t *object = json_object();
    bool    ok = object && fill_object(object, r) && !json_dumpf(object, out, JSON_COMPACT | JSON_REAL_PRECISION(12));
    json_decref(object);
    return ok && fputc('\n', out) != EOF && !fflush(out);
}

#else

bool report_json_available(void) { return false; }

bool report_json_write(FILE *out, const report *r) {
    (void)out;
    (void)r;
    return false;
}

#endif
