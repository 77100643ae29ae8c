/* tap.h - what a test needs to print TAP, the Test Anything Protocol, with the plan at its end.
 *
 *     int main(void) {
 *         ok(snug_version() != NULL, "there is a version");
 *         is_status(snug_pool_create(&options, &pool), SNUG_OK, "a pool of %d MiB", 64);
 *         is_u64(stats.live_bytes, 0, "nothing is live");
 *         return done_testing();
 *     }
 *
 * Every check takes a name in printf's manner, evaluates its arguments once, prints one line, and returns whether it held;
 * a failed one also prints file and line, and what it got. Any thread may call them. State is one per program: include
 * this in one file of it. A loop over many cases should check once per case or less: the output is kept.
 *
 * Environment: SNUG_TEST_SCALE, in percent, says how long random tests run (tap_scaled); SNUG_TEST_SEED is their seed (tap_seed).
 */
#ifndef SNUG_TESTS_TAP_H
#define SNUG_TESTS_TAP_H

#include <snug.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAP_PRINTF(n) __attribute__((format(printf, n, n + 1), unused))

#define ok(condition, ...)              tap_ok(__FILE__, __LINE__, (condition), #condition, __VA_ARGS__)
#define is_status(got, expected, ...)   tap_is_status(__FILE__, __LINE__, (got), (expected), __VA_ARGS__)
#define is_u64(got, expected, ...)      tap_is_u64(__FILE__, __LINE__, (got), (expected), __VA_ARGS__)
#define is_i64(got, expected, ...)      tap_is_i64(__FILE__, __LINE__, (got), (expected), __VA_ARGS__)
#define is_hex(got, expected, ...)      tap_is_hex(__FILE__, __LINE__, (got), (expected), __VA_ARGS__)
#define is_pointer(got, expected, ...)  tap_is_pointer(__FILE__, __LINE__, (got), (expected), __VA_ARGS__)
#define is_string(got, expected, ...)   tap_is_string(__FILE__, __LINE__, (got), (expected), __VA_ARGS__)
#define is_bytes(got, expected, n, ...) tap_is_bytes(__FILE__, __LINE__, (got), (expected), (n), __VA_ARGS__)
#define succeeds(call)                  tap_is_status(__FILE__, __LINE__, (call), SNUG_OK, "%s", #call)
#define skip(n, ...)                    tap_skip((n), __VA_ARGS__)   /* instead of n checks; the text is the reason */
#define skip_all(...)                   tap_skip_all(__VA_ARGS__)    /* ends the program; before the first check only */
#define diag(...)                       tap_diag(__VA_ARGS__)        /* a line for people */
#define bail_out(...)                   tap_bail_out(__VA_ARGS__)    /* ends the program: nothing further makes sense */
#define done_testing()                  tap_done_testing()           /* prints the plan; returns main's exit status */

static struct {
    pthread_mutex_t lock;
    unsigned        checks, failures;
} tap = {PTHREAD_MUTEX_INITIALIZER, 0, 0};

/* Prints the line of one check, and of a failed one where it stands and what differs. A name can't hold
 * '#' or a newline: to a TAP reader they mean something. */
__attribute__((format(printf, 5, 0)))
static void tap_print(bool held, const char *file, int line, const char *differs, const char *format, va_list list) {
    char name[512];
    vsnprintf(name, sizeof name, format, list);
    for (char *c = name; *c; c++)
        if (*c == '#' || *c == '\n') *c = ' ';
    pthread_mutex_lock(&tap.lock);
    tap.checks++;
    printf("%sok %u - %s\n", held ? "" : "not ", tap.checks, name);
    if (!held) {
        tap.failures++;
        printf("# %s:%d: %s\n%s%s%s", file, line, name, *differs ? "#   " : "", differs, *differs ? "\n" : "");
    }
    fflush(stdout);
    pthread_mutex_unlock(&tap.lock);
}

/* The rest of a check's body: the variadic arguments say what differs, should it not hold. */
#define TAP_REPORT(held, ...)                                                                                          \
    do {                                                                                                               \
        char    differs[512] = "";                                                                                     \
        va_list list;                                                                                                  \
        if (!(held)) snprintf(differs, sizeof differs, __VA_ARGS__);                                                   \
        va_start(list, format);                                                                                        \
        tap_print((held), file, line, differs, format, list);                                                          \
        va_end(list);                                                                                                  \
        return (held);                                                                                                 \
    } while (0)

TAP_PRINTF(5) static bool tap_ok(const char *file, int line, bool held, const char *condition, const char *format, ...) {
    TAP_REPORT(held, "false: %s", condition);
}

