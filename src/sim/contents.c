/* contents.c: what stands in the arenas, as tags; changed and looked at when operations are executed.
 *
 * Words of a span: a, the id; b, the offset in the arena at which the content's offset 0 would lie, so that the parts of one
 * content have equal words; c, the version, the number of the move that brought it (0: none, or long settled), and whether it
 * is torn for good. Contents that are alike everywhere (undefined, filled) have b 0. */
#include "sim.h"

#include <stdlib.h>

#define TORN (UINT64_C(1) << 63)

static bool uniform(uint64_t id) {
    return id == 0 || (id & ~UINT64_C(255)) == SNUG_SIM_FILL(0);
}

static uint32_t version_of(snug__words words) {
    return (uint32_t)words.c;
}

static uint32_t move_of(snug__words words) {
    return (uint32_t)(words.c >> 32 & 0x7fffffff);
}

static void report_tag(const snug_sim_stream *stream, const snug__sim_touch *touch, uint64_t at, snug__words found) {
    uint64_t expected = touch->at + (at - touch->offset), is = found.b ? at - found.b : 0;
    snug__sim_violate(
        SNUG_SIM_TAG,
        "stream %u reads [%#llx, +%llu) of device %u: at %#llx it expects id %#llx version %u offset %llu, "
        "there is id %#llx version %u offset %llu",
        stream->number, (unsigned long long)touch->offset, (unsigned long long)touch->bytes, touch->device,
        (unsigned long long)at, (unsigned long long)touch->id, touch->version, (unsigned long long)expected,
        (unsigned long long)found.a, version_of(found), (unsigned long long)is);
}

void snug__contents_read(snug__device *device, const snug_sim_stream *stream, const snug__sim_touch *touch) {
    snug__spans *tags   = &device->tags;
    uint64_t     origin = uniform(touch->id) ? 0 : touch->offset - touch->at, wrong = UINT64_MAX;
    snug__words  found = {0, 0, 0};
    bool         torn  = false;
    snug__place  place;
    for (const snug__span *span = snug__spans_first(tags, &place, touch->offset); span;
         span                   = snug__spans_step(tags, &place, touch->offset + touch->bytes)) {
        snug__words words = span->words;
        torn |= touch->id && ((words.c & TORN) || (move_of(words) && snug__move_use(move_of(words))));
        if (touch->id && wrong == UINT64_MAX &&
            (words.a != touch->id || version_of(words) != touch->version || words.b != origin)) {
            wrong = span->start > touch->offset ? span->start : touch->offset;
            found = words;
        }
    }
    if (torn)
        snug__sim_violate(
            SNUG_SIM_TORN, "stream %u reads [%#llx, +%llu) of device %u, copied there while the source was written",
            stream->number, (unsigned long long)touch->offset, (unsigned long long)touch->bytes, touch->device);
    if (wrong != UINT64_MAX)
        report_tag(stream, touch, wrong, found);
}

void snug__contents_put(snug__device *device, uint64_t offset, uint64_t value) {
    if (!snug__spans_set(&device->entries, offset, offset + 8, (snug__words){value, 0, 0}))
        snug__sim.report.shortages++;
}

void snug__contents_entry(snug__device *device, const snug_sim_stream *stream, const snug__sim_touch *touch) {
    uint64_t found = snug__spans_at(&device->entries, snug__spans_find(&device->entries, touch->offset))->words.a;
    if (found != touch->id)
        snug__sim_violate(SNUG_SIM_TAG, "stream %u finds %#llx for an address at %#llx of device %u, %#llx expected",
                          stream->number, (unsigned long long)found, (unsigned long long)touch->offset, touch->device,
                          (unsigned long long)touch->id);
}

static void put(snug__device *device, uint64_t offset, uint64_t bytes, snug__words words) {
    if (!snug__spans_set(&device->tags, offset, offset + bytes, words))
        snug__sim.report.shortages++;
}

