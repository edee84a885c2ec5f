-- Append entries of one attempt behind their predecessor, or tell where the log really ends.
--
-- Redis refuses an id that is not greater than the last one; it does not refuse a skipped one,
-- and a skipped id is a lost delta. So the predecessor is checked here, in the same step.
--
-- KEYS[1]  log, a stream
-- KEYS[2]  record, a hash
-- ARGV[1]  id of the entry that must be the last one now
-- ARGV[2]  attempt
-- ARGV[3]  seq of the first payload
-- ARGV[4]  where the provider's response can be taken up behind these entries, '' for nowhere
-- ARGV[5+] payloads
-- Returns  1 when appended; else the id the log ends with, '' when there is no log
local log, predecessor, attempt, seq = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])

local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
if not last then return '' end
if last[1] ~= predecessor then return last[1] end

for i = 5, #ARGV do
  redis.call('XADD', log, 'NOMKSTREAM', string.format('%s-%d', attempt, seq + i - 5), 'e', ARGV[i])
end
if ARGV[4] ~= '' then redis.call('HSET', KEYS[2], 'resume', ARGV[4]) end
return 1
