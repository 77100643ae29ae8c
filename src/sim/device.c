/* device.c: the sim row of the device table, and the profiles. Arenas are made-up addresses: nothing may touch them. */
#include "sim.h"

#include <stdlib.h>

#define COMMIT_GRANULE ((uint64_t)2 << 20) /* as on the devices that this one stands in for */

/* Memory and its peak bandwidth: NVIDIA's datasheets of the H200 (SXM, 141 GB HBM3e, 4.8 TB/s) and the A100 80 GB (SXM,
 * 2,039 GB/s), the product pages of the GeForce RTX 4090 (24 GB GDDR6X, 384 bit at 21 Gbit/s: 1,008 GB/s) and of the RTX 3060
 * 12 GB (192 bit at 15 Gbit/s: 360 GB/s). Host: one way of PCI Express x16, generation 5 for the H200, 4 for the others.
 * Copies within the card: measured on an H200 at 3.29 TB/s read and write together, two thirds of peak (NVIDIA/cccl#1672),
 * so a third of peak as payload; taken over for the others, for want of public figures.
 * Overhead of one copy: 3.5 us, measured on an H100 (meta-pytorch/torchcomms#2195); taken over likewise. */
static const snug_sim_profile profiles[SNUG_SIM_PROFILES] = {
    [SNUG_SIM_H200] = {"H200", UINT64_C(141000000000), UINT64_C(4800000000000), UINT64_C(1600000000000), 63000000000,
                       3500},
    [SNUG_SIM_A100] = {"A100 80 GB", UINT64_C(80000000000), UINT64_C(2039000000000), UINT64_C(679666666666),
                       31500000000, 3500},
    [SNUG_SIM_RTX_4090] = {"RTX 4090", UINT64_C(24) << 30, UINT64_C(1008000000000), UINT64_C(336000000000), 31500000000,
                           3500},
    [SNUG_SIM_RTX_3060] = {"RTX 3060 12 GB", UINT64_C(12) << 30, UINT64_C(360000000000), UINT64_C(120000000000),
                           31500000000, 3500},
};

const snug_sim_profile *snug_sim_profile_get(int index) {
    return index >= 0 && index < SNUG_SIM_PROFILES ? &profiles[index] : NULL;
}

static bool device_spans_open(snug__device *device) {
    snug__spans *all[] = {&device->committed, &device->tags, &device->entries, &device->accesses};
    unsigned     open  = 0;
    while (open < sizeof all / sizeof all[0] && snug__spans_open(all[open]))
        open++;
    if (open == sizeof all / sizeof all[0])
        return true;
    while (open > 0)
        snug__spans_close(all[--open]);
    return false;
}

static snug_status device_make(int index, snug__device **device) {
    uint16_t at = 1;
    while (at < SNUG__SIM_DEVICES_MAX && snug__sim.devices[at])
        at++;
    if (!snug_sim_profile_get(index) || at == SNUG__SIM_DEVICES_MAX) {
        snug__device_error_set("sim devices are numbered 0 to %d by profile, %d may be open; asked for number %d",
                               SNUG_SIM_PROFILES - 1, SNUG__SIM_DEVICES_MAX - 1, index);
        return SNUG_NO_DEVICE;
    }
    snug__device *made = calloc(1, sizeof *made);
    if (!made || !device_spans_open(made)) {
        free(made);
        return SNUG_NO_MEMORY;
    }
    made->index           = at;
    made->life            = ++snug__sim.lives;
    made->profile         = &profiles[index];
    made->accesses_sweep  = 4096;
    snug__sim.devices[at] = made;
    *device               = made;
    return SNUG_OK;
}

static int sim_count(void) {
    return SNUG_SIM_PROFILES;
}

static snug_status sim_open(int index, snug__device **device) {
    snug_status status = snug__sim_enter(SNUG_SIM_CALL_OPEN);
    return status == SNUG_OK ? snug__sim_leave(device_make(index, device)) : status;
}

static void sim_close(snug__device *device) {
    snug__sim_lock();
    snug__sim.devices[device->index] = NULL; /* what is still queued finds it gone */
    snug__check_close(device);
    snug__spans_close(&device->tags);
    snug__spans_close(&device->committed);
    snug__spans_close(&device->entries);
    free(device);
    snug__sim_unlock();
}

/* ------------------------------------------------------------------------------------------------ the arena */

