/* main.c - runs a fuzz target without libFuzzer: each argument is an input, or a folder of them, run once. Prints how many. */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

enum { INPUT_MAX = 1 << 20 };

static unsigned inputs;

static bool run_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return false;
    }
    uint8_t *data = malloc(INPUT_MAX);
    size_t   size = data ? fread(data, 1, INPUT_MAX, file) : 0;
    bool     read = data && !ferror(file);
    fclose(file);
    if (read) {
        /* a copy of exactly its size, so that a read beyond the end is seen */
        uint8_t *exact = malloc(size ? size : 1);
        memcpy(exact, data, size);
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
        inputs++;
    }
    free(data);
    return read;
}

static bool run_folder(const char *path) {
    struct dirent **names;
    int             n   = scandir(path, &names, NULL, alphasort);
    bool            ran = n >= 0;
    for (int i = 0; i < n; i++) {
        char inside[4096];
        if (names[i]->d_name[0] != '.') {
            snprintf(inside, sizeof inside, "%s/%s", path, names[i]->d_name);
            ran = run_file(inside) && ran;
        }
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    return ran;
}

int main(int argc, char **argv) {
    bool ran = argc > 1;
    for (int i = 1; i < argc; i++) {
        struct stat about;
        bool        folder = stat(argv[i], &about) == 0 && S_ISDIR(about.st_mode);
        ran                = (folder ? run_folder(argv[i]) : run_file(argv[i])) && ran;
    }
    printf("%u inputs\n", inputs);
    return ran ? 0 : 1;
}
