# SNUG_CFLAG(VARIABLE, FLAG)
# Appends FLAG to the shell variable VARIABLE if the C compiler takes it without a complaint.
AC_DEFUN([SNUG_CFLAG], [
    AS_VAR_PUSHDEF([snug_cached], [snug_cv_cflag_$2])
    AC_CACHE_CHECK([whether $CC takes $2], [snug_cached], [
        snug_cflag_saved=$CFLAGS
        CFLAGS="$CFLAGS -Werror $2"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM()], [AS_VAR_SET([snug_cached], [yes])], [AS_VAR_SET([snug_cached], [no])])
        CFLAGS=$snug_cflag_saved
    ])
    AS_VAR_IF([snug_cached], [yes], [AS_VAR_APPEND([$1], [" $2"])])
    AS_VAR_POPDEF([snug_cached])
])
