/* arguments.c - see arguments.h. Owns nothing: the table is the command's, the texts are argv's. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "arguments.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELP_COLUMN 24
#define VALUE_BASE  256 /* getopt's codes: above every character, so that optopt tells an option from a letter */

const char *const arguments_compaction_choices[] = {"off", "on", "both", NULL};

int arguments_error(const char *command, const char *format, ...) {
    va_list list;
    fprintf(stderr, "%s: ", command);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    return 2;
}

/* ---------------------------------------------------------------------------------------------- values */

static bool parse_scaled(const char *text, const char *suffixes, uint64_t base, uint64_t *value) {
    if (!isdigit((unsigned char)text[0])) return false; /* strtoull would take blanks and a minus */
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno) return false;
    uint64_t factor = 1;
    if (*end) {
        const char *suffix = strchr(suffixes, toupper((unsigned char)*end));
        if (!suffix || end[1]) return false;
        for (const char *s = suffixes; s <= suffix; s++) factor *= base;
    }
    if (number > UINT64_MAX / factor) return false;
    *value = (uint64_t)number * factor;
    return true;
}

bool arguments_bytes(const char *text, uint64_t *value) { return parse_scaled(text, "KMGT", 1024, value); }

bool arguments_count(const char *text, uint64_t *value) { return parse_scaled(text, "KMG", 1000, value); }

bool arguments_number(const char *text, double *value) {
    if (!text[0] || isspace((unsigned char)text[0])) return false;
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    if (errno == ERANGE || *end || !isfinite(number)) return false;
    *value = number;
    return true;
}

int arguments_choice(const char *text, const char *const *choices) {
    for (int i = 0; choices[i]; i++)
        if (!strcmp(text, choices[i])) return i;
    return -1;
}

/* ---------------------------------------------------------------------------------------------- one option */

static bool refuse_range(const char *command, const argument *a, const char *text) {
    if (a->most > 0.0)
        arguments_error(command, "--%s %s: must be from %.15g to %.15g", a->name, text, a->least, a->most);
    else
        arguments_error(command, "--%s %s: must be at least %.15g", a->name, text, a->least);
    return false;
}

static bool in_range(const argument *a, double value) {
    return value >= a->least && (a->most <= 0.0 || value <= a->most);
}

static bool take_integer(const char *command, const argument *a, const char *text) {
    bool     bytes = a->kind == ARGUMENT_BYTES;
    uint64_t value;
    if (!(bytes ? arguments_bytes(text, &value) : arguments_count(text, &value))) {
        const char *what = bytes ? "a number of bytes, with K, M, G or T for powers of 1024"
                                 : "a number, with K, M or G for powers of 1000";
        arguments_error(command, "--%s '%s': must be %s", a->name, text, what);
        return false;
    }
    if (!in_range(a, (double)value)) return refuse_range(command, a, text);
    *(uint64_t *)a->value = value;
    return true;
}

static bool take_number(const char *command, const argument *a, const char *text) {
    double value;
    if (!arguments_number(text, &value)) {
        arguments_error(command, "--%s '%s': must be a number", a->name, text);
        return false;
    }
    if (!in_range(a, value)) return refuse_range(command, a, text);
    *(double *)a->value = value;
    return true;
}

static bool take_choice(const char *command, const argument *a, const char *text) {
    int index = arguments_choice(text, a->choices);
    if (index < 0) {
        fprintf(stderr, "%s: --%s '%s': must be one of", command, a->name, text);
        for (int i = 0; a->choices[i]; i++) fprintf(stderr, "%s %s", i ? "," : "", a->choices[i]);
        fputc('\n', stderr);
        return false;
    }
    *(int *)a->value = index;
    return true;
}

static bool take(const char *command, const argument *a, const char *text) {
    switch (a->kind) {
    case ARGUMENT_FLAG: *(bool *)a->value = true; return true;
    case ARGUMENT_BYTES:
    case ARGUMENT_COUNT: return take_integer(command, a, text);
    case ARGUMENT_NUMBER: return take_number(command, a, text);
    case ARGUMENT_CHOICE: return take_choice(command, a, text);
    case ARGUMENT_TEXT: break;
    }
    if (!text[0]) {
        arguments_error(command, "--%s '': must not be empty", a->name);
        return false;
    }
    *(const char **)a->value = text;
    return true;
}

/* ---------------------------------------------------------------------------------------------- help */

