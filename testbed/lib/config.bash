# The files the daemons read, written afresh for every start.
#
# Uses `dir`, `proctrack`, `prolog`, `here`, `say` and `die` of the caller.
# shellcheck shell=bash disable=SC2154

# Below the ephemeral ports and away from Slurm's own 6817 to 6819.
ctld_port=17817
dbd_port=17819
slurmd_ports=17821-17824
ports=("$ctld_port" "$dbd_port" 17821 17822 17823 17824)

refuse_if_ports_taken() {
    local port
    for port in "${ports[@]}"; do
        ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || die 2 "port $port of 127.0.0.1 is taken"
    done
}

slurm_conf() { echo "$dir/etc/slurm.conf"; }

write_config() {
    say "writing the configuration below $dir"
    mkdir -p "$dir"/{etc,log,run,munge,mysql,state,spool}
    chmod 700 "$dir/munge"
    dd if=/dev/urandom of="$dir/munge/munge.key" bs=128 count=1 status=none
    chmod 400 "$dir/munge/munge.key"
    slurm_conf_text >"$dir/etc/slurm.conf"
    plugins_text >>"$dir/etc/slurm.conf"
    cgroup_conf_text >"$dir/etc/cgroup.conf"
    (umask 077 && slurmdbd_conf_text >"$dir/etc/slurmdbd.conf")
}

slurm_conf_text() {
    local host
    host=$(hostname -s)
    cat <<END
ClusterName=testbed
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmctldPort=$ctld_port
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.socket
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
MpiDefault=none

StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log

# More CPUs than the machine has are fine: nothing is pinned.
SlurmdParameters=config_overrides
NodeName=n[1-4] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$slurmd_ports] CPUs=4 RealMemory=2000 State=UNKNOWN
PartitionName=regular Nodes=n[1-4] Default=YES State=UP
PartitionName=test Nodes=n[1-4] State=UP
PartitionName=gpu Nodes=n3 State=UP
PartitionName=hdd Nodes=n4 State=UP
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
# Without a default a job that says nothing gets all memory of its nodes.
DefMemPerCPU=200

# Start soon, end soon: see "Time limits" in README.md.
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_interval=2
OverTimeLimit=0
KillWait=2
CompleteWait=0
InactiveLimit=0
MinJobAge=300
ReturnToService=2
SlurmdTimeout=60

AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$dbd_port
# For munge this "password" is the socket; without it a global daemon is asked.
AccountingStoragePass=$dir/run/munge.socket
AccountingStoreFlags=job_comment,job_env,job_script
JobAcctGatherFrequency=task=2
END
    [[ -z $prolog ]] || echo "PrologSlurmctld=$(realpath -- "$prolog")"
}

plugins_text() {
    if [[ $proctrack == cgroup ]]; then
        cat <<'END'
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup
END
    else
        cat <<'END'
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
END
    fi
}

# Cores are not constrained: half of the configured ones do not exist.
cgroup_conf_text() {
    cat <<'END'
CgroupPlugin=cgroup/v1
ConstrainRAMSpace=yes
ConstrainSwapSpace=no
ConstrainCores=no
ConstrainDevices=no
END
}

slurmdbd_conf_text() {
    cat <<END
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$dbd_port
CommunicationParameters=NoInAddrAny
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.socket
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=testbed
PidFile=$dir/run/slurmdbd.pid
LogFile=$dir/log/slurmdbd.log
END
}

# Where jobs find programs, scripts and modules: ordinary users may not be able
# to read the source tree.
write_for_users() {
    mkdir -p "$dir/bin"
    mpicc -O1 -o "$dir/bin/mpi_hello" "$here/programs/mpi_hello.c"
    cc -O1 -o "$dir/bin/eat_memory" "$here/programs/eat_memory.c"
    cp -r "$here/jobs" "$here/modulefiles" "$dir"
    chmod -R a+rX "$dir/jobs" "$dir/modulefiles"
    local user home
    for user in "${users[@]}"; do
        is_our_user "$user" || continue
        home=$dir/home/$user
        mkdir -p "$home/.openmpi"
        mpi_settings_text >"$home/.openmpi/mca-params.conf"
        bash_profile_text >"$home/.bash_profile"
        chown -R "$user:" "$home"
    done
}

# Read by mpirun and by every rank, so jobs need no variables for it. All nodes
# are one host: shared memory and pinning would mix them up.
mpi_settings_text() {
    cat <<'END'
btl = tcp,self
btl_tcp_if_include = lo
oob_tcp_if_include = lo
hwloc_base_binding_policy = none
END
}

# For `#!/bin/bash -l`: /etc/profile has defined `module` before this is read.
bash_profile_text() {
    cat <<END
PATH=\$PATH:$dir/bin
module use "$dir/modulefiles"
END
}
