-- What other systems measured: one row per node (or part of one), metric and time. A value is of the time before it, every_ns at
-- most. is_ours: the metric is one of our catalogue, in its unit, a counter as its rate; else it is called as the other system
-- calls it. job is the id of the one job that it is of, where the other system says so; NULL is whatever ran there.
CREATE TABLE measure (
    cluster VARCHAR,
    host VARCHAR NOT NULL,
    metric VARCHAR NOT NULL,
    is_ours BOOLEAN NOT NULL,
    unit VARCHAR,
    part VARCHAR,
    job UBIGINT,
    every_ns BIGINT NOT NULL,
    time_ns BIGINT NOT NULL,
    value DOUBLE NOT NULL
);

-- What that says of a job as a whole, computed from the values of its nodes in its time, or told by the other system (is_told).
-- is_shared: other jobs were accounted for on its nodes in its time. Of rows that were told, it is not known.
CREATE TABLE job_measure (
    id UBIGINT NOT NULL,
    metric VARCHAR NOT NULL,
    is_ours BOOLEAN NOT NULL,
    is_told BOOLEAN NOT NULL,
    unit VARCHAR,
    min DOUBLE,
    max DOUBLE,
    avg DOUBLE,
    median DOUBLE,
    node_min DOUBLE,
    node_max DOUBLE,
    nodes UINTEGER,
    readings UBIGINT,
    is_shared BOOLEAN
);

-- A cluster as ClusterCockpit describes it, as it is: only whoever takes jobs back there reads it.
CREATE TABLE cluster_description (
    cluster VARCHAR NOT NULL,
    text VARCHAR NOT NULL,
    told_ns BIGINT NOT NULL
);
