# SNUG_SUMMARY
# The last words of configure.
AC_DEFUN([SNUG_SUMMARY], [
    test "$silent" = yes || AS_ECHO(["
$PACKAGE_NAME $PACKAGE_VERSION
    installs into   $prefix
    compiler        $CC $CFLAGS
    libraries       shared: $enable_shared, static: $enable_static
    asserts         `test "$enable_debug" = no && AS_ECHO(["always"]) || AS_ECHO(["always, debug, expensive"])`
    sanitizer       $enable_sanitizer
    coverage        $enable_coverage
    CUDA            $have_cuda
    tools' --json   $have_jansson
"])
])
