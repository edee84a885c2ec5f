-- Note a job in an index by the server's time; one that is there keeps its own.
--
-- KEYS[1]  the index, a zset
-- ARGV[1]  job id
-- ARGV[2]  how many of the oldest to tell
-- ARGV[3]  ms from now that it is noted for; absent: now
-- Returns  the oldest members
local time = redis.call('TIME')
local at = time[1] * 1000 + math.floor(time[2] / 1000) + (ARGV[3] or 0)
redis.call('ZADD', KEYS[1], 'NX', at, ARGV[1])
return redis.call('ZRANGE', KEYS[1], 0, ARGV[2] - 1)
