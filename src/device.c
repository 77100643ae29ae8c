/* device.c: the list of device rows, and the words of the last device error. */
#include "device.h"

#include <stdarg.h>

static const snug__device_row *const rows[] = {
#ifdef SNUG_HAVE_CUDA
    &snug__device_cuda, /* the best first; sim is never the best */
#endif
    &snug__device_host, &snug__device_sim};

const snug__device_row *snug__device_find(const char *name) {
    for (size_t i = 0; strcmp(name, "auto") == 0; i++)
        if (rows[i]->count() > 0)
            return rows[i];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i]->name, name) == 0)
            return rows[i];
    return NULL;
}

static _Thread_local char device_error[128];

const char *snug__device_error(void) {
    return device_error;
}

const char *snug_device_error(void) {
    return device_error;
}

void snug__device_error_set(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(device_error, sizeof device_error, format, arguments);
    va_end(arguments);
}
