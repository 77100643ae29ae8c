# SNUG_SANITIZER
# --enable-sanitizer=LIST. Substitutes SAN_CFLAGS, for compiling and for linking. A list that is unknown, that contradicts
# itself, or that the compiler can't link is an error.
AC_DEFUN([SNUG_SANITIZER], [
    AC_ARG_ENABLE([sanitizer], [AS_HELP_STRING([--enable-sanitizer=LIST],
        [build with sanitizers: address, undefined, leak (comma separated), or thread alone])],
        [], [enable_sanitizer=no])
    SAN_CFLAGS=
    AS_CASE([$enable_sanitizer],
        [no], [],
        [yes], [AC_MSG_ERROR([--enable-sanitizer needs a list: address,undefined or thread])],
        [
            for snug_sanitizer in `AS_ECHO(["$enable_sanitizer"]) | tr , ' '`; do
                AS_CASE([$snug_sanitizer],
                    [address|undefined|leak|thread], [],
                    [AC_MSG_ERROR([--enable-sanitizer: "$snug_sanitizer" is not one of address, undefined, leak, thread])])
            done
            AS_CASE([,$enable_sanitizer,],
                [*,thread,*address,*|*,address,*thread,*|*,thread,*leak,*|*,leak,*thread,*],
                [AC_MSG_ERROR([--enable-sanitizer: thread excludes address and leak])])
            SAN_CFLAGS="-fsanitize=$enable_sanitizer -fno-omit-frame-pointer"
            AS_CASE([,$enable_sanitizer,], [*,undefined,*], [AS_VAR_APPEND([SAN_CFLAGS], [" -fno-sanitize-recover=undefined"])])
            AC_MSG_CHECKING([whether $CC links with $SAN_CFLAGS])
            snug_sanitizer_saved=$CFLAGS
            CFLAGS="$CFLAGS $SAN_CFLAGS"
            AC_LINK_IFELSE([AC_LANG_PROGRAM()], [AC_MSG_RESULT([yes])], [
                AC_MSG_RESULT([no])
                AC_MSG_ERROR([--enable-sanitizer=$enable_sanitizer: this compiler lacks its run-time library])
            ])
            CFLAGS=$snug_sanitizer_saved
        ])
    AC_SUBST([SAN_CFLAGS])
])
