/* options.c - SNUG_OPTIONS: the input's first line is its value, what follows are the numbers of the options given. Refused
 * with one line that says why, or taken: then every field is filled, in its bounds, and is the last one named. */
#include "fuzz/fuzz.h"

#include "handle.h"
#include "options.h"

#include <string.h>

static unsigned lines;

static void line_seen(void *context, int level, const char *line) {
    (void)context;
    EXPECT(level == SNUG_LOG_ERRORS && strlen(line) <= 400, "level %d, %zu characters", level, strlen(line));
    lines++;
}

/* The value of the last item of that name; NULL: it isn't there. */
static const char *model_last(const char *text, const char *name, char value[128]) {
    const char *found = NULL;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ","), n = strlen(name);
        if (length > n && strncmp(at, name, n) == 0 && at[n] == '=') {
            snprintf(value, 128, "%.*s", (int)(length - n - 1), at + n + 1);
            found = value;
        }
        at += length;
        if (!*at)
            return found;
    }
}

static uint64_t model_number(const char *text) {
    unsigned __int128 value = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        if (value < SNUG_SIZE_MAX * (unsigned __int128)16)
            value = value * 10 + (unsigned)(*text - '0');
    value <<= *text == 'K' ? 10 : *text == 'M' ? 20 : *text == 'G' ? 30 : 0;
    EXPECT(value <= SNUG_SIZE_MAX, "a number above what a size can be was taken");
    return (uint64_t)value;
}

static uint64_t model_value(const char *text, const char *name, uint64_t otherwise) {
    char        value[128];
    const char *last = model_last(text, name, value);
    return last ? model_number(last) : otherwise;
}

static int model_switch(const char *text, const char *name, int otherwise) {
    char        value[128];
    const char *last = model_last(text, name, value);
    return last ? strcmp(last, "on") == 0 : otherwise;
}

FUZZ_MODEL static void model_compare(const char *text, const snug_pool_options *given, const snug__settings *s) {
    const snug_pool_options *o        = &s->pool;
    uint64_t                 capacity = model_value(text, "capacity", given->capacity);
    EXPECT(o->capacity == capacity / SNUG_GRANULE * SNUG_GRANULE, "capacity %llu", (unsigned long long)o->capacity);
    EXPECT(o->capacity >= SNUG_GRANULE && o->capacity <= SNUG_SIZE_MAX, "capacity");
    EXPECT(o->commit_bytes >= 1 && o->commit_bytes <= o->capacity, "commit");
    EXPECT(o->bounce_bytes >= 64 << 10 && o->bounce_bytes % SNUG_GRANULE == 0 && o->bounce_bytes >= given->bounce_bytes,
           "bounce");
    uint64_t handles = model_value(text, "handles_max", given->handles_max);
    EXPECT(o->handles_max == (handles ? handles : SNUG__HANDLES_MAX), "handles %u", o->handles_max);
    uint64_t generation = model_value(text, "generation_first", given->generation_first);
    EXPECT(o->generation_first == (generation ? generation : 1), "generation %u", o->generation_first);
    EXPECT(o->demand_bytes_max == model_value(text, "demand_bytes_max", given->demand_bytes_max), "demand");
    char        value[128];
    const char *pin_wait = model_last(text, "pin_wait_us", value);
    uint64_t    wait_ns  = pin_wait ? model_number(pin_wait) * 1000 : given->pin_wait_ns ? given->pin_wait_ns : 1000000;
    EXPECT(o->pin_wait_ns == (wait_ns ? wait_ns : 1), "pin wait %llu", (unsigned long long)o->pin_wait_ns);
    EXPECT((o->compaction_off == 0) == model_switch(text, "compaction", !given->compaction_off), "compaction");
    EXPECT(o->jumble == model_switch(text, "jumble", given->jumble), "jumble");
    EXPECT(s->compactor == model_switch(text, "compactor", 0), "compactor");
    const char *device = model_last(text, "device", value);
    EXPECT(strcmp(s->device, device ? device : given->device) == 0, "device %s", s->device);
    EXPECT(o->log_level >= 0 && o->log_level <= SNUG_LOG_INFO, "log level %d", o->log_level);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char       text[4096];
    size_t            length = 0;
    snug__settings    settings;
    snug_pool_options given = snug_pool_options_default(), known;
    while (length < size && length < sizeof text - 1 && data[length] != '\n' && data[length])
        length++;
    memcpy(text, data, length);
    text[length]   = 0;
    fuzz_input in  = {data + length + (length < size), data + size};
    uint32_t   how = fuzz_byte(&in);
    given.capacity = how & 1 ? fuzz_u64(&in) : 1 << 20;
    if (how & 2)
        given.commit_bytes = fuzz_u64(&in);
    if (how & 4)
        given.bounce_bytes = fuzz_u64(&in);
    if (how & 8)
        given.handles_max = (uint32_t)fuzz_u64(&in);
    if (how & 16)
        given.pin_wait_ns = fuzz_u64(&in);
    if (how & 32)
        given.log_level = (int)fuzz_byte(&in) % 4;
    given.device = how & 64 ? "a device of this long name" : "host";
    given.log    = line_seen;
    if (how & 128) /* of a client with another snug.h: what it doesn't know counts as zero */
        given.struct_size = fuzz_below(&in, 2 * sizeof given);
    memset(&known, 0, sizeof known);
    memcpy(&known, &given, given.struct_size < sizeof given ? given.struct_size : sizeof given);
    lines       = 0;
    bool logged = given.struct_size >= offsetof(snug_pool_options, log_context);
    if (given.struct_size > sizeof given || (!logged && given.struct_size >= sizeof(size_t)))
        return 0; /* a larger one would have to be there; without its log it would print */
    snug_status status = snug__settings_make(&given, length ? text : NULL, &settings);
    switch (status) {
    case SNUG_OK:
        EXPECT(lines == 0, "taken, and %u lines", lines);
        model_compare(text, &known, &settings);
        break;
    case SNUG_OPTIONS: EXPECT(lines == (known.log_level != SNUG_LOG_OFF), "refused with %u lines", lines); break;
    case SNUG_NO_DEVICE: EXPECT(how & 64, "no device"); break;
    default: EXPECT(status == SNUG_INVALID || status == SNUG_TOO_LARGE, "%s", snug_status_name(status));
    }
    return 0;
}
