-- What people want to be remembered of a job, or of a program (its path, or a pattern for it). One that was taken back has the time at
-- which that happened.
CREATE TABLE note (
    number UBIGINT NOT NULL,
    id UBIGINT,
    program VARCHAR,
    text VARCHAR NOT NULL,
    "by" VARCHAR NOT NULL,
    at_ns BIGINT NOT NULL,
    until_ns BIGINT
);

-- A user was contacted, because of a job or not.
CREATE TABLE contact (
    number UBIGINT NOT NULL,
    "user" VARCHAR NOT NULL,
    id UBIGINT,
    reason VARCHAR NOT NULL,
    "by" VARCHAR NOT NULL,
    at_ns BIGINT NOT NULL,
    outcome VARCHAR,
    closed_by VARCHAR,
    closed_ns BIGINT
);

-- What happened in a case since.
CREATE TABLE contact_entry (
    number UBIGINT NOT NULL,
    text VARCHAR NOT NULL,
    "by" VARCHAR NOT NULL,
    at_ns BIGINT NOT NULL
);

-- Tags that somebody proposes, and what became of that.
CREATE TABLE proposal (
    number UBIGINT NOT NULL,
    name VARCHAR NOT NULL,
    description VARCHAR NOT NULL,
    motivation VARCHAR NOT NULL,
    criterion VARCHAR,
    "by" VARCHAR NOT NULL,
    at_ns BIGINT NOT NULL,
    is_approved BOOLEAN,
    decided_by VARCHAR,
    reason VARCHAR,
    decided_ns BIGINT
);

-- Tags that came of proposals, as they were approved.
CREATE TABLE approved_tag (
    id UINTEGER NOT NULL,
    proposal UBIGINT NOT NULL,
    name VARCHAR NOT NULL,
    description VARCHAR NOT NULL,
    criterion VARCHAR
);
