/* replay.c - `snug replay`: plays a recorded trace of allocations against a pool, and shows what compaction is
 * worth: the same events without and with it.
 *
 * An events file becomes allocs and frees in their order. Each buffer is written on a stream as soon as it is granted
 * and read through before it is freed, so a byte lost by a move is found. A heap map is a starting layout instead:
 * every block is allocated in address order and the free ones are freed, then one request is made.
 * One client thread; a run owns its pool, streams and handles. The trace is shared by the runs and constant. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "arguments.h"
#include "device.h"
#include "histogram.h"
#include "progress.h"
#include "report.h"
#include "trace_csv.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COMMAND     "snug replay"
#define STREAMS_MAX 64u
#define MEMORY_SHARE_PERCENT 80u /* of the memory available that a pool may take */

typedef struct ratio {
    uint32_t numerator, denominator;
} ratio;

typedef struct replay {
    /* as given */
    const char *file;
    const char *capacity_text, *scale_text;
    device      device;
    int         compaction;
    uint64_t    unit, request_bytes, seed, n_streams;
    bool        unit_given, request_given, json, no_verify, background;
    /* made of it */
    ratio         scale;
    ratio         capacity_ratio;  /* of the peak; numerator 0: capacity is in bytes */
    uint64_t      capacity;        /* of the pool */
    trace         trace;
    trace_figures figures;
    char          unit_text[32];
} replay;

typedef struct run {
    const replay     *plan;
    snug_pool        *pool;
    device_stream     native[STREAMS_MAX];
    snug_stream      *streams[STREAMS_MAX];
    snug_handle      *handles; /* per buffer, or per block of a heap map; NONE: absent */
    progress          progress;
    pattern_tally     tally;
    report_live       live;
    histogram         resolve_release, alloc;
    report            report;
    uint64_t          layout_live_bytes, layout_free_bytes, layout_hole_bytes, layout_holes;
    snug_status       request_status;
    uint64_t          request_moves, request_moved_bytes;
} run;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool is_heapmap(const replay *p) { return p->trace.kind == TRACE_HEAPMAP; }

static uint64_t item_size(const replay *p, size_t i) {
    return is_heapmap(p) ? p->trace.blocks[i].size : p->trace.buffers[i].size;
}

static uint64_t item_line(const replay *p, size_t i) {
    return is_heapmap(p) ? p->trace.blocks[i].line : p->trace.buffers[i].line;
}

static size_t items(const replay *p) { return is_heapmap(p) ? p->trace.n_blocks : p->trace.n_buffers; }

/* A status that no correct run returns, met at item i of the file. */
static void unexpected(run *r, const char *call, size_t i, snug_status status) {
    char place[512];
    progress_end(&r->progress);
    if (i < items(r->plan))
        snprintf(place, sizeof place, "%s:%" PRIu64, r->plan->file, item_line(r->plan, i));
    else
        snprintf(place, sizeof place, "%s", r->plan->file);
    report_unexpected(COMMAND, call, place, status);
}

/* The contents' seed shifts the ids; patterns tell 2^40 of them apart. */
static uint64_t pattern_id(const replay *p, size_t i) {
    return (i + p->seed * UINT64_C(0x9e3779b97f4a7c15)) % (UINT64_C(1) << 40);
}

static void input_error(const replay *p, uint64_t line, const char *reason) {
    if (line > 0)
        fprintf(stderr, "%s:%" PRIu64 ": %s\n", p->file, line, reason);
    else
        fprintf(stderr, "%s: %s\n", p->file, reason);
}

/* ------------------------------------------------------------------------------------------------- one step */

