#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2
# MPI ranks as children of Open MPI's orted, of which Slurm starts one a node.
mpirun mpi_hello "$@"
