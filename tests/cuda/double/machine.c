/* machine.c - the state of the machine: its devices, its threads, its handles; the controls that set and reset it. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY_BYTES_DEFAULT ((uint64_t)8 << 30)

machine the = {.mutex = PTHREAD_MUTEX_INITIALIZER, .advanced = PTHREAD_COND_INITIALIZER};

/* ------------------------------------------------------------------------------------------------ small things */

void *make(size_t bytes) {
    void *made = calloc(1, bytes);
    if (!made)
        trap("double", "the host is out of memory");
    return made;
}

uint64_t random_next(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z          = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z          = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ------------------------------------------------------------------------------------------------ threads */

static _Thread_local thread self;
static pthread_key_t        at_exit;
static uint64_t             threads_made;

static void thread_end(void *argument) {
    thread *t = argument;
    pthread_mutex_lock(&the.mutex);
    if (t->generation == the.generation)
        for (int i = 0; i < DOUBLE_DEVICES_MAX; i++)
            if (t->streams[i])
                stream_close(t->streams[i]);
    memset(t->streams, 0, sizeof t->streams);
    pthread_mutex_unlock(&the.mutex);
}

thread *thread_self(void) {
    if (!self.id)
        pthread_setspecific(at_exit, &self);
    return thread_worker();
}

thread *thread_worker(void) {
    if (!self.id)
        self.id = ++threads_made;
    if (self.generation != the.generation) {
        uint64_t id = self.id;
        memset(&self, 0, sizeof self);
        self.id         = id;
        self.generation = the.generation;
    }
    return &self;
}

/* ------------------------------------------------------------------------------------------------ handles */

#define HANDLE_STEP  64
#define HANDLE_SPACE ((uintptr_t)1 << 40) /* per kind */

static struct {
    void **objects;
    size_t n, max;
    size_t first; /* those before are of former generations */
} tables[KINDS];

static const char *const kind_names[KINDS] = {"stream",  "event",  "graph",          "executable graph",
                                              "library", "kernel", "physical handle"};

static uintptr_t table_base(kind k) {
    return (uintptr_t)0x50000000000 + (uintptr_t)k * HANDLE_SPACE;
}

void *handle_make(kind k, void *object) {
    if (tables[k].n == tables[k].max) {
        tables[k].max     = tables[k].max ? 2 * tables[k].max : 64;
        tables[k].objects = realloc(tables[k].objects, tables[k].max * sizeof(void *));
        if (!tables[k].objects)
            trap("double", "the host is out of memory");
    }
    tables[k].objects[tables[k].n++] = object;
    return (void *)(table_base(k) + (tables[k].first + tables[k].n) * HANDLE_STEP);
}

static size_t handle_number(kind k, const void *handle) { /* SIZE_MAX if it was never one of this kind */
    uintptr_t at = (uintptr_t)handle, last = table_base(k) + (tables[k].first + tables[k].n) * HANDLE_STEP;
    return at > table_base(k) && at <= last && at % HANDLE_STEP == 0 ? (at - table_base(k)) / HANDLE_STEP - 1
                                                                     : SIZE_MAX;
}

bool handle_was(kind k, const void *handle) {
    return handle_number(k, handle) != SIZE_MAX;
}

void *handle_find(kind k, const void *handle) {
    size_t number = handle_number(k, handle);
    return number == SIZE_MAX || number < tables[k].first ? NULL : tables[k].objects[number - tables[k].first];
}

void *handle_object(kind k, const void *handle, const char *function) {
    void *object = handle_find(k, handle);
    if (!object)
        trap(function, "%p is %s %s", handle, handle_was(k, handle) ? "a destroyed" : "no", kind_names[k]);
    return object;
}

void handle_end(kind k, const void *handle) {
    size_t number                               = handle_number(k, handle);
    tables[k].objects[number - tables[k].first] = NULL;
}

void handles_each(kind k, void (*visit)(void *object)) {
    for (size_t i = 0; i < tables[k].n; i++)
        if (tables[k].objects[i])
            visit(tables[k].objects[i]);
}

static void handles_reset(void) {
    for (int k = 0; k < KINDS; k++) {
        tables[k].first += tables[k].n;
        tables[k].n = tables[k].max = 0;
        free(tables[k].objects);
        tables[k].objects = NULL;
    }
}

/* ------------------------------------------------------------------------------------------------ controls */

static void machine_set(void) {
    const char *seed = getenv("SNUG_DOUBLE_SEED"), *mode = getenv("SNUG_DOUBLE_MODE");
    const char *memory = getenv("SNUG_DOUBLE_MEMORY_MB"), *devices = getenv("SNUG_DOUBLE_DEVICES");
    the.seed = seed ? strtoull(seed, NULL, 0) : 1;
    the.mode = DOUBLE_TIMELY;
    if (mode && strcmp(mode, "eager") == 0)
        the.mode = DOUBLE_EAGER;
    else if (mode && strcmp(mode, "late") == 0)
        the.mode = DOUBLE_LATE;
    else if (mode && strcmp(mode, "timely") != 0)
        trap("double", "SNUG_DOUBLE_MODE is '%s', not eager, timely or late", mode);
    the.memory    = memory ? strtoull(memory, NULL, 0) << 20 : MEMORY_BYTES_DEFAULT;
    the.devices_n = devices ? atoi(devices) : 1;
    if (the.devices_n < 0 || the.devices_n > DOUBLE_DEVICES_MAX)
        trap("double", "SNUG_DOUBLE_DEVICES is '%s', not 0 to %d", devices, DOUBLE_DEVICES_MAX);
    the.virtual_memory = true;
    the.absent         = cudaSuccess;
    memset(the.devices, 0, sizeof the.devices);
    memset(&the.live, 0, sizeof the.live);
}

__attribute__((constructor)) static void machine_start(void) {
    pthread_key_create(&at_exit, thread_end);
    machine_set();
}

void double_set_mode(double_mode mode) {
    pthread_mutex_lock(&the.mutex);
    the.mode = mode;
    for (stream *s = streams; s; s = s->next)
        pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&the.mutex);
}

