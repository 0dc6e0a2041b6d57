-- What people think of a tag that a rule has set on a job: that it is right (agree) or wrong (disagree), or that they do not want to be
-- shown it (hide). version is that of the rule which had decided. What was replaced or taken back has the time at which that happened.
CREATE TABLE opinion (
    id UBIGINT NOT NULL,
    tag UINTEGER NOT NULL,
    version UINTEGER NOT NULL,
    word VARCHAR NOT NULL,
    "by" VARCHAR NOT NULL,
    reason VARCHAR,
    at_ns BIGINT NOT NULL,
    until_ns BIGINT
);
