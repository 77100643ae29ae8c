/* span.c: see span.h. */
#include "span.h"

#include <stdlib.h>
#include <string.h>

static bool same(const snug__words *x, const snug__words *y) {
    return x->a == y->a && x->b == y->b && x->c == y->c;
}

/* ------------------------------------------------------------------------------------------------ chunks */

static bool chunk_room(snug__spans *spans) {
    if (spans->chunks_count < spans->chunks_max)
        return true;
    uint32_t      max    = spans->chunks_max ? spans->chunks_max * 2 : 8;
    snug__chunk **chunks = realloc(spans->chunks, max * sizeof *chunks);
    if (chunks)
        spans->chunks = chunks;
    uint64_t *starts = realloc(spans->starts, max * sizeof *starts);
    if (starts)
        spans->starts = starts;
    if (!chunks || !starts)
        return false;
    spans->chunks_max = max;
    return true;
}

/* An empty chunk at that index. */
static bool chunk_insert(snug__spans *spans, uint32_t at) {
    snug__chunk *chunk = chunk_room(spans) ? malloc(sizeof *chunk) : NULL;
    if (!chunk)
        return false;
    chunk->count = 0;
    memmove(spans->chunks + at + 1, spans->chunks + at, (spans->chunks_count - at) * sizeof *spans->chunks);
    memmove(spans->starts + at + 1, spans->starts + at, (spans->chunks_count - at) * sizeof *spans->starts);
    spans->chunks[at] = chunk;
    spans->chunks_count++;
    return true;
}

static void chunks_remove(snug__spans *spans, uint32_t at, uint32_t n) {
    for (uint32_t i = at; i < at + n; i++)
        free(spans->chunks[i]);
    spans->chunks_count -= n;
    memmove(spans->chunks + at, spans->chunks + at + n, (spans->chunks_count - at) * sizeof *spans->chunks);
    memmove(spans->starts + at, spans->starts + at + n, (spans->chunks_count - at) * sizeof *spans->starts);
}

/* A full chunk makes room. Where spans come in order of address, chunks stay full. */
static bool chunk_split(snug__spans *spans, snug__place *place) {
    if (!chunk_insert(spans, place->chunk + 1))
        return false;
    snug__chunk *left = spans->chunks[place->chunk], *right = spans->chunks[place->chunk + 1];
    uint32_t     keep = place->index == left->count ? left->count : left->count / 2;
    right->count      = left->count - keep;
    left->count       = keep;
    memcpy(right->spans, left->spans + keep, right->count * sizeof *right->spans);
    if (right->count)
        spans->starts[place->chunk + 1] = right->spans[0].start;
    if (place->index > keep || !right->count)
        *place = (snug__place){place->chunk + 1, place->index - keep};
    return true;
}

static bool span_insert(snug__spans *spans, snug__place place, snug__span span) {
    if (spans->chunks[place.chunk]->count == SNUG__CHUNK_MAX && !chunk_split(spans, &place))
        return false;
    snug__chunk *chunk = spans->chunks[place.chunk];
    memmove(chunk->spans + place.index + 1, chunk->spans + place.index, (chunk->count - place.index) * sizeof span);
    chunk->spans[place.index] = span;
    chunk->count++;
    spans->count++;
    if (place.index == 0)
        spans->starts[place.chunk] = span.start;
    return true;
}

/* A chunk that has become small takes over the next one if that is small too. */
static void chunk_merge(snug__spans *spans, uint32_t at) {
    if (at + 1 >= spans->chunks_count)
        return;
    snug__chunk *left = spans->chunks[at], *right = spans->chunks[at + 1];
    if (left->count + right->count > SNUG__CHUNK_MAX / 2)
        return;
    memcpy(left->spans + left->count, right->spans, right->count * sizeof *right->spans);
    left->count += right->count;
    chunks_remove(spans, at + 1, 1);
}

/* Removes n spans from that place of the chunk on; n is at most what is there. */
static void chunk_erase(snug__spans *spans, snug__place place, uint32_t n) {
    snug__chunk *chunk = spans->chunks[place.chunk];
    chunk->count -= n;
    spans->count -= n;
    memmove(chunk->spans + place.index, chunk->spans + place.index + n,
            (chunk->count - place.index) * sizeof *chunk->spans);
    if (!chunk->count)
        chunks_remove(spans, place.chunk, 1);
    else if (place.index == 0)
        spans->starts[place.chunk] = chunk->spans[0].start;
}

/* ------------------------------------------------------------------------------------------------ spans */

