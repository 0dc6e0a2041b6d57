/* Says who it is: rank, size, Slurm's name of the node, and how it was started.
 * All nodes of the testbed are one host, so MPI_Get_processor_name cannot tell
 * them apart; SLURMD_NODENAME can. An optional argument is the number of
 * seconds to stay, for looking at the processes. The sum at the end makes the
 * ranks really talk to each other. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size, sum = 0;
    const char *node = getenv("SLURMD_NODENAME");

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d on %s, sum of ranks %d\n", rank, size, node ? node : "?", sum);
    fflush(stdout);
    if (argc > 1)
        sleep((unsigned)atoi(argv[1]));
    MPI_Finalize();
    return 0;
}
