# SNUG_DEBUG
# --enable-debug. Substitutes DEBUG_CPPFLAGS. It is on the command line, not in config.h, so that no file can miss it.
AC_DEFUN([SNUG_DEBUG], [
    AC_ARG_ENABLE([debug], [AS_HELP_STRING([--enable-debug],
        [compile the debug and the expensive asserts in: walks of whole structures after each change])],
        [], [enable_debug=no])
    DEBUG_CPPFLAGS=
    AS_VAR_IF([enable_debug], [no], [], [DEBUG_CPPFLAGS=-DSNUG_DEBUG=1])
    AC_SUBST([DEBUG_CPPFLAGS])
])
