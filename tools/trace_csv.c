/* trace_csv.c - see trace_csv.h. A line is read whole, split at its commas and handed to the reader of its kind.
 * Invariants: a buffer has one alloc event and at most one free event, later in the list; the blocks kept tile their
 * segments. Ids live in a hash table that is gone when trace_read returns. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "trace_csv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#define HASH_FUNCTION HASH_FNV /* the default falls through its cases without saying so, and compilers warn of it */
#define uthash_nonfatal_oom(node) ((node)->out_of_memory = true)
#include <uthash.h>

#define COLUMNS_MAX 6

typedef struct id_node {
    UT_hash_handle hh;
    uint64_t       line; /* where it was last allocated or freed; heap map: first seen */
    uint64_t       size;
    uint32_t       buffer;
    bool           live;
    bool           out_of_memory; /* set by uthash when adding failed */
    char           id[];
} id_node;

typedef struct lifetime_end {
    uint64_t time;
    uint32_t buffer;
    bool     is_alloc;
} lifetime_end;

typedef struct reader {
    FILE        *file;
    trace_fault *fault;
    uint64_t     line;
    bool         ended;      /* the line held ends with a newline */
    size_t       n_fields;
    char        *fields[COLUMNS_MAX];
    id_node     *ids;
    trace        got;
    size_t       buffers_room, events_room, blocks_room, ends_room;
    lifetime_end *ends;
    size_t       n_ends;
    uint64_t     time_us;    /* alloc: of the last event */
    bool         recording;  /* alloc: past the p lines */
    uint64_t     segment_size, segment_at, layout_bytes; /* heap map: the open segment, and all of them so far */
    size_t       segment_block; /* its first block */
    bool         segment_live;
    char         segment[TRACE_LINE_MAX + 1];
    char         text[TRACE_LINE_MAX + 1];
} reader;

/* Always false, so that a caller can return it. Foreign text may hold anything: control characters become '?'. */
__attribute__((format(printf, 2, 3))) static bool fault_set(reader *r, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->fault->reason, sizeof r->fault->reason, format, arguments);
    va_end(arguments);
    for (unsigned char *c = (unsigned char *)r->fault->reason; *c != 0; c++) {
        if (*c < 0x20 || *c == 0x7f) *c = '?';
    }
    r->fault->line = r->line;
    return false;
}

static bool room_make(reader *r, void *items_at, size_t *room, size_t count, size_t item_size) {
    if (count < *room) return true;
    if (count >= 2 * (size_t)TRACE_RECORDS_MAX) return fault_set(r, "more than %u records", TRACE_RECORDS_MAX);
    size_t more = *room == 0 ? 1024 : 2 * *room;
    void  *items;
    memcpy(&items, items_at, sizeof items);
    void *grown = reallocarray(items, more, item_size);
    if (grown == NULL) return fault_set(r, "the host is out of memory");
    memcpy(items_at, &grown, sizeof grown);
    *room = more;
    return true;
}

/* ---------------------------------------------------------------------------------------------------- lines */

typedef enum line_state { LINE_HELD, LINE_NONE, LINE_FAULT } line_state;

static line_state line_next(reader *r) {
    size_t length = 0;
    int    c;
    r->line++;
    while ((c = getc(r->file)) != EOF && c != '\n') {
        if (c == 0) {
            fault_set(r, "the line holds a NUL byte");
            return LINE_FAULT;
        }
        if (length == TRACE_LINE_MAX) {
            fault_set(r, "the line is longer than %u bytes", TRACE_LINE_MAX);
            return LINE_FAULT;
        }
        r->text[length++] = (char)c;
    }
    if (ferror(r->file)) {
        fault_set(r, "reading failed: %s", strerror(errno));
        return LINE_FAULT;
    }
    if (c == EOF && length == 0) return LINE_NONE;
    r->ended = c == '\n';
    if (r->ended && length > 0 && r->text[length - 1] == '\r') length--;
    r->text[length] = 0;
    return LINE_HELD;
}

