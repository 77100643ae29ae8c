/* results.c: see results.h. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "results.h"

#include <snug.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_JANSSON
#include <jansson.h>
#endif

enum { NAME_MAX_BYTES = 160, NAME_WIDTH = 62, LINE_MAX_BYTES = 400 };

/* ------------------------------------------------------------------------------------------------ series */

void series_add(series *s, double value) {
    if (s->count == SERIES_MAX)
        abort();
    s->values[s->count++] = value;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double sorted_quantile(const double *sorted, size_t count, double share) {
    double place = share * (double)(count - 1);
    size_t below = (size_t)place;
    double above = below + 1 < count ? sorted[below + 1] : sorted[below];
    return sorted[below] + (above - sorted[below]) * (place - (double)below);
}

summary series_summary(const series *s) {
    double sorted[SERIES_MAX];
    memcpy(sorted, s->values, s->count * sizeof sorted[0]);
    qsort(sorted, s->count, sizeof sorted[0], by_value);
    return (summary){.median = sorted_quantile(sorted, s->count, 0.5),
                     .q1     = sorted_quantile(sorted, s->count, 0.25),
                     .q3     = sorted_quantile(sorted, s->count, 0.75),
                     .least  = sorted[0],
                     .most   = sorted[s->count - 1]};
}

static series series_over(const series *s, const series *base) {
    series over = {.count = s->count};
    if (base->count != s->count)
        abort();
    for (unsigned i = 0; i < s->count; i++)
        over.values[i] = s->values[i] / base->values[i];
    return over;
}

/* ------------------------------------------------------------------------------------------------ JSON */

#ifdef HAVE_JANSSON

bool results_json_available(void) {
    return true;
}

static char *cpu_name(char *text, size_t size) {
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(text, size, "unknown");
    for (char line[256]; file && fgets(line, sizeof line, file);)
        if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
            line[strcspn(line, "\n")] = 0;
            snprintf(text, size, "%s", strchr(line, ':') + 2);
            break;
        }
    if (file)
        fclose(file);
    return text;
}

static double load_average(void) {
    double load = 0;
    return getloadavg(&load, 1) == 1 ? load : -1;
}

void results_open(results *r, bool json, uint64_t seed, bool quick) {
    char cpu[128];
    r->document = NULL;
    if (json)
        r->document =
            json_pack("{s:s, s:s, s:I, s:b, s:s, s:I, s:f, s:[], s:[]}", "command", "bench", "version", snug_version(),
                      "seed", (json_int_t)seed, "quick", quick, "cpu", cpu_name(cpu, sizeof cpu), "cores",
                      (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "load", load_average(), "rows", "notes");
    if (json && !r->document)
        abort();
}

static json_t *summary_object(const series *s) {
    summary of = series_summary(s);
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f}", "count", (json_int_t)s->count, "median", of.median, "q1", of.q1,
                     "q3", of.q3, "min", of.least, "max", of.most);
}

static void keep_row(results *r, const char *name, const char *unit, const series *s, const ratio *ratios) {
    char    letter[2] = {r->section, 0};
    json_t *row       = json_pack("{s:s, s:s, s:s, s:o, s:{}}", "section", letter, "name", name, "unit", unit, "values",
                                  summary_object(s), "ratios");
    for (size_t i = 0; row && ratios && i < RATIOS_MAX && ratios[i].base; i++) {
        series over = series_over(s, ratios[i].base);
        json_object_set_new(json_object_get(row, "ratios"), ratios[i].to, summary_object(&over));
    }
    if (!row || json_array_append_new(json_object_get(r->document, "rows"), row))
        abort();
}

static void keep_note(results *r, const char *text) {
    json_t *note = json_pack("{s:s#, s:s}", "section", &r->section, 1, "text", text);
    if (!note || json_array_append_new(json_object_get(r->document, "notes"), note))
        abort();
}

bool results_close(results *r, const char *path, unsigned faults) {
    if (!r->document)
        return true;
    json_object_set_new(r->document, "faults", json_integer((json_int_t)faults));
    bool written = json_dump_file(r->document, path, JSON_INDENT(1) | JSON_REAL_PRECISION(8)) == 0;
    json_decref(r->document);
    r->document = NULL;
    return written;
}

#else

bool results_json_available(void) {
    return false;
}

void results_open(results *r, bool json, uint64_t seed, bool quick) {
    (void)json, (void)seed, (void)quick;
    r->document = NULL;
}

static void keep_row(results *r, const char *name, const char *unit, const series *s, const ratio *ratios) {
    (void)r, (void)name, (void)unit, (void)s, (void)ratios;
}

static void keep_note(results *r, const char *text) {
    (void)r, (void)text;
}

bool results_close(results *r, const char *path, unsigned faults) {
    (void)r, (void)path, (void)faults;
    return true;
}

#endif

/* ------------------------------------------------------------------------------------------------ table */

void results_section(results *r, char letter, const char *title) {
    r->section = letter;
    printf("\n(%c) %s\n", letter, title);
    fflush(stdout);
}

/* Three or four digits that mean something. */
static int decimals(double value) {
    return value >= 1000 ? 0 : value >= 100 ? 1 : value >= 1 ? 2 : 3;
}

void results_row(results *r, const char *unit, const series *s, const ratio *ratios, const char *format, ...) {
    char    name[NAME_MAX_BYTES];
    va_list list;
    if (!s->count)
        return;
    va_start(list, format);
    vsnprintf(name, sizeof name, format, list);
    va_end(list);
    summary of = series_summary(s);
    int     d  = decimals(of.median);
    printf("  %-*s %9.*f %-10s (%.*f .. %.*f)", NAME_WIDTH, name, d, of.median, unit, d, of.least, d, of.most);
    for (size_t i = 0; ratios && i < RATIOS_MAX && ratios[i].base; i++) {
        series  over   = series_over(s, ratios[i].base);
        summary shares = series_summary(&over);
        printf("%s %.3f (%.3f .. %.3f) x %s", i ? ";" : " ", shares.median, shares.q1, shares.q3, ratios[i].to);
    }
    putchar('\n');
    fflush(stdout);
    if (r->document)
        keep_row(r, name, unit, s, ratios);
}

void results_note(results *r, const char *format, ...) {
    char    text[LINE_MAX_BYTES];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    printf("  - %s\n", text);
    fflush(stdout);
    if (r->document)
        keep_note(r, text);
}
