-- End an attempt without ending the job: it waits again, and its log says why.
--
-- KEYS[1]  log, a stream
-- KEYS[2]  record, a hash
-- ARGV[1]  id of the entry that must be the last one now
-- ARGV[2]  attempt
-- ARGV[3]  seq of the note
-- ARGV[4]  the note
-- ARGV[5]  reason, for the next attempt's entry
-- ARGV[6]  1 when this counts as a failure of the job, else 0
-- ARGV[7]  1 when the provider's response can not be taken up again, else 0
-- Returns  1 when handed back; else the id the log ends with, '' when there is no log
local log, record = KEYS[1], KEYS[2]

local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
if not last then return '' end
if last[1] ~= ARGV[1] then return last[1] end

redis.call('XADD', log, 'NOMKSTREAM', ARGV[2] .. '-' .. ARGV[3], 'e', ARGV[4])
redis.call('HSET', record, 'state', 'waiting', 'why', ARGV[5])
redis.call('HINCRBY', record, 'failures', ARGV[6])
if ARGV[7] == '1' then redis.call('HDEL', record, 'resume') end
return 1
