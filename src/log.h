/* log.h: lines for the person who runs the process. Never on the launch path. */
#ifndef SNUG__LOG_H
#define SNUG__LOG_H

#include <snug.h>

typedef struct snug__log {
    int level; /* SNUG_LOG_* */
    void (*write)(void *context, int level, const char *line);
    void *context;
} snug__log;

/* One line, cut at 400 characters; level is SNUG_LOG_ERRORS, SNUG_LOG_WARNINGS or SNUG_LOG_INFO. Allocates nothing. */
void snug__log_line(const snug__log *log, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
