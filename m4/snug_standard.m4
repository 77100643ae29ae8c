# SNUG_STANDARD
# The sources are C11 with GNU extensions. Substitutes STD_CFLAGS, stops if the compiler has no C11.
AC_DEFUN([SNUG_STANDARD], [
    STD_CFLAGS=
    SNUG_CFLAG([STD_CFLAGS], [-std=gnu11])
    AC_CACHE_CHECK([for C11 with GNU extensions], [snug_cv_c11], [
        snug_standard_saved=$CFLAGS
        CFLAGS="$CFLAGS $STD_CFLAGS"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
            #include <stdatomic.h>
            _Static_assert(__STDC_VERSION__ >= 201112L, "C11");
            static _Thread_local int local;
            static _Atomic int shared;]], [[
            __typeof__(local) copy = atomic_load(&shared);
            return copy + local;]])], [snug_cv_c11=yes], [snug_cv_c11=no])
        CFLAGS=$snug_standard_saved
    ])
    AS_VAR_IF([snug_cv_c11], [yes], [], [AC_MSG_ERROR([snug needs a C11 compiler with atomics: gcc 5 or clang 3.6, or later])])
    AC_SUBST([STD_CFLAGS])
])
