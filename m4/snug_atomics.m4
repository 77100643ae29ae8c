# SNUG_ATOMICS
# The handle's word is a 64-bit atomic. Substitutes ATOMIC_LIBS, which is empty where the processor does it alone.
AC_DEFUN([SNUG_ATOMICS], [
    AC_CACHE_CHECK([what 64-bit atomics need], [snug_cv_atomics], [
        snug_atomics_saved=$LIBS
        snug_cv_atomics=missing
        for snug_atomics_libs in '' -latomic; do
            LIBS="$snug_atomics_libs $snug_atomics_saved"
            AC_LINK_IFELSE([AC_LANG_PROGRAM([[
                #include <stdatomic.h>
                #include <stdint.h>
                static _Atomic uint64_t word;]], [[
                uint64_t seen = atomic_load(&word);
                return !atomic_compare_exchange_strong(&word, &seen, seen + 1);]])],
                [snug_cv_atomics=${snug_atomics_libs:-nothing}])
            test "$snug_cv_atomics" = missing || break
        done
        LIBS=$snug_atomics_saved
    ])
    AS_CASE([$snug_cv_atomics],
        [missing], [AC_MSG_ERROR([this platform has no 64-bit atomics, not even through libatomic])],
        [nothing], [ATOMIC_LIBS=],
        [ATOMIC_LIBS=$snug_cv_atomics])
    AC_SUBST([ATOMIC_LIBS])
])
