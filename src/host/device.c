/* device.c: the host row of the device table: host memory as the arena, worker threads as streams. */
#include "../assert.h"
#include "../device.h"
#include "stream.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define COMMIT_GRANULE ((uint64_t)2 << 20) /* as on the devices that this one stands in for */

struct snug__device {
    char    *mapped; /* the reservation; base is its first aligned byte */
    uint64_t mapped_bytes;
    char    *base;
};

struct snug__event {
    _Atomic snug__point point;
};

static int host_count(void) {
    return 1;
}

static snug_status host_open(int index, snug__device **device) {
    if (index != 0) {
        snug__device_error_set("there is one host device, index 0; asked for index %d", index);
        return SNUG_NO_DEVICE;
    }
    *device = calloc(1, sizeof **device);
    return *device ? SNUG_OK : SNUG_NO_MEMORY;
}

static void host_close(snug__device *device) {
    free(device);
}

static snug_status host_arena_reserve(snug__device *device, uint64_t bytes) {
    uint64_t mapped_bytes = bytes + SNUG_ALIGNMENT_MAX;
    void    *mapped       = mmap(NULL, mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
        snug__device_error_set("mmap of %llu bytes: %s", (unsigned long long)mapped_bytes, strerror(errno));
        return SNUG_DEVICE;
    }
    uintptr_t aligned    = ((uintptr_t)mapped + SNUG_ALIGNMENT_MAX - 1) & ~((uintptr_t)SNUG_ALIGNMENT_MAX - 1);
    device->mapped       = mapped;
    device->mapped_bytes = mapped_bytes;
    device->base         = (char *)mapped + (aligned - (uintptr_t)mapped);
    return SNUG_OK;
}

static void host_arena_release(snug__device *device) {
    if (device->mapped)
        munmap(device->mapped, device->mapped_bytes);
    device->mapped = device->base = NULL;
}

static uint64_t host_commit_granule(snug__device *device) {
    (void)device;
    return COMMIT_GRANULE;
}

static uint64_t page_round_up(uint64_t bytes) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) & ~(page - 1);
}

static snug_status host_arena_commit(snug__device *device, uint64_t offset, uint64_t bytes) {
    if (mprotect(device->base + offset, page_round_up(bytes), PROT_READ | PROT_WRITE) == 0)
        return SNUG_OK;
    snug__device_error_set("mprotect of %llu bytes: %s", (unsigned long long)bytes, strerror(errno));
    return SNUG_DEVICE;
}

