/* options.c: see options.h. */
#include "options.h"

#include "handle.h"
#include "structs.h"

#include <ctype.h>
#include <stdlib.h>

static const char *const log_levels[] = {"warnings", "off", "errors", "info"};

/* A number with K, M or G behind it. */
static bool parse_bytes(const char *text, uint64_t *value) {
    char *end;
    if (!isdigit((unsigned char)text[0]))
        return false;
    unsigned long long number = strtoull(text, &end, 10);
    unsigned           shift  = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (end[shift != 0] != 0 || number > SNUG_SIZE_MAX >> shift)
        return false;
    *value = number << shift;
    return true;
}

static bool parse_switch(const char *text, int *on) {
    *on = strcmp(text, "on") == 0;
    return *on || strcmp(text, "off") == 0;
}

static bool parse_count(const char *text, uint64_t most, uint32_t *value) {
    uint64_t number;
    if (!parse_bytes(text, &number) || number > most)
        return false;
    *value = (uint32_t)number;
    return true;
}

static bool parse_log(const char *text, int *level) {
    for (int i = 0; i < 4; i++)
        if (strcmp(text, log_levels[i]) == 0) {
            *level = i;
            return true;
        }
    return false;
}

static bool set_value(snug__settings *s, const char *name, const char *value, bool *known) {
    int      on;
    uint64_t number;
    *known = true;
    if (strcmp(name, "device") == 0)
        return snprintf(s->device, sizeof s->device, "%s", value) < (int)sizeof s->device;
    if (strcmp(name, "compaction") == 0)
        return parse_switch(value, &on) && (s->pool.compaction_off = !on, true);
    if (strcmp(name, "jumble") == 0)
        return parse_switch(value, &s->pool.jumble);
    if (strcmp(name, "address_table") == 0)
        return parse_switch(value, &s->pool.address_table);
    if (strcmp(name, "compactor") == 0)
        return parse_switch(value, &on) && (s->compactor = on, true);
    if (strcmp(name, "log") == 0)
        return parse_log(value, &s->pool.log_level);
    if (strcmp(name, "capacity") == 0)
        return parse_bytes(value, &s->pool.capacity);
    if (strcmp(name, "demand_bytes_max") == 0)
        return parse_bytes(value, &s->pool.demand_bytes_max);
    if (strcmp(name, "pin_wait_us") == 0)
        return parse_bytes(value, &number) &&
               (s->pool.pin_wait_ns = number ? number * 1000 : 1, true) /* 0 would be the default */;
    if (strcmp(name, "handles_max") == 0)
        return parse_count(value, SNUG__HANDLES_MAX, &s->pool.handles_max);
    if (strcmp(name, "generation_first") == 0)
        return parse_count(value, UINT32_MAX, &s->pool.generation_first);
    return *known = false;
}

static snug_status parse_environment(const char *text, snug__settings *s) {
    snug__log log = {s->pool.log_level, s->pool.log, s->pool.log_context};
    for (const char *at = text; *at;) {
        char   item[128];
        size_t length = strcspn(at, ",");
        snprintf(item, sizeof item, "%.*s", (int)(length < 127 ? length : 127), at);
        char *equals = strchr(item, '=');
        bool  known  = false;
        if (equals)
            *equals = 0;
        if (length >= sizeof item) {
            snug__log_line(&log, SNUG_LOG_ERRORS, "SNUG_OPTIONS, character %zu: an option of more than 127 characters",
                           (size_t)(at - text) + 1);
            return SNUG_OPTIONS;
        }
        if (length && (!equals || !set_value(s, item, equals + 1, &known))) {
            snug__log_line(&log, SNUG_LOG_ERRORS, "SNUG_OPTIONS, character %zu: %s '%s'", (size_t)(at - text) + 1,
                           !equals ? "no '=' in"
                           : known ? "bad value of"
                                   : "unknown option",
                           item);
            return SNUG_OPTIONS;
        }
        at += length + (at[length] == ',');
    }
    return SNUG_OK;
}

static snug_status check(const snug_pool_options *o) {
    if (o->capacity > SNUG_SIZE_MAX || o->bounce_bytes > SNUG_SIZE_MAX)
        return SNUG_TOO_LARGE;
    if (o->capacity < SNUG_GRANULE || o->handles_max > SNUG__HANDLES_MAX || o->log_level < 0 ||
        o->log_level > SNUG_LOG_INFO)
        return SNUG_INVALID;
    return SNUG_OK;
}

static void fill_defaults(snug_pool_options *o) {
    const uint64_t bounce_min = UINT64_C(64) << 10, bounce_max = UINT64_C(32) << 20;
    o->capacity -= o->capacity % SNUG_GRANULE;
    if (!o->commit_bytes || o->commit_bytes > o->capacity)
        o->commit_bytes = o->capacity;
    uint64_t least = o->capacity / 64;
    least          = least < bounce_min ? bounce_min : least > bounce_max ? bounce_max : least;
    if (o->bounce_bytes < least) /* a smaller one could need more copies for a slide than a stream's queue holds */
        o->bounce_bytes = least;
    o->bounce_bytes = (o->bounce_bytes + SNUG_GRANULE - 1) / SNUG_GRANULE * SNUG_GRANULE;
    if (!o->handles_max)
        o->handles_max = SNUG__HANDLES_MAX;
    if (!o->pin_wait_ns)
        o->pin_wait_ns = 1000000;
    if (!o->generation_first)
        o->generation_first = 1;
}

snug_status snug__settings_make(const snug_pool_options *given, const char *environment, snug__settings *settings) {
    memset(settings, 0, sizeof *settings);
    snug_pool_options *o = &settings->pool;
    if (given) {
        if (!snug__struct_valid(given))
            return SNUG_INVALID;
        snug__struct_take(o, sizeof *o, given);
    }
    const char *device = o->device ? o->device : "host";
    if (snprintf(settings->device, sizeof settings->device, "%s", device) >= (int)sizeof settings->device)
        return SNUG_NO_DEVICE;
    if (environment) {
        snug_status status = parse_environment(environment, settings);
        if (status != SNUG_OK)
            return status;
    }
    snug_status status = check(o);
    if (status == SNUG_OK)
        fill_defaults(o);
    return status;
}