static bool line_split(reader *r, size_t columns) {
    char *at = r->text;
    for (r->n_fields = 0;; at++) {
        if (r->n_fields < COLUMNS_MAX) r->fields[r->n_fields] = at;
        r->n_fields++;
        at = strchr(at, ',');
        if (at == NULL) break;
        *at = 0;
    }
    if (r->n_fields == columns) return true;
    if (!r->ended && r->n_fields < columns)
        return fault_set(r, "the last line is cut off after %zu of %zu columns", r->n_fields, columns);
    return fault_set(r, "%zu columns instead of %zu", r->text[0] == 0 && r->n_fields == 1 ? 0 : r->n_fields, columns);
}

static bool number_read(reader *r, size_t column, const char *name, uint64_t *number) {
    const char *text = r->fields[column];
    uint64_t    value = 0;
    if (*text == 0) return fault_set(r, "%s is missing", name);
    for (const char *c = text; *c != 0; c++) {
        if (*c < '0' || *c > '9') {
            bool negative = text[0] == '-' && text[1] != 0 && strspn(text + 1, "0123456789") == strlen(text + 1);
            return fault_set(r, negative ? "%s is negative: %.40s" : "%s is not a whole number: %.40s", name, text);
        }
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*c - '0'), &value)) {
            return fault_set(r, "%s is above 2^64 - 1: %.40s", name, text);
        }
    }
    *number = value;
    return true;
}

/* ------------------------------------------------------------------------------------------------------ ids */

static id_node *id_find(const reader *r, const char *id) {
    id_node *node = NULL;
    HASH_FIND_STR(r->ids, id, node);
    return node;
}

static id_node *id_add(reader *r, const char *id) {
    size_t   length = strlen(id);
    id_node *node = calloc(1, sizeof *node + length + 1);
    if (node != NULL) {
        memcpy(node->id, id, length + 1);
        HASH_ADD_KEYPTR(hh, r->ids, node->id, length, node);
        if (node->out_of_memory) {
            free(node);
            node = NULL;
        }
    }
    if (node == NULL) fault_set(r, "the host is out of memory");
    return node;
}

static void ids_release(reader *r) {
    id_node *node = r->ids;
    /* the table first: it doesn't need its elements, and the list through them outlives it */
    HASH_CLEAR(hh, r->ids);
    while (node != NULL) {
        id_node *next = node->hh.next;
        free(node);
        node = next;
    }
}

/* ------------------------------------------------------------------------------------------------ lifetimes */

static bool buffer_add(reader *r, uint64_t size, uint32_t *index) {
    trace *t = &r->got;
    if (!room_make(r, &t->buffers, &r->buffers_room, t->n_buffers, sizeof *t->buffers)) return false;
    *index = (uint32_t)t->n_buffers;
    t->buffers[t->n_buffers++] = (trace_buffer){.size = size, .line = r->line};
    return true;
}

static bool event_add(reader *r, uint32_t buffer, bool is_alloc) {
    trace *t = &r->got;
    if (!room_make(r, &t->events, &r->events_room, t->n_events, sizeof *t->events)) return false;
    t->events[t->n_events++] = (trace_event){.buffer = buffer, .is_alloc = is_alloc};
    return true;
}

static bool end_add(reader *r, uint64_t time, uint32_t buffer, bool is_alloc) {
    if (!room_make(r, &r->ends, &r->ends_room, r->n_ends, sizeof *r->ends)) return false;
    r->ends[r->n_ends++] = (lifetime_end){.time = time, .buffer = buffer, .is_alloc = is_alloc};
    return true;
}

static bool lifetime_read(reader *r) {
    bool        placed = r->got.kind == TRACE_LIFETIMES_PLACED;
    const char *id = r->fields[0];
    uint64_t    lower = 0, upper = 0, size = 0, offset = 0;
    uint32_t    buffer = 0;
    if (*id == 0) return fault_set(r, "id is missing");
    if (!number_read(r, 1, "lower", &lower) || !number_read(r, 2, "upper", &upper) ||
        !number_read(r, 3, "size", &size) || (placed && !number_read(r, 4, "offset", &offset))) {
        return false;
    }
    if (!placed && !r->ended) return fault_set(r, "the last line has no newline: its size may be cut off");
    if (placed && upper == UINT64_MAX)
        return fault_set(r, "upper is above 2^64 - 2, and the buffer is live at it: %s", r->fields[2]);
    if (placed ? lower > upper : lower >= upper)
        return fault_set(r, "lower %" PRIu64 " is not below upper %" PRIu64, lower, upper);
    id_node *known = id_find(r, id);
    if (known != NULL) return fault_set(r, "double alloc: id %.40s is on line %" PRIu64 " already", id, known->line);
    id_node *node = id_add(r, id);
    if (node == NULL) return false;
    node->line = r->line;
    return buffer_add(r, size, &buffer) && end_add(r, lower, buffer, true) &&
           end_add(r, placed ? upper + 1 : upper, buffer, false);
}

