/* arguments.h - options of the commands: a table of options, parsed by getopt_long, and the values they take.
 *
 * A command lists its options once; parsing, error lines and --help come from that list. Every error is one line on
 * stderr that names the command, the option and the value. Nothing here allocates; text values point into argv.
 */
#ifndef SNUG_TOOLS_ARGUMENTS_H
#define SNUG_TOOLS_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARGUMENTS_MAX 40 /* options of one command */

typedef enum argument_kind {
    ARGUMENT_FLAG,   /* bool *: set to true; takes no value */
    ARGUMENT_BYTES,  /* uint64_t *: a number with an optional K, M, G or T (powers of 1024): 256M */
    ARGUMENT_COUNT,  /* uint64_t *: a number with an optional K, M or G (powers of 1000): 10M */
    ARGUMENT_NUMBER, /* double *: a finite decimal number: seconds, shares, factors */
    ARGUMENT_CHOICE, /* int *: index into choices */
    ARGUMENT_TEXT    /* const char **: the value as it stands, not empty */
} argument_kind;

typedef struct argument {
    const char        *name; /* without the dashes */
    argument_kind      kind;
    void              *value;       /* of the type that kind names; holds the default before parsing */
    const char        *placeholder; /* of the value in --help: "BYTES"; NULL for flags and choices */
    const char        *help;        /* one line, without the default */
    double             least, most; /* BYTES, COUNT, NUMBER: the values allowed; most 0 = no bound but the type's */
    const char *const *choices;     /* CHOICE: names, ended by NULL */
    bool              *given;       /* set to true when the option occurs; may be NULL */
} argument;

typedef struct arguments {
    const char     *command;  /* "snug stress": what error lines begin with */
    const char     *operands; /* for the usage line: "FILE ...", or NULL where there are none */
    const char     *summary;  /* one sentence for --help */
    const argument *table;
    size_t          n;
} arguments;

typedef enum arguments_result {
    ARGUMENTS_GO,   /* go on; operands are argv[*first] .. argv[argc - 1] */
    ARGUMENTS_DONE, /* --help has been printed on stdout: exit 0 */
    ARGUMENTS_BAD   /* an error line has been printed: exit 2 */
} arguments_result;

/* argv[0] is the command's own name ("stress") and is skipped. Options and operands may be mixed, "--" ends the former.
 * --help is built in. Operands where there should be none are an error. Not thread-safe (getopt isn't). */
arguments_result arguments_parse(const arguments *arguments, int argc, char **argv, int *first);

/* Prints "COMMAND: FORMAT..." and a newline on stderr. For what a table can't check. Returns 2, the exit status. */
int arguments_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The values alone, for other texts than options. false: malformed or beyond 64 bits, and value is unchanged. */
bool arguments_bytes(const char *text, uint64_t *value);
bool arguments_count(const char *text, uint64_t *value);
bool arguments_number(const char *text, double *value);
int  arguments_choice(const char *text, const char *const *choices); /* index, or -1 */

/* The commands, each in a file of its own: argv[0] is the command's name; the value is the exit status. */
int snug_stress_main(int argc, char **argv);
int snug_replay_main(int argc, char **argv);

/* --compaction of every command. */
enum { COMPACTION_OFF, COMPACTION_ON, COMPACTION_BOTH };
extern const char *const arguments_compaction_choices[]; /* "off", "on", "both", NULL */

#endif
