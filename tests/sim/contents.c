/* contents.c - of simulation runs: what the model knows of each buffer's bytes, and the care that clients take of order. */
#include "world.h"

/* ------------------------------------------------------------------------------------------------ segments */

bool segments_room(const buffer *b) {
    return b->segments + 2 <= SEGMENTS_MAX;
}

void segments_clear(buffer *b, uint64_t start, uint64_t end) {
    segment  old[SEGMENTS_MAX];
    uint32_t n = b->segments, made = 0;
    if (start >= end)
        return;
    memcpy(old, b->segment, n * sizeof *old);
    for (uint32_t i = 0; i < n; i++) {
        segment s = old[i];
        if (s.start < start) {
            b->segment[made]       = s;
            b->segment[made++].end = s.end < start ? s.end : start;
        }
        if (s.end > end && made < SEGMENTS_MAX) { /* a rest beyond the last place is forgotten */
            uint64_t from    = s.start > end ? s.start : end;
            b->segment[made] = s;
            b->segment[made].at += from - s.start;
            b->segment[made++].start = from;
        }
    }
    b->segments = made;
}

void segments_put(buffer *b, segment s) {
    if (s.start >= s.end)
        return;
    segments_clear(b, s.start, s.end);
    if (b->segments == SEGMENTS_MAX)
        return;
    uint32_t at = b->segments++;
    for (; at > 0 && b->segment[at - 1].start > s.start; at--)
        b->segment[at] = b->segment[at - 1];
    b->segment[at] = s;
}

size_t segments_read(const buffer *b, char *address, uint64_t start, uint64_t end, snug_sim_access *accesses) {
    size_t n = 0;
    for (uint32_t i = 0; i < b->segments; i++) {
        const segment *s    = &b->segment[i];
        uint64_t       from = s->start > start ? s->start : start, to = s->end < end ? s->end : end;
        if (from < to)
            accesses[n++] =
                (snug_sim_access){address + from, to - from, SNUG_READ, s->version, s->id, s->at + (from - s->start)};
    }
    return n;
}

void segments_copy(buffer *to, uint64_t to_start, const buffer *from, uint64_t start, uint64_t bytes) {
    buffer source = *from;
    segments_clear(to, to_start, to_start + bytes);
    for (uint32_t i = 0; i < source.segments; i++) {
        segment  s = source.segment[i];
        uint64_t a = s.start > start ? s.start : start, z = s.end < start + bytes ? s.end : start + bytes;
        if (a >= z)
            continue;
        s.at += a - s.start;
        s.start = to_start + (a - start);
        s.end   = to_start + (z - start);
        segments_put(to, s);
    }
}

/* ------------------------------------------------------------------------------------------------ order */

static bool wait_for(world *w, unsigned s, unsigned other) {
    w->calls++;
    EXPECT(snug_sim_stream_wait(w->native[s], w->native[other]) == SNUG_OK, "stream %u for %u", s, other);
    return true;
}

/* As little as is needed, so that what the library leaves out isn't made up for by the client. */
bool order_use(world *w, buffer *b, unsigned s, bool write) {
    bool known = b->readers & set_of(s);
    if (b->writer >= 0 && (unsigned)b->writer != s && !known && !wait_for(w, s, (unsigned)b->writer))
        return false;
    if (!write) {
        b->readers |= set_of(s);
        return true;
    }
    for (unsigned i = 0; b->readers && i < w->streams; i++)
        if (i != s && (b->readers & set_of(i)) && !wait_for(w, s, i))
            return false;
    b->writer  = (int)s;
    b->readers = 0;
    return true;
}

void order_replace(world *w, unsigned s, unsigned t) {
    for (unsigned k = 0; k < w->arenas; k++)
        for (uint32_t i = 0; i < w->arena[k].slots; i++) {
            buffer *b = &w->arena[k].buffers[i];
            if (b->state == NOBODY)
                continue;
            if (b->writer == (int)s)
                b->writer = (int)t;
            if (b->readers & set_of(s)) /* t's work from now on comes after both; what it did before, it may not */
                b->readers = (b->readers & ~set_of(s)) | set_of(t);
        }
}

/* ------------------------------------------------------------------------------------------------ launches */

/* The part of a buffer that one access touches. */
static void part(dice *d, const buffer *b, bool whole, uint64_t *start, uint64_t *end) {
    *start = 0;
    *end   = b->size;
    if (whole || chance(d, 60) || b->size < 2)
        return;
    *start = below(d, b->size);
    *end   = *start + 1 + below(d, b->size - *start);
}

/* Where the buffer's address is in its pool's address table; NULL: the pool has none. */
static char *entry_of(const world *w, const buffer *b) {
    void *table;
    for (unsigned k = 0; k < w->arenas; k++) {
        const arena *a = &w->arena[k];
        if (a->pool && b >= a->buffers && b < a->buffers + a->slots)
            return snug_address_table(a->pool, &table) == SNUG_OK
                       ? (char *)table + 8 * (size_t)SNUG_HANDLE_INDEX(b->handle)
                       : NULL;
    }
    return NULL;
}

bool launch(world *w, dice *d, unsigned s, buffer *const *buffers, char *const *addresses, const snug_access *access,
            size_t n, bool resolved) {
    snug_sim_access accesses[LAUNCH_MAX * (SEGMENTS_MAX + 2)];
    size_t          count = 0;
    for (size_t i = 0; i < n; i++) {
        buffer *b     = buffers[i];
        char   *entry = resolved ? entry_of(w, b) : NULL;
        if (entry)
            accesses[count++] =
                (snug_sim_access){entry, 8, SNUG_READ, SNUG_SIM_ENTRY, (uint64_t)(uintptr_t)addresses[i], 0};
        bool     again = false;
        uint64_t start, end;
        for (size_t k = 0; k < i; k++)
            again |= buffers[k] == b;
        if (again || !b->size)
            continue;
        if (access[i] == SNUG_READ || chance(d, 50)) {
            part(d, b, false, &start, &end);
            count += segments_read(b, addresses[i], start, end, accesses + count);
        }
        if (access[i] == SNUG_READ)
            continue;
        part(d, b, !segments_room(b), &start, &end);
        segment written = {start, end, b->number, start, ++b->versions};
        accesses[count++] =
            (snug_sim_access){addresses[i] + start, end - start, SNUG_WRITE, written.version, written.id, start};
        segments_put(b, written);
    }
    w->calls++;
    EXPECT(snug_sim_launch(w->native[s], accesses, count, UINT64_C(1000) << below(d, 10)) == SNUG_OK,
           "launch on stream %u", s);
    return true;
}
