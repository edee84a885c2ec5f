-- Ask for a job to be cancelled; the request is part of the record and survives everything.
--
-- KEYS[1]  record, a hash
-- Returns  'unknown', 'ended', 'running', or 'waiting'; asking twice is fine
local state = redis.call('HGET', KEYS[1], 'state')
if not state then return 'unknown' end
if state ~= 'ended' then
  local time = redis.call('TIME')
  redis.call('HSETNX', KEYS[1], 'cancel_ms', time[1] * 1000 + math.floor(time[2] / 1000))
end
return state
