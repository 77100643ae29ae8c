/* hash.h: uthash, told not to exit() when memory runs out: the item is then left out and its hh.tbl stays NULL. */
#ifndef SNUG__HASH_H
#define SNUG__HASH_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#endif
