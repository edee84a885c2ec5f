-- The state of an account, or of some models of one: an array of eleven numbers. Needs pool.
--
--   RT RW RU   requests a minute: tat, widest, wide_until; see buckets
--   TT TW TU   tokens a minute: the same
--   DAY USED   the number of the day, and requests of it
--   CREDIT AT  retries that are left, and when that was counted
--   HEARD      the youngest lease whose answer told something of the limits
local RT, RW, RU, TT, TW, TU, DAY, USED, CREDIT, AT, HEARD = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11

-- Retries are one for every two jobs that succeed, and one a second: a bad hour is no storm.
local RETRIES, RETRY_MS, EARNED = 10, 1000, 0.5

local function read_state(text)
  return text and cjson.decode(text) or { 0, 0, 0, 0, 0, 0, 0, 0, RETRIES, 0, 0 }
end

local function write_state(name, state)
  redis.call('HSET', buckets_of, name, string.format(
    '[%.3f,%.3f,%.0f,%.3f,%.3f,%.0f,%d,%d,%.2f,%.0f,%d]', unpack(state)))
end

local function retries(state)
  return math.min(RETRIES, state[CREDIT] + (now - state[AT]) / RETRY_MS)
end