/* One launch that writes the buffer's content or reads it through. */
static void content_launch(run *r, size_t i, uint64_t size, snug_access access) {
    size_t         s = i % r->plan->n_streams;
    pattern_buffer buffer = {.id = pattern_id(r->plan, i)};
    uint64_t       start_ns = now_ns();
    snug_status    status = snug_resolve(r->streams[s], &r->handles[i], 1, &access, &buffer.address);
    uint64_t       spent_ns = now_ns() - start_ns;
    if (status != SNUG_OK) {
        unexpected(r, "snug_resolve", i, status);
        return;
    }
    if (access == SNUG_WRITE) {
        buffer.write_bytes = size;
    } else {
        buffer.version = 1;
        buffer.verify_bytes = size;
    }
    if (!r->plan->no_verify && size > 0) {
        status = device_launch(&r->native[s], &buffer, 1);
        if (status != SNUG_OK) unexpected(r, "device_launch", i, status);
        r->report.launches++;
    }
    start_ns = now_ns();
    status = snug_release(r->streams[s], &r->handles[i], 1, &access);
    histogram_record(&r->resolve_release, spent_ns + now_ns() - start_ns);
    if (status != SNUG_OK) unexpected(r, "snug_release", i, status);
}

static snug_status item_alloc(run *r, size_t i, uint64_t size) {
    uint64_t    start_ns = now_ns();
    snug_status status = snug_alloc(r->pool, size, NULL, &r->handles[i]);
    histogram_record(&r->alloc, now_ns() - start_ns);
    r->report.requests++;
    r->report.request_bytes += size;
    if (status == SNUG_OK) {
        r->report.granted++;
        report_live_add(&r->live, report_rounded(size));
        content_launch(r, i, size, SNUG_WRITE);
        return SNUG_OK;
    }
    r->handles[i] = SNUG_HANDLE_NONE;
    if (report_verdict(status))
        report_refused(&r->report, status);
    else
        unexpected(r, "snug_alloc", i, status);
    return status;
}

static void item_free(run *r, size_t i, uint64_t size) {
    if (r->handles[i] == SNUG_HANDLE_NONE) return;
    snug_status status = snug_free(r->pool, r->handles[i]);
    if (status != SNUG_OK) unexpected(r, "snug_free", i, status);
    r->handles[i] = SNUG_HANDLE_NONE;
    report_live_subtract(&r->live, report_rounded(size));
}

static void streams_sync(run *r) {
    for (size_t s = 0; s < r->plan->n_streams; s++) {
        snug_status status = snug_stream_sync(r->streams[s]);
        if (status != SNUG_OK) unexpected(r, "snug_stream_sync", SIZE_MAX, status);
    }
}

/* ------------------------------------------------------------------------------------------------ the trace */

static void events_play(run *r) {
    const trace *t = &r->plan->trace;
    for (size_t e = 0; e < t->n_events; e++) {
        size_t   i = t->events[e].buffer;
        uint64_t size = t->buffers[i].size;
        progress_update(&r->progress, e, t->n_events, "events");
        if (t->events[e].is_alloc) {
            streams_sync(r); /* where a buffer goes depends on what has settled: so that every replay is the same */
            item_alloc(r, i, size);
        } else if (r->handles[i] != SNUG_HANDLE_NONE) {
            content_launch(r, i, size, SNUG_READ);
            item_free(r, i, size);
        }
    }
    r->report.operations = t->n_events;
}

/* A fresh pool hands out its one free range from the low end, so blocks asked for in address order land at their
 * places; the free ones go afterwards. */
static bool layout_load(run *r) {
    const trace *t = &r->plan->trace;
    uint64_t     offset = 0;
    for (size_t i = 0; i < t->n_blocks; i++) {
        snug_handle_info info = {.struct_size = sizeof info};
        progress_update(&r->progress, i, t->n_blocks, "blocks");
        snug_status status = snug_alloc(r->pool, t->blocks[i].size, NULL, &r->handles[i]);
        if (status == SNUG_OK) status = snug_handle_info_get(r->pool, r->handles[i], &info);
        if (status != SNUG_OK || info.offset != offset) {
            char reason[160];
            snprintf(reason, sizeof reason, "the block can't be placed at offset %" PRIu64 ": %s", offset,
                     status != SNUG_OK ? snug_status_string(status) : "the pool put it elsewhere");
            progress_end(&r->progress);
            input_error(r->plan, t->blocks[i].line, reason);
            return false;
        }
        offset += t->blocks[i].size;
        if (!t->blocks[i].live) continue;
        report_live_add(&r->live, t->blocks[i].size);
        content_launch(r, i, t->blocks[i].size, SNUG_WRITE);
    }
    for (size_t i = 0; i < t->n_blocks; i++) {
        if (t->blocks[i].live) continue;
        snug_status status = snug_free(r->pool, r->handles[i]);
        if (status != SNUG_OK) unexpected(r, "snug_free", i, status);
        r->handles[i] = SNUG_HANDLE_NONE;
    }
    streams_sync(r);
    return true;
}

