/* client.c - see client.h. Only the client's own thread is in here for one client, and no lock is held. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "client.h"

#include <stdlib.h>
#include <time.h>

#define THREAD_ID_SHIFT 32 /* a buffer's id: thread above, number below; pattern.h keeps 40 bits */
#define ROAMS_ONE_IN    5
#define UNEXPECTED_MAX  1000 /* then the run is stopped: it has nothing more to say */

typedef enum operation { OPERATION_ALLOC = 1, OPERATION_FREE, OPERATION_RESIZE, OPERATION_LAUNCH } operation;

uint64_t client_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void unexpected(client *c, const char *call, const char *place, snug_status status) {
    if (report_unexpected(c->run->command, call, place, status) > UNEXPECTED_MAX) atomic_store(&c->run->stop, 1);
}

/* One more operation, unless there are to be no more. */
static bool begin(client *c, operation kind, uint64_t what, uint64_t size) {
    uint64_t so_far = atomic_load_explicit(&c->operations, memory_order_relaxed);
    if (so_far >= c->operations_max || atomic_load_explicit(&c->run->stop, memory_order_relaxed)) c->done = true;
    if (c->done) return false;
    atomic_store_explicit(&c->operations, so_far + 1, memory_order_relaxed);
    uint64_t x = (c->digest ^ (what << 3 | (uint64_t)kind)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 29) ^ size) * UINT64_C(0x94d049bb133111eb);
    c->digest = x ^ (x >> 32);
    return true;
}

/* ---------------------------------------------------------------------------------------------- alloc, free, resize */

static void count_request(client *c, uint64_t size) {
    c->requests++;
    c->request_bytes += size;
}

static void count_refusal(client *c, snug_status verdict) {
    if (!c->refusals.refused) c->first_refusal_ns = client_now_ns();
    report_refused(&c->refusals, verdict);
}

static void pin_long(client *c, buffer *b) {
    snug_status status = snug_pin(c->run->pool, &b->handle, 1, &b->pinned);
    if (status) {
        b->pinned = NULL;
        unexpected(c, "snug_pin", "client_alloc", status);
    }
}

/* The nominal half of an allocation; every draw is made, whatever comes of it. */
static buffer new_buffer(client *c, uint64_t size) {
    bool   pinned = (double)(client_random(c) >> 11) < c->run->pins * 9007199254740992.0; /* 2^53 */
    buffer b = {
        .nominal = size,
        .id = (uint64_t)(c->thread + 1) << THREAD_ID_SHIFT | (c->next_id++ & UINT32_MAX),
        .writer = -1,
        .home = (uint8_t)client_below(c, c->run->n_streams),
        .flags = client_chance(c, ROAMS_ONE_IN) ? BUFFER_ROAMS : 0,
    };
    if (pinned && size) b.flags |= BUFFER_PINNED | (client_chance(c, 2) ? BUFFER_RAW : 0);
    return b;
}

void client_alloc(client *c, uint32_t slot, uint64_t size, uint64_t grows_to) {
    buffer *b = &c->buffers[slot], fresh = new_buffer(c, size);
    c->nominal += report_rounded(size);
    b->nominal = size;
    if (!begin(c, OPERATION_ALLOC, fresh.id, size)) return; /* the buffer that the slot holds is freed at the end */
    *b = fresh;
    count_request(c, size);
    snug_alloc_options options = snug_alloc_options_default();
    options.grows_to = grows_to;
    uint64_t    start = client_now_ns();
    snug_status status = snug_alloc(c->run->pool, size, &options, &b->handle);
    histogram_record(&c->alloc, client_now_ns() - start);
    if (status) {
        b->handle = SNUG_HANDLE_NONE;
        if (report_verdict(status))
            count_refusal(c, status);
        else
            unexpected(c, "snug_alloc", "client_alloc", status);
        return;
    }
    c->granted++;
    b->size = size;
    report_live_add(&c->run->live, report_rounded(size));
    if (b->flags & BUFFER_PINNED) pin_long(c, b);
}

static void unpin_long(client *c, buffer *b) {
    snug_stream *streams[CLIENT_STREAMS_MAX];
    size_t       n = 0;
    for (uint32_t s = 0; s < c->run->n_streams; s++)
        if (b->raw >> s & 1) streams[n++] = c->streams[s].stream;
    snug_status status = snug_unpin(c->run->pool, &b->handle, 1, streams, n);
    if (status) unexpected(c, "snug_unpin", "client_free", status);
    b->pinned = NULL;
}

static void release_buffer(client *c, buffer *b) {
    if (b->pinned) unpin_long(c, b);
    report_live_subtract(&c->run->live, report_rounded(b->size)); /* before: another thread may get the bytes at once */
    snug_status status = snug_free(c->run->pool, b->handle);
    if (status) unexpected(c, "snug_free", "client_free", status);
    b->handle = SNUG_HANDLE_NONE;
}

