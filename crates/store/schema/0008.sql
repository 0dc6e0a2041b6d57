-- Packets of InfiniBand, as they are counted beside its bytes.
ALTER TABLE node_sample ADD COLUMN node_ib_packets_received BIGINT;
ALTER TABLE node_coarse ADD COLUMN node_ib_packets_received BIGINT;
ALTER TABLE job ADD COLUMN node_ib_packets_received_min DOUBLE;
ALTER TABLE job ADD COLUMN node_ib_packets_received_max DOUBLE;
ALTER TABLE job ADD COLUMN node_ib_packets_received_avg DOUBLE;
ALTER TABLE job ADD COLUMN node_ib_packets_received_median DOUBLE;
ALTER TABLE job ADD COLUMN node_ib_packets_received_node_min DOUBLE;
ALTER TABLE job ADD COLUMN node_ib_packets_received_node_max DOUBLE;
ALTER TABLE job ADD COLUMN node_ib_packets_received_total BIGINT;
ALTER TABLE node_sample ADD COLUMN node_ib_packets_sent BIGINT;
ALTER TABLE node_coarse ADD COLUMN node_ib_packets_sent BIGINT;
ALTER TABLE job ADD COLUMN node_ib_packets_sent_min DOUBLE;
ALTER TABLE job ADD COLUMN node_ib_packets_sent_max DOUBLE;
ALTER TABLE job ADD COLUMN node_ib_packets_sent_avg DOUBLE;
ALTER TABLE job ADD COLUMN node_ib_packets_sent_median DOUBLE;
ALTER TABLE job ADD COLUMN node_ib_packets_sent_node_min DOUBLE;
ALTER TABLE job ADD COLUMN node_ib_packets_sent_node_max DOUBLE;
ALTER TABLE job ADD COLUMN node_ib_packets_sent_total BIGINT;

-- Partitions and nodes as a site has them: what site.toml says, else the batch system, else what an agent measured. Those that no batch system
-- reported are here for each cluster whose jobs may name them. Made anew when any of these has changed.
CREATE TABLE partition_now (
    cluster VARCHAR,
    name VARCHAR NOT NULL,
    is_test BOOLEAN,
    has_gpus BOOLEAN,
    has_local_disk BOOLEAN,
    is_high_priority BOOLEAN,
    default_time_ns BIGINT
);

CREATE TABLE node_now (
    cluster VARCHAR,
    name VARCHAR NOT NULL,
    cores UBIGINT,
    cpus UBIGINT,
    memory UBIGINT,
    peak_flops UBIGINT
);