/* The layout's own figures, then the request and what it cost. The request is the item behind the last block. */
static void layout_request(run *r) {
    snug_stats before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};
    size_t     i = r->plan->trace.n_blocks;
    snug_status status = snug_stats_get(r->pool, &before);
    if (status != SNUG_OK) unexpected(r, "snug_stats_get", SIZE_MAX, status);
    r->layout_live_bytes = before.live_bytes + before.padding_bytes;
    r->layout_free_bytes = before.free_bytes;
    r->layout_hole_bytes = before.largest_hole_bytes;
    r->layout_holes = before.holes;
    if (!r->plan->request_given) return;
    r->request_status = item_alloc(r, i, r->plan->request_bytes);
    status = snug_stats_get(r->pool, &after);
    if (status != SNUG_OK) unexpected(r, "snug_stats_get", SIZE_MAX, status);
    r->request_moves = after.moves - before.moves;
    r->request_moved_bytes = after.moved_bytes - before.moved_bytes;
}

/* What is still there at the end is read through before the figures are taken, and freed after. */
static void rest_verify_and_free(run *r) {
    const replay *p = r->plan;
    size_t        n = items(p);
    for (size_t i = 0; i <= n; i++) {
        progress_update(&r->progress, i, n + 1, "buffers verified");
        if (r->handles[i] != SNUG_HANDLE_NONE)
            content_launch(r, i, i < n ? item_size(p, i) : p->request_bytes, SNUG_READ);
    }
    streams_sync(r);
    snug_status status = snug_pool_check(r->pool);
    if (status != SNUG_OK) unexpected(r, "snug_pool_check", SIZE_MAX, status);
    status = report_pool(&r->report, r->pool);
    if (status != SNUG_OK) unexpected(r, "snug_stats_get", SIZE_MAX, status);
    for (size_t i = 0; i <= n; i++) item_free(r, i, i < n ? item_size(p, i) : p->request_bytes);
    status = snug_pool_check(r->pool);
    if (status != SNUG_OK) unexpected(r, "snug_pool_check", SIZE_MAX, status);
}

/* ------------------------------------------------------------------------------------------------- one run */

static bool open_failed(const run *r, const char *call, snug_status status) {
    fprintf(stderr, COMMAND ": %s: %s: %s\n", r->plan->file, call, snug_status_string(status));
    return false;
}

static bool run_open(run *r, bool compaction) {
    snug_pool_options options = snug_pool_options_default();
    options.device = r->plan->device.name;
    options.device_index = r->plan->device.index;
    options.capacity = r->plan->capacity;
    options.compaction_off = !compaction;
    snug_status status = device_start(&r->plan->device, r->plan->seed);
    if (status != SNUG_OK) return open_failed(r, "device_start", status);
    status = snug_pool_create(&options, &r->pool);
    if (status != SNUG_OK) return open_failed(r, "snug_pool_create", status);
    for (size_t s = 0; s < r->plan->n_streams; s++) {
        status = device_stream_open(&r->native[s], &r->plan->device);
        if (status != SNUG_OK) return open_failed(r, "device_stream_open", status);
        status = snug_stream_attach(r->pool, r->native[s].native, &r->streams[s]);
        if (status != SNUG_OK) return open_failed(r, "snug_stream_attach", status);
    }
    r->handles = calloc(items(r->plan) + 1, sizeof *r->handles);
    return r->handles != NULL || open_failed(r, "calloc", SNUG_NO_MEMORY);
}

