/* options.h: pool options: defaults, the environment variable SNUG_OPTIONS, checks. */
#ifndef SNUG__OPTIONS_H
#define SNUG__OPTIONS_H

#include "log.h"

#include <stdbool.h>

typedef struct snug__settings {
    snug_pool_options pool;      /* every field filled */
    bool              compactor; /* start one at once */
    char              device[16];
} snug__settings;

/* given: as the client gave them, may be NULL. environment: the value of SNUG_OPTIONS, may be NULL. A fault in it is logged
 * with what is wrong and where. Errors: INVALID, TOO_LARGE, OPTIONS. */
snug_status snug__settings_make(const snug_pool_options *given, const char *environment, snug__settings *settings);

#endif
