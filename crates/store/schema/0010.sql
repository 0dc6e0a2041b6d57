-- What people said of jobs: that one has a tag, or that it has it not, whatever its rule says. A word that was replaced or taken back has
-- the time at which that happened.
CREATE TABLE assignment (
    id UBIGINT NOT NULL,
    tag UINTEGER NOT NULL,
    is_set BOOLEAN NOT NULL,
    is_personal BOOLEAN NOT NULL,
    "by" VARCHAR NOT NULL,
    by_administrator BOOLEAN NOT NULL,
    at_submission BOOLEAN NOT NULL,
    reason VARCHAR,
    at_ns BIGINT NOT NULL,
    until_ns BIGINT
);

-- Tags that were wished at submission and could not be set.
CREATE TABLE assignment_refused (
    id UBIGINT NOT NULL,
    wish VARCHAR NOT NULL,
    why VARCHAR NOT NULL,
    at_ns BIGINT NOT NULL
);
