-- Whose a tag is, NULL for everybody's, and whether it can be set now: one that is not declared any more keeps its number and its bit.
ALTER TABLE tag ADD COLUMN space VARCHAR;
ALTER TABLE tag ADD COLUMN is_available BOOLEAN;

-- Tags that people declare for a project or for themselves. One that was given up has the time at which that happened.
CREATE TABLE own_tag (
    id UINTEGER NOT NULL,
    name VARCHAR NOT NULL,
    description VARCHAR NOT NULL,
    space VARCHAR NOT NULL,
    "by" VARCHAR NOT NULL,
    at_ns BIGINT NOT NULL,
    until_ns BIGINT
);

-- Searches that people save for themselves, as JSON. One that was replaced or forgotten has the time at which that happened.
CREATE TABLE saved_search (
    name VARCHAR NOT NULL,
    search VARCHAR NOT NULL,
    "by" VARCHAR NOT NULL,
    at_ns BIGINT NOT NULL,
    until_ns BIGINT
);
