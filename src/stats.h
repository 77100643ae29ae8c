/* stats.h: figures, and the check that they and everything else agree. */
#ifndef SNUG__STATS_H
#define SNUG__STATS_H

#include "pool.h"

/* Under the lock. Debug builds: aborts if the map is broken; large maps are walked now and then only. */
void snug__stats_check_debug(snug_pool *pool);

#endif
