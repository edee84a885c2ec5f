-- Take a job that was cancelled out of the line, or tell the worker that runs it.
--
-- KEYS     the pool's
-- ARGV[1]  job id
-- Returns  'waiting' taken out; 'held' a worker was told; 'absent' neither
-- include pool
-- include tickets
-- include waking
local job = ARGV[1]

local lease = decoded(redis.call('HGET', held, job))
if lease then
  lease.cancel = true
  redis.call('HSET', held, job, cjson.encode(lease))
  local inbox = inboxes .. ':' .. lease.worker
  redis.call('LPUSH', inbox, 'cancel ' .. job)
  redis.call('EXPIRE', inbox, 3600)
  return 'held'
end
local ticket = decoded(redis.call('HGET', tickets, job))
if not ticket then return 'absent' end
redis.call('ZREM', lines[ticket.class], job)
redis.call('ZREM', delayed, job)
redis.call('HDEL', tickets, job)
correct_turn(ticket, -ticket.cost)
return 'waiting'
