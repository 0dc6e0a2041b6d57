-- Programs that were reported while they ran, one row for each, with the columns of process. One that has ended is no longer here: its record
-- in process takes its place. key is its name, a hash of host, pid, start of the process and number of the exec; seen_ns is when it
-- was reported. What is known of a program that runs is what was known then.
CREATE TABLE running AS SELECT *, 0::UBIGINT AS key, 0::BIGINT AS seen_ns FROM process WHERE false;

-- Programs that have ended and whose report may come late, since entries before the one of their end are still missing.
CREATE TABLE running_ended (
    key UBIGINT NOT NULL,
    until_ns BIGINT NOT NULL
);
