-- Tags on software: a job that used it has the tag. What was taken off has the time at which that happened.
CREATE TABLE software_tag (
    tag UINTEGER NOT NULL,
    predicate VARCHAR NOT NULL,
    pattern VARCHAR NOT NULL,
    "by" VARCHAR NOT NULL,
    reason VARCHAR,
    at_ns BIGINT NOT NULL,
    until_ns BIGINT
);

-- A run of one tag only; NULL is all of them.
ALTER TABLE tag_run ADD COLUMN tag UINTEGER;
