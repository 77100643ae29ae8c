# SNUG_COVERAGE
# --enable-coverage. Substitutes COV_CFLAGS, for compiling and for linking.
AC_DEFUN([SNUG_COVERAGE], [
    AC_ARG_ENABLE([coverage], [AS_HELP_STRING([--enable-coverage],
        [count executed lines for gcov; best with CFLAGS='-O0 -g'])],
        [], [enable_coverage=no])
    COV_CFLAGS=
    AS_VAR_IF([enable_coverage], [no], [], [
        SNUG_CFLAG([COV_CFLAGS], [--coverage])
        AS_IF([test -z "$COV_CFLAGS"], [AC_MSG_ERROR([--enable-coverage: $CC doesn't take --coverage])])
        dnl Threads count too.
        SNUG_CFLAG([COV_CFLAGS], [-fprofile-update=atomic])
    ])
    AC_SUBST([COV_CFLAGS])
])
