/* models.c - see models.h. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "models.h"
#include "arguments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TENSORS_MAX 65536
#define LINE_BYTES  1024
#define KIB         UINT64_C(1024)
#define MIB         (KIB * KIB)

static const char *const names[MODELS_N] = {"llama3-8b", "sdxl-unet", "whisper-large-v3"};

static bool add(model *m, uint64_t bytes) {
    if (m->n % 256 == 0) {
        uint64_t *larger = realloc(m->tensors, (m->n + 256) * sizeof *larger);
        if (!larger) return false;
        m->tensors = larger;
    }
    m->tensors[m->n++] = bytes;
    m->bytes += bytes;
    return true;
}

/* ---------------------------------------------------------------------------------------------- from a folder */

/* The bytes column of one line. */
static bool read_tensor(const char *line, uint64_t *bytes) {
    const char *comma = strrchr(line, ',');
    return comma && arguments_bytes(comma + 1, bytes) && *bytes > 0 && *bytes <= UINT64_C(1) << 40;
}

static bool read_lines(model *m, FILE *file, const char *path, const char *command) {
    char line[LINE_BYTES];
    for (uint32_t number = 1; number <= TENSORS_MAX && fgets(line, sizeof line, file); number++) {
        line[strcspn(line, "\r\n")] = 0;
        uint64_t bytes;
        if (number == 1 || !line[0]) continue;
        if (!read_tensor(line, &bytes)) {
            arguments_error(command, "%s:%lu: the last column must be the bytes of a tensor", path,
                            (unsigned long)number);
            return false;
        }
        if (!add(m, bytes)) {
            arguments_error(command, "%s: out of memory", path);
            return false;
        }
    }
    if (m->n) return true;
    arguments_error(command, "%s: holds no tensors", path);
    return false;
}

static bool read_model(model *m, const char *folder, const char *command) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.tensors.csv", folder, m->name);
    FILE *file = fopen(path, "r");
    if (!file) {
        arguments_error(command, "--models %s: cannot read %s: %s", folder, path, strerror(errno));
        return false;
    }
    bool good = read_lines(m, file, path, command);
    fclose(file);
    return good;
}

/* ---------------------------------------------------------------------------------------------- made up */

/* A language model: a table of words at each end, and layers alike between. */
static bool make_language(model *m) {
    static const uint64_t layer[] = {8 * KIB, 32 * MIB, 8 * MIB,  8 * MIB, 32 * MIB,
                                     8 * KIB, 98 * MIB, 98 * MIB, 98 * MIB};
    bool                  good = add(m, 750 * MIB);
    for (int l = 0; l < 28; l++)
        for (size_t t = 0; t < sizeof layer / sizeof layer[0]; t++) good = good && add(m, layer[t]);
    return good && add(m, 8 * KIB) && add(m, 750 * MIB);
}

/* An image model: blocks that widen and narrow again, each with convolutions, attention and many small vectors. */
static bool make_image(model *m) {
    static const uint64_t widths[] = {320, 640, 640, 1280, 1280, 1280, 1280, 1280, 1280, 640, 640, 320};
    bool                  good = true;
    for (size_t b = 0; b < sizeof widths / sizeof widths[0]; b++) {
        uint64_t w = widths[b];
        for (int i = 0; i < 2; i++) good = good && add(m, w * 2) && add(m, w * w * 9 * 2) && add(m, w * 2);
        for (int i = 0; i < 10; i++) {
            for (int v = 0; v < 6; v++) good = good && add(m, w * 2);
            for (int q = 0; q < 4; q++) good = good && add(m, w * w * 2);
            good = good && add(m, w * w * 8 * 2) && add(m, w * w * 4 * 2);
        }
    }
    return good;
}

/* A speech model: two short filters, then an encoder and a decoder of layers alike. */
static bool make_speech(model *m) {
    const uint64_t w = 1280;
    bool           good = add(m, w * 128 * 3 * 2) && add(m, w * w * 3 * 2);
    for (int l = 0; l < 32 + 32; l++) {
        int squares = l < 32 ? 4 : 8;
        for (int v = 0; v < squares + 4; v++) good = good && add(m, w * 2);
        for (int q = 0; q < squares; q++) good = good && add(m, w * w * 2);
        good = good && add(m, w * w * 4 * 2) && add(m, w * w * 4 * 2);
    }
    return good && add(m, 51866 * w * 2);
}

/* ---------------------------------------------------------------------------------------------- both */

bool models_open(models *m, const char *folder, const char *command) {
    static bool (*const makers[MODELS_N])(model *) = {make_language, make_image, make_speech};
    static const char *const made_up[MODELS_N] = {"language", "image", "speech"};
    if (!folder && !access(MODELS_DEFAULT, R_OK | X_OK)) folder = MODELS_DEFAULT;
    m->source = folder ? folder : "built-in";
    for (int i = 0; i < MODELS_N; i++) {
        m->all[i].name = folder ? names[i] : made_up[i];
        if (folder && !read_model(&m->all[i], folder, command)) return false;
        if (!folder && !makers[i](&m->all[i])) {
            arguments_error(command, "out of memory");
            return false;
        }
        m->bytes += m->all[i].bytes;
    }
    return true;
}

void models_close(models *m) {
    for (int i = 0; i < MODELS_N; i++) free(m->all[i].tensors);
    *m = (models){0};
}

double models_scale(const models *m, uint64_t bytes) { return (double)bytes / ((double)m->bytes * 5.0 / 6.0); }
