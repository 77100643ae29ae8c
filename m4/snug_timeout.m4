# SNUG_TIMEOUT
# Substitutes TEST_TIMEOUT: what a test is run under, so that one that hangs fails. Empty where there is no `timeout`.
AC_DEFUN([SNUG_TIMEOUT], [
    AC_CACHE_CHECK([how to end a test that hangs], [snug_cv_timeout], [
        snug_cv_timeout='timeout -k 10 600'
        $snug_cv_timeout true 2>/dev/null || snug_cv_timeout=missing
    ])
    AS_VAR_IF([snug_cv_timeout], [missing], [TEST_TIMEOUT=], [TEST_TIMEOUT=$snug_cv_timeout])
    AC_SUBST([TEST_TIMEOUT])
])
