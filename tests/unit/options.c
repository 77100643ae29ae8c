/* options.c - pool options: defaults, checks, and the environment variable. */
#include "tap.h"

#include "handle.h"
#include "options.h"

#include <stddef.h>

static char     line[512];
static unsigned lines;

static void keep(void *context, int level, const char *text) {
    (void)context;
    lines += level == SNUG_LOG_ERRORS;
    snprintf(line, sizeof line, "%s", text);
}

static snug_pool_options base(void) {
    snug_pool_options o = snug_pool_options_default();
    o.capacity          = 1 << 30;
    o.log               = keep;
    return o;
}

static snug_status make(const char *environment, snug__settings *s) {
    snug_pool_options o = base();
    lines               = 0;
    line[0]             = 0;
    return snug__settings_make(&o, environment, s);
}

static void defaults_are_filled_in(void) {
    snug__settings s;
    is_status(make(NULL, &s), SNUG_OK, "a capacity is all it takes");
    is_u64(s.pool.capacity, 1 << 30, "capacity");
    is_u64(s.pool.commit_bytes, 1 << 30, "all of it committed");
    is_u64(s.pool.bounce_bytes, 16 << 20, "a 64th for the bounce buffer");
    is_u64(s.pool.handles_max, SNUG__HANDLES_MAX, "as many handles as there can be");
    is_u64(s.pool.pin_wait_ns, 1000000, "a millisecond for pins");
    is_u64(s.pool.generation_first, 1, "the first generation is 1");
    is_i64(s.pool.compaction_off, 0, "compaction is on");
    is_i64(s.pool.jumble, 0, "jumble off");
    is_u64(s.pool.demand_bytes_max, 0, "demand unbounded");
    is_i64(s.pool.log_level, SNUG_LOG_WARNINGS, "warnings are logged");
    ok(!s.compactor, "no compactor");
    is_string(s.device, "host", "on the host");
    is_status(make("", &s), SNUG_OK, "an empty environment is none");
}

static void the_bounce_buffer_has_bounds(void) {
    static const struct { uint64_t capacity, asked, got; } cases[] = {
        {SNUG_GRANULE, 0, 64 << 10}, {UINT64_C(64) << 30, 0, 32 << 20}, {1 << 30, 64 << 20, 64 << 20},
        {1 << 30, (32 << 20) + 1, (32 << 20) + SNUG_GRANULE}, {1 << 30, 1, 16 << 20}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        snug_pool_options o = base();
        snug__settings    s;
        o.capacity     = cases[i].capacity;
        o.bounce_bytes = cases[i].asked;
        if (snug__settings_make(&o, NULL, &s) != SNUG_OK)
            bail_out("case %u", i);
        is_u64(s.pool.bounce_bytes, cases[i].got, "capacity %" PRIu64 ", asked for %" PRIu64, cases[i].capacity, cases[i].asked);
    }
}

static void values_are_checked(void) {
    snug_pool_options o = base();
    snug__settings    s;
    is_status(snug__settings_make(NULL, NULL, &s), SNUG_INVALID, "no options at all lack a capacity");
    o.capacity = SNUG_GRANULE - 1;
    is_status(snug__settings_make(&o, NULL, &s), SNUG_INVALID, "less than a granule");
    o.capacity = 2 * SNUG_GRANULE - 1;
    is_status(snug__settings_make(&o, NULL, &s), SNUG_OK, "a granule and more");
    is_u64(s.pool.capacity, SNUG_GRANULE, "is rounded down");
    o.capacity = SNUG_SIZE_MAX;
    is_status(snug__settings_make(&o, NULL, &s), SNUG_OK, "the largest capacity");
    o.capacity++;
    is_status(snug__settings_make(&o, NULL, &s), SNUG_TOO_LARGE, "a byte more");
    o              = base();
    o.bounce_bytes = SNUG_SIZE_MAX + 1;
    is_status(snug__settings_make(&o, NULL, &s), SNUG_TOO_LARGE, "a bounce buffer that can't be");
    o             = base();
    o.handles_max = SNUG__HANDLES_MAX + 1;
    is_status(snug__settings_make(&o, NULL, &s), SNUG_INVALID, "too many handles");
    o           = base();
    o.log_level = SNUG_LOG_INFO + 1;
    is_status(snug__settings_make(&o, NULL, &s), SNUG_INVALID, "no such log level");
    o              = base();
    o.commit_bytes = UINT64_C(2) << 30;
    is_status(snug__settings_make(&o, NULL, &s), SNUG_OK, "committing more than there is");
    is_u64(s.pool.commit_bytes, 1 << 30, "commits all there is");
    o        = base();
    o.device = "a device with a very long name";
    is_status(snug__settings_make(&o, NULL, &s), SNUG_NO_DEVICE, "no device has such a name");
    o             = base();
    o.struct_size = sizeof(size_t) - 1;
    is_status(snug__settings_make(&o, NULL, &s), SNUG_INVALID, "a struct without its size");
}

static void a_smaller_struct_is_an_older_one(void) {
    snug_pool_options o = base();
    snug__settings    s;
    o.log         = NULL;
    o.jumble      = 1;
    o.handles_max = 77;
    o.struct_size = offsetof(snug_pool_options, jumble);
    is_status(snug__settings_make(&o, NULL, &s), SNUG_OK, "options of an older header");
    is_u64(s.pool.handles_max, 77, "what it had counts");
    is_i64(s.pool.jumble, 0, "what it hadn't doesn't, whatever lies behind it");
    o.struct_size = sizeof o + 64;
    is_status(snug__settings_make(&o, NULL, &s), SNUG_OK, "options of a newer header");
    is_i64(s.pool.jumble, 1, "count as far as they are known");
}

