-- Jobs as their batch system accounts for them, one row each. Its own table, not columns of `job`: a centre's history is many
-- times larger than what was measured of it, and rows with five hundred empty columns take four times as long to write.
-- id is a hash of cluster, number and time of submission: a job that is queued again is another one, with the same number.
-- NULL is unknown, or not yet.
-- source: NULL is its batch system, 'monitoring' another system that has a record of it, 'both' what both say.
CREATE TABLE accounting (
    id UBIGINT NOT NULL,
    cluster VARCHAR,
    source VARCHAR,
    job VARCHAR,
    shown VARCHAR NOT NULL,
    array_job UBIGINT,
    array_task UBIGINT,
    array_waiting VARCHAR,
    -- As how many jobs it counts: the tasks of an array that wait together. Null is one.
    waiting_tasks UBIGINT,
    het_job UBIGINT,
    het_offset UBIGINT,
    sluid VARCHAR,
    "user" VARCHAR,
    uid UINTEGER,
    "group" VARCHAR,
    gid UINTEGER,
    project VARCHAR,
    partition VARCHAR,
    qos VARCHAR,
    reservation VARCHAR,
    wckey VARCHAR,
    name VARCHAR,
    submit_ns BIGINT,
    eligible_ns BIGINT,
    start_ns BIGINT,
    end_ns BIGINT,
    elapsed_ns BIGINT,
    limit_ns BIGINT,
    is_unlimited BOOLEAN,
    state VARCHAR,
    also VARCHAR,
    cancelled_by VARCHAR,
    exit_code UINTEGER,
    signal UINTEGER,
    derived_exit_code UINTEGER,
    derived_signal UINTEGER,
    reason VARCHAR,
    restarts UBIGINT,
    nodes UBIGINT,
    cores UBIGINT,
    requested_nodes UBIGINT,
    requested_cores UBIGINT,
    requested_gpus UBIGINT,
    -- Of the whole job; what was asked for per node, core or job is in the two behind it.
    requested_memory UBIGINT,
    requested_memory_each UBIGINT,
    requested_memory_per VARCHAR,
    tasks UBIGINT,
    gpus UBIGINT,
    memory UBIGINT,
    requested VARCHAR,
    allocated VARCHAR,
    node_list VARCHAR,
    is_shared BOOLEAN,
    comment VARCHAR,
    admin_comment VARCHAR,
    system_comment VARCHAR,
    extra VARCHAR,
    submit_line VARCHAR,
    work_dir VARCHAR,
    stdout VARCHAR,
    container VARCHAR,
    constraints VARCHAR,
    licenses VARCHAR,
    flags VARCHAR,
    priority UBIGINT,
    total_cpu_ns BIGINT,
    user_cpu_ns BIGINT,
    system_cpu_ns BIGINT,
    max_rss UBIGINT,
    average_rss UBIGINT,
    energy_j UBIGINT,
    others VARCHAR
);

-- The nodes behind each list of nodes that a job has, so that a job is found by one of them: there are far fewer lists than jobs.
CREATE TABLE node_list (
    list VARCHAR NOT NULL,
    host VARCHAR NOT NULL
);

-- What a job had on a node, where somebody looked while it ran: numbers of hardware threads, GPUs, bytes of memory.
CREATE TABLE accounting_node (
    id UBIGINT NOT NULL,
    host VARCHAR NOT NULL,
    cpus VARCHAR,
    gpus VARCHAR,
    memory UBIGINT
);

-- Whether a batch job that was measured is among those that are accounted for.
ALTER TABLE job ADD COLUMN is_accounted BOOLEAN;
UPDATE job SET is_accounted = false;

-- The parts of a job that were started on their own.
CREATE TABLE accounting_step (
    id UBIGINT NOT NULL,
    step VARCHAR NOT NULL,
    name VARCHAR,
    start_ns BIGINT,
    end_ns BIGINT,
    elapsed_ns BIGINT,
    state VARCHAR,
    exit_code UINTEGER,
    signal UINTEGER,
    nodes UBIGINT,
    cores UBIGINT,
    tasks UBIGINT,
    allocated VARCHAR,
    node_list VARCHAR,
    submit_line VARCHAR,
    container VARCHAR,
    total_cpu_ns BIGINT,
    user_cpu_ns BIGINT,
    system_cpu_ns BIGINT,
    max_rss UBIGINT,
    max_rss_node VARCHAR,
    average_rss UBIGINT,
    energy_j UBIGINT,
    used_in VARCHAR,
    used_out VARCHAR
);
