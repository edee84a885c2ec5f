-- Taking room away that a bucket seemed to have. Needs buckets.

-- Nobody may take more than `left` units now; only ever tightens.
local function tighten(bucket, state, left, now)
  if bucket.strict then
    forget(bucket, state, now)
    local more = bucket.limit - state[bucket.at + 1] - left
    if more > 0 then count_in(state, bucket.at, state[bucket.at], more) end
  else
    local behind = bucket.room - left * bucket.interval
    if behind > 0 then state[bucket.tat] = math.max(state[bucket.tat], now + behind) end
  end
end

-- As if all of the limit had been used evenly up to now.
local function use_up(bucket, state, now)
  state[bucket.tat] = math.max(state[bucket.tat], now + bucket.room)
  forget(bucket, state, now)
  for cell = bucket.at + 2, bucket.at + 1 + CELLS do state[cell] = bucket.limit / CELLS end
  state[bucket.at + 1] = bucket.limit
end
