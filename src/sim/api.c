/* api.c: the simulated machine itself, and what snug_sim.h offers of it. */
#include "sim.h"

#include <stdarg.h>
#include <stdlib.h>

snug__sim_machine snug__sim;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of everything in this room */

/* ------------------------------------------------------------------------------------------------ machine */

static void machine_start(const snug_sim_options *given) {
    snug_sim_options o = snug_sim_options_default();
    if (given)
        memcpy(&o, given, given->struct_size < sizeof o ? given->struct_size : sizeof o);
    if (!o.call_ns)
        o.call_ns = 500; /* an event record's, at its fastest */
    if (!o.patience)
        o.patience = 1000;
    if (!o.timeout_ns)
        o.timeout_ns = UINT64_C(10000000000);
    free(snug__sim.moves);
    free(snug__sim.stalled);
    snug__sim_streams_free();
    memset(&snug__sim, 0, sizeof snug__sim);
    snug__sim.options     = o;
    snug__sim.ready       = true;
    snug__sim.random      = o.seed;
    snug__sim.slots       = 1;
    snug__sim.moves_first = snug__sim.moves_end = 1;
}

void snug__sim_lock(void) {
    pthread_mutex_lock(&mutex);
    if (!snug__sim.ready)
        machine_start(NULL);
}

void snug__sim_unlock(void) {
    pthread_mutex_unlock(&mutex);
}

snug_status snug__sim_leave(snug_status status) {
    snug__sim_unlock();
    return status;
}

static snug_status fault_of(snug_sim_call call) {
    snug__sim_fault *fault = &snug__sim.faults[call];
    snug__sim.calls[call]++;
    if (!fault->left || --fault->left)
        return SNUG_OK;
    snug__device_error_set("call %llu of %s failed on purpose", (unsigned long long)snug__sim.calls[call],
                           snug_sim_call_name(call));
    snug__sim.lost = fault->status == SNUG_LOST;
    return fault->status;
}

snug_status snug__sim_enter(snug_sim_call call) {
    snug__sim_lock();
    snug__sim.now_ns += snug__sim.options.call_ns;
    snug_status any = fault_of(SNUG_SIM_CALL_ANY), status = fault_of(call);
    if (status == SNUG_OK)
        status = any;
    if (snug__sim.lost) {
        if (status == SNUG_OK)
            snug__device_error_set("the sim device is lost, on purpose");
        status = SNUG_LOST;
    }
    if (status != SNUG_OK)
        snug__sim_unlock();
    return status;
}

void snug__sim_violate(snug_sim_violation kind, const char *format, ...) {
    snug_sim_report *report = &snug__sim.report;
    report->violations++;
    report->by_kind[kind]++;
    if (report->texts == SNUG_SIM_TEXTS)
        return;
    char   *text = report->text[report->texts++];
    int     n    = snprintf(text, SNUG_SIM_TEXT_MAX, "at %llu ns: %s: ", (unsigned long long)snug__sim.now_ns,
                            snug_sim_violation_name(kind));
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + n, (size_t)(SNUG_SIM_TEXT_MAX - n), format, arguments);
    va_end(arguments);
}

snug__device *snug__sim_find(uint64_t address, uint64_t *offset) {
    uint64_t index = (address - snug__sim_base(0)) >> SNUG__SIM_ARENA_LOG2;
    if (index >= SNUG__SIM_DEVICES_MAX || !snug__sim.devices[index])
        return NULL;
    *offset = address - snug__sim_base((uint32_t)index);
    return snug__sim.devices[index];
}

static bool machine_idle(void) {
    for (uint32_t i = 1; i < SNUG__SIM_DEVICES_MAX; i++)
        if (snug__sim.devices[i])
            return false;
    for (uint32_t slot = 1; slot < snug__sim.slots; slot++)
        if (snug__sim.streams[slot]->open)
            return false;
    return true;
}

snug_status snug_sim_setup(const snug_sim_options *options) {
    if (options && (options->struct_size < sizeof(size_t) || (unsigned)options->style > SNUG_SIM_RANDOM))
        return SNUG_INVALID;
    snug__sim_lock();
    bool idle = machine_idle();
    if (idle)
        machine_start(options);
    return snug__sim_leave(idle ? SNUG_OK : SNUG_BUSY);
}

