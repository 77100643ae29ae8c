/* stream.c: streams and events of the simulated machine: queues, what has run, when it ends, what comes after what.
 *
 * When an operation ends is settled as it is enqueued: it begins at the end of what its stream holds, or now. What has run is
 * decided later, by the style; an operation is executed, as to contents, at that moment. The two needn't agree: a device may
 * be faster or slower than its profile, and no program may depend on either.
 *
 * Streams' structures are kept until the next setup, their slots handed on once all of their work has run. A slot's
 * operations go on being counted, so that events and points of an earlier stream stay what they were: complete. */
#include "sim.h"

#include <stdlib.h>

/* ------------------------------------------------------------------------------------------------ clocks */

static bool clock_widen(snug__clock *clock, uint32_t width) {
    if (clock->width >= width)
        return true;
    width                = (width + 15) / 16 * 16;
    uint64_t *operations = realloc(clock->operations, width * sizeof *operations);
    if (!operations)
        return false;
    memset(operations + clock->width, 0, (width - clock->width) * sizeof *operations);
    *clock = (snug__clock){operations, width};
    return true;
}

static bool clock_join(snug__clock *clock, const snug__clock *other) {
    if (!clock_widen(clock, other->width))
        return false;
    for (uint32_t slot = 0; slot < other->width; slot++)
        if (clock->operations[slot] < other->operations[slot])
            clock->operations[slot] = other->operations[slot];
    return true;
}

static void host_learns(const snug__clock *clock) { /* an event that is complete says so of all before it */
    for (uint32_t slot = 0; slot < clock->width; slot++)
        if (snug__sim.host[slot] < clock->operations[slot])
            snug__sim.host[slot] = clock->operations[slot];
}

/* ------------------------------------------------------------------------------------------------ streams */

static snug_sim_stream *slot_find(void) {
    for (uint32_t slot = 1; slot < snug__sim.slots; slot++)
        if (!snug__sim.streams[slot]->open && snug__sim.streams[slot]->done == snug__sim.streams[slot]->tail)
            return snug__sim.streams[slot];
    if (snug__sim.slots == SNUG__SIM_STREAMS_MAX)
        return NULL;
    snug_sim_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->slot                           = snug__sim.slots++;
    return snug__sim.streams[stream->slot] = stream;
}

snug_status snug__sim_stream_open(int role, snug_sim_stream **stream) {
    snug_sim_stream *made = slot_find();
    if (!made) {
        snug__device_error_set("no room for another stream");
        return SNUG_NO_MEMORY;
    }
    made->open   = true;
    made->number = ++snug__sim.streams_made;
    made->role   = role;
    made->born   = made->tail;
    made->end_ns = snug__sim.now_ns;
    made->haste  = (uint32_t)(snug__sim_random() & 255);
    memset(made->held_ns, 0, sizeof made->held_ns);
    if (made->clock.width)
        memset(made->clock.operations, 0, made->clock.width * sizeof *made->clock.operations);
    *stream = made;
    return SNUG_OK;
}

void snug__sim_stream_close(snug_sim_stream *stream) {
    stream->open = false;
}

bool snug__sim_stream_valid(const snug_sim_stream *stream) {
    for (uint32_t slot = 1; slot < snug__sim.slots; slot++)
        if (snug__sim.streams[slot] == stream)
            return stream->open;
    return false;
}

void snug__sim_streams_free(void) {
    for (uint32_t slot = 1; slot < snug__sim.slots; slot++) {
        free(snug__sim.streams[slot]->clock.operations);
        free(snug__sim.streams[slot]->ops);
        free(snug__sim.streams[slot]->touches);
        free(snug__sim.streams[slot]);
        snug__sim.streams[slot] = NULL;
    }
    snug__sim.slots = 1;
}

static bool stalled(const snug_sim_stream *stream) {
    for (uint32_t i = 0; i < snug__sim.stalled_count; i++)
        if (snug__sim.stalled[i] == stream->number)
            return true;
    return false;
}