static snug_status sim_arena_reserve(snug__device *device, uint64_t bytes) {
    snug_status status = snug__sim_enter(SNUG_SIM_CALL_RESERVE);
    if (status != SNUG_OK)
        return status;
    if (bytes > UINT64_C(1) << SNUG__SIM_ARENA_LOG2) {
        snug__device_error_set("an arena of %llu bytes is too large", (unsigned long long)bytes);
        return snug__sim_leave(SNUG_DEVICE);
    }
    device->reserved = bytes;
    return snug__sim_leave(SNUG_OK);
}

static void arena_forget(snug__device *device, uint64_t offset, uint64_t bytes) {
    snug__check_decommit(device, offset, bytes);
    snug__contents_forget(device, offset, bytes);
}

static void sim_arena_release(snug__device *device) {
    snug__sim_lock();
    if (device->reserved && !snug__sim.lost) /* a lost device runs nothing any more */
        arena_forget(device, 0, device->reserved);
    snug__sim.committed_bytes -= device->committed_bytes;
    device->reserved = device->committed_bytes = 0;
    snug__sim_unlock();
}

static uint64_t sim_commit_granule(snug__device *device) {
    (void)device;
    return COMMIT_GRANULE;
}

static snug_status committed_set(snug__device *device, uint64_t offset, uint64_t bytes, bool committed) {
    if (offset % COMMIT_GRANULE || offset > device->reserved || bytes > device->reserved - offset) {
        snug__device_error_set("[%#llx, +%llu) is no piece of the arena", (unsigned long long)offset,
                               (unsigned long long)bytes);
        return SNUG_DEVICE;
    }
    uint64_t before = 0, end = offset + bytes;
    for (uint64_t at = offset; at < end;) {
        snug__place place = snug__spans_find(&device->committed, at);
        uint64_t    next  = snug__spans_end(&device->committed, place);
        next              = next < end ? next : end;
        before += snug__spans_at(&device->committed, place)->words.a ? next - at : 0;
        at = next;
    }
    uint64_t most = snug__sim.options.memory_bytes;
    if (committed && most && snug__sim.committed_bytes - before + bytes > most) {
        snug__device_error_set("out of memory: %llu of %llu bytes are committed",
                               (unsigned long long)snug__sim.committed_bytes, (unsigned long long)most);
        return SNUG_DEVICE;
    }
    if (!snug__spans_set(&device->committed, offset, end, (snug__words){committed, 0, 0}))
        return SNUG_NO_MEMORY;
    device->committed_bytes   = device->committed_bytes - before + (committed ? bytes : 0);
    snug__sim.committed_bytes = snug__sim.committed_bytes - before + (committed ? bytes : 0);
    return SNUG_OK;
}

static snug_status sim_arena_commit(snug__device *device, uint64_t offset, uint64_t bytes) {
    snug_status status = snug__sim_enter(SNUG_SIM_CALL_COMMIT);
    return status == SNUG_OK ? snug__sim_leave(committed_set(device, offset, bytes, true)) : status;
}

static snug_status sim_arena_decommit(snug__device *device, uint64_t offset, uint64_t bytes) {
    snug_status status = snug__sim_enter(SNUG_SIM_CALL_DECOMMIT);
    if (status != SNUG_OK)
        return status;
    status = committed_set(device, offset, bytes, false);
    if (status == SNUG_OK)
        arena_forget(device, offset, bytes);
    return snug__sim_leave(status);
}

static char *sim_arena_base(snug__device *device) {
    return (char *)(uintptr_t)snug__sim_base(device->index);
}

/* ------------------------------------------------------------------------------------------------ streams, events */

static snug_status sim_stream_identify(snug__device *device, void *native, uint64_t *identity, bool *of_thread) {
    (void)device;
    *identity  = (uintptr_t)native;
    *of_thread = false;
    snug__sim_lock();
    return snug__sim_leave(snug__sim_stream_valid(native) ? SNUG_OK : SNUG_INVALID);
}

static snug_status sim_stream_ready(snug__device *device, void *native) {
    (void)device, (void)native;
    return SNUG_OK;
}

static snug_status sim_sync(snug__device *device) {
    (void)device;
    return SNUG_UNSUPPORTED;
}

static snug_status sim_stream_open(snug__device *device, int priority, void **native) {
    (void)device;
    snug_sim_stream *stream;
    snug_status      status = snug__sim_enter(SNUG_SIM_CALL_STREAM_OPEN);
    if (status != SNUG_OK)
        return status;
    status = snug__sim_stream_open(priority == SNUG__PRIORITY_LOW ? SNUG__SIM_LOW : SNUG__SIM_HIGH, &stream);
    if (status == SNUG_OK)
        *native = stream;
    return snug__sim_leave(status);
}

