/* A library between the agent and NVIDIA's own, which is slow or fails when a file says so.

       gcc -shared -fPIC -o between.so between.c -Wl,--no-as-needed -lnvidia-ml

   Everything but these two functions is found in NVIDIA's library, which it depends on. A file holds one number: seconds,
   or the code of an error (nvmlReturn_t: 15 is NVML_ERROR_GPU_IS_LOST). What ends in -once is obeyed once. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

static int told(const char *path, int *value) {
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
    if (told("/tmp/cairn-slow-once", &seconds)) {
        unlink("/tmp/cairn-slow-once");
        sleep(seconds);
    }
    if (told("/tmp/cairn-slow", &seconds)) sleep(seconds);
    return real(count);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    static int (*real)(unsigned, void **);
    int error;
    if (!real) real = dlsym(RTLD_NEXT, "nvmlDeviceGetHandleByIndex_v2");
    if (told("/tmp/cairn-fails-once", &error)) {
        unlink("/tmp/cairn-fails-once");
        return error;
    }
    return told("/tmp/cairn-fails", &error) ? error : real(index, device);
}
