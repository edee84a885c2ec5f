-- End an attempt without ending the job: it waits again, and its log says why.
--
-- KEYS[1]  log, a stream
-- KEYS[2]  record, a hash
-- ARGV[1]  id of the entry that must be the last one now
-- ARGV[2]  its check, '' for any
-- ARGV[3]  attempt
-- ARGV[4]  seq of the note
-- ARGV[5]  the note
-- ARGV[6]  its check
-- ARGV[7]  reason, for the next attempt's entry
-- ARGV[8]  1 when this counts as a failure of the job, else 0
-- ARGV[9]  1 when the provider's response can not be taken up again, else 0
-- ARGV[10] the tokens of an answer that is whole and is to be corrected in the next attempt, behind
--          the note; else ''
-- ARGV[11+] fields and values for the record
-- Returns  1 when handed back; else {id, check} of the entry the log ends with, '' when there
--          is no log
local log, record = KEYS[1], KEYS[2]

-- include predecessor

redis.call('XADD', log, 'NOMKSTREAM', ARGV[3] .. '-' .. ARGV[4], 'e', ARGV[5], 'c', ARGV[6])
redis.call('HSET', record, 'state', 'waiting', 'why', ARGV[7], unpack(ARGV, 11))
redis.call('HINCRBY', record, 'failures', ARGV[8])
if ARGV[9] == '1' then redis.call('HDEL', record, 'resume') end
if ARGV[10] ~= '' then
  redis.call('HSET', record, 'repair', cjson.encode({ base = ARGV[3] .. '-' .. ARGV[4],
    offset = cjson.decode(ARGV[5]).offset, used = cjson.decode(ARGV[10]) }))
end
return 1