TAP_PRINTF(5)
static bool tap_is_status(const char *file, int line, snug_status got, snug_status expected, const char *format, ...) {
    TAP_REPORT(got == expected, "got %s (%s), expected %s", snug_status_name(got), snug_status_string(got),
               snug_status_name(expected));
}

TAP_PRINTF(5)
static bool tap_is_u64(const char *file, int line, uint64_t got, uint64_t expected, const char *format, ...) {
    TAP_REPORT(got == expected, "got %" PRIu64 ", expected %" PRIu64, got, expected);
}

TAP_PRINTF(5)
static bool tap_is_i64(const char *file, int line, int64_t got, int64_t expected, const char *format, ...) {
    TAP_REPORT(got == expected, "got %" PRId64 ", expected %" PRId64, got, expected);
}

TAP_PRINTF(5)
static bool tap_is_hex(const char *file, int line, uint64_t got, uint64_t expected, const char *format, ...) {
    TAP_REPORT(got == expected, "got 0x%" PRIx64 ", expected 0x%" PRIx64, got, expected);
}

TAP_PRINTF(5)
static bool tap_is_pointer(const char *file, int line, const void *got, const void *expected, const char *format, ...) {
    TAP_REPORT(got == expected, "got %p, expected %p", got, expected);
}

TAP_PRINTF(5)
static bool tap_is_string(const char *file, int line, const char *got, const char *expected, const char *format, ...) {
    bool same = got && expected ? !strcmp(got, expected) : got == expected;
    TAP_REPORT(same, "got \"%.200s\", expected \"%.200s\"", got ? got : "(null)", expected ? expected : "(null)");
}

TAP_PRINTF(6)
static bool tap_is_bytes(const char *file, int line, const void *got, const void *expected, size_t n, const char *format,
                         ...) {
    const unsigned char *a = got, *b = expected;
    size_t               at = 0;
    while (at < n && a[at] == b[at]) at++;
    TAP_REPORT(at == n, "byte %zu of %zu: got %#x, expected %#x", at, n, a[at], b[at]);
}

TAP_PRINTF(2) static void tap_skip(unsigned n, const char *format, ...) {
    va_list list;
    char why[512];
    va_start(list, format);
    vsnprintf(why, sizeof why, format, list);
    va_end(list);
    pthread_mutex_lock(&tap.lock);
    for (unsigned i = 0; i < n; i++) printf("ok %u # SKIP %s\n", ++tap.checks, why);
    fflush(stdout);
    pthread_mutex_unlock(&tap.lock);
}

TAP_PRINTF(1) _Noreturn static void tap_skip_all(const char *format, ...) {
    va_list list;
    va_start(list, format);
    printf("1..0 # SKIP ");
    vprintf(format, list);
    va_end(list);
    printf("\n");
    exit(0);
}

TAP_PRINTF(1) static void tap_diag(const char *format, ...) {
    va_list list;
    va_start(list, format);
    pthread_mutex_lock(&tap.lock);
    printf("# ");
    vprintf(format, list);
    printf("\n");
    fflush(stdout);
    pthread_mutex_unlock(&tap.lock);
    va_end(list);
}

TAP_PRINTF(1) _Noreturn static void tap_bail_out(const char *format, ...) {
    va_list list;
    va_start(list, format);
    printf("Bail out! ");
    vprintf(format, list);
    va_end(list);
    printf("\n");
    exit(1);
}

__attribute__((unused)) static int tap_done_testing(void) {
    pthread_mutex_lock(&tap.lock);
    unsigned checks = tap.checks, failures = tap.failures;
    pthread_mutex_unlock(&tap.lock);
    if (!checks) {
        printf("not ok 1 - no check ran\n");
        checks = failures = 1;
    }
    printf("1..%u\n", checks);
    if (failures) printf("# %u of %u failed\n", failures, checks);
    fflush(stdout);
    return failures ? 1 : 0;
}

__attribute__((unused)) static uint64_t tap_scaled(uint64_t n) {
    const char *text = getenv("SNUG_TEST_SCALE");
    uint64_t percent = text ? strtoull(text, NULL, 10) : 100;
    uint64_t result = n * percent / 100;
    return result ? result : 1;
}

__attribute__((unused)) static uint64_t tap_seed(uint64_t otherwise) {
    const char *text = getenv("SNUG_TEST_SEED");
    uint64_t value = text ? strtoull(text, NULL, 0) : otherwise;
    tap_diag("SNUG_TEST_SEED=%" PRIu64, value);
    return value;
}

#endif
