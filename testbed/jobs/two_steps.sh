#!/bin/bash
# shellcheck disable=SC2016 # the tasks are to expand the variables
#SBATCH --nodes=2 --ntasks-per-node=1 --comment=two-steps
# Two steps one after the other, each with one task on both nodes.
srun bash -c 'echo "first $SLURM_PROCID $SLURMD_NODENAME"'
srun bash -c 'echo "second $SLURM_PROCID $SLURMD_NODENAME"'
