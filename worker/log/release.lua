-- Let a job go whose keys are not what they were: it waits, and nobody has died under it.
--
-- KEYS[1]  record, a hash
-- ARGV[1]  attempt that lets go, 0 when none was claimed
-- ARGV[2]  why
-- Returns  how often this has happened to the job; 0 when it has ended or another attempt owns it
local record, released = KEYS[1], ARGV[1]
local state, attempt = unpack(redis.call('HMGET', record, 'state', 'attempt'))
if not state or state == 'ended' then return 0 end
if released ~= '0' and attempt ~= released then return 0 end
if released ~= '0' or state == 'waiting' then
  redis.call('HSET', record, 'state', 'waiting', 'why', ARGV[2])
end
return redis.call('HINCRBY', record, 'refusals', 1)