/* ------------------------------------------------------------------------------------------------ running */

static bool reached(snug__point point) {
    return snug__sim.streams[snug__point_slot(point)]->done >= snug__point_operation(point);
}

static snug__sim_op *oldest(const snug_sim_stream *stream) {
    return &stream->ops[stream->done % stream->ops_max];
}

static void kernel_execute(snug_sim_stream *stream, const snug__sim_op *op) {
    for (int writes = 0; writes < 2; writes++)
        for (uint32_t i = 0; i < op->touches; i++) {
            snug__sim_touch *touch  = &stream->touches[(stream->touches_done + i) % stream->touches_max];
            snug__device    *device = snug__sim_device(touch->device, touch->life);
            if (!device || touch->write != writes)
                continue;
            if (touch->version == SNUG_SIM_ENTRY)
                snug__contents_entry(device, stream, touch);
            else if (writes)
                snug__contents_write(device, touch);
            else
                snug__contents_read(device, stream, touch);
        }
    stream->touches_done += op->touches;
}

static void execute(snug_sim_stream *stream) {
    const snug__sim_op *op     = oldest(stream);
    snug__device       *device = op->kind == SNUG__SIM_KERNEL ? NULL : snug__sim_device(op->device, op->life);
    if (op->kind == SNUG__SIM_KERNEL)
        kernel_execute(stream, op);
    else if (op->kind == SNUG__SIM_PUT && device)
        snug__contents_put(device, op->to, op->from);
    else if (op->kind != SNUG__SIM_WAIT && device)
        snug__contents_copy(device, op);
    stream->done++;
    snug__sim.report.executed++;
}

static bool can_execute(const snug_sim_stream *stream) {
    return oldest(stream)->kind != SNUG__SIM_WAIT || reached(oldest(stream)->from);
}

/* Runs what the point needs, and of that alone. False: *culprit is stalled. */
static bool run_to(snug__point point, const snug_sim_stream **culprit) {
    while (!reached(point)) {
        snug__point      need   = point;
        snug_sim_stream *stream = snug__sim.streams[snug__point_slot(need)];
        while (!can_execute(stream)) { /* ends: a wait names what was enqueued before it */
            need   = oldest(stream)->from;
            stream = snug__sim.streams[snug__point_slot(need)];
        }
        if (snug__sim.stalled_count && stalled(stream)) {
            *culprit = stream;
            return false;
        }
        while (!reached(need) && can_execute(stream))
            execute(stream);
    }
    return true;
}

/* RANDOM: some stream runs a little, if it feels like it. Moods change. */
static void run_some(void) {
    uint64_t roll = snug__sim_random();
    if (roll & 1)
        return;
    uint32_t         slot   = 1 + (uint32_t)(roll >> 32) % (snug__sim.slots - 1);
    snug_sim_stream *stream = snug__sim.streams[slot];
    if ((roll >> 8 & 255) >= stream->haste)
        return;
    if ((roll >> 16 & 63) == 0)
        stream->haste = (uint32_t)(roll >> 24 & 255);
    if (snug__sim.stalled_count && stalled(stream))
        return;
    for (unsigned n = 1 + (unsigned)(roll >> 1 & 7); n > 0 && stream->done < stream->tail && can_execute(stream); n--)
        execute(stream);
}

static snug_status timed_out(const snug_sim_stream *culprit) {
    snug__sim.now_ns += snug__sim.options.timeout_ns;
    snug__device_error_set("stream %u%s is stalled: operation %llu of %llu has not run", culprit->number,
                           culprit->role == SNUG__SIM_LOW    ? " (background mover)"
                           : culprit->role == SNUG__SIM_HIGH ? " (demand mover)"
                                                             : "",
                           (unsigned long long)(culprit->done - culprit->born + 1),
                           (unsigned long long)(culprit->tail - culprit->born));
    return SNUG_TIMEOUT;
}

