-- Note the provider's id of the stream an attempt has begun, to ask what it used should it be cut.
--
-- KEYS[1]  record, a hash
-- ARGV[1]  attempt
-- ARGV[2]  id
-- Returns  1, or 0 when another attempt owns the job, or it ended
local record = KEYS[1]

local attempt, state = unpack(redis.call('HMGET', record, 'attempt', 'state'))
if state ~= 'running' or attempt ~= ARGV[1] then return 0 end
redis.call('HSET', record, 'stream:' .. attempt, ARGV[2])
return 1
