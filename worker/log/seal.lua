-- Close a job for good: the last entry of its log and the end of its record, in one step. From here
-- on everything of the job goes by itself: its log, then its record, then its tombstone.
--
-- KEYS[1]  log, a stream
-- KEYS[2]  record, a hash
-- KEYS[3]  tombstone, a string
-- ARGV[1]  id of the entry that must be the last one now
-- ARGV[2]  its check, '' for any
-- ARGV[3]  attempt
-- ARGV[4]  seq of the end entry
-- ARGV[5]  the end entry
-- ARGV[6]  its check
-- ARGV[7]  outcome
-- ARGV[8]  seconds the log is kept
-- ARGV[9]  seconds the record is kept
-- ARGV[10]  seconds the tombstone is kept
-- ARGV[11+] fields and values for the record
-- Returns  1 when sealed; else {id, check} of the entry the log ends with, '' when there
--          is no log
local log, record = KEYS[1], KEYS[2]

-- include predecessor

redis.call('XADD', log, 'NOMKSTREAM', ARGV[3] .. '-' .. ARGV[4], 'e', ARGV[5], 'c', ARGV[6])
local now = redis.call('TIME')
redis.call('HSET', record, 'state', 'ended', 'outcome', ARGV[7], 'ended_ms',
  now[1] * 1000 + math.floor(now[2] / 1000), unpack(ARGV, 11))
redis.call('EXPIRE', log, ARGV[8])
redis.call('EXPIRE', record, ARGV[9])
redis.call('SET', KEYS[3], ARGV[7], 'EX', ARGV[10])
return 1