void client_free(client *c, uint32_t slot) {
    buffer *b = &c->buffers[slot];
    c->nominal -= report_rounded(b->nominal);
    b->nominal = 0;
    if (begin(c, OPERATION_FREE, b->id, 0) && b->handle) release_buffer(c, b);
}

void client_resize(client *c, uint32_t slot, uint64_t size) {
    buffer *b = &c->buffers[slot];
    c->nominal += report_rounded(size) - report_rounded(b->nominal);
    b->nominal = size;
    if (!begin(c, OPERATION_RESIZE, b->id, size) || !b->handle) return;
    bool grows = size > b->size;
    if (grows) count_request(c, size);
    snug_status status = snug_resize(c->run->pool, b->handle, size);
    if (grows && report_verdict(status)) {
        count_refusal(c, status);
        return;
    }
    if (status) {
        unexpected(c, "snug_resize", "client_resize", status);
        return;
    }
    if (grows) {
        c->granted++;
        report_live_add(&c->run->live, report_rounded(size) - report_rounded(b->size));
    } else {
        report_live_subtract(&c->run->live, report_rounded(b->size) - report_rounded(size));
    }
    b->size = size;
    if (b->valid > size) b->valid = size;
}

/* ---------------------------------------------------------------------------------------------- launches */

bool client_list_add(client_list *list, uint32_t stream, buffer *b, snug_access access) {
    if (list->n == CLIENT_LAUNCH_MAX || !client_usable(b, stream)) return false;
    for (uint32_t i = 0; i < list->n; i++)
        if (list->buffers[i] == b) return false;
    list->buffers[list->n] = b;
    list->access[list->n++] = access;
    return true;
}

/* The client's own ordering of its streams, as for raw pointers: readers behind the writer, a writer behind all. */
static void order(client *c, uint32_t stream, buffer *const *buffers, const snug_access *access, size_t n) {
    uint32_t here = 1u << stream, wanted = 0;
    for (size_t i = 0; i < n; i++) {
        const buffer *b = buffers[i];
        if (b->writer >= 0 && !(b->readers & here)) wanted |= 1u << b->writer;
        if (access[i] == SNUG_WRITE) wanted |= b->readers;
    }
    for (uint32_t other = 0; wanted >> other; other++) {
        if (other == stream || !(wanted >> other & 1)) continue;
        snug_status status = device_stream_wait(&c->streams[stream].native, &c->streams[other].native);
        if (status) unexpected(c, "device_stream_wait", "client_launch", status);
    }
}

static void written(buffer *b, uint32_t stream, snug_access access) {
    if (b->flags & BUFFER_SHARED) return;
    if (access == SNUG_READ) {
        b->readers |= (uint16_t)(1u << stream);
        return;
    }
    b->writer = (int8_t)stream;
    b->readers = 0;
    b->version++;
    b->valid = b->size;
}

static void enqueue(client *c, uint32_t stream, buffer *const *buffers, const snug_access *access,
                    void *const *addresses, size_t n) {
    pattern_buffer work[CLIENT_LAUNCH_MAX];
    for (size_t i = 0; i < n; i++) {
        const buffer *b = buffers[i];
        if (b->pinned && addresses[i] != b->pinned)
            unexpected(c, "snug_resolve", "client_launch: the address of a pinned buffer changed", SNUG_CORRUPT);
        work[i] = (pattern_buffer){
            .address = addresses[i],
            .id = b->id,
            .version = b->version,
            .verify_bytes = c->run->verify ? b->valid : 0,
            .write_bytes = c->run->verify && access[i] == SNUG_WRITE ? b->size : 0,
        };
    }
    snug_status status = device_launch(&c->streams[stream].native, work, n);
    if (status) {
        unexpected(c, "device_launch", "client_launch", status);
        return;
    }
    for (size_t i = 0; i < n; i++) written(buffers[i], stream, access[i]);
}

/* buffers: present ones, those used by their pinned address last; `resolved` of them are before those. */
static void launch_present(client *c, uint32_t stream, buffer *const *buffers, const snug_access *access,
                           size_t resolved, size_t n) {
    client_stream *s = &c->streams[stream];
    snug_handle    handles[CLIENT_LAUNCH_MAX];
    void          *addresses[CLIENT_LAUNCH_MAX];
    for (size_t i = 0; i < resolved; i++) handles[i] = buffers[i]->handle;
    for (size_t i = resolved; i < n; i++) {
        addresses[i] = buffers[i]->pinned;
        buffers[i]->raw |= (uint16_t)(1u << stream);
    }
    device_stream_throttle(&s->native);
    order(c, stream, buffers, access, n);
    uint64_t start = client_now_ns();
    if (resolved) {
        snug_status status = snug_resolve(s->stream, handles, resolved, access, addresses);
        if (status) {
            unexpected(c, "snug_resolve", "client_launch", status);
            return;
        }
    }
    uint64_t between = client_now_ns();
    enqueue(c, stream, buffers, access, addresses, n);
    if (!resolved) return;
    uint64_t    again = client_now_ns();
    snug_status status = snug_release(s->stream, handles, resolved, access);
    histogram_record(&c->resolve_release, between - start + client_now_ns() - again);
    if (status) unexpected(c, "snug_release", "client_launch", status);
}

