# SNUG_CUDA
# --with-cuda[=DIR], --without-cuda; not said: used if a toolkit is found, in $CUDA_HOME, $CUDA_PATH, where nvcc is, or in
# /usr/local/cuda. Needs the headers and the shared runtime of CUDA 12.4 or later; a driver only at run time. Substitutes
# CUDA_CPPFLAGS, CUDA_LIBS, and CUDA_DIR, CUDA_LIBDIR and NVCC for what is compiled for a GPU. Conditionals: CUDA, NVCC.
AC_DEFUN([SNUG_CUDA], [
    AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda@<:@=DIR@:>@],
        [pools on CUDA devices, with the toolkit in DIR (default: if one is found)])], [], [with_cuda=maybe])
    AC_ARG_VAR([NVCC], [CUDA compiler, for examples and tools that have code for a GPU])
    have_cuda=no
    AS_VAR_IF([with_cuda], [no], [], [
        AS_CASE([$with_cuda],
            [yes|maybe], [
                AC_PATH_PROG([snug_nvcc], [nvcc])
                snug_cuda_dirs="$CUDA_HOME $CUDA_PATH `dirname "\`dirname "$snug_nvcc"\`"` /usr/local/cuda"],
            [snug_cuda_dirs=$with_cuda])
        AC_MSG_CHECKING([for a CUDA toolkit, 12.4 or later])
        snug_why="there is no include/cuda_runtime_api.h in: $snug_cuda_dirs"
        snug_save_CPPFLAGS=$CPPFLAGS snug_save_LIBS=$LIBS
        for snug_dir in $snug_cuda_dirs; do
            AS_IF([test "$have_cuda" = no && test -e "$snug_dir/include/cuda_runtime_api.h"], [
                snug_lib=$snug_dir/lib64
                test -e "$snug_lib/libcudart.so" || snug_lib=$snug_dir/lib
                CUDA_CPPFLAGS="-isystem $snug_dir/include"
                CUDA_LIBS="-L$snug_lib -lcudart"
                CPPFLAGS="$snug_save_CPPFLAGS $CUDA_CPPFLAGS" LIBS="$CUDA_LIBS $snug_save_LIBS"
                AC_LINK_IFELSE([AC_LANG_PROGRAM([[
                    #include <cuda.h>
                    #include <cuda_runtime_api.h>
                    #include <cudaTypedefs.h>
                    #if CUDART_VERSION < 12040
                    #error too old
                    #endif]], [[int version; return cudaRuntimeGetVersion(&version);]])],
                    [have_cuda=$snug_dir],
                    [snug_why="the toolkit in $snug_dir is older than 12.4, or has no shared runtime"])
            ])
        done
        CPPFLAGS=$snug_save_CPPFLAGS LIBS=$snug_save_LIBS
        AC_MSG_RESULT([$have_cuda])
        AS_IF([test "$have_cuda" = no], [
            CUDA_CPPFLAGS= CUDA_LIBS=
            AS_CASE([$with_cuda], [maybe], [AC_MSG_NOTICE([no pools on CUDA devices: $snug_why])],
                [AC_MSG_ERROR([--with-cuda: $snug_why. Install the CUDA toolkit (packages cuda-cudart-dev and cuda-nvcc of NVIDIA's repository), or name its directory])])
        ], [
            CUDA_DIR=$have_cuda
            CUDA_CPPFLAGS="$CUDA_CPPFLAGS -DSNUG_HAVE_CUDA"
            # found at run time where it was found now; LD_LIBRARY_PATH still comes before
            CUDA_LIBS="$CUDA_LIBS -Wl,-rpath,$snug_lib -Wl,--enable-new-dtags"
            CUDA_LIBDIR=$snug_lib
            AC_PATH_PROG([NVCC], [nvcc], [], [$CUDA_DIR/bin$PATH_SEPARATOR$PATH])
            SNUG_NVCC_WORKS
        ])
    ])
    AC_SUBST([CUDA_CPPFLAGS])
    AC_SUBST([CUDA_LIBS])
    AC_SUBST([CUDA_DIR])
    AC_SUBST([CUDA_LIBDIR])
    AM_CONDITIONAL([CUDA], [test "$have_cuda" != no])
    AM_CONDITIONAL([NVCC], [test "$have_cuda" != no && test -n "$NVCC"])
])

# SNUG_NVCC_WORKS
# Empties NVCC unless it makes a program: it needs a C++ compiler, and not every version of one.
AC_DEFUN([SNUG_NVCC_WORKS], [
    AS_IF([test -n "$NVCC"], [
        AC_MSG_CHECKING([whether $NVCC works])
        AS_ECHO(["__global__ void kernel() {} int main() { kernel<<<1, 1>>>(); return cudaGetLastError() != cudaSuccess; }"]) >conftest.cu
        AS_IF([$NVCC -cudart shared -o conftest.out conftest.cu >&AS_MESSAGE_LOG_FD 2>&1], [AC_MSG_RESULT([yes])], [
            AC_MSG_RESULT([no, see config.log: the examples with device code aren't built])
            NVCC=
        ])
        rm -f conftest.cu conftest.out
    ])
])
