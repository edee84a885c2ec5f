-- Append entries of one attempt behind their predecessor, or tell where the log really ends.
--
-- Redis refuses an id that is not greater than the last one; it does not refuse a skipped one,
-- and a skipped id is a lost delta. So the predecessor is checked here, in the same step.
--
-- KEYS[1]  log, a stream
-- KEYS[2]  record, a hash
-- ARGV[1]  id of the entry that must be the last one now
-- ARGV[2]  its check, '' for any
-- ARGV[3]  id of the first payload; those of the others follow
-- ARGV[4]  where the provider's response can be taken up behind these entries, '' for nowhere
-- ARGV[5+] payload and check, for each entry
-- Returns  1 when appended; else {id, check} of the entry the log ends with, '' when there
--          is no log, 'ended' when it was sealed by an attempt of another time
local log = KEYS[1]

-- include predecessor
-- Behind an entry of one's own there is no seal of another.
if ARGV[2] == '' and redis.call('HGET', KEYS[2], 'state') == 'ended' then return 'ended' end

if #ARGV > 4 then redis.call('XADD', log, 'NOMKSTREAM', ARGV[3], 'e', ARGV[5], 'c', ARGV[6]) end
if #ARGV > 6 then
  local attempt, seq = string.match(ARGV[3], '^(%d+)-(%d+)$')
  for i = 7, #ARGV, 2 do
    seq = seq + 1
    redis.call('XADD', log, 'NOMKSTREAM', string.format('%s-%d', attempt, seq), 'e', ARGV[i],
      'c', ARGV[i + 1])
  end
end
if ARGV[4] ~= '' then redis.call('HSET', KEYS[2], 'resume', ARGV[4]) end
return 1