static void sim_stream_close(snug__device *device, void *native) {
    (void)device;
    snug__sim_lock();
    snug__sim_stream_close(native);
    snug__sim_unlock();
}

static snug_status sim_stream_sync(snug__device *device, void *native) {
    (void)device;
    snug_status status = snug__sim_enter(SNUG_SIM_CALL_STREAM_SYNC);
    return status == SNUG_OK ? snug__sim_leave(snug__sim_stream_sync(native)) : status;
}

static snug_status sim_event_create(snug__device *device, snug__event **event) {
    (void)device;
    snug_status status = snug__sim_enter(SNUG_SIM_CALL_EVENT_CREATE);
    if (status != SNUG_OK)
        return status;
    snug__event *made = calloc(1, sizeof *made);
    if (made)
        *event = made;
    return snug__sim_leave(made ? SNUG_OK : SNUG_NO_MEMORY);
}

static void sim_event_destroy(snug__device *device, snug__event *event) {
    (void)device;
    snug__sim_lock();
    snug__sim_event_free(event);
    snug__sim_unlock();
}

static snug_status sim_event_record(snug__device *device, snug__event *event, void *native) {
    (void)device;
    snug_status status = snug__sim_enter(SNUG_SIM_CALL_RECORD);
    return status == SNUG_OK ? snug__sim_leave(snug__sim_record(event, native)) : status;
}

static snug_status sim_event_query(snug__device *device, snug__event *event, bool *complete) {
    (void)device;
    snug_status status = snug__sim_enter(SNUG_SIM_CALL_QUERY);
    if (status != SNUG_OK)
        return status;
    *complete = snug__sim_query(event);
    return snug__sim_leave(SNUG_OK);
}

static snug_status sim_event_sync(snug__device *device, snug__event *event) {
    (void)device;
    snug_status status = snug__sim_enter(SNUG_SIM_CALL_EVENT_SYNC);
    return status == SNUG_OK ? snug__sim_leave(snug__sim_event_sync(event)) : status;
}

static snug_status sim_stream_wait(snug__device *device, void *native, snug__event *event) {
    (void)device;
    snug_status status = snug__sim_enter(SNUG_SIM_CALL_WAIT);
    return status == SNUG_OK ? snug__sim_leave(snug__sim_wait(native, event)) : status;
}

/* ------------------------------------------------------------------------------------------------ transfers */

static bool apart(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
    return a + a_bytes <= b || b + b_bytes <= a;
}

/* Does a copy write what another one of the move reads or writes? */
static void batch_look(const snug__copy *copies, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++)
            if (i != k && !(apart(copies[i].to, copies[i].bytes, copies[k].from, copies[k].bytes) &&
                            apart(copies[i].to, copies[i].bytes, copies[k].to, copies[k].bytes)))
                snug__sim_violate(SNUG_SIM_OVERLAP, "two copies of one move, to %#llx and %#llx, aren't independent",
                                  (unsigned long long)copies[i].to, (unsigned long long)copies[k].to);
}

/* Begins anywhere in the list. A call that is made to fail gets half through it. */
static snug_status sim_move(snug__device *device, void *native, const snug__copy *copies, uint32_t n) {
    snug_status failure = snug__sim_enter(SNUG_SIM_CALL_MOVE), status = SNUG_OK;
    if (failure != SNUG_OK)
        snug__sim_lock();
    uint32_t first = n > 1 ? (uint32_t)(snug__sim_random() % n) : 0;
    uint32_t count = failure == SNUG_OK ? n : snug__sim.lost ? 0 : n / 2;
    batch_look(copies, n);
    for (uint32_t i = 0; i < count && status == SNUG_OK; i++) {
        const snug__copy *c = &copies[(first + i) % n];
        status              = snug__sim_copy(device, native, true, c->to, c->from, c->bytes);
    }
    return snug__sim_leave(failure != SNUG_OK ? failure : status);
}

static snug_status sim_copy(snug__device *device, void *native, uint64_t to, uint64_t from, uint64_t bytes) {
    snug_status status = snug__sim_enter(SNUG_SIM_CALL_COPY);
    return status == SNUG_OK ? snug__sim_leave(snug__sim_copy(device, native, false, to, from, bytes)) : status;
}

