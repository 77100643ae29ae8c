/* structs.h: option and result structs of clients built against an older or newer snug.h: the first field is a size_t, the
 * size of the struct as its owner knows it, and only what both sides know is copied. */
#ifndef SNUG__STRUCTS_H
#define SNUG__STRUCTS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool snug__struct_valid(const void *theirs) {
    return *(const size_t *)theirs >= sizeof(size_t);
}

/* Takes their options over ours, of size bytes, which hold the defaults. */
static inline void snug__struct_take(void *ours, size_t size, const void *theirs) {
    size_t known = *(const size_t *)theirs;
    memcpy(ours, theirs, known < size ? known : size);
}

/* Gives them our result, and tells how much of it. */
static inline void snug__struct_give(void *theirs, const void *ours, size_t size) {
    size_t known = *(const size_t *)theirs;
    known        = known < size ? known : size;
    memcpy(theirs, ours, known);
    *(size_t *)theirs = known;
}

#endif
