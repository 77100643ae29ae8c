/* kernel.c - kernels: host functions by name, and the ways to a name: nvcc's registration at load time, and
 * libraries. */
#include "machine.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 512

typedef struct registered {
    struct registered *next;
    char               name[NAME_MAX_BYTES];
    double_kernel      function;
    size_t             n;
    size_t             sizes[DOUBLE_ARGUMENTS_MAX];
} registered;

/* What a program compiled by nvcc says when it is loaded: which host function stands for which kernel. */
typedef struct stub {
    struct stub *next;
    void       **binary;
    const void  *function;
    char         name[NAME_MAX_BYTES];
} stub;

typedef struct library library;

typedef struct kernel {
    struct kernel *next;
    cudaKernel_t   handle;
    char           name[NAME_MAX_BYTES];
} kernel;

struct library {
    kernel *kernels;
};

static registered *kernels;
static stub       *stubs;

static void name_copy(const char *function, char *to, const char *name) {
    if (strlen(name) >= NAME_MAX_BYTES)
        trap(function, "the kernel's name is longer than %d bytes", NAME_MAX_BYTES - 1);
    strcpy(to, name);
}

/* ------------------------------------------------------------------------------------------------ registration */

static registered *registered_find(const char *name, size_t length) {
    registered *r = kernels;
    while (r && !(strlen(r->name) == length && memcmp(r->name, name, length) == 0))
        r = r->next;
    return r;
}

/* By the name as it is, or by the function in a mangled name: _Z3addPii is add. */
static registered *registered_for(const char *name) {
    registered *r = registered_find(name, strlen(name));
    if (r || strncmp(name, "_Z", 2) != 0 || !isdigit((unsigned char)name[2]))
        return r;
    char  *plain;
    size_t length = strtoul(name + 2, &plain, 10);
    return length <= strlen(plain) ? registered_find(plain, length) : NULL;
}

void double_kernel_register(const char *name, double_kernel function, size_t n, const size_t *sizes) {
    if (!name || !function || n > DOUBLE_ARGUMENTS_MAX || (n && !sizes))
        trap(__func__, "it takes a name, a function, and the sizes of up to %d arguments", DOUBLE_ARGUMENTS_MAX);
    pthread_mutex_lock(&the.mutex);
    registered *r = registered_find(name, strlen(name));
    if (!r) {
        r = make(sizeof *r);
        name_copy(__func__, r->name, name);
        r->next = kernels;
        kernels = r;
    }
    r->function = function;
    r->n        = n;
    if (n)
        memcpy(r->sizes, sizes, n * sizeof *sizes);
    pthread_mutex_unlock(&the.mutex);
}

/* ------------------------------------------------------------------------------------------------ launch */

static const char *kernel_name(const char *function, const void *what) {
    stub *s = stubs;
    while (s && s->function != what)
        s = s->next;
    if (s)
        return s->name;
    kernel *k = handle_find(KERNEL, what);
    if (k)
        return k->name;
    if (handle_was(KERNEL, what))
        trap(function, "the library of kernel %p has been unloaded", what);
    return NULL;
}

static void arguments_copy(op *o, const registered *r, void **arguments) {
    size_t at = (r->n * sizeof(void *) + 15) / 16 * 16, bytes = at;
    for (size_t i = 0; i < r->n; i++)
        bytes += (r->sizes[i] + 15) / 16 * 16;
    if (!r->n)
        return;
    if (!arguments)
        trap(o->function, "kernel %s takes %zu arguments, got none", r->name, r->n);
    o->arguments = make(bytes);
    for (size_t i = 0; i < r->n; i++) {
        o->arguments[i] = (char *)o->arguments + at;
        memcpy(o->arguments[i], arguments[i], r->sizes[i]);
        at += (r->sizes[i] + 15) / 16 * 16;
    }
}

static cudaError_t launch(const char *function, const void *what, dim3 grid, dim3 block, void **arguments,
                          cudaStream_t handle) {
    const char *name = what ? kernel_name(function, what) : NULL;
    if (!name)
        return cudaErrorInvalidDeviceFunction;
    if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z ||
        (uint64_t)block.x * block.y * block.z > 1024 || grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535)
        return cudaErrorInvalidConfiguration;
    stream *s = stream_find(handle, function);
    if (s->device != thread_self()->device)
        return cudaErrorInvalidResourceHandle;
    const registered *r = registered_for(name);
    if (!r)
        trap(function, "kernel %s: no host function is registered for it", name);
    op *o     = op_make(OP_KERNEL, function);
    o->kernel = r->function;
    o->grid   = grid;
    o->block  = block;
    arguments_copy(o, r, arguments);
    return submit(s, o, NULL);
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                             cudaStream_t stream) {
    ENTER(cudaLaunchKernel);
    (void)shared;
    LEAVE(launch(FN, function, grid, block, arguments, stream));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *configuration, const void *function, void **arguments) {
    ENTER(cudaLaunchKernelExC);
    LEAVE_UNLESS(configuration, cudaErrorInvalidValue);
    LEAVE(launch(FN, function, configuration->gridDim, configuration->blockDim, arguments, configuration->stream));
}

/* ------------------------------------------------------------------------------------------------ libraries */

static void library_free(void *object) {
    library *l = object;
    while (l->kernels) {
        kernel *k  = l->kernels;
        l->kernels = k->next;
        free(k);
    }
    free(l);
}

void kernels_reset(void) {
    handles_each(LIBRARY, library_free);
}

