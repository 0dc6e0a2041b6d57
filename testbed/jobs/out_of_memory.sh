#!/bin/bash
#SBATCH --mem=50
# Wants four times the memory it asked for; with `srun` as argument in a step.
"$@" eat_memory 200