static void run_close(run *r) {
    for (size_t i = 0; r->handles != NULL && i <= items(r->plan); i++) /* after a failure: else destroy warns of them */
        if (r->handles[i] != SNUG_HANDLE_NONE) snug_free(r->pool, r->handles[i]);
    for (size_t s = 0; s < STREAMS_MAX; s++) {
        if (r->streams[s] != NULL) snug_stream_detach(r->streams[s]);
        device_stream_close(&r->native[s]);
        pattern_tally_merge(&r->tally, &r->native[s].tally);
    }
    if (r->pool != NULL) snug_pool_destroy(r->pool);
    free(r->handles);
}

static bool run_body(run *r, bool compaction) {
    if (is_heapmap(r->plan) && !layout_load(r)) return false;
    if (r->plan->background && compaction) {
        snug_status status = snug_compactor_start(r->pool, NULL);
        if (status != SNUG_OK) return open_failed(r, "snug_compactor_start", status);
    }
    if (is_heapmap(r->plan))
        layout_request(r);
    else
        events_play(r);
    snug_status status = snug_compactor_stop(r->pool);
    if (status != SNUG_OK) unexpected(r, "snug_compactor_stop", SIZE_MAX, status);
    rest_verify_and_free(r);
    return true;
}

/* Where in the file the first buffer found corrupted comes from, and what was wrong with it. */
static void corruption_print(const run *r) {
    const replay *p = r->plan;
    for (size_t i = 0; i < items(p); i++) {
        if (r->tally.corrupted == 0 || pattern_id(p, i) != r->tally.first.id) continue;
        input_error(p, item_line(p, i), "the content of this buffer has changed");
        break;
    }
    pattern_fault_print(COMMAND, &r->tally);
}

static bool run_execute(run *r, const replay *p, bool compaction) {
    char     label[96];
    uint64_t unexpected_before = report_unexpected_count();
    uint64_t start_ns = now_ns();
    report  *result = &r->report;
    r->plan = p;
    report_init(result);
    result->command = "replay";
    result->device = p->device.name;
    result->profile = p->device.profile != NULL ? p->device.profile->name : NULL;
    result->file = p->file;
    result->compaction = compaction ? "on" : "off";
    result->seed = p->seed;
    result->capacity_bytes = p->capacity;
    result->streams = p->n_streams;
    result->launches = 0;
    result->request_bytes = 0;
    result->unit = p->unit_text;
    if (p->scale_text != NULL) result->scale = (double)p->scale.numerator / p->scale.denominator;
    snprintf(label, sizeof label, "replay, compaction %s", result->compaction);
    progress_start(&r->progress, label);
    bool ok = run_open(r, compaction) && run_body(r, compaction);
    progress_end(&r->progress);
    result->seconds = (double)(now_ns() - start_ns) / 1e9;
    result->device_seconds = device_seconds(&p->device);
    run_close(r);
    result->peak_live_bytes = r->live.peak;
    result->resolve_release = histogram_summarise(&r->resolve_release);
    result->alloc = histogram_summarise(&r->alloc);
    result->verified_buffers = r->tally.verified;
    result->corrupted_buffers = r->tally.corrupted + device_finish(&p->device, COMMAND);
    result->unexpected = report_unexpected_count() - unexpected_before;
    corruption_print(r);
    return ok;
}

/* -------------------------------------------------------------------------------------------------- results */

static void input_print(const replay *p) {
    const trace_figures *f = &p->figures;
    if (is_heapmap(p))
        printf("%s: %" PRIu64 " live blocks, %zu segments, %zu of them wholly free and left out\n", p->file, f->buffers,
               p->trace.n_segments, p->trace.n_segments_dropped);
    else
        printf("%s: %" PRIu64 " buffers, %zu events, peak %" PRIu64 " bytes (sizes rounded up to %u)\n", p->file,
               f->buffers, p->trace.n_events, f->peak_bytes, SNUG_GRANULE);
    if (p->unit_given) printf("sizes are multiplied by %" PRIu64 " (--unit)\n", p->unit);
    if (p->scale_text != NULL) printf("sizes are scaled by %s (--scale)\n", p->scale_text);
    if (p->trace.n_blocks_vanished > 0)
        printf("%zu blocks are too small for that and left out\n", p->trace.n_blocks_vanished);
    if (p->no_verify) printf("contents are neither written nor verified (--no-verify)\n");
}