/* ------------------------------------------------------------------------------------------------ enqueuing */

/* A ring twice as long, its content at the same positions modulo the new length. */
static void *ring_double(void *ring, uint32_t max, size_t size, uint64_t first, uint64_t end) {
    char *longer = malloc((size_t)max * 2 * size);
    if (!longer)
        return NULL;
    for (uint64_t at = first; at < end; at++)
        memcpy(longer + at % (max * 2) * size, (char *)ring + at % max * size, size);
    free(ring);
    return longer;
}

/* Room for one more operation with so many touches. A full stream waits for its oldest. */
static snug_status ring_room(snug_sim_stream *stream, size_t touches) {
    const snug_sim_stream *culprit = NULL;
    if (stream->tail - stream->done == SNUG_SIM_QUEUE_MAX) {
        uint64_t end_ns = oldest(stream)->end_ns;
        if (!run_to(snug__point_of(stream->slot, stream->done + 1), &culprit))
            return timed_out(culprit);
        if (snug__sim.now_ns < end_ns)
            snug__sim.now_ns = end_ns;
    }
    if (stream->tail - stream->done == stream->ops_max) {
        uint32_t max = stream->ops_max ? stream->ops_max : 8;
        void    *ops = ring_double(stream->ops, max, sizeof *stream->ops, stream->done, stream->tail);
        if (!ops)
            return SNUG_NO_MEMORY;
        stream->ops     = ops;
        stream->ops_max = max * 2;
    }
    while (stream->touches_tail - stream->touches_done + touches > stream->touches_max) {
        uint32_t max = stream->touches_max ? stream->touches_max : 8;
        void    *ring =
            ring_double(stream->touches, max, sizeof *stream->touches, stream->touches_done, stream->touches_tail);
        if (!ring)
            return SNUG_NO_MEMORY;
        stream->touches     = ring;
        stream->touches_max = max * 2;
    }
    return SNUG_OK;
}

static void enqueue(snug_sim_stream *stream, snug__sim_op op, uint64_t duration_ns) {
    if (stream->end_ns < snug__sim.now_ns)
        stream->end_ns = snug__sim.now_ns;
    stream->end_ns += duration_ns;
    op.end_ns                                   = stream->end_ns;
    stream->ops[stream->tail % stream->ops_max] = op;
    stream->tail++;
    if (op.kind != SNUG__SIM_WAIT && op.kind != SNUG__SIM_PUT)
        memset(stream->held_ns, 0, sizeof stream->held_ns);
    const snug_sim_stream *culprit;
    if (snug__sim.options.style == SNUG_SIM_EAGER)
        run_to(snug__point_of(stream->slot, stream->tail), &culprit);
    else if (snug__sim.options.style == SNUG_SIM_RANDOM)
        run_some();
}

snug_status snug__sim_kernel(snug_sim_stream *stream, const snug__sim_touch *touches, size_t n, uint64_t duration_ns) {
    snug_status status = ring_room(stream, n);
    if (status != SNUG_OK)
        return status;
    for (int writes = 0; writes < 2; writes++)
        for (size_t i = 0; i < n; i++)
            if (touches[i].write == writes && touches[i].version != SNUG_SIM_ENTRY)
                snug__check_touch(snug__sim.devices[touches[i].device], stream, touches[i].offset, touches[i].bytes,
                                  writes);
    for (size_t i = 0; i < n; i++)
        stream->touches[stream->touches_tail++ % stream->touches_max] = touches[i];
    snug__sim.report.kernels++;
    enqueue(stream, (snug__sim_op){.kind = SNUG__SIM_KERNEL, .touches = (uint32_t)n}, duration_ns);
    return SNUG_OK;
}

static uint64_t copy_ns(const snug__device *device, uint64_t bytes) {
    return device->profile->copy_overhead_ns +
           (uint64_t)((double)bytes * 1e9 / (double)device->profile->copy_bytes_per_second);
}

