-- Jobs whose deadlines have passed, each told to one caller for a while: should that one die before
-- it has ended the job, another is told.
--
-- KEYS[1]  deadlines, a zset: job id by time (ms)
-- ARGV[1]  ms until a job is told again
-- Returns  job ids
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 100)
for _, job in ipairs(due) do redis.call('ZADD', KEYS[1], 'XX', now + ARGV[1], job) end
return due
