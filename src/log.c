/* log.c: see log.h. */
#include "log.h"

#include "assert.h"

#include <stdarg.h>
#include <stdlib.h>

static int rank(int level) {
    switch (level) {
    case SNUG_LOG_OFF: return 0;
    case SNUG_LOG_ERRORS: return 1;
    case SNUG_LOG_INFO: return 3;
    default: return 2;
    }
}

void snug__log_line(const snug__log *log, int level, const char *format, ...) {
    if (rank(level) > rank(log->level))
        return;
    char    line[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (log->write)
        log->write(log->context, level, line);
    else
        fprintf(stderr, "snug: %s\n", line);
}

_Noreturn void snug__assert_failed(const char *expression, const char *file, int line) {
    fprintf(stderr, "snug: %s:%d: assertion failed: %s\n", file, line, expression);
    abort();
}
