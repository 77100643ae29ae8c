/* span.h: a map from offsets to three words: spans in order of offset, together covering [0, 2^64), each the same all through.
 * Neighbours with equal words are one span, but for those that a cut has kept apart and no join has looked at since.
 *
 * Spans live in chunks of a sorted array; the map owns them. 32 bytes a span, besides a chunk's unused part.
 * Functions that say false ran out of memory and changed nothing. No lock: the machine's. */
#ifndef SNUG__SIM_SPAN_H
#define SNUG__SIM_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct snug__words {
    uint64_t a, b, c;
} snug__words;

typedef struct snug__span {
    uint64_t    start;
    snug__words words;
} snug__span;

enum { SNUG__CHUNK_MAX = 127 };

typedef struct snug__chunk {
    uint32_t   count;
    snug__span spans[SNUG__CHUNK_MAX];
} snug__chunk;

typedef struct snug__spans {
    snug__chunk **chunks;
    uint64_t     *starts; /* of each chunk's first span */
    uint32_t      chunks_count, chunks_max;
    uint64_t      count;
} snug__spans;

typedef struct snug__place {
    uint32_t chunk, index;
} snug__place;

bool snug__spans_open(snug__spans *spans); /* one span of zero words */
void snug__spans_close(snug__spans *spans);

static inline snug__span *snug__spans_at(const snug__spans *spans, snug__place place) {
    return &spans->chunks[place.chunk]->spans[place.index];
}

/* The span that holds the offset. */
snug__place snug__spans_find(const snug__spans *spans, uint64_t offset);

/* False: it was the last. */
static inline bool snug__spans_next(const snug__spans *spans, snug__place *place) {
    if (place->index + 1 < spans->chunks[place->chunk]->count) {
        place->index++;
        return true;
    }
    if (place->chunk + 1 == spans->chunks_count)
        return false;
    *place = (snug__place){place->chunk + 1, 0};
    return true;
}

/* For going through the spans from the one that holds an offset to the last that starts before to; NULL: no more. */
static inline snug__span *snug__spans_first(const snug__spans *spans, snug__place *place, uint64_t offset) {
    *place = snug__spans_find(spans, offset);
    return snug__spans_at(spans, *place);
}
static inline snug__span *snug__spans_step(const snug__spans *spans, snug__place *place, uint64_t to) {
    snug__span *span = snug__spans_next(spans, place) ? snug__spans_at(spans, *place) : NULL;
    return span && span->start < to ? span : NULL;
}

/* Where the span ends; UINT64_MAX of the last. */
uint64_t snug__spans_end(const snug__spans *spans, snug__place place);

/* Makes a span start at the offset. *made: it didn't before. */
bool snug__spans_cut(snug__spans *spans, uint64_t offset, bool *made);

/* Gives [from, to) these words, and joins it with neighbours that have them too. */
bool snug__spans_set(snug__spans *spans, uint64_t from, uint64_t to, snug__words words);

/* Joins neighbours with equal words, from the one that ends at from to the one that starts at to. */
void snug__spans_join(snug__spans *spans, uint64_t from, uint64_t to);

/* Returns what is broken, or NULL. */
const char *snug__spans_check(const snug__spans *spans);

#endif
