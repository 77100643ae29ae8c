/* refusal.h: the figures behind a refused request, kept for the thread that asked. Allocates nothing. */
#ifndef SNUG__REFUSAL_H
#define SNUG__REFUSAL_H

#include "pool.h"

/* Under the pool's lock. Counts the verdict, fills the thread's record, and returns the verdict. */
snug_status snug__refusal_make(snug_pool *pool, snug_status verdict, uint64_t bytes, uint64_t alignment);

/* Under the pool's lock: the fixed buffers that lie between free bytes. Returns how many; handles gets the first of them. */
uint32_t snug__refusal_pins(snug_pool *pool, snug_handle handles[8]);

#endif