static void print_scaled(uint64_t value, uint64_t base, const char *suffixes) {
    int unit = -1;
    while (value && value % base == 0 && suffixes[unit + 1]) {
        value /= base;
        unit++;
    }
    printf(" (default %llu", (unsigned long long)value);
    if (unit >= 0) putchar(suffixes[unit]);
    putchar(')');
}

static void print_default(const argument *a) {
    switch (a->kind) {
    case ARGUMENT_FLAG: break;
    case ARGUMENT_BYTES:
        if (*(uint64_t *)a->value) print_scaled(*(uint64_t *)a->value, 1024, "KMGT");
        break;
    case ARGUMENT_COUNT:
        if (*(uint64_t *)a->value) print_scaled(*(uint64_t *)a->value, 1000, "KMG");
        break;
    case ARGUMENT_NUMBER: printf(" (default %g)", *(double *)a->value); break;
    case ARGUMENT_CHOICE: printf(" (default %s)", a->choices[*(int *)a->value]); break;
    case ARGUMENT_TEXT:
        if (*(const char **)a->value) printf(" (default %s)", *(const char **)a->value);
        break;
    }
}

static void print_help(const arguments *all) {
    printf("Usage: %s [OPTION]...%s%s\n%s\n\n", all->command, all->operands ? " " : "",
           all->operands ? all->operands : "", all->summary);
    for (size_t i = 0; i < all->n; i++) {
        const argument *a = &all->table[i];
        char            left[128];
        int             used = snprintf(left, sizeof left, "--%s", a->name);
        for (int c = 0; a->kind == ARGUMENT_CHOICE && a->choices[c] && used < (int)sizeof left; c++)
            used += snprintf(left + used, sizeof left - (size_t)used, "%c%s", c ? '|' : ' ', a->choices[c]);
        if (a->placeholder && used < (int)sizeof left)
            snprintf(left + used, sizeof left - (size_t)used, " %s", a->placeholder);
        if (strlen(left) > HELP_COLUMN)
            printf("  %s\n  %-*s  %s", left, HELP_COLUMN, "", a->help);
        else
            printf("  %-*s  %s", HELP_COLUMN, left, a->help);
        print_default(a);
        putchar('\n');
    }
    printf("  %-*s  print this and exit\n", HELP_COLUMN, "--help");
    puts("\nBYTES takes K, M, G or T (powers of 1024), a count K, M or G (powers of 1000).");
}

/* Before anything is parsed, so that the defaults shown are the defaults. */
static bool wants_help(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--help")) return true;
    return false;
}

/* ---------------------------------------------------------------------------------------------- all options */

static arguments_result refuse_option(const arguments *all, int code, char **argv) {
    const argument *known = optopt >= VALUE_BASE ? &all->table[optopt - VALUE_BASE] : NULL;
    if (code == ':' && known)
        arguments_error(all->command, "--%s: needs a value", known->name);
    else if (known)
        arguments_error(all->command, "--%s: takes no value", known->name);
    else if (optopt)
        arguments_error(all->command, "-%c: no such option (see --help)", optopt);
    else
        arguments_error(all->command, "%s: no such option, or short for several (see --help)", argv[optind - 1]);
    return ARGUMENTS_BAD;
}

arguments_result arguments_parse(const arguments *all, int argc, char **argv, int *first) {
    if (wants_help(argc, argv)) {
        print_help(all);
        return ARGUMENTS_DONE;
    }
    struct option options[ARGUMENTS_MAX + 1] = {{0}};
    for (size_t i = 0; i < all->n && i < ARGUMENTS_MAX; i++) {
        options[i].name = all->table[i].name;
        options[i].has_arg = all->table[i].kind == ARGUMENT_FLAG ? no_argument : required_argument;
        options[i].val = VALUE_BASE + (int)i;
    }
    opterr = 0;
    optind = 0; /* GNU: start afresh */
    int code;
    while ((code = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (code == '?' || code == ':') return refuse_option(all, code, argv);
        const argument *a = &all->table[code - VALUE_BASE];
        if (!take(all->command, a, optarg)) return ARGUMENTS_BAD;
        if (a->given) *a->given = true;
    }
    if (!all->operands && optind < argc) {
        arguments_error(all->command, "'%s': no such operand (see --help)", argv[optind]);
        return ARGUMENTS_BAD;
    }
    *first = optind;
    return ARGUMENTS_GO;
}
