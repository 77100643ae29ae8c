/* manual_device.h - a device for fuzzing: host memory, as the host row's, but its streams have no threads. What is enqueued runs
 * when the target says so, or when something waits for it on the host; its clock is counted, not read. So an input does the
 * same every time, work is as late as the input decides, and a pool costs little.
 * It notices every touch of bytes that aren't committed. One arena at a time; commits go by 16 granules. */
#ifndef SNUG_TESTS_FUZZ_MANUAL_DEVICE_H
#define SNUG_TESTS_FUZZ_MANUAL_DEVICE_H

#include "device.h"

#include <string.h>
#include <sys/mman.h>

enum { FD_STREAMS = 6, FD_QUEUE = 1024, FD_GRANULES_MAX = 64, FD_COMMIT_GRANULES = 16, FD_JUNK = 0xd1 };

/* A kernel: looks whether check bytes are as expected where defined says so, then sets put bytes to value. */
typedef struct fd_kernel {
    unsigned char       *at;
    const unsigned char *expected, *defined;
    uint32_t             check, from, put;
    unsigned char        value;
    const char          *what;
} fd_kernel;

typedef struct fd_op {
    enum { FD_COPY, FD_FILL, FD_PUT, FD_WAIT, FD_KERNEL } kind;
    void             *to;
    const void       *from;
    uint64_t          bytes, until;
    int               byte;
    struct fd_stream *stream;
    fd_kernel         kernel;
} fd_op;

typedef struct fd_stream {
    bool     open;
    uint64_t done, tail;
    fd_op    ops[FD_QUEUE];
} fd_stream;

struct snug__event {
    fd_stream *stream;
    uint64_t   until;
};

struct snug__device {
    char *base;
};

static struct {
    fd_stream streams[FD_STREAMS];
    char     *memory; /* mapped once */
    uint64_t  bytes, reserved, now;
    bool      committed[FD_GRANULES_MAX], bounce;
} fd;

FUZZ_MODEL static void fd_touch(const void *address, uint64_t bytes) {
    if ((const char *)address < fd.memory || (const char *)address >= fd.memory + fd.bytes)
        return; /* the client's */
    uint64_t offset = (uint64_t)((const char *)address - fd.memory);
    if (offset >= SNUG_ALIGNMENT_MAX) {
        EXPECT(fd.bounce && offset + bytes <= fd.reserved, "touched beyond the arena");
        return;
    }
    for (uint64_t i = offset / SNUG_GRANULE; bytes && i <= (offset + bytes - 1) / SNUG_GRANULE; i++)
        EXPECT(i < FD_GRANULES_MAX && fd.committed[i], "granule %llu is touched and not committed",
               (unsigned long long)i);
}

static inline void fd_run(fd_stream *stream, uint64_t until);

FUZZ_MODEL static void fd_run_op(const fd_op *op) {
    switch (op->kind) {
    case FD_COPY:
        fd_touch(op->to, op->bytes);
        fd_touch(op->from, op->bytes);
        memcpy(op->to, op->from, op->bytes);
        break;
    case FD_FILL:
        fd_touch(op->to, op->bytes);
        memset(op->to, op->byte, op->bytes);
        break;
    case FD_PUT:
        fd_touch(op->to, sizeof op->until);
        memcpy(op->to, &op->until, sizeof op->until);
        break;
    case FD_WAIT: fd_run(op->stream, op->until); break;
    default:
        fd_touch(op->kernel.at, op->kernel.check);
        for (uint32_t i = 0; i < op->kernel.check; i++)
            EXPECT(!op->kernel.defined[i] || op->kernel.at[i] == op->kernel.expected[i],
                   "%s: byte %u is %02x instead of %02x", op->kernel.what, i, op->kernel.at[i], op->kernel.expected[i]);
        fd_touch(op->kernel.at + op->kernel.from, op->kernel.put);
        if (op->kernel.put)
            memset(op->kernel.at + op->kernel.from, op->kernel.value, op->kernel.put);
    }
}

static inline void fd_run(fd_stream *stream, uint64_t until) {
    while (stream->done < until) {
        fd_run_op(&stream->ops[stream->done % FD_QUEUE]);
        stream->done++;
    }
}

static inline void fd_enqueue(fd_stream *stream, fd_op op) {
    if (stream->tail - stream->done == FD_QUEUE)
        fd_run(stream, stream->done + 1);
    stream->ops[stream->tail++ % FD_QUEUE] = op;
}

static inline void fd_wait_stream(fd_stream *stream, fd_stream *other) {
    fd_enqueue(stream, (fd_op){.kind = FD_WAIT, .stream = other, .until = other->tail});
}

