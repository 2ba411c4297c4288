// Writes to an invalid address: the driver terminates the program and reports an XID error; the GPU stays healthy.
//
//     nvcc -o crash crash.cu

#include <cstdio>

__global__ void write(int *where) { *where = 1; }

int main() {
    write<<<1, 1>>>(reinterpret_cast<int *>(16));
    std::printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