static snug_status host_arena_decommit(snug__device *device, uint64_t offset, uint64_t bytes) {
    /* mapping afresh gives the pages back and makes any later touch a fault, as on a GPU */
    void *mapped = mmap(device->base + offset, page_round_up(bytes), PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (mapped != MAP_FAILED)
        return SNUG_OK;
    snug__device_error_set("unmapping %llu bytes: %s", (unsigned long long)bytes, strerror(errno));
    return SNUG_DEVICE;
}

static char *host_arena_base(snug__device *device) {
    return device->base;
}

/* ------------------------------------------------------------------------------------------------ streams, events */

static snug_status host_stream_identify(snug__device *device, void *native, uint64_t *identity, bool *of_thread) {
    (void)device;
    *identity  = (uintptr_t)native;
    *of_thread = false;
    return snug__host_stream_valid(native) ? SNUG_OK : SNUG_INVALID;
}

static snug_status host_stream_ready(snug__device *device, void *native) {
    (void)device, (void)native;
    return SNUG_OK;
}

static snug_status host_sync(snug__device *device) {
    (void)device;
    return SNUG_UNSUPPORTED;
}

static snug_status host_stream_open(snug__device *device, int priority, void **native) {
    (void)device;
    (void)priority; /* threads of one process share the cores alike */
    snug_host_stream *stream;
    snug_status       status = snug_host_stream_create(&stream);
    if (status == SNUG_OK)
        *native = stream;
    return status;
}

static void host_stream_close(snug__device *device, void *native) {
    (void)device;
    snug_host_stream_destroy(native);
}

static snug_status host_stream_sync(snug__device *device, void *native) {
    (void)device;
    return snug_host_stream_sync(native);
}

static snug_status host_event_create(snug__device *device, snug__event **event) {
    (void)device;
    *event = calloc(1, sizeof **event);
    return *event ? SNUG_OK : SNUG_NO_MEMORY;
}

static void host_event_destroy(snug__device *device, snug__event *event) {
    (void)device;
    free(event);
}

static snug_status host_event_record(snug__device *device, snug__event *event, void *native) {
    (void)device;
    snug__point now = snug__host_stream_point(native);
    snug__point was = atomic_load(&event->point);
    /* two threads that share a stream may get here in either order: the later point stays */
    while (was >> 48 != now >> 48 || was < now)
        if (atomic_compare_exchange_weak(&event->point, &was, now))
            break;
    return SNUG_OK;
}

static snug_status host_event_query(snug__device *device, snug__event *event, bool *complete) {
    (void)device;
    *complete = snug__point_reached(atomic_load(&event->point));
    return SNUG_OK;
}

static snug_status host_event_sync(snug__device *device, snug__event *event) {
    (void)device;
    snug__point_wait(atomic_load(&event->point));
    return SNUG_OK;
}

static snug_status host_stream_wait(snug__device *device, void *native, snug__event *event) {
    (void)device;
    snug__host_stream_wait_point(native, atomic_load(&event->point));
    return SNUG_OK;
}

/* ------------------------------------------------------------------------------------------------ transfers */

struct transfer {
    char       *to;
    const char *from;
    uint64_t    bytes;
    int         byte;
};

struct put {
    uint64_t *to;
    uint64_t  value;
};

/* As many copies of a move as go into one launch. */
enum { MOVES_PER_LAUNCH = 7 };
struct moves {
    char      *base;
    uint32_t   n;
    snug__copy copies[MOVES_PER_LAUNCH];
};
_Static_assert(sizeof(struct moves) <= SNUG_HOST_ARGUMENTS_MAX, "the arguments of a launch");

#ifdef __SANITIZE_THREAD__
/* A cancelled move may read bytes that a client is writing; what it copied is thrown away. So under ThreadSanitizer its
 * reads go unseen, while its writes, which nobody may race with, are seen. */
__attribute__((no_sanitize("thread"), noinline)) static void read_unseen(char *to, const volatile char *from,
                                                                         size_t n) {
    volatile uint64_t       *to_words   = (volatile uint64_t *)(void *)to;
    const volatile uint64_t *from_words = (const volatile uint64_t *)(const volatile void *)from;
    for (size_t i = 0; i < n / 8; i++)
        to_words[i] = from_words[i];
}

static void move_bytes(char *to, const char *from, uint64_t bytes) {
    _Alignas(64) char piece[4096];
    for (uint64_t at = 0; at < bytes; at += sizeof piece) {
        uint64_t n = bytes - at < sizeof piece ? bytes - at : sizeof piece;
        read_unseen(piece, from + at, n);
        memcpy(to + at, piece, n);
    }
}
#else
static void move_bytes(char *to, const char *from, uint64_t bytes) {
    memcpy(to, from, bytes);
}
#endif

static void run_moves(void *arguments) {
    const struct moves *m = arguments;
    for (uint32_t i = 0; i < m->n; i++)
        move_bytes(m->base + m->copies[i].to, m->base + m->copies[i].from, m->copies[i].bytes);
}

static void run_copy(void *arguments) {
    struct transfer *t = arguments;
    memcpy(t->to, t->from, t->bytes);
}

static void run_fill(void *arguments) {
    struct transfer *t = arguments;
    memset(t->to, t->byte, t->bytes);
}

static snug_status host_move(snug__device *device, void *native, const snug__copy *copies, uint32_t n) {
    struct moves m      = {.base = device->base};
    snug_status  status = SNUG_OK;
    for (uint32_t at = 0; at < n && status == SNUG_OK; at += m.n) {
        m.n = n - at < MOVES_PER_LAUNCH ? n - at : MOVES_PER_LAUNCH;
        for (uint32_t i = 0; i < m.n; i++) {
            const snug__copy *c = &copies[at + i];
            snug__assert(c->to + c->bytes <= c->from || c->from + c->bytes <= c->to); /* I8 */
            m.copies[i] = *c;
        }
        status = snug_host_launch(native, run_moves, &m, offsetof(struct moves, copies) + m.n * sizeof m.copies[0]);
    }
    return status;
}

static snug_status host_copy(snug__device *device, void *native, uint64_t to, uint64_t from, uint64_t bytes) {
    snug__assert(to + bytes <= from || from + bytes <= to); /* I8 */
    struct transfer t = {device->base + to, device->base + from, bytes, 0};
    return snug_host_launch(native, run_copy, &t, sizeof t);
}

static snug_status host_write(snug__device *device, void *native, uint64_t to, const void *from, uint64_t bytes) {
    struct transfer t = {device->base + to, from, bytes, 0};
    return snug_host_launch(native, run_copy, &t, sizeof t);
}

static snug_status host_read(snug__device *device, void *native, void *to, uint64_t from, uint64_t bytes) {
    struct transfer t = {to, device->base + from, bytes, 0};
    return snug_host_launch(native, run_copy, &t, sizeof t);
}

static snug_status host_fill(snug__device *device, void *native, uint64_t to, int byte, uint64_t bytes) {
    struct transfer t = {device->base + to, NULL, bytes, byte};
    return snug_host_launch(native, run_fill, &t, sizeof t);
}

static void run_put(void *arguments) {
    struct put *p = arguments;
    *p->to        = p->value;
}

static snug_status host_put(snug__device *device, void *native, uint64_t to, uint64_t value) {
    struct put p = {(uint64_t *)(void *)(device->base + to), value};
    return snug_host_launch(native, run_put, &p, sizeof p);
}

static uint64_t host_copy_overhead_bytes(snug__device *device) {
    (void)device;
    return 4096; /* about a microsecond of queue and wake-up at memcpy's few GB/s */
}

static void host_memory(snug__device *device, uint64_t *free_bytes, uint64_t *total_bytes) {
    (void)device;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    *free_bytes   = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * page;
    *total_bytes  = (uint64_t)sysconf(_SC_PHYS_PAGES) * page;
}

static uint64_t host_now_ns(snug__device *device) {
    (void)device;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

const snug__device_row snug__device_host = {
    .name                = "host",
    .captures            = false,
    .count               = host_count,
    .open                = host_open,
    .close               = host_close,
    .arena_reserve       = host_arena_reserve,
    .arena_release       = host_arena_release,
    .commit_granule      = host_commit_granule,
    .arena_commit        = host_arena_commit,
    .arena_decommit      = host_arena_decommit,
    .arena_base          = host_arena_base,
    .stream_identify     = host_stream_identify,
    .stream_ready        = host_stream_ready,
    .stream_open         = host_stream_open,
    .stream_close        = host_stream_close,
    .stream_sync         = host_stream_sync,
    .sync                = host_sync,
    .event_create        = host_event_create,
    .event_destroy       = host_event_destroy,
    .event_record        = host_event_record,
    .event_query         = host_event_query,
    .event_sync          = host_event_sync,
    .stream_wait         = host_stream_wait,
    .move                = host_move,
    .copy                = host_copy,
    .write               = host_write,
    .read                = host_read,
    .fill                = host_fill,
    .put                 = host_put,
    .moves_per_operation = MOVES_PER_LAUNCH,
    .copy_overhead_bytes = host_copy_overhead_bytes,
    .memory              = host_memory,
    .now_ns              = host_now_ns,
};
