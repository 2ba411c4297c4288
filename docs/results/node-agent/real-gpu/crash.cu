// A program that writes where nothing is: the driver ends it and tells an XID error, and the GPU is as well as before.
//
//     nvcc -o crash crash.cu

#include <cstdio>

__global__ void write(int *where) { *where = 1; }

int main() {
    write<<<1, 1>>>(reinterpret_cast<int *>(16));
    std::printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
