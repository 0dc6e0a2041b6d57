# Starting the daemons in order, waiting for them, and stopping them.
#
# Uses `dir`, `say` and the functions of config.bash and machine.bash.
# shellcheck shell=bash disable=SC2154

all_daemons=(munged mariadbd slurmdbd slurmctld slurmd.n1 slurmd.n2 slurmd.n3 slurmd.n4)
command_path=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin

in_cluster() { SLURM_CONF=$(slurm_conf) PATH=$PATH:$command_path "$@"; }

# launch NAME CMD...: in a session of its own, with nothing of the caller's
# environment but the mark cluster_pids looks for, and without our descriptors,
# so that a pipe from the caller can close.
launch() {
    local name=$1
    shift
    say "starting $name"
    if ! env -i PATH="$command_path" LANG=C.UTF-8 SLURM_CONF="$(slurm_conf)" JOBGLASS_TESTBED="$dir" \
        setsid "$@" </dev/null >>"$dir/log/$name.log" 2>&1 9>&-; then
        say "$name did not start"
        return 1
    fi
}

# The pid in the file of a daemon, if that process is the daemon and not a
# later one with the same number.
daemon_pid() {
    local pid
    pid=$(cat "$dir/run/$1.pid" 2>/dev/null) && [[ $pid =~ ^[0-9]+$ ]] || return 1
    [[ $(cat "/proc/$pid/comm" 2>/dev/null) == "${1%.n?}" ]] && is_alive "$pid" || return 1
    echo "$pid"
}

# within SECONDS WHAT CMD...: tries CMD until it succeeds, with a line if that takes a while.
within() {
    local seconds=$1 what=$2
    shift 2
    wait_until 1 "$@" && return
    say "waiting for $what"
    wait_until "$seconds" "$@" && return
    say "gave up waiting for $what"
    return 1
}

start_daemons() {
    local node
    launch munged munged --key-file="$dir/munge/munge.key" --socket="$dir/run/munge.socket" \
        --pid-file="$dir/run/munged.pid" --log-file="$dir/log/munged.log" \
        --seed-file="$dir/munge/munged.seed" --num-threads=2
    start_database
    launch slurmdbd env MYSQL_UNIX_PORT="$dir/run/mysql.socket" slurmdbd
    within 120 "slurmdbd" in_cluster sacctmgr -n list cluster
    add_accounts
    launch slurmctld slurmctld -c
    for node in "${nodes[@]}"; do
        launch "slurmd.$node" slurmd -N "$node"
    done
}

# The flags trade safety for speed: the data lives as long as the cluster.
start_database() {
    local options=(--no-defaults --datadir="$dir/mysql" --innodb-flush-log-at-trx-commit=0
        --innodb-log-file-size=8M --innodb-flush-method=nosync --innodb-buffer-pool-size=32M)
    chown mysql: "$dir/mysql"
    chmod 1777 "$dir/run"
    launch database-setup mariadb-install-db "${options[@]}" --user=mysql --skip-test-db \
        --auth-root-authentication-method=socket
    launch mariadbd sh -c '"$@" & ' - mariadbd "${options[@]}" --user=mysql --skip-networking \
        --socket="$dir/run/mysql.socket" --pid-file="$dir/run/mariadbd.pid"
    within 120 "mariadbd" mariadb-admin --no-defaults --socket="$dir/run/mysql.socket" ping
}

# Before slurmctld starts: one that is told of accounts while it reads them
# complains of missing parents.
add_accounts() {
    {
        in_cluster sacctmgr -i -Q add cluster testbed
        in_cluster sacctmgr -i -Q add account physics,chemistry cluster=testbed
        in_cluster sacctmgr -i -Q add user jgalice account=physics cluster=testbed
        in_cluster sacctmgr -i -Q add user jgbob account=chemistry cluster=testbed
    } >/dev/null
}

wait_until_ready() {
    within 240 "four idle nodes" all_nodes_idle
    within 120 "slurmctld in the accounting" controller_is_registered
}

all_nodes_idle() { [[ $(in_cluster sinfo -h -N -p regular -t idle -o %N | wc -l) == "${#nodes[@]}" ]]; }

controller_is_registered() { [[ $(in_cluster sacctmgr -n -P list cluster format=ControlPort) == "$ctld_port" ]]; }

# Goes on whatever fails, since every step has something of its own to remove.
tear_down() {
    set +e
    cancel_jobs
    stop_daemons
    local failed=0
    kill_leftovers || failed=1
    remove_cgroups || failed=1
    unclaim_machine || failed=1
    rm -rf -- "$dir" || failed=1
    return "$failed"
}

cancel_jobs() {
    daemon_pid slurmctld >/dev/null || return 0
    local jobs
    mapfile -t jobs < <(in_cluster timeout 5 squeue -h -o %A)
    ((${#jobs[@]})) || return 0
    say "cancelling ${#jobs[@]} jobs"
    in_cluster timeout 5 scancel "${jobs[@]}"
    within 8 "the end of the jobs" all_nodes_idle
}

# The last to start is the first to stop.
stop_daemons() {
    local i pid pids=()
    for ((i = ${#all_daemons[@]} - 1; i >= 0; i--)); do
        pid=$(daemon_pid "${all_daemons[i]}") || continue
        kill -TERM "$pid" 2>/dev/null || continue
        # All slurmd end together; each of the others waits for those before it.
        pids+=("$pid")
        [[ ${all_daemons[i]} == slurmd.n[2-4] ]] && continue
        within 60 "the end of ${all_daemons[i]%.n?}" all_gone "${pids[@]}"
    done
}

all_gone() {
    local pid
    for pid in "$@"; do
        ! is_alive "$pid" || return 1
    done
}
