# SNUG_JANSSON
# --with-jansson, --without-jansson; not said: used if found. Only the tools' --json needs it. Defines HAVE_JANSSON,
# substitutes JANSSON_CFLAGS and JANSSON_LIBS.
AC_DEFUN([SNUG_JANSSON], [
    AC_ARG_WITH([jansson], [AS_HELP_STRING([--with-jansson], [give the tools --json (default: if jansson is found)])],
        [], [with_jansson=maybe])
    have_jansson=no
    AS_VAR_IF([with_jansson], [no], [], [
        PKG_CHECK_MODULES([JANSSON], [jansson >= 2.7], [have_jansson=yes], [
            AS_VAR_IF([with_jansson], [yes],
                [AC_MSG_ERROR([--with-jansson: jansson is missing: install libjansson-dev (Debian, Ubuntu) or jansson-devel (Fedora)])])
            AC_MSG_NOTICE([jansson not found: the tools are built without --json; libjansson-dev (Debian, Ubuntu) brings it])
        ])
    ])
    AS_VAR_IF([have_jansson], [yes], [AC_DEFINE([HAVE_JANSSON], [1], [Define to 1 if the tools can write JSON.])])
    AM_CONDITIONAL([HAVE_JANSSON], [test "$have_jansson" = yes])
])