void snug__contents_write(snug__device *device, const snug__sim_touch *touch) {
    uint64_t    origin = uniform(touch->id) ? 0 : touch->offset - touch->at, end = touch->offset + touch->bytes;
    uint64_t    padded = (end + SNUG_GRANULE - 1) / SNUG_GRANULE * SNUG_GRANULE;
    snug__place place  = snug__spans_find(&device->tags, end);
    /* A buffer's padding goes with it while nothing is known of it: else each buffer would take two spans. */
    if (!snug__spans_at(&device->tags, place)->words.a && snug__spans_end(&device->tags, place) >= padded)
        end = padded;
    put(device, touch->offset, end - touch->offset, (snug__words){touch->id, origin, touch->version});
}

void snug__contents_forget(snug__device *device, uint64_t offset, uint64_t bytes) {
    put(device, offset, bytes, (snug__words){0, 0, 0});
}

/* ------------------------------------------------------------------------------------------------ copies */

/* What the target's words say of moves: of the one that copies (0: it is no move), and of an earlier one by which the source
 * came and which may yet turn out torn. Contents that nobody expects may be torn: those of a fresh buffer, say. */
static uint64_t move_bits(snug__words source, uint32_t number, uint64_t to, uint64_t bytes) {
    const snug__sim_move *record = snug__move_record(number), *earlier = snug__move_record(move_of(source));
    if ((source.c & TORN) || (record && record->torn) || (earlier && earlier->torn))
        return TORN;
    if (earlier && snug__sim.host[snug__point_slot(earlier->point)] < snug__point_operation(earlier->point)) {
        number = snug__move_derive(move_of(source), number ? number : move_of(source), to, bytes);
        snug__sim.report.shortages += number == 0;
    }
    return (uint64_t)number << 32;
}

/* The spans of a source, gathered before the target is changed: both lie in one map. */
static struct {
    snug__span *spans; /* starts: from the source's begin */
    uint32_t    count, max;
} gathered;

static bool gather(const snug__spans *tags, uint64_t from, uint64_t bytes) {
    snug__place place;
    gathered.count = 0;
    for (const snug__span *span = snug__spans_first(tags, &place, from); span;
         span                   = snug__spans_step(tags, &place, from + bytes)) {
        if (gathered.count == gathered.max) {
            uint32_t    max   = gathered.max ? gathered.max * 2 : 64;
            snug__span *spans = realloc(gathered.spans, max * sizeof *spans);
            if (!spans)
                return false;
            gathered.spans = spans;
            gathered.max   = max;
        }
        gathered.spans[gathered.count]       = *span;
        gathered.spans[gathered.count].start = span->start > from ? span->start - from : 0;
        gathered.count++;
    }
    return true;
}

void snug__contents_copy(snug__device *device, const snug__sim_op *op) {
    if (!gather(&device->tags, op->from, op->bytes)) {
        snug__sim.report.shortages++;
        return;
    }
    for (uint32_t i = 0; i < gathered.count; i++) {
        uint64_t    start = gathered.spans[i].start;
        uint64_t    bytes = (i + 1 < gathered.count ? gathered.spans[i + 1].start : op->bytes) - start;
        snug__words words = gathered.spans[i].words, target = words;
        target.b = uniform(words.a) ? 0 : words.b + op->to - op->from;
        target.c = version_of(words) | move_bits(words, op->move, op->to + start, bytes);
        put(device, op->to + start, bytes, target);
    }
}

void snug__contents_tear(snug__device *device, uint64_t to, uint64_t bytes, uint32_t move) {
    snug__place place;
    for (snug__span *span = snug__spans_first(&device->tags, &place, to); span;
         span             = snug__spans_step(&device->tags, &place, to + bytes)) {
        if (move_of(span->words) == move)
            span->words.c = version_of(span->words) | TORN;
    }
    snug__spans_join(&device->tags, to, to + bytes);
}
