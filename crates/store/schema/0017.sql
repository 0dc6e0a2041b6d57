-- Of the bits in tags0 to tags3, those that only people say: a tag that somebody has set on a job is a bit of its row as one that a rule has
-- set, so that a filter looks at one table only. None is unknown: whoever reads the bits of rules would pay for it.
ALTER TABLE accounting ADD COLUMN said0 UBIGINT DEFAULT 0;
ALTER TABLE accounting ADD COLUMN said1 UBIGINT DEFAULT 0;
ALTER TABLE accounting ADD COLUMN said2 UBIGINT DEFAULT 0;
ALTER TABLE accounting ADD COLUMN said3 UBIGINT DEFAULT 0;

-- What rules set and the job's owner, or a manager of its project, has removed: no bit of tags0 to tags3, but support and administrators still
-- find it by what the rule says. What an administrator has removed is removed for everybody, and in none of these.
ALTER TABLE accounting ADD COLUMN removed0 UBIGINT DEFAULT 0;
ALTER TABLE accounting ADD COLUMN removed1 UBIGINT DEFAULT 0;
ALTER TABLE accounting ADD COLUMN removed2 UBIGINT DEFAULT 0;
ALTER TABLE accounting ADD COLUMN removed3 UBIGINT DEFAULT 0;
