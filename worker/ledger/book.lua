-- Add what one attempt used to the books of its day, once, however often it is said.
--
-- Who books reads the job's record first, books, and notes it there. Until the note is surely
-- written the attempt stands in `entered`; after it, for as long as a reader may still act on the
-- record as it was before.
--
-- KEYS[1]  the day's books, a hash: who, what for, and quantity -> amount
-- KEYS[2]  entered, a zset: job and attempt by the time (ms) it may be forgotten
-- ARGV[1]  job and attempt
-- ARGV[2]  when the job's record was read (ms)
-- ARGV[3]  seconds the books are kept
-- ARGV[4+] field and amount
-- Returns  1 when booked, 0 when it was booked before, -1 when the record was read too long ago
local books, entered = KEYS[1], KEYS[2]
local STALE_MS, KEPT_MS = 300000, 90 * 86400000

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', entered, '-inf', now)
if redis.call('ZSCORE', entered, ARGV[1]) then return 0 end
if now - ARGV[2] > STALE_MS then return -1 end

-- The books first: where they can not be written, the attempt must not count as entered.
for i = 4, #ARGV, 2 do redis.call('HINCRBY', books, ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', books, ARGV[3])
redis.call('ZADD', entered, now + KEPT_MS, ARGV[1])
redis.call('PEXPIRE', entered, KEPT_MS)
return 1