snug_status snug__sim_copy(snug__device *device, snug_sim_stream *stream, bool move, uint64_t to, uint64_t from,
                           uint64_t bytes) {
    snug_status status = ring_room(stream, 0);
    if (status != SNUG_OK)
        return status;
    snug__sim_op op = {.kind   = move ? SNUG__SIM_MOVE : SNUG__SIM_COPY,
                       .device = device->index,
                       .life   = device->life,
                       .to     = to,
                       .from   = from,
                       .bytes  = bytes};
    if (to < from + bytes && from < to + bytes)
        snug__sim_violate(SNUG_SIM_OVERLAP, "stream %u copies %llu bytes from %#llx to %#llx", stream->number,
                          (unsigned long long)bytes, (unsigned long long)from, (unsigned long long)to);
    if (move && !(op.move = snug__check_move(device, stream, to, from, bytes)))
        return SNUG_NO_MEMORY;
    if (!move)
        snug__check_touch(device, stream, from, bytes, false);
    snug__check_touch(device, stream, to, bytes, true);
    snug__sim.report.copies++;
    snug__sim.report.moves += move;
    snug__sim.report.copied_bytes += bytes;
    enqueue(stream, op, copy_ns(device, bytes));
    return SNUG_OK;
}

snug_status snug__sim_put(snug__device *device, snug_sim_stream *stream, uint64_t to, uint64_t value) {
    snug_status status = ring_room(stream, 0);
    if (status == SNUG_OK)
        enqueue(stream,
                (snug__sim_op){
                    .kind = SNUG__SIM_PUT, .device = device->index, .life = device->life, .to = to, .from = value},
                0);
    return status;
}

/* ------------------------------------------------------------------------------------------------ events */

void snug__sim_event_free(snug__event *event) {
    free(event->clock.operations);
    free(event);
}

snug_status snug__sim_record(snug__event *event, snug_sim_stream *stream) {
    if (!clock_widen(&event->clock, snug__sim.slots) || !clock_widen(&stream->clock, stream->slot + 1))
        return SNUG_NO_MEMORY;
    uint32_t width = stream->clock.width < event->clock.width ? stream->clock.width : event->clock.width;
    memset(event->clock.operations + width, 0, (event->clock.width - width) * sizeof *event->clock.operations);
    memcpy(event->clock.operations, stream->clock.operations, width * sizeof *event->clock.operations);
    event->clock.operations[stream->slot] = stream->tail;
    event->point                          = snug__point_of(stream->slot, stream->tail);
    event->role                           = stream->role;
    event->end_ns                         = stream->end_ns;
    event->answers                        = 0;
    event->known                          = false;
    return SNUG_OK;
}

/* Promise 8: does the stream, by waiting for the background mover, wait for another client's work? */
static void cross_wait_look(const snug_sim_stream *stream, const snug__event *event) {
    for (uint32_t slot = 1; slot < event->clock.width && slot < snug__sim.slots; slot++) {
        uint64_t operation = event->clock.operations[slot];
        if (slot == stream->slot || snug__sim.streams[slot]->role != SNUG__SIM_CLIENT ||
            operation <= snug__sim.host[slot] || operation <= snug__clock_at(&stream->clock, slot))
            continue;
        if (snug__sim.report.cross_waits++ == 0)
            snprintf(snug__sim.report.cross_wait_text, SNUG_SIM_TEXT_MAX,
                     "at %llu ns: stream %u waits for stream %u (background mover), which waits for stream %u",
                     (unsigned long long)snug__sim.now_ns, stream->number,
                     snug__sim.streams[snug__point_slot(event->point)]->number, snug__sim.streams[slot]->number);
        return;
    }
}

