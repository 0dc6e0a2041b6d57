-- What was decided of a job: a bit for each tag that has a criterion, and by which set of rules. NULL: it was not judged yet.
ALTER TABLE accounting ADD COLUMN tags0 UBIGINT;
ALTER TABLE accounting ADD COLUMN tags1 UBIGINT;
ALTER TABLE accounting ADD COLUMN tags2 UBIGINT;
ALTER TABLE accounting ADD COLUMN tags3 UBIGINT;
ALTER TABLE accounting ADD COLUMN rules UINTEGER;

-- Jobs that are to be judged: those that were just told, and those of which something else is known than when they were judged.
CREATE TABLE tag_due (
    id UBIGINT NOT NULL,
    submit_ns BIGINT
);

-- Which tag has which bit, for good; bit is NULL for those that only people set. Tags that declare themselves have their numbers
-- from here.
CREATE TABLE tag (
    id UINTEGER NOT NULL,
    name VARCHAR NOT NULL,
    bit UINTEGER,
    since_ns BIGINT NOT NULL
);

-- The criteria that a tag has had, each with its thresholds in it.
CREATE TABLE tag_version (
    tag UINTEGER NOT NULL,
    version UINTEGER NOT NULL,
    criterion VARCHAR NOT NULL,
    since_ns BIGINT NOT NULL
);

-- Sets of rules: which version of each tag was in it.
CREATE TABLE rule_set (
    id UINTEGER NOT NULL,
    tag UINTEGER NOT NULL,
    version UINTEGER NOT NULL
);

-- Runs over the whole collection, in the order of submission: jobs submitted before next_ns have been judged.
CREATE TABLE tag_run (
    begun_ns BIGINT NOT NULL,
    rules UINTEGER NOT NULL,
    since_ns BIGINT,
    next_ns BIGINT,
    jobs UBIGINT NOT NULL,
    judged UBIGINT NOT NULL,
    ended_ns BIGINT
);
