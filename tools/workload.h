/* workload.h - the synthetic workloads of `snug stress`: generators of operations on a client.
 *
 *   mixed   sizes log-uniform, lives short and long, launches, resizes, frees behind a launch, ordered streams
 *   kv      many sequences' caches that grow step by step and end at different times
 *   swap    three models' tensors, loaded and unloaded whole, with activations between
 *   train   activations allocated forward and freed backward, with survivors, sizes changing slowly
 *   powers  fill with size 2^k, free every other, ask for 2^(k+1): the adversary of allocators that can't move
 *
 * A workload sees nominal state only (client.h), so its requests depend on (seed, thread) alone. mixed, kv and train
 * keep their nominal bytes near a target that rises from 50 % of the client's share to 104 %, falls to 70 % and rises
 * again.
 */
#ifndef SNUG_TOOLS_WORKLOAD_H
#define SNUG_TOOLS_WORKLOAD_H

#include "client.h"
#include <stdbool.h>

typedef struct workload {
    bool (*open)(client *c); /* reserves slots and state; false: out of memory, printed */
    void (*step)(client *c); /* some operations more; returns soon once c->done */
    bool   models;           /* needs client_run.models */
    bool   shared;           /* uses client_run.shared */
} workload;

enum { WORKLOAD_MIXED, WORKLOAD_KV, WORKLOAD_SWAP, WORKLOAD_TRAIN, WORKLOAD_POWERS, WORKLOAD_N };
extern const workload    workload_table[WORKLOAD_N];
extern const char *const workload_names[]; /* ended by NULL */

#endif
