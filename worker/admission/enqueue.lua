-- Put a job into the waiting line, or back into it. Repeating it changes nothing.
--
-- KEYS     line, delayed, places, held, counter, nudge
-- ARGV[1]  job id
-- ARGV[2]  milliseconds it may not be granted for, 0 for none
-- Returns  1 when it entered the line, 0 when it was there or runs
local line, delayed, places, held, counter, nudge = unpack(KEYS)
local job, wait_ms = ARGV[1], tonumber(ARGV[2])

if redis.call('HEXISTS', places, job) == 1 then return 0 end
local place = redis.call('INCR', counter)
redis.call('HSET', places, job, place)
if wait_ms > 0 then
  local time = redis.call('TIME')
  redis.call('ZADD', delayed, time[1] * 1000 + math.floor(time[2] / 1000) + wait_ms, job)
else
  redis.call('ZADD', line, place, job)
end
-- One wake-up for one sleeper. The bound keeps wake-ups nobody needs from piling up.
redis.call('LPUSH', nudge, 'submit')
redis.call('LTRIM', nudge, 0, 63)
return 1
