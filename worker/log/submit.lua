-- Write a job's record, once. The same id again changes nothing, also when the job is so long over
-- that only its tombstone is left: an id is never used again while anyone may hold a cursor of it.
--
-- KEYS[1]  record, a hash
-- KEYS[2]  tombstone, a string
-- ARGV[1]  ms from now until the job's deadline, 0 for none
-- ARGV[2]  ms from now until it may be granted, 0 for at once
-- ARGV[3+] fields and values
-- Returns  {state, pool, ticket, ms until it may be granted} of the record there is now; its state is
--          nil when only the tombstone is left
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function recorded()
  local state, pool, ticket, due = unpack(
    redis.call('HMGET', KEYS[1], 'state', 'pool', 'ticket', 'due_ms'))
  return { state, pool, ticket, due and math.max(0, due - now) or 0 }
end

if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then return recorded() end
redis.call('HSET', KEYS[1], 'state', 'waiting', 'created_ms', now, unpack(ARGV, 3))
if ARGV[1] ~= '0' then redis.call('HSET', KEYS[1], 'deadline_ms', now + ARGV[1]) end
if ARGV[2] ~= '0' then redis.call('HSET', KEYS[1], 'due_ms', now + ARGV[2]) end
return recorded()
