-- Take a job that was cancelled out of the line, or tell the worker that runs it.
--
-- KEYS     line, delayed, places, held
-- ARGV[1]  job id
-- ARGV[2]  key prefix of the workers' inboxes, in the same hash slot
-- Returns  'waiting' taken out; 'held' a worker was told; 'absent' neither
local line, delayed, places, held = unpack(KEYS)
local job = ARGV[1]

local stored = redis.call('HGET', held, job)
if stored then
  local lease = cjson.decode(stored)
  lease.cancel = true
  redis.call('HSET', held, job, cjson.encode(lease))
  local inbox = ARGV[2] .. ':' .. lease.worker
  redis.call('LPUSH', inbox, 'cancel ' .. job)
  redis.call('EXPIRE', inbox, 3600)
  return 'held'
end
if redis.call('ZREM', line, job) + redis.call('ZREM', delayed, job) == 0 then return 'absent' end
redis.call('HDEL', places, job)
return 'waiting'
