# What the cluster needs of the machine outside its directory: packages, names
# in /etc/hosts, users, cgroups, and finding the processes that belong to it.
#
# Uses `dir`, `say` and `die` of the caller.
# shellcheck shell=bash disable=SC2154

nodes=(n1 n2 n3 n4)
users=(jgalice jgbob)

# A user is ours, to remove, when the comment field of passwd says so.
user_mark="jobglass testbed user"
hosts_begin="# begin jobglass-testbed"
hosts_end="# end jobglass-testbed"

# What must be there, a command or a file, and the Debian package it comes from.
needed() {
    cat <<'END'
munged munge
mariadbd mariadb-server
mariadb-install-db mariadb-server
slurmdbd slurmdbd
slurmctld slurmctld
slurmd slurmd
sbatch slurm-client
sacctmgr slurm-client
mpirun openmpi-bin
mpicc libopenmpi-dev
cc gcc
flock util-linux
runuser util-linux
useradd passwd
getent libc-bin
/usr/share/lmod/lmod/init/bash lmod
/usr/lib/*/libpmi.so.0 libpmi0
END
}

# In one line, empty when all is there.
missing() {
    local thing missing=()
    local PATH=$PATH:/usr/sbin:/sbin
    while read -r thing _; do
        command -v "$thing" >/dev/null || compgen -G "$thing" >/dev/null || missing+=("$thing")
    done < <(needed)
    echo "${missing[*]}"
}

# Packages start their services after installation unless policy-rc.d forbids
# it, so one is lent to the machine when it has none.
install_packages() {
    local policy=/usr/sbin/policy-rc.d packages
    mapfile -t packages < <(needed | cut -d' ' -f2 | sort -u)
    packages+=(slurm-wlm)
    if [[ ! -e $policy ]]; then
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    say "installing ${packages[*]}"
    apt-get update -qq >&2 || say "apt-get update failed, going on with the lists there are"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >&2
}

# start and stop change the machine: one of them at a time. The descriptor is
# closed for the daemons, which would otherwise hold the lock for their lives.
lock_machine() {
    exec 9>/run/lock/jobglass-testbed.lock
    flock -w "$1" 9 || die 2 "another start or stop is at work on this machine"
}

# The block in /etc/hosts names the directory of the cluster that runs, so it
# is also what forbids a second one: cgroups, ports and users cannot be shared.
claimed_by() { sed -n "s|^$hosts_begin ||p" /etc/hosts; }

claim_machine() {
    replace_hosts "$(
        cat /etc/hosts
        printf '%s %s\n127.0.0.1 %s\n%s\n' "$hosts_begin" "$dir" "${nodes[*]}" "$hosts_end"
    )"
    local user
    mkdir -p "$dir/home"
    for user in "${users[@]}"; do
        getent passwd "$user" >/dev/null ||
            useradd --create-home --base-dir "$dir/home" --comment "$user_mark" --shell /bin/bash "$user"
    done
}

unclaim_machine() {
    local user rest
    for user in "${users[@]}"; do
        # By force: userdel takes a zombie for a user who is logged in.
        ! is_our_user "$user" || userdel --force "$user" 2>/dev/null
    done
    [[ -n $(claimed_by) ]] || return 0
    rest=$(sed "/^$hosts_begin /,/^$hosts_end\$/d" /etc/hosts) && replace_hosts "$rest"
}

is_our_user() { [[ $(getent passwd "$1" | cut -d: -f5) == "$user_mark" ]]; }

# By rename, so that nobody reads half a file; in a container /etc/hosts may be
# a mount point, which can only be written in place.
replace_hosts() {
    local new
    new=$(mktemp /etc/hosts.XXXXXX) || return 1
    printf '%s\n' "$1" >"$new"
    chmod --reference=/etc/hosts "$new"
    mv -f "$new" /etc/hosts 2>/dev/null || { cat "$new" >/etc/hosts && rm -f "$new"; }
}

# A zombie has no executable any more; how soon it is reaped is up to process 1.
is_alive() { readlink "/proc/$1/exe" >/dev/null 2>&1; }

# Pids of all that belongs to the cluster: its daemons and slurmstepds (marked
# in their environment), processes of its jobs (environment or cgroup), and
# whatever its users run. SLURM_CONF alone does not count: the shell that calls
# us may well have it.
cluster_pids() {
    local user pid
    {
        set +e # of these searches any may find nothing
        grep -lzFx "JOBGLASS_TESTBED=$dir" /proc/[0-9]*/environ
        grep -lzFx "SLURM_CONF=$(slurm_conf)" /proc/[0-9]*/environ | xargs -r grep -lz '^SLURMD_NODENAME=n[1-4]$'
        find /sys/fs/cgroup/*/slurm_n[1-4] -name cgroup.procs -exec cat {} +
        for user in "${users[@]}"; do
            is_our_user "$user" && pgrep -u "$user"
        done
    } 2>/dev/null | sed -E 's|/proc/([0-9]+)/environ|\1|' | sort -nu |
        while read -r pid; do
            ! is_alive "$pid" || echo "$pid"
        done
}

# SIGKILL to all that is left, until nothing is.
kill_leftovers() {
    thaw_cgroups
    wait_until 30 kill_once || { say "cannot kill $(cluster_pids | paste -sd' ')"; return 1; }
}

# Whether nothing was left to kill.
kill_once() {
    local pids
    mapfile -t pids < <(cluster_pids)
    ((${#pids[@]})) || return 0
    kill -KILL "${pids[@]}" 2>/dev/null
    return 1
}

# proctrack/cgroup freezes a step before killing it; a frozen process does not die.
thaw_cgroups() {
    local state
    while read -r state; do
        echo THAWED >"$state"
    done < <(find /sys/fs/cgroup/freezer/slurm_n[1-4] -name freezer.state 2>/dev/null)
}

remove_cgroups() {
    local root failed=0
    for root in /sys/fs/cgroup/*/slurm_n[1-4]; do
        [[ ! -d $root ]] || find "$root" -depth -type d -exec rmdir {} + || failed=1
    done
    return "$failed"
}
