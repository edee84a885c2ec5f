-- Requests of a day. Needs pool, buckets, states.
--
-- A day that begins at a midnight is a number and a count in the state; a rolling one is a window of
-- its own, under 'day SCOPE', since few accounts have one.
local DAY_MS = 86400000
local ROLLING = '<' .. string.rep('d', 2 + CELLS)

local function rolling_day(limit)
  return { limit = limit, piece_ms = DAY_MS / PIECES, at = 1 }
end

local function read_rolling(scope)
  local text = redis.call('HGET', buckets_of, 'day ' .. scope)
  if text then return { struct.unpack(ROLLING, text) } end
  local window = {}
  for n = 1, 2 + CELLS do window[n] = 0 end
  return window
end

local function write_rolling(scope, window)
  redis.call('HSET', buckets_of, 'day ' .. scope, struct.pack(ROLLING, unpack(window)))
end

-- Give back a request of a day; -1 - PIECE stands for a piece of a rolling one.
local function give_back_day(scope, state, day)
  if day < 0 then
    local window = read_rolling(scope)
    count_in(window, 1, -1 - day, -1)
    write_rolling(scope, window)
  elseif state[DAY] == day then
    state[TODAY] = math.max(0, state[TODAY] - 1)
  end
end
