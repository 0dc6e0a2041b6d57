-- Shows that `module load` reached a job: it sets one variable.
whatis("a module to be seen in a job's environment")
setenv("DEMO_VERSION", "1.0")
prepend_path("PATH", "/opt/demo/1.0/bin")
