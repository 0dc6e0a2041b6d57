-- What a batch system says of its machine, cluster by cluster, replaced as a whole each time it is told. What a site says over it
-- (site.toml) is not in here: it is put over this when it is asked for. Durations are in nanoseconds, memory and disks in bytes;
-- lists have commas between their parts; NULL is unknown.
CREATE TABLE site_cluster (
    cluster VARCHAR,
    told_ns BIGINT NOT NULL,
    version VARCHAR,
    store_flags VARCHAR,
    gather_type VARCHAR,
    task_plugins VARCHAR,
    min_job_age_ns BIGINT
);

CREATE TABLE site_partition (
    cluster VARCHAR,
    name VARCHAR NOT NULL,
    nodes VARCHAR,
    node_count UBIGINT,
    cpus UBIGINT,
    default_time_ns BIGINT,
    max_time_ns BIGINT,
    is_unlimited BOOLEAN,
    is_default BOOLEAN,
    state VARCHAR,
    qos VARCHAR,
    allow_accounts VARCHAR,
    tres VARCHAR,
    is_test BOOLEAN,
    has_gpus BOOLEAN,
    has_local_disk BOOLEAN
);

CREATE TABLE site_node (
    cluster VARCHAR,
    name VARCHAR NOT NULL,
    arch VARCHAR,
    os VARCHAR,
    sockets UBIGINT,
    cores_per_socket UBIGINT,
    threads_per_core UBIGINT,
    cpus UBIGINT,
    cores UBIGINT,
    memory UBIGINT,
    tmp_disk UBIGINT,
    gres VARCHAR,
    gpus UBIGINT,
    features VARCHAR,
    partitions VARCHAR,
    state VARCHAR,
    weight UBIGINT,
    version VARCHAR,
    peak_flops UBIGINT
);

-- An account, or a user in an account.
CREATE TABLE site_association (
    cluster VARCHAR,
    account VARCHAR NOT NULL,
    "user" VARCHAR,
    parent VARCHAR,
    partition VARCHAR,
    default_qos VARCHAR,
    qos VARCHAR,
    is_default BOOLEAN,
    coordinators VARCHAR
);
