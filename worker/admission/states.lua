-- The state of an account, or of some models of one: an array of 15 numbers. Needs pool.
--
--   RT RW RU RN RB  requests a minute: tat, widest, wide_until, wide_next, busy_since; see buckets
--   TT TW TU TN TB  tokens a minute: the same
--   DAY USED   the number of the day, and requests of it
--   CREDIT AT  retries that are left, and when that was counted
--   HEARD      the youngest lease whose answer told something of the limits
local RT, RW, RU, RN, RB, TT, TW, TU, TN, TB, DAY, USED, CREDIT, AT, HEARD =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15

-- Retries are one for every two jobs that succeed, and one a second: a bad hour is no storm.
local RETRIES, RETRY_MS, EARNED = 10, 1000, 0.5

-- JSON keeps tenths of a millisecond.
local ROUNDING_MS = 0.1

local function read_state(text)
  return text and cjson.decode(text) or { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, RETRIES, 0, 0 }
end

local function write_state(name, state)
  redis.call('HSET', buckets_of, name, string.format(
    '[%.3f,%.3f,%.0f,%.3f,%.3f,%.3f,%.3f,%.0f,%.3f,%.3f,%d,%d,%.2f,%.0f,%d]', unpack(state)))
end

-- Correct the charges of a lease, `ms` each: time that has passed since is not given back twice,
-- and a debt is paid from now on.
local function correct(state, tat, busy_since, ms, at)
  if ms > 0 then
    state[tat] = math.max(state[tat], now) + ms
  elseif ms < 0 and at >= state[busy_since] - ROUNDING_MS then
    state[tat] = math.max(0, state[tat] + ms)
  end
end

local function retries(state)
  return math.min(RETRIES, state[CREDIT] + (now - state[AT]) / RETRY_MS)
end
