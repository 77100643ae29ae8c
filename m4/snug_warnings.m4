# SNUG_WARNINGS
# Substitutes WARN_CFLAGS: the warnings that this compiler knows, and -Werror with --enable-werror.
AC_DEFUN([SNUG_WARNINGS], [
    AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [treat compiler warnings as errors])],
        [], [enable_werror=no])
    WARN_CFLAGS=
    m4_foreach_w([snug_flag], [-Wall -Wextra -Wshadow=local -Wundef -Wvla -Wpointer-arith -Wwrite-strings -Wformat=2
        -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wredundant-decls
        -Wcast-align -Wlogical-op], [SNUG_CFLAG([WARN_CFLAGS], snug_flag)])
    AS_VAR_IF([enable_werror], [no], [], [AS_VAR_APPEND([WARN_CFLAGS], [" -Werror"])])
    AC_SUBST([WARN_CFLAGS])
])
