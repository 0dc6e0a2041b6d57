-- Lmod modulefile: programs run with the guest from `module load jobglass` to `module unload jobglass`, inside
-- and outside of batch scripts alike.

help([[
Records which programs run, so that you and the support team can see what a job did.

Recorded are: the program with its arguments (passwords and tokens taken out), the libraries it loads, the modules
that are loaded, its job and rank, a few variables that steer performance (OMP_NUM_THREADS and the like), when and
how it ended, and its CPU time and memory. Not recorded are: your data, your input and output, the rest of your
environment. Programs do not notice, and run as well where no agent is.

To switch it off:        module unload jobglass
For some programs only:  JOBGLASS=off ./program

The library is made visible in Apptainer and Singularity containers. That needs a place for it to be mounted:
unload the module for `apptainer build` and `apptainer exec --writable`.
]])

whatis("Name: jobglass")
whatis("Version: 0.1.0")
whatis("Description: records which programs and libraries a job runs")

local dir = "@LIBDIR@"
local library = pathJoin(dir, "libjobglass.so")

-- Without the library the loader would complain in every program.
if mode() == "load" and not isFile(library) then
    LmodError("jobglass is not installed on this machine: " .. library .. " is missing")
end

prepend_path("LD_PRELOAD", library)
setenv("JOBGLASS_LIBRARY", library)

-- Programs built with -fsanitize=address refuse to start where another library comes before ASan's runtime, unless they
-- are told not to look. Whoever has set the key keeps it. That the entry is ours is noted, so that unloading removes it
-- and nothing else.
local key = "verify_asan_link_order"
local is_set = (os.getenv("ASAN_OPTIONS") or ""):find(key, 1, true)
local is_ours = os.getenv("JOBGLASS_ASAN_OPTIONS") ~= nil
if mode() == "unload" and is_ours or mode() ~= "unload" and not is_set then
    append_path("ASAN_OPTIONS", key .. "=0", ":")
    setenv("JOBGLASS_ASAN_OPTIONS", key .. "=0")
end

-- Containers take LD_PRELOAD over from the host, so the library must be there under the same path. The agent is
-- reached through its abstract socket: a mount of /run/jobglass would keep containers from starting on a node
-- where that directory is missing. APPTAINERENV_LD_PRELOAD is not set: `--cleanenv` means what it says.
--
-- Apptainer ignores SINGULARITY_BINDPATH, with a warning, where APPTAINER_BINDPATH is set and differs. So a
-- variable the user has is added to, and only where there is none both are made.
local has_apptainer = os.getenv("APPTAINER_BINDPATH") ~= nil
local has_singularity = os.getenv("SINGULARITY_BINDPATH") ~= nil
if has_apptainer or not has_singularity then
    append_path("APPTAINER_BINDPATH", dir, ",")
end
if has_singularity or not has_apptainer then
    append_path("SINGULARITY_BINDPATH", dir, ",")
end
