/* device.c - see device.h. No state of its own: streams and devices are the caller's, the sim machine the library's. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "arguments.h"
#include "device.h"

#include <inttypes.h>
#include <snug_host.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define IN_FLIGHT_MAX 192 /* host launches ahead of the stream: its queue keeps room */
#define PAUSE_NS      50000
#define KERNEL_NS     2000 /* of a kernel on sim, beside what it reads and writes */

struct device_row {
    snug_status (*start)(const device *d, uint64_t seed);
    double (*seconds)(void);
    uint64_t (*finish)(const char *command);
    uint64_t (*memory_available)(void);
    snug_status (*stream_create)(device_stream *s);
    snug_status (*stream_destroy)(device_stream *s);
    snug_status (*stream_wait)(device_stream *s, device_stream *other);
    void (*throttle)(device_stream *s);
    snug_status (*launch)(device_stream *s, const pattern_buffer *buffers, size_t n);
};

/* ---------------------------------------------------------------------------------------------- host */

static snug_status host_start(const device *d, uint64_t seed) {
    (void)d;
    (void)seed;
    return SNUG_OK;
}

static double host_seconds(void) { return 0.0; }

/* What is wrong on host is in the tallies. */
static uint64_t host_finish(const char *command) {
    (void)command;
    return 0;
}

static uint64_t host_memory_available(void) {
    uint64_t bytes = 0;
    char     line[128];
    FILE    *file = fopen("/proc/meminfo", "re");
    if (file != NULL) {
        while (bytes == 0 && fgets(line, sizeof line, file) != NULL)
            if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &bytes) == 1) bytes *= 1024;
        fclose(file);
    }
    long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return bytes > 0 || pages < 0 || page < 0 ? bytes : (uint64_t)pages * (uint64_t)page;
}

static snug_status host_stream_create(device_stream *s) {
    snug_host_stream *native;
    snug_status       status = snug_host_stream_create(&native);
    if (!status) s->native = native;
    return status;
}

static snug_status host_stream_destroy(device_stream *s) { return snug_host_stream_destroy(s->native); }

static snug_status host_stream_wait(device_stream *s, device_stream *other) {
    return snug_host_stream_wait(s->native, other->native);
}

static void host_throttle(device_stream *s) {
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    while ((int64_t)(s->batches - atomic_load_explicit(&s->tally.batches, memory_order_acquire)) > IN_FLIGHT_MAX)
        nanosleep(&pause, NULL);
}

static snug_status host_launch(device_stream *s, const pattern_buffer *buffers, size_t n) {
    snug_status status = pattern_launch(s->native, &s->tally, buffers, n);
    if (!status) s->batches += pattern_batches(n);
    return status;
}

static const device_row host_row = {
    .start = host_start,
    .seconds = host_seconds,
    .finish = host_finish,
    .memory_available = host_memory_available,
    .stream_create = host_stream_create,
    .stream_destroy = host_stream_destroy,
    .stream_wait = host_stream_wait,
    .throttle = host_throttle,
    .launch = host_launch,
};

/* ---------------------------------------------------------------------------------------------- sim */

static snug_status sim_start(const device *d, uint64_t seed) {
    snug_sim_options o = snug_sim_options_default();
    o.seed = seed;
    o.style = (snug_sim_style)d->style;
    return snug_sim_setup(&o);
}

static double sim_seconds(void) { return (double)snug_sim_now() * 1e-9; }

static uint64_t sim_finish(const char *command) {
    snug_sim_report found = {.struct_size = sizeof found};
    snug_status     status = snug_sim_report_get(&found);
    if (!status && found.shortages) status = SNUG_NO_MEMORY; /* tags or checks are incomplete */
    if (status) report_unexpected(command, "snug_sim_report_get", "device_finish", status);
    for (uint32_t i = 0; i < found.texts; i++) fprintf(stderr, "%s: sim: %s\n", command, found.text[i]);
    if (found.violations > found.texts)
        fprintf(stderr, "%s: sim: %" PRIu64 " violations in all\n", command, found.violations);
    return found.violations;
}

static uint64_t sim_memory_available(void) { return UINT64_MAX; }

static snug_status sim_stream_create(device_stream *s) {
    snug_sim_stream *native;
    snug_status      status = snug_sim_stream_create(&native);
    if (!status) s->native = native;
    return status;
}

static snug_status sim_stream_destroy(device_stream *s) { return snug_sim_stream_destroy(s->native); }

static snug_status sim_stream_wait(device_stream *s, device_stream *other) {
    return snug_sim_stream_wait(s->native, other->native);
}

/* A full queue costs virtual time alone. */
static void sim_throttle(device_stream *s) { (void)s; }

