/* snug.c - the `snug` program: finds the command and hands over. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "arguments.h"

#include <snug.h>
#include <stdio.h>
#include <string.h>

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} command;

static const command commands[] = {
    {"stress", snug_stress_main, "drive a pool with a synthetic workload and verify every byte"},
    {"replay", snug_replay_main, "replay a recorded trace of allocations against a pool"},
};

#define N_COMMANDS (sizeof commands / sizeof commands[0])

static int print_help(void) {
    puts("Usage: snug COMMAND [OPTION]...\nExercises snug, a compacting allocator for device memory.\n\nCommands:");
    for (size_t i = 0; i < N_COMMANDS; i++) printf("  %-10s %s\n", commands[i].name, commands[i].summary);
    puts("\n  --help     print this and exit\n  --version  print the version of the library and exit\n"
         "\n`snug COMMAND --help` tells about a command.\n"
         "Exit status: 0 all is well, 1 something was found wrong, 2 the command line is wrong.");
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fputs("snug: which command? stress or replay (see snug --help)\n", stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--help")) return print_help();
    if (!strcmp(argv[1], "--version")) {
        printf("snug %s\n", snug_version());
        return 0;
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (!strcmp(argv[1], commands[i].name)) return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "snug: '%s': no such command (see snug --help)\n", argv[1]);
    return 2;
}
