/* Fault injection between the agent and NVML.

       gcc -shared -fPIC -o between.so between.c -Wl,--no-as-needed -lnvidia-ml

   All other functions resolve to NVML. A fault file holds one number: seconds of delay, or an error code
   (nvmlReturn_t: 15 is NVML_ERROR_GPU_IS_LOST). Files ending in -once apply to one call. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

static int read_fault(const char *path, int *value) {
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    int is_number = fscanf(file, "%d", value) == 1;
    fclose(file);
    return is_number;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    static int (*real)(unsigned *);
    int seconds;
    if (!real) real = dlsym(RTLD_NEXT, "nvmlDeviceGetCount_v2");
    if (read_fault("/tmp/cairn-slow-once", &seconds)) {
        unlink("/tmp/cairn-slow-once");
        sleep(seconds);
    }
    if (read_fault("/tmp/cairn-slow", &seconds)) sleep(seconds);
    return real(count);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    static int (*real)(unsigned, void **);
    int error;
    if (!real) real = dlsym(RTLD_NEXT, "nvmlDeviceGetHandleByIndex_v2");
    if (read_fault("/tmp/cairn-fails-once", &error)) {
        unlink("/tmp/cairn-fails-once");
        return error;
    }
    return read_fault("/tmp/cairn-fails", &error) ? error : real(index, device);
}