bool snug__spans_open(snug__spans *spans) {
    *spans = (snug__spans){NULL, NULL, 0, 0, 0};
    if (chunk_insert(spans, 0) && span_insert(spans, (snug__place){0, 0}, (snug__span){0, {0, 0, 0}}))
        return true;
    snug__spans_close(spans);
    return false;
}

void snug__spans_close(snug__spans *spans) {
    if (spans->chunks_count)
        chunks_remove(spans, 0, spans->chunks_count);
    free(spans->chunks);
    free(spans->starts);
    *spans = (snug__spans){NULL, NULL, 0, 0, 0};
}

/* Both searches halve without branching: which way they go can't be foretold. */
snug__place snug__spans_find(const snug__spans *spans, uint64_t offset) {
    const uint64_t *start = spans->starts;
    for (uint32_t n = spans->chunks_count; n > 1; n -= n / 2)
        start += start[n / 2] <= offset ? n / 2 : 0;
    uint32_t           at    = (uint32_t)(start - spans->starts);
    const snug__chunk *chunk = spans->chunks[at];
    const snug__span  *span  = chunk->spans;
    for (uint32_t n = chunk->count; n > 1; n -= n / 2)
        span += span[n / 2].start <= offset ? n / 2 : 0;
    return (snug__place){at, (uint32_t)(span - chunk->spans)};
}

uint64_t snug__spans_end(const snug__spans *spans, snug__place place) {
    return snug__spans_next(spans, &place) ? snug__spans_at(spans, place)->start : UINT64_MAX;
}

bool snug__spans_cut(snug__spans *spans, uint64_t offset, bool *made) {
    snug__place place = snug__spans_find(spans, offset);
    snug__span  span  = *snug__spans_at(spans, place);
    *made             = span.start != offset;
    if (!*made)
        return true;
    span.start = offset;
    place.index++;
    return span_insert(spans, place, span);
}

/* Removes the spans that start after the given one and before to. */
static void erase_after(snug__spans *spans, snug__place place, uint64_t to) {
    place.index++;
    for (;;) {
        if (place.index == spans->chunks[place.chunk]->count)
            place = (snug__place){place.chunk + 1, 0};
        if (place.chunk == spans->chunks_count)
            return;
        const snug__chunk *chunk = spans->chunks[place.chunk];
        uint32_t           n     = 0;
        while (place.index + n < chunk->count && chunk->spans[place.index + n].start < to)
            n++;
        if (!n)
            return;
        bool whole = n == chunk->count;
        chunk_erase(spans, place, n);
        if (!whole && place.index < chunk->count)
            return;
    }
}

bool snug__spans_set(snug__spans *spans, uint64_t from, uint64_t to, snug__words words) {
    bool        made;
    snug__place place = snug__spans_find(spans, from);
    snug__span *span  = snug__spans_at(spans, place);
    if (same(&span->words, &words) && snug__spans_end(spans, place) >= to)
        return true;
    if (!snug__spans_cut(spans, from, &made) || !snug__spans_cut(spans, to, &made)) {
        snug__spans_join(spans, from, to);
        return false;
    }
    place = snug__spans_find(spans, from);
    erase_after(spans, place, to);
    snug__spans_at(spans, place)->words = words;
    chunk_merge(spans, place.chunk);
    snug__spans_join(spans, from, to);
    return true;
}

void snug__spans_join(snug__spans *spans, uint64_t from, uint64_t to) {
    snug__place place = snug__spans_find(spans, from ? from - 1 : 0);
    for (;;) {
        snug__place next = place;
        if (!snug__spans_next(spans, &next) || snug__spans_at(spans, next)->start > to)
            return;
        if (same(&snug__spans_at(spans, place)->words, &snug__spans_at(spans, next)->words))
            chunk_erase(spans, next, 1);
        else
            place = next;
    }
}

const char *snug__spans_check(const snug__spans *spans) {
    uint64_t count = 0, before = 0;
    for (uint32_t i = 0; i < spans->chunks_count; i++) {
        const snug__chunk *chunk = spans->chunks[i];
        if (!chunk->count || chunk->count > SNUG__CHUNK_MAX)
            return "a chunk is empty or overfull";
        if (spans->starts[i] != chunk->spans[0].start)
            return "a chunk's start is not its first span's";
        for (uint32_t j = 0; j < chunk->count; j++, count++) {
            if (count ? chunk->spans[j].start <= before : chunk->spans[j].start != 0)
                return "the spans are not in order";
            before = chunk->spans[j].start;
        }
    }
    return count == spans->count ? NULL : "the spans are miscounted";
}
