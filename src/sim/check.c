/* check.c: the order checker. It looks at operations as they are enqueued, so that what it finds depends on the program alone
 * and not on what the device happens to run when.
 *
 * Of each byte it keeps the last write and the reads since: later writes come after earlier ones, or have been reported. A
 * read that comes before another read needn't be kept, unless the later one is a mover's, which a write may race with.
 * What the host knows to be complete comes before everything, and is dropped: where work settles, spans merge.
 *
 * Words of a span: a, the point of the last write; b, that of the read, or the address of a set of reads, which is the
 * span's own; c, the number of the move that reads, if it is one read and a move's. */
#include "sim.h"

#include <stdlib.h>

typedef struct read_point {
    snug__point point;
    uint32_t    move; /* number of its record; 0: a client's read */
} read_point;

typedef struct read_set {
    uint32_t   count, max;
    read_point reads[];
} read_set;

enum { READS_MAX = 1024 }; /* of one span; beyond, the oldest is forgotten */

static bool settled(snug__point point) {
    return snug__sim.host[snug__point_slot(point)] >= snug__point_operation(point);
}

/* Does what the stream enqueues next come after the point? */
static bool before(snug__point point, const snug_sim_stream *stream) {
    uint32_t slot      = snug__point_slot(point);
    uint64_t operation = snug__point_operation(point);
    if (snug__sim.host[slot] >= operation || snug__clock_at(&stream->clock, slot) >= operation)
        return true;
    return slot == stream->slot && operation > stream->born;
}

static uint32_t number_of(snug__point point) {
    return snug__sim.streams[snug__point_slot(point)]->number;
}

/* ------------------------------------------------------------------------------------------------ moves */

static bool moves_grow(void) {
    uint32_t        max  = snug__sim.moves_max ? snug__sim.moves_max * 2 : 64;
    snug__sim_move *ring = malloc(max * sizeof *ring);
    if (!ring)
        return false;
    for (uint32_t at = snug__sim.moves_first; at < snug__sim.moves_end; at++)
        ring[at % max] = snug__sim.moves[at % snug__sim.moves_max];
    free(snug__sim.moves);
    snug__sim.moves     = ring;
    snug__sim.moves_max = max;
    return true;
}

/* Records of moves that the host knows to be complete: nothing can tear them any more. */
static void moves_retire(void) {
    while (snug__sim.moves_first < snug__sim.moves_end) {
        snug__sim_move *move = &snug__sim.moves[snug__sim.moves_first % snug__sim.moves_max];
        if (!settled(move->point))
            return;
        snug__device *device = snug__sim_device(move->device, move->life);
        if (move->torn && device)
            snug__contents_tear(device, move->to, move->bytes, snug__sim.moves_first);
        snug__sim.moves_derived -= move->parents[0] != 0;
        snug__sim.moves_first++;
    }
}

static uint32_t move_add(snug__sim_move move) {
    if (snug__sim.moves_end - snug__sim.moves_first == snug__sim.moves_max && !moves_grow())
        return 0;
    snug__sim.moves[snug__sim.moves_end % snug__sim.moves_max] = move;
    return snug__sim.moves_end++;
}

uint32_t snug__move_derive(uint32_t first, uint32_t second, uint64_t to, uint64_t bytes) {
    snug__sim_move move = *snug__move_record(second);
    move.torn |= snug__move_record(first)->torn;
    move.used       = false;
    move.to         = to;
    move.bytes      = bytes;
    move.parents[0] = first;
    move.parents[1] = second;
    uint32_t number = move_add(move);
    snug__sim.moves_derived += number != 0;
    return number;
}

bool snug__move_use(uint32_t number) {
    snug__sim_move *move = snug__move_record(number);
    if (!move)
        return false;
    move->used = true;
    for (int i = 0; i < 2; i++)
        if (move->parents[i])
            snug__move_use(move->parents[i]);
    return move->torn;
}

static void move_tear_one(snug__sim_move *move, uint32_t writer) {
    if (move->torn)
        return;
    move->torn = true;
    snug__sim.report.torn_moves += !move->parents[0];
    if (move->used && !move->parents[0])
        snug__sim_violate(SNUG_SIM_TORN,
                          "stream %u writes what stream %u's move of %llu bytes to %#llx reads, and the copy is in use",
                          writer, number_of(move->point), (unsigned long long)move->bytes,
                          (unsigned long long)move->to);
}

/* Its source is written by work that isn't ordered with it. */
static void move_tear(uint32_t number, uint32_t writer) {
    snug__sim_move *move = snug__move_record(number);
    if (!move)
        return;
    move_tear_one(move, writer);
    for (uint32_t later = number + 1; snug__sim.moves_derived && later < snug__sim.moves_end; later++) {
        snug__sim_move *derived = snug__move_record(later);
        for (int i = 0; i < 2; i++)
            if (derived->parents[i] && snug__move_record(derived->parents[i]) &&
                snug__move_record(derived->parents[i])->torn)
                move_tear_one(derived, writer);
    }
}

/* ------------------------------------------------------------------------------------------------ sets of reads */