static void request_print(const run *r) {
    const char *compaction = r->report.compaction;
    uint64_t    request = r->plan->request_bytes;
    if (r->request_status != SNUG_OK) {
        printf("compaction %s: %" PRIu64 " bytes refused, %s: %s\n", compaction, request,
               snug_status_name(r->request_status), snug_status_string(r->request_status));
        return;
    }
    printf("compaction %s: %" PRIu64 " bytes granted, %" PRIu64 " moves of %" PRIu64 " bytes, %.1f %% of live\n",
           compaction, request, r->request_moves, r->request_moved_bytes,
           100.0 * (double)r->request_moved_bytes / (double)r->layout_live_bytes);
}

static void layout_print(const run *runs, int n) {
    const run *r = &runs[0];
    printf("layout: capacity %" PRIu64 ", live %" PRIu64 ", free %" PRIu64 " in %" PRIu64 " holes, largest %" PRIu64,
           r->report.capacity_bytes, r->layout_live_bytes, r->layout_free_bytes, r->layout_holes, r->layout_hole_bytes);
    putchar('\n');
    for (int i = 0; i < n && r->plan->request_given; i++) request_print(&runs[i]);
}

static int runs_execute(const replay *p) {
    bool   both = p->compaction == COMPACTION_BOTH;
    int    n = both ? 2 : 1;
    report reports[2];
    run   *runs = aligned_alloc(_Alignof(run), (size_t)n * sizeof *runs);
    int    status = 1;
    if (runs == NULL) {
        fprintf(stderr, COMMAND ": the host is out of memory\n");
        return 1;
    }
    memset(runs, 0, (size_t)n * sizeof *runs);
    for (int i = 0; i < n; i++) {
        if (!run_execute(&runs[i], p, both ? i == 1 : p->compaction == COMPACTION_ON)) goto out;
        reports[i] = runs[i].report;
    }
    status = report_exit_status(reports, n);
    bool written = true;
    if (p->json) {
        for (int i = 0; i < n && written; i++) written = report_json_write(stdout, &reports[i]);
    } else {
        input_print(p);
        if (is_heapmap(p)) layout_print(runs, n);
        report_table_write(stdout, reports, n);
    }
    if (fflush(stdout) != 0 || ferror(stdout) || !written) {
        fprintf(stderr, COMMAND ": writing the result failed\n");
        status = 1;
    }
out:
    free(runs);
    return status;
}

/* ------------------------------------------------------------------------------------------------ the plan */

/* "1.05x": decimal digits taken as they stand, so that 1.05 of the peak is exact. false: not of that form. */
static bool factor_parse(const char *text, ratio *factor) {
    uint64_t numerator = 0, denominator = 1;
    bool     point = false, digits = false;
    for (; *text != 0 && *text != 'x'; text++) {
        if (*text == '.' && !point) {
            point = true;
            continue;
        }
        if (*text < '0' || *text > '9') return false;
        digits = true;
        numerator = numerator * 10 + (uint64_t)(*text - '0');
        denominator *= point ? 10 : 1;
        if (numerator > UINT32_MAX || denominator > UINT32_MAX) return false;
    }
    if (!digits || strcmp(text, "x") != 0 || numerator == 0) return false;
    *factor = (ratio){(uint32_t)numerator, (uint32_t)denominator};
    return true;
}

/* "1/64" or "2". */
static bool scale_parse(const char *text, ratio *scale) {
    char     copy[32];
    uint64_t numerator = 0, denominator = 1;
    if (strlen(text) >= sizeof copy) return false;
    strcpy(copy, text);
    char *slash = strchr(copy, '/');
    if (slash != NULL) {
        *slash = 0;
        if (!arguments_bytes(slash + 1, &denominator)) return false;
    }
    if (!arguments_bytes(copy, &numerator)) return false;
    if (numerator == 0 || denominator == 0 || numerator > UINT32_MAX || denominator > UINT32_MAX) return false;
    *scale = (ratio){(uint32_t)numerator, (uint32_t)denominator};
    return true;
}

