// Ping-pong by Open MPI, beside `ping_pong`: `mpirun -n 2 ping_pong_mpi LARGEST ROUNDS`.
// Two-sided (send and receive), and one-sided as a ring is filled: put, flush, put a flag, flush; the peer polls.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_time(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static void report(const char *how, size_t size, double *times, int rounds) {
    qsort(times, rounds, sizeof *times, by_time);
    printf("%s %zu bytes: best %.3f us, median %.3f us\n", how, size, times[0] * 1e6, times[rounds / 2] * 1e6);
}

static void two_sided(int me, char *bytes, size_t size, double *times, int rounds) {
    for (int round = 0; round < rounds; round++) {
        double begin = MPI_Wtime();
        if (me == 0) MPI_Send(bytes, (int)size, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(bytes, (int)size, MPI_BYTE, 1 - me, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (me == 1) MPI_Send(bytes, (int)size, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        times[round] = MPI_Wtime() - begin;
    }
}

static void put(MPI_Win window, char *bytes, size_t size, int to, long number) {
    MPI_Put(bytes, (int)size, MPI_BYTE, to, sizeof number, (int)size, MPI_BYTE, window);
    MPI_Win_flush(to, window);
    MPI_Put(&number, sizeof number, MPI_BYTE, to, 0, sizeof number, MPI_BYTE, window);
    MPI_Win_flush(to, window);
}

static void await(MPI_Win window, volatile long *flag, long number) {
    while (*flag < number) MPI_Win_sync(window);
}

static void one_sided(int me, char *bytes, size_t size, double *times, int rounds) {
    MPI_Win window;
    char *memory;
    MPI_Win_allocate(sizeof(long) + size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    memset(memory, 0, sizeof(long) + size);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    for (int round = 0; round < rounds; round++) {
        double begin = MPI_Wtime();
        if (me == 0) put(window, bytes, size, 1, round + 1);
        await(window, (volatile long *)memory, round + 1);
        if (me == 1) put(window, bytes, size, 0, round + 1);
        times[round] = MPI_Wtime() - begin;
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

int main(int count, char **arguments) {
    int me, small = count > 2 ? atoi(arguments[2]) : 10;
    size_t largest = count > 1 ? strtoull(arguments[1], NULL, 10) : 1;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    for (size_t size = 1; size <= largest; size *= 2) {
        int rounds = size <= 4096 ? small * 1000 : small;
        char *bytes = calloc(size, 1);
        double *times = calloc(rounds, sizeof *times);
        two_sided(me, bytes, size, times, rounds);
        if (me == 0) report("two-sided", size, times, rounds);
        one_sided(me, bytes, size, times, rounds);
        if (me == 0) report("one-sided", size, times, rounds);
        free(times);
        free(bytes);
    }
    MPI_Finalize();
    return 0;
}
