-- When rules decided last about a job.
ALTER TABLE accounting ADD COLUMN judged_ns BIGINT;
