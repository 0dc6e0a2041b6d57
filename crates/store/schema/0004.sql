-- How far a job is: 'running', 'ended' on all its nodes, or 'unheard': without an end, and nothing is heard of it any more. Numbers
-- of a job that has not ended are provisional. heard_ns is its last reading.
ALTER TABLE job ADD COLUMN state VARCHAR;
ALTER TABLE job ADD COLUMN heard_ns BIGINT;

-- The shares of the known time in which a metric was below the site's low and above its high threshold, as the site had them when
-- the row was made. NULL without a threshold, and where what it is relative to is not known. Thresholds are of a job's own metrics:
-- what was read of the whole node has none.
ALTER TABLE job ADD COLUMN cpu_below DOUBLE;
ALTER TABLE job ADD COLUMN cpu_above DOUBLE;
ALTER TABLE job ADD COLUMN cpu_user_below DOUBLE;
ALTER TABLE job ADD COLUMN cpu_user_above DOUBLE;
ALTER TABLE job ADD COLUMN cpu_system_below DOUBLE;
ALTER TABLE job ADD COLUMN cpu_system_above DOUBLE;
ALTER TABLE job ADD COLUMN cpu_throttled_below DOUBLE;
ALTER TABLE job ADD COLUMN cpu_throttled_above DOUBLE;
ALTER TABLE job ADD COLUMN memory_below DOUBLE;
ALTER TABLE job ADD COLUMN memory_above DOUBLE;
ALTER TABLE job ADD COLUMN memory_cache_below DOUBLE;
ALTER TABLE job ADD COLUMN memory_cache_above DOUBLE;
ALTER TABLE job ADD COLUMN memory_peak_below DOUBLE;
ALTER TABLE job ADD COLUMN memory_peak_above DOUBLE;
ALTER TABLE job ADD COLUMN memory_swap_below DOUBLE;
ALTER TABLE job ADD COLUMN memory_swap_above DOUBLE;
ALTER TABLE job ADD COLUMN read_bytes_below DOUBLE;
ALTER TABLE job ADD COLUMN read_bytes_above DOUBLE;
ALTER TABLE job ADD COLUMN write_bytes_below DOUBLE;
ALTER TABLE job ADD COLUMN write_bytes_above DOUBLE;
ALTER TABLE job ADD COLUMN disk_read_below DOUBLE;
ALTER TABLE job ADD COLUMN disk_read_above DOUBLE;
ALTER TABLE job ADD COLUMN disk_write_below DOUBLE;
ALTER TABLE job ADD COLUMN disk_write_above DOUBLE;
ALTER TABLE job ADD COLUMN read_chars_below DOUBLE;
ALTER TABLE job ADD COLUMN read_chars_above DOUBLE;
ALTER TABLE job ADD COLUMN write_chars_below DOUBLE;
ALTER TABLE job ADD COLUMN write_chars_above DOUBLE;
ALTER TABLE job ADD COLUMN processes_below DOUBLE;
ALTER TABLE job ADD COLUMN processes_above DOUBLE;
ALTER TABLE job ADD COLUMN threads_below DOUBLE;
ALTER TABLE job ADD COLUMN threads_above DOUBLE;
ALTER TABLE job ADD COLUMN job_load_below DOUBLE;
ALTER TABLE job ADD COLUMN job_load_above DOUBLE;
ALTER TABLE job ADD COLUMN minor_faults_below DOUBLE;
ALTER TABLE job ADD COLUMN minor_faults_above DOUBLE;
ALTER TABLE job ADD COLUMN major_faults_below DOUBLE;
ALTER TABLE job ADD COLUMN major_faults_above DOUBLE;
ALTER TABLE job ADD COLUMN switches_below DOUBLE;
ALTER TABLE job ADD COLUMN switches_above DOUBLE;
ALTER TABLE job ADD COLUMN involuntary_switches_below DOUBLE;
ALTER TABLE job ADD COLUMN involuntary_switches_above DOUBLE;
ALTER TABLE job ADD COLUMN oom_kills_below DOUBLE;
ALTER TABLE job ADD COLUMN oom_kills_above DOUBLE;
ALTER TABLE job ADD COLUMN cpu_pressure_below DOUBLE;
ALTER TABLE job ADD COLUMN cpu_pressure_above DOUBLE;
ALTER TABLE job ADD COLUMN memory_pressure_below DOUBLE;
ALTER TABLE job ADD COLUMN memory_pressure_above DOUBLE;
ALTER TABLE job ADD COLUMN io_pressure_below DOUBLE;
ALTER TABLE job ADD COLUMN io_pressure_above DOUBLE;
ALTER TABLE job ADD COLUMN gpu_below DOUBLE;
ALTER TABLE job ADD COLUMN gpu_above DOUBLE;
ALTER TABLE job ADD COLUMN gpu_memory_below DOUBLE;
ALTER TABLE job ADD COLUMN gpu_memory_above DOUBLE;
ALTER TABLE job ADD COLUMN gpu_power_below DOUBLE;
ALTER TABLE job ADD COLUMN gpu_power_above DOUBLE;
ALTER TABLE job ADD COLUMN gpu_energy_below DOUBLE;
ALTER TABLE job ADD COLUMN gpu_energy_above DOUBLE;

-- Where the gauges of nodes stood at the end says nothing of a job on several of them.
ALTER TABLE job DROP COLUMN node_load_last;
ALTER TABLE job DROP COLUMN node_memory_total_last;
ALTER TABLE job DROP COLUMN node_memory_available_last;
ALTER TABLE job DROP COLUMN node_swap_used_last;
ALTER TABLE job DROP COLUMN node_temperature_last;

-- What was made before had a row only once it had ended somewhere.
UPDATE job SET state = CASE WHEN end_ns IS NULL THEN 'unheard' ELSE 'ended' END;
