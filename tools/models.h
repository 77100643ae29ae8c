/* models.h - the three models that the swap workload loads and unloads: for each, the sizes of its tensors.
 *
 * From a folder of NAME.tensors.csv files (header line, sizes in the column `bytes`, the last), or made up when there
 * is no such folder. Read once, before the threads start; constant from then on.
 */
#ifndef SNUG_TOOLS_MODELS_H
#define SNUG_TOOLS_MODELS_H

#include <stdbool.h>
#include <stdint.h>

#define MODELS_N       3
#define MODELS_DEFAULT "../shared/data/models"

typedef struct model {
    const char *name;    /* of the file, without .tensors.csv */
    uint64_t   *tensors; /* bytes, in the order of the list; owned */
    uint32_t    n;
    uint64_t    bytes;
} model;

typedef struct models {
    model       all[MODELS_N];
    const char *source; /* the folder, or "built-in" */
    uint64_t    bytes;
} models;

/* folder NULL: MODELS_DEFAULT if it can be read, else built-in. Returns false when a folder that was asked for doesn't
 * hold all three lists, or memory is short; that has been printed, beginning with command. Zero the struct first. */
bool models_open(models *m, const char *folder, const char *command);
void models_close(models *m);

/* The factor that makes 2.5 of the 3 models fit into that many bytes: (5 / 6) of their sum. */
double models_scale(const models *m, uint64_t bytes);

/* Bytes of a tensor at that scale, at least 1. */
static inline uint64_t models_scaled(uint64_t bytes, double scale) {
    uint64_t scaled = (uint64_t)((double)bytes * scale);
    return scaled ? scaled : 1;
}

#endif
