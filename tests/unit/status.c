/* status.c - names and sentences of the statuses, the version, the log. */
#include "tap.h"

#include "log.h"

#include <ctype.h>

static char lines[8][512];
static int  levels[8], count;

static void keep(void *context, int level, const char *line) {
    if (context == &count && count < 8) {
        levels[count] = level;
        snprintf(lines[count++], sizeof lines[0], "%s", line);
    }
}

static void every_status_has_a_name_and_a_sentence(void) {
    unsigned bad_names = 0, bad_sentences = 0, twice = 0;
    for (int s = 0; s < SNUG_STATUS_COUNT; s++) {
        const char *name = snug_status_name((snug_status)s), *text = snug_status_string((snug_status)s);
        for (const char *c = name; *c; c++)
            bad_names += !isupper((unsigned char)*c) && *c != '_';
        bad_names += strlen(name) < 2;
        bad_sentences += strlen(text) < 5 || (isupper((unsigned char)text[0]) && strncmp(text, "SNUG_", 5) != 0) || text[strlen(text) - 1] == '.';
        for (int other = 0; other < s; other++)
            twice += !strcmp(name, snug_status_name((snug_status)other)) || !strcmp(text, snug_status_string((snug_status)other));
    }
    is_u64(bad_names, 0, "names are upper case");
    is_u64(bad_sentences, 0, "sentences start in lower case and end without a full stop, but for names");
    is_u64(twice, 0, "none is there twice");
    is_i64(SNUG_OK, 0, "OK is 0");
    is_string(snug_status_name(SNUG_OK), "OK", "its name");
    is_string(snug_status_name(SNUG_NOT_PINNED), "NOT_PINNED", "another");
    is_string(snug_status_string(SNUG_STALE), "the handle has been freed", "a sentence");
    is_i64(SNUG_DEVICE - SNUG_LIMIT, 5, "the six verdicts lie together");
    is_string(snug_status_name(SNUG_STATUS_COUNT), "?", "what is none has no name");
    is_string(snug_status_name((snug_status)-1), "?", "nor has anything below");
    ok(strlen(snug_status_string((snug_status)1000)) > 0, "but a sentence");
}

static void the_version_is_the_headers(void) {
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", SNUG_VERSION_MAJOR, SNUG_VERSION_MINOR, SNUG_VERSION_PATCH);
    is_string(snug_version(), text, "version");
}

static void the_log_keeps_to_its_level(void) {
    static const struct { int level, expected; } cases[] = {
        {SNUG_LOG_OFF, 0}, {SNUG_LOG_ERRORS, 1}, {SNUG_LOG_WARNINGS, 2}, {SNUG_LOG_INFO, 3}};
    for (unsigned i = 0; i < 4; i++) {
        snug__log log = {cases[i].level, keep, &count};
        count         = 0;
        snug__log_line(&log, SNUG_LOG_ERRORS, "error %d", 1);
        snug__log_line(&log, SNUG_LOG_WARNINGS, "warning %d", 2);
        snug__log_line(&log, SNUG_LOG_INFO, "info %d", 3);
        is_i64(count, cases[i].expected, "of an error, a warning and an information level %d keeps %d", cases[i].level,
               cases[i].expected);
    }
    is_string(lines[1], "warning 2", "formatted");
    is_i64(levels[2], SNUG_LOG_INFO, "with its level");
    snug__log log = {SNUG_LOG_INFO, keep, &count};
    count         = 0;
    snug__log_line(&log, SNUG_LOG_INFO, "%1000d", 5);
    is_u64(strlen(lines[0]), 399, "a long line is cut");
}

int main(void) {
    every_status_has_a_name_and_a_sentence();
    the_version_is_the_headers();
    the_log_keeps_to_its_level();
    return done_testing();
}