uint64_t snug_sim_now(void) {
    snug__sim_lock();
    uint64_t now = snug__sim.now_ns;
    snug__sim_unlock();
    return now;
}

void snug_sim_advance(uint64_t ns) {
    snug__sim_lock();
    snug__sim.now_ns += ns;
    snug__sim_unlock();
}

/* ------------------------------------------------------------------------------------------------ streams */

/* Locks. INVALID: unlocked again. */
static snug_status enter(const snug_sim_stream *stream) {
    snug__sim_lock();
    return snug__sim_stream_valid(stream) ? SNUG_OK : snug__sim_leave(SNUG_INVALID);
}

snug_status snug_sim_stream_create(snug_sim_stream **stream) {
    if (!stream)
        return SNUG_INVALID;
    snug__sim_lock();
    return snug__sim_leave(snug__sim_stream_open(SNUG__SIM_CLIENT, stream));
}

snug_status snug_sim_stream_destroy(snug_sim_stream *stream) {
    snug_status status = enter(stream);
    if (status != SNUG_OK)
        return status;
    snug__sim_stream_close(stream);
    return snug__sim_leave(SNUG_OK);
}

uint32_t snug_sim_stream_number(const snug_sim_stream *stream) {
    if (enter(stream) != SNUG_OK)
        return 0;
    uint32_t number = stream->number;
    snug__sim_unlock();
    return number;
}

static snug_status sync_all(void) {
    snug_status first = SNUG_OK;
    for (uint32_t slot = 1; slot < snug__sim.slots; slot++) {
        snug_status status = snug__sim_stream_sync(snug__sim.streams[slot]);
        if (first == SNUG_OK)
            first = status;
    }
    return first;
}

snug_status snug_sim_sync(snug_sim_stream *stream) {
    snug__sim_lock();
    if (stream && !snug__sim_stream_valid(stream))
        return snug__sim_leave(SNUG_INVALID);
    if (snug__sim.lost)
        return snug__sim_leave(SNUG_LOST);
    return snug__sim_leave(stream ? snug__sim_stream_sync(stream) : sync_all());
}

snug_status snug_sim_stream_wait(snug_sim_stream *stream, snug_sim_stream *other) {
    snug_status status = enter(stream);
    if (status != SNUG_OK)
        return status;
    snug__event event = {0};
    status            = snug__sim_stream_valid(other) ? snug__sim_record(&event, other) : SNUG_INVALID;
    if (status == SNUG_OK)
        status = snug__sim_wait(stream, &event);
    free(event.clock.operations);
    return snug__sim_leave(status);
}

/* ------------------------------------------------------------------------------------------------ launches */