static int end_compare(const void *a, const void *b) {
    const lifetime_end *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    if (x->is_alloc != y->is_alloc) return x->is_alloc ? 1 : -1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

static bool lifetimes_finish(reader *r) {
    qsort(r->ends, r->n_ends, sizeof *r->ends, end_compare);
    for (size_t i = 0; i < r->n_ends; i++) {
        if (!event_add(r, r->ends[i].buffer, r->ends[i].is_alloc)) return false;
    }
    return true;
}

/* --------------------------------------------------------------------------------------------------- events */

static bool event_alloc(reader *r, const char *id, id_node *node, uint64_t size) {
    uint32_t buffer = 0;
    if (node != NULL && node->live)
        return fault_set(r, "double alloc: id %.40s is live since line %" PRIu64, id, node->line);
    if (node == NULL) node = id_add(r, id);
    if (node == NULL || !buffer_add(r, size, &buffer)) return false;
    node->line = r->line;
    node->size = size;
    node->buffer = buffer;
    node->live = true;
    return event_add(r, buffer, true);
}

static bool event_free(reader *r, const char *id, id_node *node, uint64_t size) {
    if (node == NULL) return fault_set(r, "free of id %.40s, which was never allocated", id);
    if (!node->live) return fault_set(r, "free of id %.40s, which was freed on line %" PRIu64, id, node->line);
    if (node->size != size)
        return fault_set(r, "free of %" PRIu64 " bytes of id %.40s, which has %" PRIu64, size, id, node->size);
    node->live = false;
    node->line = r->line;
    return event_add(r, node->buffer, false);
}

static bool event_read(reader *r) {
    const char *op = r->fields[0];
    const char *id = r->fields[1];
    uint64_t    size = 0, time_us = 0;
    if (strcmp(op, "a") != 0 && strcmp(op, "f") != 0 && strcmp(op, "p") != 0)
        return fault_set(r, "op is none of a, f, p: %.40s", op);
    if (*id == 0) return fault_set(r, "id is missing");
    if (!number_read(r, 2, "size", &size) || !number_read(r, 3, "t_us", &time_us)) return false;
    if (time_us < r->time_us)
        return fault_set(r, "t_us %" PRIu64 " is before that of the line above, %" PRIu64, time_us, r->time_us);
    r->time_us = time_us;
    if (*op == 'p' && r->recording) return fault_set(r, "op p (live before the recording) after an a or f");
    r->recording = *op != 'p';
    id_node *node = id_find(r, id);
    return *op == 'f' ? event_free(r, id, node, size) : event_alloc(r, id, node, size);
}

static bool events_finish(reader *r) {
    (void)r;
    return true;
}

/* ------------------------------------------------------------------------------------------------ heap maps */

static bool segment_close(reader *r) {
    trace *t = &r->got;
    if (t->n_segments == 0) return true;
    if (r->segment_at != r->segment_size) {
        return fault_set(r, "segment %.40s has %" PRIu64 " bytes, its blocks end at %" PRIu64, r->segment,
                         r->segment_size, r->segment_at);
    }
    if (!r->segment_live) {
        t->n_blocks = r->segment_block;
        t->n_segments_dropped++;
    } else if (__builtin_add_overflow(r->layout_bytes, r->segment_size, &r->layout_bytes)) {
        return fault_set(r, "the segments up to here add up to more than 2^64 - 1 bytes");
    }
    return true;
}

static bool segment_open(reader *r, const char *segment, uint64_t segment_size) {
    id_node *known = id_find(r, segment);
    if (known != NULL) return fault_set(r, "segment %.40s is on line %" PRIu64 " already", segment, known->line);
    r->line--; /* what is wrong with the segment before is told at its last line */
    if (!segment_close(r)) return false;
    r->line++;
    id_node *node = id_add(r, segment);
    if (node == NULL) return false;
    node->line = r->line;
    memcpy(r->segment, segment, strlen(segment) + 1);
    r->segment_size = segment_size;
    r->segment_at = 0;
    r->segment_block = r->got.n_blocks;
    r->segment_live = false;
    r->got.n_segments++;
    return true;
}

static bool block_read(reader *r) {
    trace      *t = &r->got;
    const char *segment = r->fields[0];
    const char *state = r->fields[5];
    uint64_t    segment_size = 0, offset = 0, size = 0, requested = 0;
    if (*segment == 0) return fault_set(r, "segment is missing");
    if (!number_read(r, 1, "segment_size", &segment_size) || !number_read(r, 2, "offset", &offset) ||
        !number_read(r, 3, "size", &size) || !number_read(r, 4, "requested_size", &requested)) {
        return false;
    }
    if (strcmp(state, "A") != 0 && strcmp(state, "F") != 0)
        return fault_set(r, "state is neither A nor F: %.40s", state);
    bool live = *state == 'A';
    if (live && requested > size)
        return fault_set(r, "requested_size %" PRIu64 " of a live block is above its size %" PRIu64, requested, size);
    if ((t->n_segments == 0 || strcmp(segment, r->segment) != 0) && !segment_open(r, segment, segment_size))
        return false;
    if (segment_size != r->segment_size)
        return fault_set(r, "segment_size %" PRIu64 " instead of %" PRIu64 " as above", segment_size, r->segment_size);
    if (offset != r->segment_at)
        return fault_set(r, "the block starts at %" PRIu64 ", the one before ends at %" PRIu64, offset, r->segment_at);
    if (size == 0) return fault_set(r, "size of a block is 0");
    if (size > segment_size - offset)
        return fault_set(r, "the block ends beyond its segment's %" PRIu64 " bytes", segment_size);
    if (!room_make(r, &t->blocks, &r->blocks_room, t->n_blocks, sizeof *t->blocks)) return false;
    t->blocks[t->n_blocks++] = (trace_block){.size = size, .line = r->line, .live = live};
    r->segment_at = offset + size;
    r->segment_live = r->segment_live || live;
    return true;
}

/* ---------------------------------------------------------------------------------------------------- files */

typedef struct kind_row {
    const char *header;
    trace_kind  kind;
    size_t      columns;
    bool      (*line_read)(reader *r);
    bool      (*finish)(reader *r);
} kind_row;

static const kind_row kinds[] = {
    {"id,lower,upper,size", TRACE_LIFETIMES, 4, lifetime_read, lifetimes_finish},
    {"id,lower,upper,size,offset", TRACE_LIFETIMES_PLACED, 5, lifetime_read, lifetimes_finish},
    {"op,id,size,t_us", TRACE_ALLOC, 4, event_read, events_finish},
    {"segment,segment_size,offset,size,requested_size,state", TRACE_HEAPMAP, 6, block_read, segment_close},
};

static const kind_row *header_read(reader *r) {
    switch (line_next(r)) {
    case LINE_FAULT:
        return NULL;
    case LINE_NONE:
        fault_set(r, "the file is empty");
        return NULL;
    case LINE_HELD:
        break;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(r->text, kinds[i].header) == 0) return &kinds[i];
    }
    fault_set(r, "not the header of a lifetimes, alloc or heap map file: %.60s", r->text);
    return NULL;
}

