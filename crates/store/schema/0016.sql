-- Jobs that were measured, and of which no batch system has told, have an account made of that: they are listed, judged and spoken of as
-- others are. When the batch system tells of one, its account takes the place of this one.
ALTER TABLE accounting ADD COLUMN is_only_measured BOOLEAN;
INSERT INTO accounting BY NAME
    SELECT hash(coalesce(cluster, ''), job, start_ns) AS id, true AS is_only_measured, cluster, job, job AS shown, "user", start_ns, end_ns,
        end_ns - start_ns AS elapsed_ns, CASE state WHEN 'running' THEN 'RUNNING' END AS state, nodes::UBIGINT AS nodes,
        reserved_cpus::UBIGINT AS cores, reserved_gpus::UBIGINT AS gpus, reserved_memory::UBIGINT AS memory
    FROM job WHERE job IS NOT NULL AND NOT is_accounted;
INSERT INTO tag_due SELECT id, NULL FROM accounting WHERE is_only_measured;
ALTER TABLE job DROP COLUMN is_accounted;
