-- Lets `srun --mpi=pmi2` start programs of Debian's Open MPI on several nodes.
--
-- That Open MPI has no component for Slurm's PMI. Its component for Flux loads
-- a PMI-1 library whose name comes from the environment, and Slurm's library
-- (package libpmi0) speaks the same interface.
whatis("Open MPI programs under srun")
setenv("FLUX_JOB_ID", "1")
setenv("FLUX_PMI_LIBRARY_PATH", "libpmi.so.0")
