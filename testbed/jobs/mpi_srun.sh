#!/bin/bash -l
#SBATCH --nodes=2 --ntasks-per-node=2
# MPI ranks as tasks of Slurm: children of slurmstepd.
module load openmpi/srun
srun --mpi=pmi2 mpi_hello "$@"