#if CUDART_VERSION >= 12080
cudaError_t cudaLibraryLoadData(cudaLibrary_t *out, const void *code, enum cudaJitOption *jit_options,
                                void **jit_values, unsigned jit_n, enum cudaLibraryOption *options, void **values,
                                unsigned n) {
    ENTER(cudaLibraryLoadData);
    LEAVE_UNLESS(out && code && (!jit_n || (jit_options && jit_values)) && (!n || (options && values)),
                 cudaErrorInvalidValue);
    *out = handle_make(LIBRARY, make(sizeof(library)));
    the.live.libraries++;
    LEAVE(cudaSuccess);
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *out, cudaLibrary_t handle, const char *name) {
    ENTER(cudaLibraryGetKernel);
    LEAVE_UNLESS(out && name, cudaErrorInvalidValue);
    library *l = handle_object(LIBRARY, handle, FN);
    kernel  *k = l->kernels;
    while (k && strcmp(k->name, name) != 0)
        k = k->next;
    if (!k) {
        k = make(sizeof *k);
        name_copy(FN, k->name, name);
        k->handle  = handle_make(KERNEL, k);
        k->next    = l->kernels;
        l->kernels = k;
    }
    *out = k->handle;
    LEAVE(cudaSuccess);
}

cudaError_t cudaLibraryUnload(cudaLibrary_t handle) {
    ENTER(cudaLibraryUnload);
    library *l = handle_object(LIBRARY, handle, FN);
    for (kernel *k = l->kernels; k; k = k->next)
        handle_end(KERNEL, k->handle);
    library_free(l);
    handle_end(LIBRARY, handle);
    the.live.libraries--;
    LEAVE(cudaSuccess);
}
#endif

/* ------------------------------------------------------------------------------------------------ what nvcc emits */

/* No C header declares these; crt/host_runtime.h does for C++. */
void   **__cudaRegisterFatBinary(void *binary);
void     __cudaRegisterFatBinaryEnd(void **binary);
void     __cudaUnregisterFatBinary(void **binary);
void     __cudaRegisterFunction(void **binary, const char *function, char *device_function, const char *name, int limit,
                                uint3 *thread, uint3 *block, dim3 *block_size, dim3 *grid_size, int *warp_size);
void     __cudaRegisterVar(void **binary, char *variable, char *address, const char *name, int external, size_t bytes,
                           int constant, int global);
void     __cudaRegisterManagedVar(void **binary, void **variable, char *address, const char *name, int external,
                                  size_t bytes, int constant, int global);
char     __cudaInitModule(void **binary);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *function);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                               cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                    cudaStream_t stream);

void **__cudaRegisterFatBinary(void *binary) {
    void **handle = make(sizeof *handle);
    *handle       = binary;
    return handle;
}

void __cudaRegisterFatBinaryEnd(void **binary) {
    (void)binary;
}

void __cudaUnregisterFatBinary(void **binary) {
    pthread_mutex_lock(&the.mutex);
    for (stub **at = &stubs; *at;) {
        stub *s = *at;
        if (s->binary == binary) {
            *at = s->next;
            free(s);
        } else {
            at = &s->next;
        }
    }
    pthread_mutex_unlock(&the.mutex);
    free(binary);
}

void __cudaRegisterFunction(void **binary, const char *function, char *device_function, const char *name, int limit,
                            uint3 *thread, uint3 *block, dim3 *block_size, dim3 *grid_size, int *warp_size) {
    (void)device_function, (void)limit, (void)thread, (void)block, (void)block_size, (void)grid_size, (void)warp_size;
    stub *s = make(sizeof *s);
    name_copy(__func__, s->name, name);
    s->binary   = binary;
    s->function = function;
    pthread_mutex_lock(&the.mutex);
    s->next = stubs;
    stubs   = s;
    pthread_mutex_unlock(&the.mutex);
}

/* Device variables have no use here: only device code could read them. */
void __cudaRegisterVar(void **binary, char *variable, char *address, const char *name, int external, size_t bytes,
                       int constant, int global) {
    (void)binary, (void)variable, (void)address, (void)name, (void)external, (void)bytes, (void)constant, (void)global;
}

void __cudaRegisterManagedVar(void **binary, void **variable, char *address, const char *name, int external,
                              size_t bytes, int constant, int global) {
    (void)binary, (void)variable, (void)address, (void)name, (void)external, (void)bytes, (void)constant, (void)global;
}

char __cudaInitModule(void **binary) {
    (void)binary;
    return 1;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream) {
    pthread_mutex_lock(&the.mutex);
    thread *t      = thread_self();
    bool    pushed = t->configurations_n < CONFIGURATIONS_MAX;
    if (pushed)
        t->configurations[t->configurations_n++] = (call_configuration){grid, block, shared, stream};
    pthread_mutex_unlock(&the.mutex);
    return !pushed;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    pthread_mutex_lock(&the.mutex);
    thread *t      = thread_self();
    bool    popped = t->configurations_n > 0;
    if (popped) {
        call_configuration *c   = &t->configurations[--t->configurations_n];
        *grid                   = c->grid;
        *block                  = c->block;
        *shared                 = c->shared;
        *(cudaStream_t *)stream = c->stream;
    }
    pthread_mutex_unlock(&the.mutex);
    return popped ? cudaSuccess : cudaErrorMissingConfiguration;
}

/* The function's own address serves as the kernel: launch looks it up among the stubs. */
cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *function) {
    *out = (cudaKernel_t)(uintptr_t)function;
    return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                               cudaStream_t stream) {
    return cudaLaunchKernel((const void *)kernel, grid, block, arguments, shared, stream);
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                    cudaStream_t stream) {
    return cudaLaunchKernel((const void *)kernel, grid, block, arguments, shared,
                            stream ? stream : cudaStreamPerThread);
}
