-- Times are nanoseconds since 1970 (…_ns); NULL is unknown, never zero for want of knowledge.
-- Ids of interned things are hashes of their content (xxh3-64), so every node gives the same thing the same id.

-- Spools that have sent something.
CREATE TABLE stream (
    id UINTEGER PRIMARY KEY,
    name VARCHAR NOT NULL,
    host VARCHAR NOT NULL,
    first_seen_ns BIGINT NOT NULL
);

-- Which entries of a stream are stored: written in the same transaction as they are.
CREATE TABLE received (
    stream UINTEGER NOT NULL,
    first UBIGINT NOT NULL,
    last UBIGINT NOT NULL
);

-- One row per program image, or per fold of images that are alike.
CREATE TABLE process (
    stream UINTEGER NOT NULL,
    number UBIGINT NOT NULL,
    cluster VARCHAR,
    job VARCHAR,
    step VARCHAR,
    rank UINTEGER,
    host VARCHAR NOT NULL,
    node VARCHAR,
    session VARCHAR,
    job_from VARCHAR,
    claimed_job VARCHAR,
    pid UINTEGER NOT NULL,
    ppid UINTEGER,
    process_start_ns BIGINT NOT NULL,
    exec UINTEGER NOT NULL,
    start_ns BIGINT NOT NULL,
    end_ns BIGINT,
    ended_by VARCHAR NOT NULL,
    exit_code UINTEGER,
    signal UINTEGER,
    uid UINTEGER,
    "user" VARCHAR,
    exe VARCHAR,
    exe_file UBIGINT,
    exe_deleted BOOLEAN NOT NULL,
    argv VARCHAR,
    argv_cut BOOLEAN NOT NULL,
    cwd VARCHAR,
    modules UBIGINT,
    environment UBIGINT,
    container VARCHAR,
    container_image VARCHAR,
    objects UBIGINT,
    late_objects UBIGINT,
    objects_cut UBIGINT NOT NULL,
    user_cpu_ns BIGINT,
    system_cpu_ns BIGINT,
    max_rss_bytes BIGINT,
    read_bytes BIGINT,
    write_bytes BIGINT,
    count UBIGINT NOT NULL,
    source UTINYINT NOT NULL,
    forked_from VARCHAR,
    without_guest VARCHAR,
    ranks VARCHAR
);

-- A loaded object: an executable or a library, as a program found it.
CREATE TABLE object (
    id UBIGINT NOT NULL,
    path VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    build_id VARCHAR,
    signature VARCHAR,
    file UBIGINT,
    -- Only the process itself named it: the kernel reported no such mapping, and no file was looked at.
    claimed BOOLEAN NOT NULL
);

CREATE TABLE object_list (
    list UBIGINT NOT NULL,
    position USMALLINT NOT NULL,
    object UBIGINT NOT NULL
);

-- A file's content: path, size and time of change.
CREATE TABLE file (
    id UBIGINT NOT NULL,
    path VARCHAR NOT NULL,
    size UBIGINT NOT NULL,
    mtime_ns BIGINT,
    uid UINTEGER,
    mode UINTEGER,
    hash VARCHAR,
    unhashed VARCHAR,
    build_id VARCHAR,
    signature VARCHAR,
    dynamic BOOLEAN
);

CREATE TABLE module_list (
    list UBIGINT NOT NULL,
    position USMALLINT NOT NULL,
    module VARCHAR NOT NULL,
    file VARCHAR
);

-- Kept variables, a JSON array of NAME=value. The same environment may stand here more than once.
CREATE TABLE environment (
    id UBIGINT NOT NULL,
    variables VARCHAR NOT NULL
);

-- Times in which not everything was seen.
CREATE TABLE gap (
    stream UINTEGER NOT NULL,
    number UBIGINT NOT NULL,
    host VARCHAR NOT NULL,
    from_ns BIGINT NOT NULL,
    to_ns BIGINT NOT NULL,
    reason VARCHAR NOT NULL,
    forks UBIGINT,
    events UBIGINT,
    images UBIGINT
);

-- How agents fare.
CREATE TABLE health (
    stream UINTEGER NOT NULL,
    number UBIGINT NOT NULL,
    host VARCHAR NOT NULL,
    time_ns BIGINT NOT NULL,
    started_ns BIGINT NOT NULL,
    version VARCHAR NOT NULL,
    counters VARCHAR NOT NULL,
    blind VARCHAR NOT NULL
);

-- Entries of newer agents that this version does not know.
CREATE TABLE unknown_entry (
    stream UINTEGER NOT NULL,
    number UBIGINT NOT NULL,
    payload BLOB NOT NULL
);