uint64_t snug_sim_hash(const void *host, uint64_t bytes) {
    const unsigned char *at   = host;
    uint64_t             hash = bytes * UINT64_C(0x9e3779b97f4a7c15) + 1, word = 0;
    for (uint64_t i = 0; i + 8 <= bytes; i += 8) {
        memcpy(&word, at + i, 8);
        hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    word = 0;
    if (bytes % 8)
        memcpy(&word, at + bytes / 8 * 8, bytes % 8);
    hash = (hash ^ word) * UINT64_C(0xc4ceb9fe1a85ec53);
    return (hash ^ hash >> 29) | 1; /* never 0, and no SNUG_SIM_FILL in practice */
}

/* What the accesses name, in arenas. An address in none of them is a violation, and no touch. */
static size_t touches_make(const snug_sim_stream *stream, const snug_sim_access *accesses, size_t n,
                           snug__sim_touch *touches) {
    size_t made = 0;
    for (size_t i = 0; i < n; i++) {
        const snug_sim_access *a = &accesses[i];
        uint64_t               offset;
        snug__device          *device = a->bytes ? snug__sim_find((uint64_t)(uintptr_t)a->address, &offset) : NULL;
        if (!a->bytes)
            continue;
        if (!device || a->bytes > (UINT64_C(1) << SNUG__SIM_ARENA_LOG2) - offset) {
            snug__sim_violate(SNUG_SIM_UNCOMMITTED, "stream %u uses %llu bytes at %p, in no arena", stream->number,
                              (unsigned long long)a->bytes, a->address);
            continue;
        }
        touches[made++] = (snug__sim_touch){.offset  = offset,
                                            .bytes   = a->bytes,
                                            .id      = a->id,
                                            .at      = a->offset,
                                            .version = a->version,
                                            .life    = device->life,
                                            .device  = device->index,
                                            .write   = a->access != SNUG_READ};
    }
    return made;
}

snug_status snug_sim_launch(snug_sim_stream *stream, const snug_sim_access *accesses, size_t n, uint64_t duration_ns) {
    if (n && !accesses)
        return SNUG_INVALID;
    snug_status status = enter(stream);
    if (status != SNUG_OK)
        return status;
    snug__sim_touch few[16], *touches = n <= 16 ? few : malloc(n * sizeof *touches);
    if (!touches)
        return snug__sim_leave(SNUG_NO_MEMORY);
    snug__sim.now_ns += snug__sim.options.call_ns;
    status = snug__sim_kernel(stream, touches, touches_make(stream, accesses, n, touches), duration_ns);
    if (touches != few)
        free(touches);
    return snug__sim_leave(status);
}

/* ------------------------------------------------------------------------------------------------ report, faults */

snug_status snug_sim_report_get(snug_sim_report *report) {
    if (!report || report->struct_size < sizeof(size_t))
        return SNUG_INVALID;
    snug__sim_lock();
    snug_sim_report *made = &snug__sim.report;
    made->now_ns          = snug__sim.now_ns;
    made->spans           = 0;
    for (uint32_t i = 1; i < SNUG__SIM_DEVICES_MAX; i++)
        if (snug__sim.devices[i])
            made->spans += snug__sim.devices[i]->tags.count + snug__sim.devices[i]->accesses.count;
    made->struct_size = report->struct_size;
    memcpy(report, made, report->struct_size < sizeof *made ? report->struct_size : sizeof *made);
    return snug__sim_leave(SNUG_OK);
}

const char *snug_sim_violation_name(snug_sim_violation violation) {
    static const char *const names[] = {
#define VIOLATION_NAME(name, text) #name,
        SNUG_SIM_VIOLATION_MAP(VIOLATION_NAME)
#undef VIOLATION_NAME
    };
    return (unsigned)violation < SNUG_SIM_VIOLATIONS ? names[violation] : "?";
}

const char *snug_sim_call_name(snug_sim_call call) {
    static const char *const names[] = {
#define CALL_NAME(name) #name,
        SNUG_SIM_CALL_MAP(CALL_NAME)
#undef CALL_NAME
            "any kind"};
    return (unsigned)call < SNUG_SIM_CALLS ? names[call] : "?";
}

snug_status snug_sim_fail_nth(snug_sim_call call, uint64_t n, snug_status status) {
    if ((unsigned)call >= SNUG_SIM_CALLS ||
        (n && status != SNUG_DEVICE && status != SNUG_NO_MEMORY && status != SNUG_LOST))
        return SNUG_INVALID;
    snug__sim_lock();
    snug__sim.faults[call] = (snug__sim_fault){n, status};
    return snug__sim_leave(SNUG_OK);
}

uint64_t snug_sim_calls(snug_sim_call call) {
    if ((unsigned)call >= SNUG_SIM_CALLS)
        return 0;
    snug__sim_lock();
    uint64_t calls = snug__sim.calls[call];
    snug__sim_unlock();
    return calls;
}

snug_status snug_sim_stall(uint32_t number, int stalled) {
    if (!number)
        return SNUG_INVALID;
    snug__sim_lock();
    uint32_t at = 0;
    while (at < snug__sim.stalled_count && snug__sim.stalled[at] != number)
        at++;
    if (!stalled && at < snug__sim.stalled_count) {
        snug__sim.stalled[at] = snug__sim.stalled[--snug__sim.stalled_count];
    } else if (stalled && at == snug__sim.stalled_count) {
        if (at == snug__sim.stalled_max) {
            uint32_t *longer = realloc(snug__sim.stalled, (at + 8) * sizeof *longer);
            if (!longer)
                return snug__sim_leave(SNUG_NO_MEMORY);
            snug__sim.stalled     = longer;
            snug__sim.stalled_max = at + 8;
        }
        snug__sim.stalled[snug__sim.stalled_count++] = number;
    }
    return snug__sim_leave(SNUG_OK);
}