static read_set *set_of(const snug__span *span) {
    bool is_set = span->words.b && snug__point_slot(span->words.b) == 0;
    return is_set ? (read_set *)(uintptr_t)span->words.b : NULL;
}

/* The reads of a span, as an array. single: room for one. */
static uint32_t reads_of(const snug__span *span, read_point *single, read_point **reads) {
    read_set *set = set_of(span);
    *single       = (read_point){span->words.b, (uint32_t)span->words.c};
    *reads        = set ? set->reads : single;
    return set ? set->count : span->words.b != 0;
}

static void reads_drop(snug__span *span) {
    free(set_of(span));
    span->words.b = span->words.c = 0;
}

/* A set of one or none becomes words. */
static void set_shrink(snug__span *span) {
    read_set *set = set_of(span);
    if (!set || set->count > 1)
        return;
    read_point last = set->count ? set->reads[0] : (read_point){0, 0};
    free(set);
    span->words.b = last.point;
    span->words.c = last.move;
}

static void reads_add(snug__span *span, read_point read) {
    read_set *set = set_of(span);
    if (!span->words.b) {
        span->words.b = read.point;
        span->words.c = read.move;
        return;
    }
    uint32_t count = set ? set->count : 1;
    if (!set || count == set->max) {
        uint32_t  max  = count * 2 < READS_MAX ? count * 2 : READS_MAX;
        read_set *made = max > count ? malloc(sizeof *made + max * sizeof *made->reads) : NULL;
        snug__sim.report.shortages += max > count && !made;
        if (made) {
            read_point single, *reads;
            made->count = reads_of(span, &single, &reads);
            made->max   = max;
            memcpy(made->reads, reads, count * sizeof *reads);
            free(set);
            set           = made;
            span->words.b = (uint64_t)(uintptr_t)made;
            span->words.c = 0;
        }
    }
    if (!set) {
        span->words.b = read.point;
        span->words.c = read.move;
    } else if (set->count == set->max) {
        memmove(set->reads, set->reads + 1, (set->count - 1) * sizeof *set->reads);
        set->reads[set->count - 1] = read;
    } else {
        set->reads[set->count++] = read;
    }
}

/* Drops the reads that have settled, and, after a client's read by the stream, those that come before it. */
static void reads_thin(snug__span *span, const snug_sim_stream *stream) {
    read_set  *set = set_of(span);
    read_point single, *reads;
    uint32_t   count = reads_of(span, &single, &reads), kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!(settled(reads[i].point) || (stream && before(reads[i].point, stream))))
            reads[kept++] = reads[i];
    if (set)
        set->count = kept;
    else if (!kept)
        reads_drop(span);
    set_shrink(span);
}

static void span_settle(snug__span *span) {
    if (span->words.a && settled(span->words.a))
        span->words.a = 0;
    if (span->words.b)
        reads_thin(span, NULL);
}

/* ------------------------------------------------------------------------------------------------ spans */

/* A cut leaves both parts with the same set: the second gets its own. */
static bool accesses_cut(snug__device *device, uint64_t offset) {
    bool made;
    if (!snug__spans_cut(&device->accesses, offset, &made))
        return false;
    snug__span *span = snug__spans_at(&device->accesses, snug__spans_find(&device->accesses, offset));
    read_set   *set  = set_of(span);
    if (!made || !set)
        return true;
    read_set *copy = malloc(sizeof *copy + set->count * sizeof *copy->reads);
    if (!copy) {
        span->words.b = span->words.c = 0;
        return false;
    }
    memcpy(copy->reads, set->reads, set->count * sizeof *copy->reads);
    copy->count = copy->max = set->count;
    span->words.b           = (uint64_t)(uintptr_t)copy;
    return true;
}

static void sweep(snug__device *device) {
    if (device->accesses.count < device->accesses_sweep)
        return;
    snug__place place;
    for (snug__span *span = snug__spans_first(&device->accesses, &place, 0); span;
         span             = snug__spans_step(&device->accesses, &place, UINT64_MAX))
        span_settle(span);
    snug__spans_join(&device->accesses, 0, UINT64_MAX);
    device->accesses_sweep = device->accesses.count * 2 + 4096;
}

static void report_unordered(const snug__device *device, const snug_sim_stream *stream, const char *does,
                             const char *other, snug__point point, uint64_t offset, uint64_t bytes) {
    snug__sim_violate(SNUG_SIM_UNORDERED, "stream %u %s [%#llx, +%llu) of device %u, not ordered with stream %u's %s",
                      stream->number, does, (unsigned long long)offset, (unsigned long long)bytes, device->index,
                      number_of(point), other);
}

static void check_committed(snug__device *device, const snug_sim_stream *stream, uint64_t offset, uint64_t bytes) {
    snug__place place = snug__spans_find(&device->committed, offset);
    if (!snug__spans_at(&device->committed, place)->words.a ||
        snug__spans_end(&device->committed, place) - offset < bytes)
        snug__sim_violate(SNUG_SIM_UNCOMMITTED, "stream %u uses [%#llx, +%llu) of device %u", stream->number,
                          (unsigned long long)offset, (unsigned long long)bytes, device->index);
}

