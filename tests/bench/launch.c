/* launch.c: what resolve + release cost per handle, in launches of 1, 8 and 64, beside a raw load from a table and an
 * uncontended mutex. Medians of REPEATS runs, with the spread; nothing is launched, so the streams are idle and settled. */
#include <snug.h>
#include <snug_host.h>

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { REPEATS = 9, HOT = 64, COLD = 1000000, ROUND = 2000000 };

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void need(snug_status status, const char *what) {
    if (status == SNUG_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, snug_status_string(status));
    exit(1);
}

typedef struct subject {
    snug_stream     *stream;
    snug_handle     *handles;
    size_t           count; /* of handles, walked through in launches of n */
    size_t           n;
    snug_access      access[HOT];
    void            *addresses[HOT];
    void           **table; /* for the raw load */
    pthread_mutex_t *mutex;
} subject;

static void run_launches(subject *s, size_t launches) {
    for (size_t i = 0, at = 0; i < launches; i++, at = at + 2 * s->n <= s->count ? at + s->n : 0) {
        need(snug_resolve(s->stream, s->handles + at, s->n, s->access, s->addresses), "resolve");
        need(snug_release(s->stream, s->handles + at, s->n, s->access), "release");
    }
}

static void run_loads(subject *s, size_t launches) {
    for (size_t i = 0, at = 0; i < launches; i++, at = at + 2 * s->n <= s->count ? at + s->n : 0)
        for (size_t k = 0; k < s->n; k++)
            s->addresses[k] = *(void *volatile *)&s->table[at + k];
}

static void run_mutexes(subject *s, size_t launches) {
    for (size_t i = 0; i < launches * s->n; i++) {
        pthread_mutex_lock(s->mutex);
        pthread_mutex_unlock(s->mutex);
    }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double measure(const char *name, void (*run)(subject *, size_t), subject *s, double base) {
    double samples[REPEATS];
    size_t launches = ROUND / s->n;
    for (int i = 0; i < REPEATS; i++) {
        double began = now_ns();
        run(s, launches);
        samples[i] = (now_ns() - began) / (double)(launches * s->n);
    }
    qsort(samples, REPEATS, sizeof samples[0], by_value);
    double median = samples[REPEATS / 2];
    printf("%-34s %8.2f ns per handle  (%.2f .. %.2f)", name, median, samples[0], samples[REPEATS - 1]);
    if (base > 0)
        printf("  %6.2f x a raw load", median / base);
    printf("\n");
    return median;
}

static void measure_all(subject *s, const char *where) {
    static const size_t sizes[] = {1, 8, 64};
    char                name[64];
    s->n        = 8;
    snprintf(name, sizeof name, "%s, raw load", where);
    double base = measure(name, run_loads, s, 0);
    for (size_t i = 0; i < 3; i++)
        for (int access = SNUG_WRITE; access <= SNUG_READ; access++) {
            s->n = sizes[i];
            for (size_t k = 0; k < s->n; k++)
                s->access[k] = (snug_access)access;
            snprintf(name, sizeof name, "%s, %s, launches of %zu", where, access == SNUG_READ ? "reads" : "writes", s->n);
            measure(name, run_launches, s, base);
        }
}

int main(void) {
    static snug_handle handles[COLD];
    static void       *table[COLD];
    pthread_mutex_t    mutex   = PTHREAD_MUTEX_INITIALIZER;
    snug_pool_options  options = snug_pool_options_default();
    snug_host_stream  *native;
    snug_pool         *pool;
    subject            s = {.handles = handles, .table = table, .mutex = &mutex, .n = 8, .count = HOT};
    options.capacity     = (uint64_t)COLD * SNUG_GRANULE;
    need(snug_pool_create(&options, &pool), "pool");
    need(snug_host_stream_create(&native), "stream");
    need(snug_stream_attach(pool, native, &s.stream), "attach");
    for (size_t i = 0; i < COLD; i++)
        need(snug_alloc(pool, SNUG_GRANULE, NULL, &handles[i]), "alloc");
    measure("mutex, lock and unlock", run_mutexes, &s, 0);
    measure_all(&s, "64 handles");
    s.count = COLD;
    measure_all(&s, "1 M handles");
    for (size_t i = 0; i < COLD; i++)
        need(snug_free(pool, handles[i]), "free");
    need(snug_pool_destroy(pool), "destroy");
    need(snug_host_stream_destroy(native), "destroy stream");
    return 0;
}