/* How long the movers keep the stream from what it could do. */
static void count_hold(snug_sim_stream *stream, const snug__event *event) {
    uint64_t ready = stream->end_ns > snug__sim.now_ns ? stream->end_ns : snug__sim.now_ns;
    if (event->end_ns <= ready)
        return;
    if (snug__sim.now_ns > stream->end_ns) /* what held it before is over, and nobody enqueued anything behind it */
        memset(stream->held_ns, 0, sizeof stream->held_ns);
    int which = event->role == SNUG__SIM_LOW ? SNUG_SIM_BACKGROUND : SNUG_SIM_DEMAND;
    stream->held_ns[which] += event->end_ns - ready;
    snug__sim.report.mover_wait_ns[which] += event->end_ns - ready;
    if (snug__sim.report.mover_wait_max_ns[which] < stream->held_ns[which])
        snug__sim.report.mover_wait_max_ns[which] = stream->held_ns[which];
}

snug_status snug__sim_wait(snug_sim_stream *stream, const snug__event *event) {
    /* of the slot's earlier lives it knows nothing, though their work has run */
    bool own = snug__point_slot(event->point) == stream->slot && snug__point_operation(event->point) > stream->born;
    if (!event->point || event->known || own)
        return SNUG_OK;
    snug_status status = reached(event->point) ? SNUG_OK : ring_room(stream, 0);
    if (status != SNUG_OK)
        return status;
    if (stream->role == SNUG__SIM_CLIENT && event->role == SNUG__SIM_LOW)
        cross_wait_look(stream, event);
    if (stream->role == SNUG__SIM_CLIENT && event->role != SNUG__SIM_CLIENT)
        count_hold(stream, event);
    if (!clock_join(&stream->clock, &event->clock))
        return SNUG_NO_MEMORY;
    if (stream->end_ns < event->end_ns)
        stream->end_ns = event->end_ns;
    if (!reached(event->point))
        enqueue(stream, (snug__sim_op){.kind = SNUG__SIM_WAIT, .from = event->point}, 0);
    return SNUG_OK;
}

/* Shall the work before the event be found done, the style and the seed being what they are? */
static bool inclined(const snug__event *event) {
    if (event->answers >= snug__sim.options.patience)
        return true;
    switch (snug__sim.options.style) {
    case SNUG_SIM_TIMED: return event->end_ns <= snug__sim.now_ns;
    case SNUG_SIM_RANDOM:
        run_some();
        return (snug__sim_random() & 511) < snug__sim.streams[snug__point_slot(event->point)]->haste;
    default: return snug__sim.options.style == SNUG_SIM_EAGER;
    }
}

bool snug__sim_query(snug__event *event) {
    if (!event->point || event->known)
        return true;
    const snug_sim_stream *culprit;
    if (!(inclined(event) && run_to(event->point, &culprit)) && !reached(event->point)) {
        event->answers++;
        return false;
    }
    if (snug__sim.options.style == SNUG_SIM_TIMED && snug__sim.now_ns < event->end_ns) {
        if (event->answers < snug__sim.options.patience) { /* run for somebody else's sake, and before its time */
            event->answers++;
            return false;
        }
        snug__sim.now_ns = event->end_ns;
    }
    host_learns(&event->clock);
    event->known = true;
    return true;
}

snug_status snug__sim_event_sync(snug__event *event) {
    const snug_sim_stream *culprit = NULL;
    if (!event->point)
        return SNUG_OK;
    if (!run_to(event->point, &culprit))
        return timed_out(culprit);
    if (snug__sim.now_ns < event->end_ns)
        snug__sim.now_ns = event->end_ns;
    host_learns(&event->clock);
    event->known = true;
    return SNUG_OK;
}

snug_status snug__sim_stream_sync(snug_sim_stream *stream) {
    const snug_sim_stream *culprit = NULL;
    if (!run_to(snug__point_of(stream->slot, stream->tail), &culprit))
        return timed_out(culprit);
    if (snug__sim.now_ns < stream->end_ns)
        snug__sim.now_ns = stream->end_ns;
    host_learns(&stream->clock);
    snug__sim.host[stream->slot] = stream->tail;
    return SNUG_OK;
}
