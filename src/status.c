/* status.c: names and sentences of the statuses, from the one map in snug.h. */
#include <snug.h>

static const struct {
    const char *name, *text;
} statuses[] = {
#define STATUS_ROW(name, text) {#name, text},
    SNUG_STATUS_MAP(STATUS_ROW)
#undef STATUS_ROW
};

const char *snug_status_name(snug_status status) {
    return (unsigned)status < SNUG_STATUS_COUNT ? statuses[status].name : "?";
}

const char *snug_status_string(snug_status status) {
    return (unsigned)status < SNUG_STATUS_COUNT ? statuses[status].text : "not a status of this library";
}

#define TEXT_OF(x)                        #x
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *snug_version(void) {
    return VERSION_TEXT(SNUG_VERSION_MAJOR, SNUG_VERSION_MINOR, SNUG_VERSION_PATCH);
}
