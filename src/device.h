/* device.h: what snug asks of a device: one table of functions, every slot filled.
 *
 * Contracts, for every row:
 *   - Streams run what is enqueued on them in order and asynchronously to the caller. native is a client's or an own stream.
 *   - An event holds the state of the stream at its latest record; one never recorded is complete. A wait or a query speaks
 *     of the latest record at the time of the call. One event is recorded on one stream until it is seen complete.
 *   - record, wait, query, copy, write, read and fill neither wait for the device nor allocate, except that enqueuing on a
 *     stream with about a thousand operations queued may block.
 *   - event_record, event_query and stream_wait are sequentially consistent: after a record, an epoch that was advanced before
 *     some query or wait is seen unless that query or wait sees the record. A row over a runtime that doesn't promise it
 *     ends its record with a full fence (tests/model/tso.pml shows what goes wrong without).
 *   - Any function may be called from any thread; for arena_commit and arena_decommit the caller excludes others.
 *   - Offsets are into the arena, committed, and in bytes. Copies don't overlap.
 *   - A failing function returns DEVICE, NO_MEMORY or CAPTURING, or LOST where no later call can succeed, and leaves its words in
 *     snug__device_error of this thread. */
#ifndef SNUG__DEVICE_H
#define SNUG__DEVICE_H

#include <snug.h>

#include <stdbool.h>

typedef struct snug__device snug__device; /* one device as one pool sees it, with that pool's arena */
typedef struct snug__event  snug__event;

enum { SNUG__PRIORITY_LOW, SNUG__PRIORITY_HIGH };

typedef struct snug__copy {
    uint64_t to, from, bytes;
} snug__copy;

typedef struct snug__device_row {
    const char *name;
    bool        captures; /* its streams can be captured into graphs */
    int (*count)(void);   /* devices of this kind on this machine; 0: the words say why */
    snug_status (*open)(int index, snug__device **device);
    void (*close)(snug__device *device); /* the arena is released before */

    /* The arena: one range of addresses, its base aligned to SNUG_ALIGNMENT_MAX, in which pieces are committed. */
    snug_status (*arena_reserve)(snug__device *device, uint64_t bytes);
    void (*arena_release)(snug__device *device);
    uint64_t (*commit_granule)(
        snug__device *device); /* pieces start and end on multiples of it, but for the arena's end */
    snug_status (*arena_commit)(snug__device *device, uint64_t offset, uint64_t bytes);
    snug_status (*arena_decommit)(snug__device *device, uint64_t offset, uint64_t bytes);
    char *(*arena_base)(snug__device *device);

    /* Two natives with one identity are one stream. *of_thread: the native is another stream on each thread, the caller's
     * here. INVALID: no stream of this device. */
    snug_status (*stream_identify)(snug__device *device, void *native, uint64_t *identity, bool *of_thread);
    snug_status (*stream_ready)(snug__device *device, void *native); /* CAPTURING: not to be recorded or made to wait */
    snug_status (*stream_open)(snug__device *device, int priority, void **native);
    void (*stream_close)(snug__device *device, void *native);
    snug_status (*stream_sync)(snug__device *device, void *native);
    snug_status (*sync)(snug__device *device); /* of all streams; only where streams may be of a thread */

    snug_status (*event_create)(snug__device *device, snug__event **event);
    void (*event_destroy)(snug__device *device, snug__event *event);
    snug_status (*event_record)(snug__device *device, snug__event *event, void *native);
    snug_status (*event_query)(snug__device *device, snug__event *event, bool *complete);
    snug_status (*event_sync)(snug__device *device, snug__event *event);
    snug_status (*stream_wait)(snug__device *device, void *native, snug__event *event);

    /* move: copies whose results may be thrown away, because a client writes a source meanwhile; copy's never is. They run in
     * any order among one another: none writes what another reads or writes. When it fails some may have been enqueued, a
     * single one hasn't. */
    snug_status (*move)(snug__device *device, void *native, const snug__copy *copies, uint32_t n);
    snug_status (*copy)(snug__device *device, void *native, uint64_t to, uint64_t from, uint64_t bytes);
    snug_status (*write)(snug__device *device, void *native, uint64_t to, const void *from, uint64_t bytes);
    snug_status (*read)(snug__device *device, void *native, void *to, uint64_t from, uint64_t bytes);
    snug_status (*fill)(snug__device *device, void *native, uint64_t to, int byte, uint64_t bytes);
    snug_status (*put)(snug__device *device, void *native, uint64_t to,
                       uint64_t value); /* 8 bytes, aligned; or UNSUPPORTED */

    uint32_t moves_per_operation; /* copies of one move that take one place in a stream's queue */
    uint64_t (*copy_overhead_bytes)(
        snug__device *device); /* what enqueuing one copy costs, as bytes copied in that time */
    void (*memory)(snug__device *device, uint64_t *free_bytes, uint64_t *total_bytes);
    uint64_t (*now_ns)(snug__device *device);
} snug__device_row;

#ifdef SNUG_HAVE_CUDA
extern const snug__device_row snug__device_cuda;
#endif
extern const snug__device_row snug__device_host;
extern const snug__device_row snug__device_sim;

/* The row of that name, "auto" the best of this machine; NULL: none. */
const snug__device_row *snug__device_find(const char *name);

/* The words of this thread's last device error, "" before the first. set cuts at 127 characters. */
const char *snug__device_error(void);
void        snug__device_error_set(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
