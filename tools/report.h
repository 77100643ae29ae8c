/* report.h - what one run of stress or replay found, and the two ways to say it: a table for people, a JSON line for
 * programs.
 *
 * The struct is plain: report_init, fill in, print. Texts are borrowed and must outlive it. The keys of the JSON line
 * are a contract: they are only ever added to. One line per run; with --compaction both there are two, off first.
 */
#ifndef SNUG_TOOLS_REPORT_H
#define SNUG_TOOLS_REPORT_H

#include "histogram.h"
#include <snug.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define REPORT_ABSENT UINT64_MAX /* of an optional figure: doesn't apply, and has no key */

typedef struct report {
    const char *command;  /* "stress" or "replay" */
    const char *device;   /* "host" or "sim" */
    const char *workload; /* one of these two is set; the other is NULL and has no key */
    const char *file;
    const char *compaction; /* "off" or "on" */
    uint64_t    seed;       /* optional */
    uint64_t    capacity_bytes;
    uint64_t    peak_live_bytes; /* rounded to the granule, as the client counts them (report_live_add) */

    uint64_t requests, granted, refused; /* alloc, and resize that grows; refused = by the six verdicts */
    uint64_t refused_by_verdict[SNUG_STATUS_COUNT];
    double   live_share_at_first_refusal; /* (live + padding) / capacity; NAN: nothing was refused (JSON null) */

    uint64_t largest_hole_bytes, free_bytes; /* at the end, before everything is freed */
    uint64_t moves, moved_bytes, cancelled_moves;
    uint64_t device_records, device_waits, device_queries, device_copies;

    histogram_summary resolve_release; /* ns for one resolve plus its release, the launch between them not counted */
    histogram_summary alloc;           /* ns per snug_alloc, granted or not */

    uint64_t verified_buffers, corrupted_buffers; /* corrupted: what the checker of sim found too */
    uint64_t unexpected; /* statuses that no correct run returns; each has been printed when it came */
    double   seconds;

    /* Optional: REPORT_ABSENT, NULL or 0.0 by report_init, and then without a key. */
    uint64_t    threads, streams, operations, launches;
    uint64_t    request_bytes;  /* sum of all requests: an alloc's size, a growing resize's new size */
    double      device_seconds; /* on the device's own clock; 0.0 absent */
    const char *profile;        /* the card that sim stood in for; NULL absent */
    double      scale;          /* factor on every size of the input; 0.0 absent */
    const char *unit;           /* of the input's sizes: "bytes", "KiB"; NULL absent */
    const char *models;         /* where the tensor lists came from; NULL absent */
    const char *sequence;       /* digest of the requests made: equal digests, equal requests; NULL absent */
} report;

void report_init(report *r);

/* Fills in what the pool knows: the holes, the moves, the device calls. Call it before everything is freed; a run that
 * frees through compaction may call report_pool_moves again at the very end. */
snug_status report_pool(report *r, snug_pool *pool);
snug_status report_pool_moves(report *r, snug_pool *pool);

/* true if the status is one of the six verdicts of a refusal. */
bool report_verdict(snug_status status);

/* Counts a verdict, and at the first one takes the live share from snug_refusal_get: call it on the refused thread, and
 * from one thread at a time per report. */
void report_refused(report *r, snug_status verdict);

/* Live bytes over all threads of a run and their peak. bytes: rounded to the granule (report_rounded). */
typedef struct report_live {
    _Atomic uint64_t current, peak;
} report_live;
void                   report_live_add(report_live *live, uint64_t bytes);
void                   report_live_subtract(report_live *live, uint64_t bytes);
static inline uint64_t report_rounded(uint64_t bytes) {
    return (bytes + SNUG_GRANULE - 1) & ~(uint64_t)(SNUG_GRANULE - 1);
}

/* A status that shouldn't have come: "snug stress: snug_resolve returned STALE (...) in kv_grow". Prints at most 20
 * lines per process and says so at the last; counts all. Thread-safe. Returns the number so far, this one included. A
 * run's report.unexpected is the difference of report_unexpected_count before and after. */
uint64_t report_unexpected(const char *command, const char *call, const char *place, snug_status status);
uint64_t report_unexpected_count(void);

/* n runs side by side, 1 or 2. */
void report_table_write(FILE *out, const report *runs, int n);

/* One line. Keys: command, device, workload | file, compaction, seed, capacity_bytes, peak_live_bytes, requests,
 * granted, refused, refused_by_verdict {LIMIT, CAPACITY, FRAGMENTED, PENDING, PINNED, DEVICE},
 * live_share_at_first_refusal, largest_hole_bytes, free_bytes, moves, moved_bytes, cancelled_moves, device_calls
 * {record, wait, query, copy}, resolve_release_ns {p50, p99, p999}, alloc_ns {p50, p99, p999}, verified_buffers,
 * corrupted_buffers, unexpected_statuses, seconds; where they apply threads, streams, operations, launches,
 * request_bytes, device_seconds, profile, scale, unit, models, sequence. false: out of memory or a write error. */
bool report_json_write(FILE *out, const report *r);

/* false: this build lacks jansson. A command refuses --json then:
 *     if (json && !report_json_available()) return arguments_error(command, "%s", REPORT_JSON_LACKING); */
bool report_json_available(void);
#define REPORT_JSON_LACKING "--json: this build lacks jansson, which writes JSON"

/* 0, or 1 if a run found corruption or an unexpected status. */
int report_exit_status(const report *runs, int n);

#endif
