-- Close a job for good: the last entry of its log and the end of its record, in one step.
--
-- KEYS[1]  log, a stream
-- KEYS[2]  record, a hash
-- ARGV[1]  id of the entry that must be the last one now
-- ARGV[2]  attempt
-- ARGV[3]  seq of the end entry
-- ARGV[4]  the end entry
-- ARGV[5]  seconds the log is kept
-- ARGV[6]  seconds the record is kept
-- ARGV[7+] fields and values for the record
-- Returns  1 when sealed; else the id the log ends with, '' when there is no log
local log, record = KEYS[1], KEYS[2]

local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
if not last then return '' end
if last[1] ~= ARGV[1] then return last[1] end

redis.call('XADD', log, 'NOMKSTREAM', ARGV[2] .. '-' .. ARGV[3], 'e', ARGV[4])
local now = redis.call('TIME')
redis.call('HSET', record, 'state', 'ended', 'ended_ms',
  now[1] * 1000 + math.floor(now[2] / 1000), unpack(ARGV, 7))
redis.call('EXPIRE', log, ARGV[5])
redis.call('EXPIRE', record, ARGV[6])
return 1