/* A transfer that touches the arena at one end only. */
static snug_status transfer(snug__device *device, void *native, uint64_t offset, uint64_t bytes, bool write,
                            uint64_t id, uint64_t bytes_per_second) {
    snug__sim_touch touch = {
        .offset = offset, .bytes = bytes, .id = id, .life = device->life, .device = device->index, .write = write};
    uint64_t ns = device->profile->copy_overhead_ns + (uint64_t)((double)bytes * 1e9 / (double)bytes_per_second);
    return snug__sim_kernel(native, &touch, 1, ns);
}

static snug_status sim_write(snug__device *device, void *native, uint64_t to, const void *from, uint64_t bytes) {
    uint64_t    id     = snug_sim_hash(from, bytes);
    snug_status status = snug__sim_enter(SNUG_SIM_CALL_WRITE);
    if (status != SNUG_OK)
        return status;
    return snug__sim_leave(transfer(device, native, to, bytes, true, id, device->profile->host_bytes_per_second));
}

static snug_status sim_read(snug__device *device, void *native, void *to, uint64_t from, uint64_t bytes) {
    snug_status status = snug__sim_enter(SNUG_SIM_CALL_READ);
    if (status != SNUG_OK)
        return status;
    memset(to, 0, bytes); /* now: later, it may not be there any more, and there is nothing to wait for */
    return snug__sim_leave(
        transfer(device, native, from, bytes, false, SNUG_SIM_ANY, device->profile->host_bytes_per_second));
}

static snug_status sim_fill(snug__device *device, void *native, uint64_t to, int byte, uint64_t bytes) {
    snug_status status = snug__sim_enter(SNUG_SIM_CALL_FILL);
    if (status != SNUG_OK)
        return status;
    /* it only writes: twice a copy's rate of payload */
    uint64_t rate = 2 * device->profile->copy_bytes_per_second;
    return snug__sim_leave(transfer(device, native, to, bytes, true, SNUG_SIM_FILL(byte), rate));
}

static snug_status sim_put(snug__device *device, void *native, uint64_t to, uint64_t value) {
    snug_status status = snug__sim_enter(SNUG_SIM_CALL_WRITE);
    return status == SNUG_OK ? snug__sim_leave(snug__sim_put(device, native, to, value)) : status;
}

/* ------------------------------------------------------------------------------------------------ figures */

static uint64_t sim_copy_overhead_bytes(snug__device *device) {
    return (uint64_t)((double)device->profile->copy_overhead_ns * 1e-9 *
                      (double)device->profile->copy_bytes_per_second);
}

static void sim_memory(snug__device *device, uint64_t *free_bytes, uint64_t *total_bytes) {
    snug__sim_lock();
    uint64_t total = snug__sim.options.memory_bytes ? snug__sim.options.memory_bytes : device->profile->memory_bytes;
    *total_bytes   = total > snug__sim.committed_bytes ? total : snug__sim.committed_bytes;
    *free_bytes    = *total_bytes - snug__sim.committed_bytes;
    snug__sim_unlock();
}

static uint64_t sim_now_ns(snug__device *device) {
    (void)device;
    snug__sim_lock();
    uint64_t now = snug__sim.now_ns += snug__sim.options.call_ns; /* so that no loop looks at it for ever */
    snug__sim_unlock();
    return now;
}

const snug__device_row snug__device_sim = {
    .name                = "sim",
    .captures            = false,
    .count               = sim_count,
    .open                = sim_open,
    .close               = sim_close,
    .arena_reserve       = sim_arena_reserve,
    .arena_release       = sim_arena_release,
    .commit_granule      = sim_commit_granule,
    .arena_commit        = sim_arena_commit,
    .arena_decommit      = sim_arena_decommit,
    .arena_base          = sim_arena_base,
    .stream_identify     = sim_stream_identify,
    .stream_ready        = sim_stream_ready,
    .stream_open         = sim_stream_open,
    .stream_close        = sim_stream_close,
    .stream_sync         = sim_stream_sync,
    .sync                = sim_sync,
    .event_create        = sim_event_create,
    .event_destroy       = sim_event_destroy,
    .event_record        = sim_event_record,
    .event_query         = sim_event_query,
    .event_sync          = sim_event_sync,
    .stream_wait         = sim_stream_wait,
    .move                = sim_move,
    .copy                = sim_copy,
    .write               = sim_write,
    .read                = sim_read,
    .fill                = sim_fill,
    .put                 = sim_put,
    .moves_per_operation = 1,
    .copy_overhead_bytes = sim_copy_overhead_bytes,
    .memory              = sim_memory,
    .now_ns              = sim_now_ns,
};
