-- The job's record says now that an attempt is in the books: let `entered` forget it soon.
--
-- KEYS[1]  entered, a zset; see book.lua
-- ARGV[1]  job and attempt
-- Returns  1
local SOON_MS = 600000

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], 'XX', now + SOON_MS, ARGV[1])
return 1
