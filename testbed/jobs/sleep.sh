#!/bin/bash
# Stays, in a step, for the seconds given.
srun sleep "${1:-300}"
