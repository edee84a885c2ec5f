-- The arithmetic of one limit: see buckets.py, which says what it guarantees and why.
--
-- A bucket is { limit, interval, room, piece_ms, strict, tat, at } (units, ms a unit, ms, ms). What is
-- used of it stands in an array: the tat in [tat], and from [at] on the number of the youngest piece,
-- the sum of all pieces, and the pieces. Nothing here touches the store.
local PIECES = 20
local CELLS = PIECES + 1

-- Forget the pieces that no window reaches any more. For a clock that was set back by more than a
-- window, all of them become one of now: that was taken, whenever it was.
local function forget(bucket, state, now)
  local at, piece = bucket.at, math.floor(now / bucket.piece_ms)
  local last = state[at]
  if piece <= last and piece > last - CELLS then return end
  if piece < last or piece > last + PIECES then
    local kept = piece < last and state[at + 1] or 0
    for cell = at + 1, at + 1 + CELLS do state[cell] = 0 end
    state[at + 1], state[at + 2 + piece % CELLS] = kept, kept
  else
    for old = last + 1, piece do
      local cell = at + 2 + old % CELLS
      state[at + 1], state[cell] = state[at + 1] - state[cell], 0
    end
  end
  state[at] = piece
end

-- Count more or fewer units in a piece, if a window still reaches it; returns whether one does.
local function count_in(state, at, piece, units)
  if piece > state[at] or piece <= state[at] - CELLS then return false end
  local cell = at + 2 + piece % CELLS
  units = math.max(units, -state[cell])
  state[cell], state[at + 1] = state[cell] + units, state[at + 1] + units
  return true
end

-- Milliseconds until enough of the window is forgotten.
local function wait_in_window(bucket, state, cost, now)
  forget(bucket, state, now)
  local at = bucket.at
  local missing = state[at + 1] + math.min(cost, bucket.limit) - bucket.limit
  local piece = state[at] - CELLS
  while missing > 0.000001 and piece < state[at] do
    piece = piece + 1
    missing = missing - state[at + 2 + piece % CELLS]
  end
  return (piece + CELLS) * bucket.piece_ms - now
end

-- Milliseconds until `cost` fits, 0 when it fits now.
local function wait_for(bucket, state, cost, now)
  if bucket.limit == 0 then return 0 end
  local room = bucket.room
  local wait = state[bucket.tat] + math.min(cost * bucket.interval, room) - room - now
  if bucket.strict then wait = math.max(wait, wait_in_window(bucket, state, cost, now)) end
  return math.max(0, wait)
end

-- Take `cost`; returns the piece it counts in.
local function take(bucket, state, cost, now)
  state[bucket.tat] = math.max(state[bucket.tat], now) + cost * bucket.interval
  forget(bucket, state, now)
  count_in(state, bucket.at, state[bucket.at], cost)
  return state[bucket.at]
end
