-- End a lease: free its slot, and put the job back into the line or take it out for good.
--
-- KEYS     line, delayed, places, leases, held, load, streams, nudge, inbox of the worker
-- ARGV[1]  job id
-- ARGV[2]  lease number
-- ARGV[3]  'done' or 'back'
-- ARGV[4]  ms a job put back may not be granted for, 0 for none; it keeps its place
-- Returns  1 when settled, 0 when the lease was settled or lost before
local line, delayed, places, leases, held, load, streams, nudge, inbox = unpack(KEYS)
local job, wait_ms = ARGV[1], tonumber(ARGV[4])

local stored = redis.call('HGET', held, job)
if not stored then return 0 end
local lease = cjson.decode(stored)
if lease.lease ~= tonumber(ARGV[2]) then return 0 end

local function decrement(hash, field)
  if redis.call('HINCRBY', hash, field, -1) <= 0 then redis.call('HDEL', hash, field) end
end

redis.call('ZREM', leases, job)
redis.call('HDEL', held, job)
decrement(load, lease.worker)
decrement(streams, lease.account)
if ARGV[3] == 'done' then
  redis.call('HDEL', places, job)
elseif wait_ms > 0 then
  local time = redis.call('TIME')
  redis.call('ZADD', delayed, time[1] * 1000 + math.floor(time[2] / 1000) + wait_ms, job)
else
  redis.call('ZADD', line, redis.call('HGET', places, job), job)
end

-- The worker has a free slot; someone else may have been waiting for the account's.
redis.call('LPUSH', inbox, 'slot')
redis.call('LTRIM', inbox, 0, 1023)
redis.call('EXPIRE', inbox, 3600)
if redis.call('EXISTS', line) == 1 or ARGV[3] == 'back' then
  redis.call('LPUSH', nudge, 'settle')
  redis.call('LTRIM', nudge, 0, 63)
end
return 1
