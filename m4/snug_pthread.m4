# SNUG_PTHREAD
# Substitutes PTHREAD_CFLAGS, for compiling and for linking. Without threads there is no snug.
AC_DEFUN([SNUG_PTHREAD], [
    PTHREAD_CFLAGS=-pthread
    AC_CACHE_CHECK([whether $CC links threads with -pthread], [snug_cv_pthread], [
        snug_pthread_saved=$CFLAGS
        CFLAGS="$CFLAGS $PTHREAD_CFLAGS"
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <pthread.h>]], [[
            pthread_t thread;
            pthread_create(&thread, 0, 0, 0);
            return pthread_join(thread, 0);]])], [snug_cv_pthread=yes], [snug_cv_pthread=no])
        CFLAGS=$snug_pthread_saved
    ])
    AS_VAR_IF([snug_cv_pthread], [yes], [], [AC_MSG_ERROR([snug needs POSIX threads])])
    AC_SUBST([PTHREAD_CFLAGS])
])
