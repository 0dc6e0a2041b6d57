-- What a row is: 0 a batch job, 1 the session of somebody who logged in. None is unknown: a filter compares one byte, and leaves out parts of
-- the table where all are of one kind.
ALTER TABLE accounting ADD COLUMN kind UTINYINT DEFAULT 0;

-- What a session of a node has, which is all of it.
ALTER TABLE node_now ADD COLUMN gpus UBIGINT;