static void the_environment_overrides(void) {
    snug__settings s;
    is_status(make("device=auto,compaction=off,jumble=on,log=info,pin_wait_us=250,capacity=3M,demand_bytes_max=2K,"
                   "handles_max=1000,generation_first=4294967295,compactor=on", &s), SNUG_OK, "every key there is");
    is_string(s.device, "auto", "device");
    is_i64(s.pool.compaction_off, 1, "compaction");
    is_i64(s.pool.jumble, 1, "jumble");
    is_i64(s.pool.log_level, SNUG_LOG_INFO, "log");
    is_u64(s.pool.pin_wait_ns, 250000, "pin_wait_us");
    is_u64(s.pool.capacity, 3 << 20, "capacity");
    is_u64(s.pool.commit_bytes, 3 << 20, "and what follows from it");
    is_u64(s.pool.demand_bytes_max, 2048, "demand_bytes_max");
    is_u64(s.pool.handles_max, 1000, "handles_max");
    is_u64(s.pool.generation_first, UINT32_MAX, "generation_first");
    ok(s.compactor, "compactor");
    is_u64(lines, 0, "nothing is logged");
    snug_pool_options o = base();
    o.compaction_off = o.jumble = 1;
    is_status(snug__settings_make(&o, "compaction=on,jumble=off", &s), SNUG_OK, "options on, environment off");
    ok(!s.pool.compaction_off && !s.pool.jumble, "the environment wins");
    make("capacity=1G,capacity=2G", &s);
    is_u64(s.pool.capacity, UINT64_C(2) << 30, "the last of two");
    is_status(make(",jumble=on,,", &s), SNUG_OK, "empty items");
    is_i64(s.pool.jumble, 1, "do no harm");
    static const char *const levels[] = {"log=warnings", "log=off", "log=errors", "log=info"};
    for (int i = 0; i < 4; i++) {
        make(levels[i], &s);
        is_i64(s.pool.log_level, i, "%s", levels[i]);
    }
}

static void what_is_malformed_is_refused_and_named(void) {
    static const struct { const char *text, *place, *item; } cases[] = {
        {"compaction", "character 1:", "compaction"},
        {"jumble=on,bogus=1", "character 11:", "bogus"},
        {"compaction=maybe", "character 1:", "compaction"},
        {"jumble=", "character 1:", "jumble"},
        {"jumble=On", "character 1:", "jumble"},
        {"log=verbose", "character 1:", "log"},
        {"capacity=1X", "character 1:", "capacity"},
        {"capacity=1KK", "character 1:", "capacity"},
        {"capacity=1k", "character 1:", "capacity"},
        {"capacity=-1", "character 1:", "capacity"},
        {"capacity= 1", "character 1:", "capacity"},
        {"capacity=", "character 1:", "capacity"},
        {"capacity=K", "character 1:", "capacity"},
        {"capacity=513G", "character 1:", "capacity"},
        {"capacity=99999999999999999999999", "character 1:", "capacity"},
        {"handles_max=16777216", "character 1:", "handles_max"},
        {"generation_first=4294967296", "character 1:", "generation_first"},
        {"device=a_name_of_sixteen", "character 1:", "device"},
        {"=on", "character 1:", ""},
        {"jumble=on, compaction=on", "character 11:", " compaction"},
        {"jumble=on;compaction=on", "character 1:", "jumble"},
        {"jumble=on,jumble=off,pin_wait_us=soon", "character 22:", "pin_wait_us"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        snug__settings s;
        is_status(make(cases[i].text, &s), SNUG_OPTIONS, "\"%s\"", cases[i].text);
        is_u64(lines, 1, "one line is logged");
        ok(strstr(line, cases[i].place) && strstr(line, cases[i].item), "it says where: %s", line);
    }
    snug__settings s;
    is_status(make("capacity=0", &s), SNUG_INVALID, "a capacity of nothing is well-formed and invalid");
}

/* An item longer than any that means something must not be cut to one that does. */
static void long_items_are_not_cut_to_something_else(void) {
    char           text[400] = "capacity=";
    snug__settings s;
    memset(text + 9, '0', 110);
    strcpy(text + 119, "16777216K"); /* 127 characters end within the number */
    snug_status status = make(text, &s);
    ok(status == SNUG_OPTIONS || (status == SNUG_OK && s.pool.capacity == UINT64_C(16777216) << 10),
       "a number of 119 digits is refused or read in full: %s, %" PRIu64, snug_status_name(status), s.pool.capacity);
    memset(text, 'x', sizeof text - 1);
    is_status(make(text, &s), SNUG_OPTIONS, "a long item of nonsense");
    is_u64(lines, 1, "one line is logged");
    memcpy(text, "device=", 7);
    is_status(make(text, &s), SNUG_OPTIONS, "a long name of a device");
}

int main(void) {
    defaults_are_filled_in();
    the_bounce_buffer_has_bounds();
    values_are_checked();
    a_smaller_struct_is_an_older_one();
    the_environment_overrides();
    what_is_malformed_is_refused_and_named();
    long_items_are_not_cut_to_something_else();
    return done_testing();
}
