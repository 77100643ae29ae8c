# SNUG_MATH
# Substitutes MATH_LIBS: what the functions of <math.h> need.
AC_DEFUN([SNUG_MATH], [
    snug_math_saved=$LIBS
    MATH_LIBS=
    AC_CHECK_LIB([m], [pow], [MATH_LIBS=-lm])
    LIBS=$snug_math_saved
    AC_SUBST([MATH_LIBS])
])