/* The first unordered read of the span, 0: none; moves among them are torn. */
static snug__point reads_check(snug__span *span, const snug_sim_stream *stream) {
    read_point  single, *reads;
    snug__point found = 0;
    uint32_t    count = reads_of(span, &single, &reads);
    for (uint32_t i = 0; i < count; i++) {
        if (before(reads[i].point, stream))
            continue;
        if (reads[i].move)
            move_tear(reads[i].move, stream->number);
        else if (!found)
            found = reads[i].point;
    }
    return found;
}

static void touch_write(snug__device *device, const snug_sim_stream *stream, uint64_t offset, uint64_t bytes) {
    snug__point write = 0, read = 0;
    if (!accesses_cut(device, offset) || !accesses_cut(device, offset + bytes)) {
        snug__sim.report.shortages++;
        return;
    }
    snug__place place;
    for (snug__span *span = snug__spans_first(&device->accesses, &place, offset); span;
         span             = snug__spans_step(&device->accesses, &place, offset + bytes)) {
        if (!write && span->words.a && !before(span->words.a, stream))
            write = span->words.a;
        snug__point found = reads_check(span, stream);
        read              = read ? read : found;
        reads_drop(span);
    }
    if (write)
        report_unordered(device, stream, "writes", "write", write, offset, bytes);
    else if (read)
        report_unordered(device, stream, "writes", "read", read, offset, bytes);
    snug__spans_set(&device->accesses, offset, offset + bytes,
                    (snug__words){snug__point_of(stream->slot, stream->tail + 1), 0, 0});
}

/* The last unordered write; 0: none. */
static snug__point touch_read(snug__device *device, const snug_sim_stream *stream, uint64_t offset, uint64_t bytes,
                              uint32_t move) {
    read_point  read  = {snug__point_of(stream->slot, stream->tail + 1), move};
    snug__point found = 0;
    if (!accesses_cut(device, offset) || !accesses_cut(device, offset + bytes)) {
        snug__sim.report.shortages++;
        return 0;
    }
    snug__place place;
    for (snug__span *span = snug__spans_first(&device->accesses, &place, offset); span;
         span             = snug__spans_step(&device->accesses, &place, offset + bytes)) {
        span_settle(span);
        if (span->words.a && !before(span->words.a, stream))
            found = span->words.a;
        if (!move && span->words.b)
            reads_thin(span, stream);
        reads_add(span, read);
    }
    snug__spans_join(&device->accesses, offset, offset + bytes);
    return found;
}

void snug__check_touch(snug__device *device, const snug_sim_stream *stream, uint64_t offset, uint64_t bytes,
                       bool write) {
    check_committed(device, stream, offset, bytes);
    if (write) {
        touch_write(device, stream, offset, bytes);
    } else {
        snug__point found = touch_read(device, stream, offset, bytes, 0);
        if (found)
            report_unordered(device, stream, "reads", "write", found, offset, bytes);
    }
    sweep(device);
}

uint32_t snug__check_move(snug__device *device, const snug_sim_stream *stream, uint64_t to, uint64_t from,
                          uint64_t bytes) {
    moves_retire();
    uint32_t number = move_add((snug__sim_move){.point  = snug__point_of(stream->slot, stream->tail + 1),
                                                .device = device->index,
                                                .life   = device->life,
                                                .to     = to,
                                                .bytes  = bytes});
    if (!number)
        return 0;
    check_committed(device, stream, from, bytes);
    snug__point found = touch_read(device, stream, from, bytes, number);
    if (found) /* a write is on its way that cancels the move, or has: then nobody uses the copy */
        move_tear(number, number_of(found));
    return number;
}

void snug__check_decommit(snug__device *device, uint64_t offset, uint64_t bytes) {
    snug__point user = 0;
    if (!accesses_cut(device, offset) || !accesses_cut(device, offset + bytes)) {
        snug__sim.report.shortages++;
        return;
    }
    snug__place place;
    for (snug__span *span = snug__spans_first(&device->accesses, &place, offset); span;
         span             = snug__spans_step(&device->accesses, &place, offset + bytes)) {
        read_point single, *reads;
        span_settle(span);
        if (!user && reads_of(span, &single, &reads))
            user = reads[0].point;
        if (!user)
            user = span->words.a;
        reads_drop(span);
    }
    if (user)
        snug__sim_violate(SNUG_SIM_DECOMMIT, "[%#llx, +%llu) of device %u, which stream %u uses",
                          (unsigned long long)offset, (unsigned long long)bytes, device->index, number_of(user));
    snug__spans_set(&device->accesses, offset, offset + bytes, (snug__words){0, 0, 0});
}

void snug__check_close(snug__device *device) {
    snug__place place;
    for (snug__span *span = snug__spans_first(&device->accesses, &place, 0); span;
         span             = snug__spans_step(&device->accesses, &place, UINT64_MAX))
        reads_drop(span);
    snug__spans_close(&device->accesses);
}
