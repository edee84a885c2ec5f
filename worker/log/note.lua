-- Note a job in an index by the server's time; one that is there keeps its own.
--
-- KEYS[1]  the index, a zset
-- ARGV[1]  job id
-- ARGV[2]  how many of the oldest to tell
-- Returns  the oldest members
local time = redis.call('TIME')
redis.call('ZADD', KEYS[1], 'NX', time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1])
return redis.call('ZRANGE', KEYS[1], 0, ARGV[2] - 1)
