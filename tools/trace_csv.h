/* trace_csv.h - recorded allocations, read from a CSV file.
 *
 * Three kinds, told from the header line:
 *   id,lower,upper,size[,offset]      lifetimes: live on [lower, upper), or on [lower, upper] where there is an offset
 *   op,id,size,t_us                   alloc: event by event; a = alloc, f = free, p = live before the recording
 *   segment,segment_size,offset,size,requested_size,state
 *                                     heap map: the blocks of each segment in address order; A = live, F = free
 * The reading is strict: one malformed line refuses the file. The trace owns all it points to; trace_release frees it.
 * Not thread-safe as to one trace. Knows files and sizes only, no pools. */
#ifndef SNUG_TOOLS_TRACE_CSV_H
#define SNUG_TOOLS_TRACE_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_LINE_MAX    4096u      /* bytes of a line, without its end */
#define TRACE_RECORDS_MAX 0x7fffffffu /* lines after the header; events are two per lifetime and stay below 2^32 */
#define TRACE_REASON_MAX  256u

typedef enum trace_kind { TRACE_LIFETIMES, TRACE_LIFETIMES_PLACED, TRACE_ALLOC, TRACE_HEAPMAP } trace_kind;

typedef struct trace_buffer {
    uint64_t size; /* bytes, or abstract units before trace_scale */
    uint64_t line; /* of the file, where it is allocated */
} trace_buffer;

typedef struct trace_event {
    uint32_t buffer; /* index of buffers */
    bool     is_alloc;
} trace_event;

typedef struct trace_block {
    uint64_t size;
    uint64_t line;
    bool     live;
} trace_block;

typedef struct trace {
    trace_kind    kind;
    trace_buffer *buffers; /* no heap map: in the order of the file */
    size_t        n_buffers;
    trace_event  *events;  /* in the order in which they happen; each free comes after its alloc */
    size_t        n_events;
    trace_block  *blocks;  /* heap map: segments end to end, wholly free segments left out */
    size_t        n_blocks;
    size_t        n_segments;         /* heap map: all segments of the file */
    size_t        n_segments_dropped; /* of them: wholly free */
    size_t        n_blocks_vanished;  /* scaled down to nothing by trace_scale */
} trace;

/* What a file says, in bytes; every sum stops at 2^64 - 1. */
typedef struct trace_figures {
    uint64_t buffers;            /* heap map: live blocks */
    uint64_t peak_bytes;         /* highest sum of live sizes, each rounded up to the granule; heap map: live bytes */
    uint64_t capacity_bytes;     /* heap map: sum of all blocks; else 0 */
    uint64_t holes;              /* heap map: stretches of free blocks */
    uint64_t largest_hole_bytes; /* heap map */
} trace_figures;

typedef struct trace_fault {
    uint64_t line; /* from 1; 0: the file as a whole */
    char     reason[TRACE_REASON_MAX];
} trace_fault;

/* Reads the file. False: fault says why and *out is untouched. */
bool trace_read(const char *path, trace *out, trace_fault *fault);
void trace_release(trace *t);

/* Multiplies every size by unit * numerator / denominator. Sizes are rounded up, so that no buffer vanishes; the ends
 * of a heap map's blocks are rounded down to the granule, so that they still tile, and blocks left without a byte go.
 * pre: 1 <= numerator, denominator; unit > 0; granule > 0. Results stop at 2^64 - 1 (heap map: at a granule below). */
void trace_scale(trace *t, uint64_t unit, uint32_t numerator, uint32_t denominator, uint64_t granule);

/* pre: granule is a power of two. */
void trace_measure(const trace *t, uint64_t granule, trace_figures *figures);

/* value * numerator / denominator, rounded down or up; stops at 2^64 - 1. pre: denominator > 0. */
uint64_t trace_ratio(uint64_t value, uint32_t numerator, uint32_t denominator, bool round_up);

#endif