void double_seed(uint64_t seed) {
    pthread_mutex_lock(&the.mutex);
    the.seed = seed;
    pthread_mutex_unlock(&the.mutex);
}

void double_devices(int n) {
    if (n < 0 || n > DOUBLE_DEVICES_MAX)
        trap(__func__, "%d devices are not 0 to %d", n, DOUBLE_DEVICES_MAX);
    pthread_mutex_lock(&the.mutex);
    the.devices_n = n;
    pthread_mutex_unlock(&the.mutex);
}

void double_memory(uint64_t bytes) {
    pthread_mutex_lock(&the.mutex);
    the.memory = bytes;
    pthread_mutex_unlock(&the.mutex);
}

void double_virtual_memory(bool on) {
    pthread_mutex_lock(&the.mutex);
    the.virtual_memory = on;
    pthread_mutex_unlock(&the.mutex);
}

void double_absent(cudaError_t error) {
    pthread_mutex_lock(&the.mutex);
    the.absent = error;
    pthread_mutex_unlock(&the.mutex);
}

void double_stall(cudaStream_t handle, bool on) {
    pthread_mutex_lock(&the.mutex);
    stream *s  = stream_find(handle, __func__);
    s->stalled = on;
    s->blocked = false; /* its thread looks again */
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&the.mutex);
}

double_counts double_live(void) {
    pthread_mutex_lock(&the.mutex);
    double_counts live = the.live;
    pthread_mutex_unlock(&the.mutex);
    return live;
}

void double_reset(void) {
    pthread_mutex_lock(&the.mutex);
    for (stream *s = streams; s; s = s->next) {
        s->stalled = false;
        pthread_cond_signal(&s->work);
    }
    streams_wait();
    capture_reset();
    streams_reset();
    kernels_reset();
    memory_reset();
    handles_reset();
    call_forget();
    machine_set();
    the.generation++;
    pthread_mutex_unlock(&the.mutex);
}
