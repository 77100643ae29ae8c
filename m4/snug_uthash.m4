# SNUG_UTHASH
# The library needs uthash, which is one header.
AC_DEFUN([SNUG_UTHASH], [
    AC_CHECK_HEADER([uthash.h], [], [
        AC_MSG_ERROR([uthash.h is missing: install uthash-dev (Debian, Ubuntu) or uthash-devel (Fedora)])
    ], [AC_INCLUDES_DEFAULT])
])
