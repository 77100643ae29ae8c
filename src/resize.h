/* resize.h: changing a buffer's size where it is, by sliding, or by moving it. */
#ifndef SNUG__RESIZE_H
#define SNUG__RESIZE_H

#include "pool.h"

/* The caller holds the pool's mover lock. Statuses as of snug_resize. */
snug_status snug__resize(snug_pool *pool, snug__entry *entry, uint32_t generation, uint64_t new_size);

#endif