/* One kernel: all that it reads, then all that it writes, at the card's peak. The id is one up: 0 is no content. */
static snug_status sim_launch(device_stream *s, const pattern_buffer *buffers, size_t n) {
    snug_sim_access accesses[2 * DEVICE_LAUNCH_MAX];
    size_t          used = 0;
    uint64_t        verified = 0, verified_bytes = 0, written_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const pattern_buffer *b = &buffers[i];
        snug_sim_access       access = {.address = b->address, .id = b->id + 1, .version = b->version};
        if (b->verify_bytes) {
            access.access = SNUG_READ;
            access.bytes = b->verify_bytes;
            accesses[used++] = access;
            verified++;
        }
        if (b->write_bytes) {
            access.access = SNUG_WRITE;
            access.bytes = b->write_bytes;
            access.version = b->version + 1;
            accesses[used++] = access;
        }
        verified_bytes += b->verify_bytes;
        written_bytes += b->write_bytes;
    }
    double      touched_ns = (double)(verified_bytes + written_bytes) * 1e9;
    uint64_t    duration_ns = (uint64_t)(touched_ns / (double)s->device->profile->memory_bytes_per_second);
    snug_status status = snug_sim_launch(s->native, accesses, used, KERNEL_NS + duration_ns);
    if (status) return status;
    atomic_fetch_add_explicit(&s->tally.verified, verified, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->tally.verified_bytes, verified_bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->tally.written_bytes, written_bytes, memory_order_relaxed);
    return SNUG_OK;
}

static const device_row sim_row = {
    .start = sim_start,
    .seconds = sim_seconds,
    .finish = sim_finish,
    .memory_available = sim_memory_available,
    .stream_create = sim_stream_create,
    .stream_destroy = sim_stream_destroy,
    .stream_wait = sim_stream_wait,
    .throttle = sim_throttle,
    .launch = sim_launch,
};

/* ---------------------------------------------------------------------------------------------- options */

enum { DEVICE_HOST, DEVICE_SIM };

const char *const device_names[] = {[DEVICE_HOST] = "host", [DEVICE_SIM] = "sim", NULL};

const char *const device_styles[] = {[SNUG_SIM_TIMED] = "timed",
                                     [SNUG_SIM_EAGER] = "eager",
                                     [SNUG_SIM_LAZY] = "lazy",
                                     [SNUG_SIM_RANDOM] = "random",
                                     NULL};

/* By the whole name, or by a beginning up to a blank that one profile alone has: A100 of "A100 80 GB". -1: no such. */
static int find_profile(const char *name) {
    size_t length = strlen(name);
    int    found = -1;
    for (int i = 0; i < SNUG_SIM_PROFILES; i++) {
        const char *full = snug_sim_profile_get(i)->name;
        if (strncmp(full, name, length) || (full[length] && full[length] != ' ')) continue;
        if (!full[length]) return i;
        if (found >= 0) return -1;
        found = i;
    }
    return found;
}

static int refuse_profile(const char *command, const char *name) {
    fprintf(stderr, "%s: --profile '%s': must be one of", command, name);
    for (int i = 0; i < SNUG_SIM_PROFILES; i++) fprintf(stderr, "%s %s", i ? "," : "", snug_sim_profile_get(i)->name);
    fputc('\n', stderr);
    return 2;
}

int device_settle(device *d, const char *command) {
    d->name = device_names[d->kind];
    d->row = d->kind == DEVICE_SIM ? &sim_row : &host_row;
    if (d->kind != DEVICE_SIM) {
        if (d->profile_name || d->style_given)
            return arguments_error(command, "--%s: needs --device sim", d->profile_name ? "profile" : "style");
        return 0;
    }
    int index = d->profile_name ? find_profile(d->profile_name) : SNUG_SIM_H200;
    if (index < 0) return refuse_profile(command, d->profile_name);
    d->index = index;
    d->profile = snug_sim_profile_get(index);
    return 0;
}

/* ---------------------------------------------------------------------------------------------- the row's calls */

snug_status device_start(const device *d, uint64_t seed) { return d->row->start(d, seed); }

double device_seconds(const device *d) { return d->row->seconds(); }

uint64_t device_finish(const device *d, const char *command) { return d->row->finish(command); }

uint64_t device_memory_available(const device *d) { return d->row->memory_available(); }

snug_status device_stream_open(device_stream *s, const device *d) {
    s->device = d;
    return d->row->stream_create(s);
}

snug_status device_stream_close(device_stream *s) {
    snug_status status = s->native ? s->device->row->stream_destroy(s) : SNUG_OK;
    s->native = NULL;
    return status;
}

snug_status device_stream_wait(device_stream *s, device_stream *other) {
    return s->device->row->stream_wait(s, other);
}

void device_stream_throttle(device_stream *s) { s->device->row->throttle(s); }

snug_status device_launch(device_stream *s, const pattern_buffer *buffers, size_t n) {
    return s->device->row->launch(s, buffers, n);
}