static bool file_read(reader *r) {
    const kind_row *row = header_read(r);
    size_t          records = 0;
    line_state      state;
    if (row == NULL) return false;
    r->got.kind = row->kind;
    while ((state = line_next(r)) == LINE_HELD) {
        if (records == TRACE_RECORDS_MAX) return fault_set(r, "more than %u records", TRACE_RECORDS_MAX);
        if (!line_split(r, row->columns) || !row->line_read(r)) return false;
        records++;
    }
    if (state == LINE_FAULT) return false;
    if (records == 0) return fault_set(r, "no line follows the header");
    r->line--;
    return row->finish(r);
}

bool trace_read(const char *path, trace *out, trace_fault *fault) {
    FILE   *file = fopen(path, "re");
    reader *r = file == NULL ? NULL : calloc(1, sizeof *r);
    if (r == NULL) {
        fault->line = 0;
        snprintf(fault->reason, sizeof fault->reason, "%s", strerror(errno));
        if (file != NULL) fclose(file);
        return false;
    }
    r->file = file;
    r->fault = fault;
    bool ok = file_read(r);
    fclose(file);
    ids_release(r);
    free(r->ends);
    if (ok) {
        *out = r->got;
    } else {
        trace_release(&r->got);
    }
    free(r);
    return ok;
}

