#!/bin/bash -l
# shellcheck disable=SC2016 # the tasks are to expand the variables
# The login shell (-l) is what defines `module` in a batch script.
module load demo
echo "DEMO_VERSION=$DEMO_VERSION"
srun bash -c 'echo "in a step: $DEMO_VERSION, loaded: $LOADEDMODULES"'