/* Real bytes need real memory: better one line now than the kernel's killer later. */
static bool memory_check(const replay *p) {
    uint64_t allowed = trace_ratio(device_memory_available(&p->device), MEMORY_SHARE_PERCENT, 100, false);
    uint64_t needed = p->capacity + p->capacity / 64; /* and the bounce buffer */
    uint32_t denominator = 2;
    if (needed <= allowed) return true;
    while (denominator < 1u << 31 && needed / denominator > allowed) denominator *= 2;
    uint64_t times = p->scale.denominator * (uint64_t)denominator, over = p->scale.numerator;
    while (over % 2 == 0 && times % 2 == 0) {
        over /= 2;
        times /= 2;
    }
    fprintf(stderr, COMMAND ": %s: a pool of %" PRIu64 " bytes is above %u %% of the memory available: try --scale "
            "%" PRIu64 "/%" PRIu64, p->file, p->capacity, MEMORY_SHARE_PERCENT, over, times);
    if (p->capacity_text != NULL && p->capacity_ratio.numerator == 0)
        fprintf(stderr, " --capacity %" PRIu64, p->capacity / denominator / SNUG_GRANULE * SNUG_GRANULE);
    fputc('\n', stderr);
    return false;
}

/* 0, or the exit status after an error line. */
static int capacity_choose(replay *p) {
    char reason[160];
    if (is_heapmap(p)) {
        p->capacity = p->figures.capacity_bytes;
    } else if (p->capacity_ratio.numerator > 0) {
        ratio factor = p->capacity_ratio;
        p->capacity = trace_ratio(p->figures.peak_bytes, factor.numerator, factor.denominator, false);
        p->capacity -= p->capacity % SNUG_GRANULE;
        if (p->capacity == 0) p->capacity = SNUG_GRANULE; /* every buffer may be of size 0 */
    }
    if (is_heapmap(p) && p->figures.peak_bytes == 0) {
        input_error(p, 0, "the heap map has no live block to load");
        return 1;
    }
    if (p->capacity > SNUG_SIZE_MAX) {
        snprintf(reason, sizeof reason, "capacity %" PRIu64 " is above the largest of a pool, %" PRIu64, p->capacity,
                 SNUG_SIZE_MAX);
        input_error(p, 0, reason);
        return 1;
    }
    return memory_check(p) ? 0 : 1;
}

static int file_load(replay *p) {
    trace_fault fault;
    char        reason[160];
    if (!trace_read(p->file, &p->trace, &fault)) {
        input_error(p, fault.line, fault.reason);
        return 1;
    }
    if (is_heapmap(p) && p->capacity_text != NULL)
        return arguments_error(COMMAND, "--capacity: a heap map has its own, the sum of its segments");
    if (!is_heapmap(p) && p->request_given)
        return arguments_error(COMMAND, "--request: only for heap maps, and %s is a list of events", p->file);
    trace_scale(&p->trace, p->unit, p->scale.numerator, p->scale.denominator, SNUG_GRANULE);
    for (size_t i = 0; i < p->trace.n_buffers; i++) {
        if (p->trace.buffers[i].size <= SNUG_SIZE_MAX) continue;
        snprintf(reason, sizeof reason, "a buffer of %" PRIu64 " bytes is above the largest of a pool, %" PRIu64,
                 p->trace.buffers[i].size, SNUG_SIZE_MAX);
        input_error(p, p->trace.buffers[i].line, reason);
        return 1;
    }
    trace_measure(&p->trace, SNUG_GRANULE, &p->figures);
    return capacity_choose(p);
}

