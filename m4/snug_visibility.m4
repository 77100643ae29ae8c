# SNUG_VISIBILITY
# Substitutes VIS_CFLAGS: everything is hidden that isn't marked SNUG_API. tests/exports.sh verifies the result.
AC_DEFUN([SNUG_VISIBILITY], [
    VIS_CFLAGS=
    SNUG_CFLAG([VIS_CFLAGS], [-fvisibility=hidden])
    AC_SUBST([VIS_CFLAGS])
])
