-- The state of an account, or of some models of one: numbers, packed. Needs pool, buckets.
--
--   USED       streams in use
--   RT TT      requests and tokens: the tat; see buckets
--   DAY TODAY  the number of the day, and requests of it
--   CREDIT AT  retries that are left, and when that was counted
--   HEARD      the youngest lease whose answer told something of the limits
--   RW TW      requests and tokens: the window, from here on
local USED, RT, TT, DAY, TODAY, CREDIT, AT, HEARD, RW = 1, 2, 3, 4, 5, 6, 7, 8, 9
local TW = RW + 2 + CELLS
local STATE = '<' .. string.rep('d', TW + 1 + CELLS)

-- Retries are one for every two jobs that succeed, and one a second: a bad hour is no storm.
local RETRIES, RETRY_MS, EARNED = 10, 1000, 0.5

local function read_state(text)
  if text then return { struct.unpack(STATE, text) } end
  local state = {}
  for n = 1, TW + 1 + CELLS do state[n] = 0 end
  state[CREDIT] = RETRIES
  return state
end

local function write_state(name, state)
  redis.call('HSET', buckets_of, name, struct.pack(STATE, unpack(state)))
end

local function retries(state)
  return math.min(RETRIES, state[CREDIT] + math.max(0, now - state[AT]) / RETRY_MS)
end
