-- Jobs that were measured, and of which no batch system has told, have an account made of that: they are listed, judged and spoken of as
-- others are. When the batch system tells of one, its account takes the place of this one.
ALTER TABLE accounting ADD COLUMN is_only_measured BOOLEAN;
INSERT INTO accounting BY NAME
    SELECT hash(coalesce(cluster, ''), job, start_ns) AS id, true AS is_only_measured, cluster, job, job AS shown, "user", start_ns, end_ns,
        end_ns - start_ns AS elapsed_ns, CASE state WHEN 'running' THEN 'RUNNING' END AS state, nodes::UBIGINT AS nodes,
        reserved_cpus::UBIGINT AS cores, reserved_gpus::UBIGINT AS gpus, reserved_memory::UBIGINT AS memory
    FROM job WHERE job IS NOT NULL AND NOT is_accounted;
UPDATE accounting SET node_list = s.list
    FROM (SELECT job, string_agg(DISTINCT coalesce(node, host), ',') AS list FROM job_sample WHERE job IS NOT NULL GROUP BY job) s
    WHERE accounting.is_only_measured AND accounting.job = s.job;
INSERT INTO node_list
    SELECT list, unnest(string_split(list, ',')) FROM (SELECT DISTINCT node_list AS list FROM accounting WHERE is_only_measured)
    WHERE list NOT IN (SELECT list FROM node_list);
INSERT INTO tag_due SELECT id, NULL FROM accounting WHERE is_only_measured;
ALTER TABLE job DROP COLUMN is_accounted;

-- Which account has taken the place of which: who speaks of the one while that happens speaks of the other.
CREATE TABLE account_moved (
    own UBIGINT NOT NULL,
    told UBIGINT NOT NULL
);

-- Jobs of which nobody knows when they were submitted are judged after the others, in the order of their start.
ALTER TABLE tag_run ADD COLUMN is_by_start BOOLEAN;