/* What the table of options can't check. */
static int options_finish(replay *p) {
    const char *capacity = p->capacity_text != NULL ? p->capacity_text : "1.05x";
    int bad = device_settle(&p->device, COMMAND);
    if (bad != 0) return bad;
    if (p->json && !report_json_available()) return arguments_error(COMMAND, "%s", REPORT_JSON_LACKING);
    if (p->scale_text != NULL && !scale_parse(p->scale_text, &p->scale))
        return arguments_error(COMMAND, "--scale '%s': must be like 1/64", p->scale_text);
    if (!factor_parse(capacity, &p->capacity_ratio)) {
        if (!arguments_bytes(capacity, &p->capacity))
            return arguments_error(COMMAND, "--capacity '%s': must be a number of bytes, or like 1.05x", capacity);
        if (p->capacity < SNUG_GRANULE || p->capacity > SNUG_SIZE_MAX)
            return arguments_error(COMMAND, "--capacity %s: must be from %u to %" PRIu64, capacity, SNUG_GRANULE,
                                   SNUG_SIZE_MAX);
        p->capacity -= p->capacity % SNUG_GRANULE;
    }
    if (p->unit_given)
        snprintf(p->unit_text, sizeof p->unit_text, "%" PRIu64 " bytes", p->unit);
    else
        strcpy(p->unit_text, "bytes");
    return 0;
}

int snug_replay_main(int argc, char **argv) {
    replay p = {.unit = 1, .n_streams = 1, .seed = 1, .scale = {1, 1}, .compaction = COMPACTION_BOTH};
    int    first = 0;
    const argument table[] = {
        {"capacity", ARGUMENT_TEXT, &p.capacity_text, "BYTES|F.FFx",
         "of the pool, or times the file's peak (default 1.05x)", 0, 0, NULL, NULL},
        {"scale", ARGUMENT_TEXT, &p.scale_text, "N/D",
         "factor on every size; buffers are rounded up, to at least 1 byte", 0, 0, NULL, NULL},
        {"unit", ARGUMENT_COUNT, &p.unit, "N", "bytes of one unit of the file's sizes", 1, 0, NULL, &p.unit_given},
        {"compaction", ARGUMENT_CHOICE, &p.compaction, NULL, "without, with, or one after the other", 0, 0,
         arguments_compaction_choices, NULL},
        {"request", ARGUMENT_BYTES, &p.request_bytes, "BYTES", "heap maps: asked for once the layout is loaded", 0,
         (double)SNUG_SIZE_MAX, NULL, &p.request_given},
        {"background", ARGUMENT_FLAG, &p.background, NULL, "compact in the background as well, not only on demand",
         0, 0, NULL, NULL},
        {"streams", ARGUMENT_COUNT, &p.n_streams, "N", "buffers are spread over them in turn", 1, STREAMS_MAX, NULL,
         NULL},
        {"seed", ARGUMENT_COUNT, &p.seed, "N", "of the contents, and of sim", 0, 0, NULL, NULL},
        {"no-verify", ARGUMENT_FLAG, &p.no_verify, NULL, "neither write contents nor verify them", 0, 0, NULL, NULL},
        DEVICE_ARGUMENTS(&p.device),
        {"json", ARGUMENT_FLAG, &p.json, NULL, "one line of JSON per run instead of a table", 0, 0, NULL, NULL},
    };
    const arguments all = {COMMAND, "FILE",
                           "Replays the allocations recorded in a CSV file (lifetimes, alloc events or a heap map)\n"
                           "against a pool, with and without compaction, and verifies every byte.",
                           table, sizeof table / sizeof table[0]};
    arguments_result parsed = arguments_parse(&all, argc, argv, &first);
    if (parsed != ARGUMENTS_GO) return parsed == ARGUMENTS_DONE ? 0 : 2;
    if (first == argc) return arguments_error(COMMAND, "which FILE? (see --help)");
    if (argc - first > 1) return arguments_error(COMMAND, "'%s': one FILE only", argv[first + 1]);
    p.file = argv[first];
    int status = options_finish(&p);
    if (status == 0) status = file_load(&p);
    if (status == 0) status = runs_execute(&p);
    trace_release(&p.trace);
    return status;
}