void trace_release(trace *t) {
    free(t->buffers);
    free(t->events);
    free(t->blocks);
    memset(t, 0, sizeof *t);
}

/* -------------------------------------------------------------------------------------------------- figures */

static uint64_t sum_saturated(uint64_t a, uint64_t b) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static uint64_t product_saturated(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

uint64_t trace_ratio(uint64_t value, uint32_t numerator, uint32_t denominator, bool round_up) {
    /* the remainder is below 2^32, so its product with the numerator can't wrap */
    uint64_t whole = product_saturated(value / denominator, numerator);
    uint64_t part = value % denominator * numerator;
    return sum_saturated(whole, part / denominator + (round_up && part % denominator != 0));
}

static void blocks_scale(trace *t, uint64_t unit, uint32_t numerator, uint32_t denominator, uint64_t granule) {
    uint64_t end = 0, scaled_end = 0;
    size_t   kept = 0;
    for (size_t i = 0; i < t->n_blocks; i++) {
        trace_block block = t->blocks[i];
        end = sum_saturated(end, block.size);
        uint64_t to = trace_ratio(product_saturated(end, unit), numerator, denominator, false);
        to -= to % granule;
        block.size = to - scaled_end;
        scaled_end = to;
        if (block.size > 0) t->blocks[kept++] = block;
    }
    t->n_blocks_vanished += t->n_blocks - kept;
    t->n_blocks = kept;
}

void trace_scale(trace *t, uint64_t unit, uint32_t numerator, uint32_t denominator, uint64_t granule) {
    if (t->kind == TRACE_HEAPMAP) {
        blocks_scale(t, unit, numerator, denominator, granule);
        return;
    }
    for (size_t i = 0; i < t->n_buffers; i++)
        t->buffers[i].size = trace_ratio(product_saturated(t->buffers[i].size, unit), numerator, denominator, true);
}

static void blocks_measure(const trace *t, trace_figures *figures) {
    uint64_t hole = 0;
    for (size_t i = 0; i < t->n_blocks; i++) {
        const trace_block *block = &t->blocks[i];
        figures->capacity_bytes = sum_saturated(figures->capacity_bytes, block->size);
        if (block->live) {
            figures->buffers++;
            figures->peak_bytes = sum_saturated(figures->peak_bytes, block->size);
            hole = 0;
            continue;
        }
        figures->holes += hole == 0;
        hole = sum_saturated(hole, block->size);
        figures->largest_hole_bytes = hole > figures->largest_hole_bytes ? hole : figures->largest_hole_bytes;
    }
}

static uint64_t size_rounded(uint64_t size, uint64_t granule) {
    return sum_saturated(size, granule - 1) & ~(granule - 1);
}

void trace_measure(const trace *t, uint64_t granule, trace_figures *figures) {
    /* a sum that has stopped at 2^64 - 1 can't be taken back from by a free: the peak is known then */
    uint64_t live = 0;
    memset(figures, 0, sizeof *figures);
    figures->buffers = t->n_buffers;
    if (t->kind == TRACE_HEAPMAP) {
        blocks_measure(t, figures);
        return;
    }
    for (size_t i = 0; i < t->n_events && figures->peak_bytes < UINT64_MAX; i++) {
        uint64_t size = size_rounded(t->buffers[t->events[i].buffer].size, granule);
        live = t->events[i].is_alloc ? sum_saturated(live, size) : live - size;
        figures->peak_bytes = live > figures->peak_bytes ? live : figures->peak_bytes;
    }
}