static inline fd_stream *fd_stream_open(void) {
    for (unsigned i = 0; i < FD_STREAMS; i++)
        if (!fd.streams[i].open) {
            fd.streams[i].open = true;
            return &fd.streams[i];
        }
    return NULL;
}

static inline void fd_stream_close(fd_stream *stream) {
    fd_run(stream, stream->tail);
    stream->open = false;
}

/* ------------------------------------------------------------------------------------------------ the row */

static snug_status fd_open(int index, snug__device **device) {
    (void)index;
    return (*device = calloc(1, sizeof **device)) ? SNUG_OK : SNUG_NO_MEMORY;
}

static void fd_close(snug__device *device) {
    free(device);
}

static snug_status fd_arena_reserve(snug__device *device, uint64_t bytes) {
    if (!fd.memory) {
        fd.bytes = SNUG_ALIGNMENT_MAX + (64 << 10);
        char *room =
            mmap(NULL, fd.bytes + SNUG_ALIGNMENT_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT(room != MAP_FAILED, "no memory for the arena");
        fd.memory = room + (SNUG_ALIGNMENT_MAX - (uintptr_t)room % SNUG_ALIGNMENT_MAX) % SNUG_ALIGNMENT_MAX;
    }
    EXPECT(bytes <= fd.bytes && !fd.reserved, "the arena is too large, or not the only one");
    fd.reserved  = bytes;
    device->base = fd.memory;
    memset(fd.committed, 0, sizeof fd.committed);
    fd.bounce = false;
    return SNUG_OK;
}

static void fd_arena_release(snug__device *device) {
    device->base = NULL;
    fd.reserved  = 0;
}

static uint64_t fd_commit_granule(snug__device *device) {
    (void)device;
    return FD_COMMIT_GRANULES * SNUG_GRANULE;
}

static snug_status fd_commit(uint64_t offset, uint64_t bytes, bool on) {
    if (offset >= SNUG_ALIGNMENT_MAX) {
        fd.bounce = on;
        return SNUG_OK;
    }
    EXPECT(offset % (FD_COMMIT_GRANULES * SNUG_GRANULE) == 0 && bytes % SNUG_GRANULE == 0,
           "a piece off the commit granule");
    for (uint64_t i = offset / SNUG_GRANULE; i < (offset + bytes) / SNUG_GRANULE; i++) {
        EXPECT(i < FD_GRANULES_MAX && fd.committed[i] != on, "granule %llu: committed %d twice", (unsigned long long)i,
               on);
        fd.committed[i] = on;
    }
    memset(fd.memory + offset, FD_JUNK, bytes);
    return SNUG_OK;
}

static snug_status fd_arena_commit(snug__device *device, uint64_t offset, uint64_t bytes) {
    (void)device;
    return fd_commit(offset, bytes, true);
}

static snug_status fd_arena_decommit(snug__device *device, uint64_t offset, uint64_t bytes) {
    (void)device;
    return fd_commit(offset, bytes, false);
}

static char *fd_arena_base(snug__device *device) {
    return device->base;
}

static snug_status fd_stream_identify(snug__device *device, void *native, uint64_t *identity, bool *of_thread) {
    *identity  = (uintptr_t)native;
    *of_thread = false;
    (void)device;
    return native ? SNUG_OK : SNUG_INVALID;
}

static snug_status fd_stream_ready(snug__device *device, void *native) {
    (void)device, (void)native;
    return SNUG_OK;
}

static snug_status fd_sync(snug__device *device) {
    (void)device;
    return SNUG_UNSUPPORTED;
}

static int fd_count(void) {
    return 1;
}

static snug_status fd_stream_open_row(snug__device *device, int priority, void **native) {
    (void)device;
    (void)priority;
    return (*native = fd_stream_open()) ? SNUG_OK : SNUG_DEVICE;
}

static void fd_stream_close_row(snug__device *device, void *native) {
    (void)device;
    fd_stream_close(native);
}

static snug_status fd_stream_sync(snug__device *device, void *native) {
    (void)device;
    fd.now += 1000000;
    fd_run(native, ((fd_stream *)native)->tail);
    return SNUG_OK;
}

static snug_status fd_event_create(snug__device *device, snug__event **event) {
    (void)device;
    return (*event = calloc(1, sizeof **event)) ? SNUG_OK : SNUG_NO_MEMORY;
}

static void fd_event_destroy(snug__device *device, snug__event *event) {
    (void)device;
    free(event);
}

static bool fd_complete(const snug__event *event) {
    return !event->stream || event->stream->done >= event->until;
}

static snug_status fd_event_record(snug__device *device, snug__event *event, void *native) {
    (void)device;
    EXPECT(event->stream == native || fd_complete(event), "an event is recorded on another stream while pending");
    event->stream = native;
    event->until  = event->stream->tail;
    return SNUG_OK;
}

static snug_status fd_event_query(snug__device *device, snug__event *event, bool *complete) {
    (void)device;
    *complete = fd_complete(event);
    return SNUG_OK;
}

static snug_status fd_event_sync(snug__device *device, snug__event *event) {
    (void)device;
    if (event->stream)
        fd_run(event->stream, event->until);
    return SNUG_OK;
}

static snug_status fd_stream_wait(snug__device *device, void *native, snug__event *event) {
    (void)device;
    if (!fd_complete(event) && event->stream != native)
        fd_enqueue(native, (fd_op){.kind = FD_WAIT, .stream = event->stream, .until = event->until});
    return SNUG_OK;
}

static snug_status fd_copy(snug__device *device, void *native, uint64_t to, uint64_t from, uint64_t bytes) {
    EXPECT(to + bytes <= from || from + bytes <= to, "a copy overlaps itself"); /* I8 */
    fd_enqueue(native, (fd_op){.kind = FD_COPY, .to = device->base + to, .from = device->base + from, .bytes = bytes});
    return SNUG_OK;
}

static snug_status fd_move(snug__device *device, void *native, const snug__copy *copies, uint32_t n) {
    for (uint32_t i = n; i > 0; i--) /* backward: no order among them is promised */
        fd_copy(device, native, copies[i - 1].to, copies[i - 1].from, copies[i - 1].bytes);
    return SNUG_OK;
}

static snug_status fd_put(snug__device *device, void *native, uint64_t to, uint64_t value) {
    fd_enqueue(native, (fd_op){.kind = FD_PUT, .to = device->base + to, .until = value});
    return SNUG_OK;
}

static snug_status fd_write(snug__device *device, void *native, uint64_t to, const void *from, uint64_t bytes) {
    fd_enqueue(native, (fd_op){.kind = FD_COPY, .to = device->base + to, .from = from, .bytes = bytes});
    return SNUG_OK;
}

static snug_status fd_read(snug__device *device, void *native, void *to, uint64_t from, uint64_t bytes) {
    fd_enqueue(native, (fd_op){.kind = FD_COPY, .to = to, .from = device->base + from, .bytes = bytes});
    return SNUG_OK;
}

static snug_status fd_fill(snug__device *device, void *native, uint64_t to, int byte, uint64_t bytes) {
    fd_enqueue(native, (fd_op){.kind = FD_FILL, .to = device->base + to, .byte = byte, .bytes = bytes});
    return SNUG_OK;
}

static uint64_t fd_copy_overhead_bytes(snug__device *device) {
    (void)device;
    return SNUG_GRANULE;
}

static void fd_memory(snug__device *device, uint64_t *free_bytes, uint64_t *total_bytes) {
    (void)device;
    *free_bytes  = 0;
    *total_bytes = fd.bytes;
}

static uint64_t fd_now_ns(snug__device *device) {
    (void)device;
    return fd.now += 1000;
}

static const snug__device_row fd_row = {
    .name                = "fuzz",
    .captures            = false,
    .count               = fd_count,
    .open                = fd_open,
    .close               = fd_close,
    .arena_reserve       = fd_arena_reserve,
    .arena_release       = fd_arena_release,
    .commit_granule      = fd_commit_granule,
    .arena_commit        = fd_arena_commit,
    .arena_decommit      = fd_arena_decommit,
    .arena_base          = fd_arena_base,
    .stream_identify     = fd_stream_identify,
    .stream_ready        = fd_stream_ready,
    .stream_open         = fd_stream_open_row,
    .stream_close        = fd_stream_close_row,
    .stream_sync         = fd_stream_sync,
    .sync                = fd_sync,
    .event_create        = fd_event_create,
    .event_destroy       = fd_event_destroy,
    .event_record        = fd_event_record,
    .event_query         = fd_event_query,
    .event_sync          = fd_event_sync,
    .stream_wait         = fd_stream_wait,
    .move                = fd_move,
    .moves_per_operation = 1,
    .copy                = fd_copy,
    .write               = fd_write,
    .read                = fd_read,
    .fill                = fd_fill,
    .put                 = fd_put,
    .copy_overhead_bytes = fd_copy_overhead_bytes,
    .memory              = fd_memory,
    .now_ns              = fd_now_ns,
};

#endif