void client_launch(client *c, uint32_t stream, buffer *const *buffers, const snug_access *access, size_t n) {
    buffer     *present[CLIENT_LAUNCH_MAX];
    snug_access how[CLIENT_LAUNCH_MAX];
    size_t      count = 0, resolved = 0;
    uint64_t    total = 0;
    for (size_t i = 0; i < n; i++) total += buffers[i]->id;
    if (!begin(c, OPERATION_LAUNCH, total, stream)) return;
    for (int raw = 0; raw < 2; raw++) {
        for (size_t i = 0; i < n; i++) {
            buffer *b = buffers[i];
            if (!b->handle || (raw != 0) != (b->pinned && (b->flags & BUFFER_RAW))) continue;
            present[count] = b;
            how[count++] = b->version ? access[i] : SNUG_WRITE;
        }
        if (!raw) resolved = count;
    }
    if (!count) return;
    c->launches++;
    launch_present(c, stream, present, how, resolved, count);
}

/* ---------------------------------------------------------------------------------------------- sizes */

uint64_t client_log_uniform(client *c, uint64_t least, uint64_t most) {
    uint64_t ratio = (most + least - 1) / least;
    uint32_t octaves = ratio > 1 ? 64u - (uint32_t)__builtin_clzll(ratio - 1) : 1;
    uint64_t first = least << client_below(c, octaves);
    uint64_t span = most - first + 1 < first ? most - first + 1 : first;
    return first + client_random(c) % span;
}

/* ---------------------------------------------------------------------------------------------- making and ending */

bool client_open(client *c, client_run *run, uint32_t thread, uint64_t operations_max) {
    c->run = run;
    c->thread = thread;
    c->operations_max = operations_max;
    c->random = run->seed * UINT64_C(0xd1342543de82ef95) + thread;
    c->random = client_random(c);
    report_init(&c->refusals);
    c->refusals.capacity_bytes = run->capacity;
    c->streams = aligned_alloc(64, run->n_streams * sizeof *c->streams);
    if (!c->streams) return false;
    memset(c->streams, 0, run->n_streams * sizeof *c->streams);
    for (uint32_t s = 0; s < run->n_streams; s++) {
        snug_status status = device_stream_open(&c->streams[s].native, run->device);
        if (status) {
            unexpected(c, "device_stream_open", "client_open", status);
            return false;
        }
        status = snug_stream_attach(run->pool, c->streams[s].native.native, &c->streams[s].stream);
        if (status) {
            unexpected(c, "snug_stream_attach", "client_open", status);
            return false;
        }
    }
    return true;
}

bool client_reserve(client *c, uint32_t n_slots, size_t state_bytes) {
    c->n_slots = c->n_free = n_slots;
    c->buffers = calloc(n_slots, sizeof *c->buffers);
    c->free_slots = calloc(n_slots, sizeof *c->free_slots);
    c->live = calloc(n_slots, sizeof *c->live);
    c->position = calloc(n_slots, sizeof *c->position);
    c->state = calloc(1, state_bytes);
    if (!c->buffers || !c->free_slots || !c->live || !c->position || !c->state) {
        fprintf(stderr, "%s: out of memory for %lu slots\n", c->run->command, (unsigned long)n_slots);
        return false;
    }
    for (uint32_t i = 0; i < n_slots; i++) c->free_slots[i] = n_slots - 1 - i;
    return true;
}

void client_sync(client *c) {
    for (uint32_t s = 0; s < c->run->n_streams; s++) {
        snug_status status = snug_stream_sync(c->streams[s].stream);
        if (status) unexpected(c, "snug_stream_sync", "client_sync", status);
    }
}

void client_verify_all(client *c) {
    for (uint32_t i = 0; i < c->n_slots; i++) {
        buffer     *b = &c->buffers[i];
        snug_access read = SNUG_READ;
        if (b->handle && b->valid) launch_present(c, i % c->run->n_streams, &b, &read, 1, 1);
    }
    client_sync(c);
}

void client_free_all(client *c) {
    for (uint32_t i = 0; i < c->n_slots; i++)
        if (c->buffers[i].handle) release_buffer(c, &c->buffers[i]);
}

void client_close(client *c) {
    for (uint32_t s = 0; c->streams && s < c->run->n_streams; s++) {
        client_stream *stream = &c->streams[s];
        snug_status    status = stream->stream ? snug_stream_detach(stream->stream) : SNUG_OK;
        if (status) unexpected(c, "snug_stream_detach", "client_close", status);
        status = device_stream_close(&stream->native);
        if (status) unexpected(c, "device_stream_close", "client_close", status);
    }
    free(c->streams);
    free(c->buffers);
    free(c->free_slots);
    free(c->live);
    free(c->position);
    free(c->state);
}
