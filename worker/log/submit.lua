-- Write a job's record, once. The same id again changes nothing.
--
-- KEYS[1]  record, a hash
-- ARGV     fields and values
-- Returns  1 when written, 0 when there was a record
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'state', 'waiting', 'created_ms',
  time[1] * 1000 + math.floor(time[2] / 1000), unpack(ARGV))
return 1
