-- The arithmetic of one bucket: see buckets.py, which says what it guarantees and why.
--
-- A bucket is { limit, burst, period } (units, share of the limit, ms) with the state
-- { tat, widest, wide_until, wide_next, busy_since } (ms, units, ms, units, ms). Nothing here touches the store.
local MEMORY = 1.25

local function usual(bucket, now)
  local least = bucket.limit * bucket.burst
  if now < bucket.wide_until then return math.max(least, bucket.widest) end
  if now < bucket.wide_until + MEMORY * bucket.period then
    return math.max(least, bucket.wide_next)
  end
  return least
end

local function remember(bucket, large, now)
  local memory = MEMORY * bucket.period
  if large >= usual(bucket, now) then
    bucket.widest, bucket.wide_until, bucket.wide_next = large, now + memory, 0
  elseif now < bucket.wide_until then
    bucket.wide_next = math.max(bucket.wide_next, large)
  else
    bucket.widest, bucket.wide_until, bucket.wide_next =
      bucket.wide_next, bucket.wide_until + memory, large
  end
end

local function interval(bucket, width)
  if bucket.burst >= 1 then return bucket.period / bucket.limit end
  return bucket.period / math.max(bucket.limit - width, bucket.limit / 1000)
end

local function charge(bucket, width, cost)
  local paced = math.min(cost * interval(bucket, width), bucket.period)
  return math.max(paced, cost * bucket.period / bucket.limit)
end

-- Milliseconds until `cost` fits, 0 when it fits now.
local function wait_for(bucket, cost, now)
  local width = usual(bucket, now)
  local fitting = math.min(cost, bucket.limit)
  if fitting > width then
    local unforeseen = (fitting - width) * interval(bucket, width)
    return math.max(0, bucket.tat + unforeseen - now)
  end
  local room = math.min(width * interval(bucket, width), bucket.period)
  return math.max(0, math.max(bucket.tat, now) + charge(bucket, width, cost) - now - room)
end

-- Take `cost`; returns the milliseconds it was charged, and those of one unit.
local function take(bucket, cost, now)
  local width = usual(bucket, now)
  local fitting = math.min(cost, bucket.limit)
  if fitting > bucket.limit * bucket.burst then remember(bucket, fitting, now) end
  width = math.max(width, fitting)
  local ms = charge(bucket, width, cost)
  if bucket.tat <= now then bucket.busy_since = now end
  bucket.tat = math.max(bucket.tat, now) + ms
  return ms, interval(bucket, width)
end

-- What could be taken now in small pieces, what is small, and the share of the burst that is free.
local function view(bucket, now)
  local width = usual(bucket, now)
  local each = interval(bucket, width)
  local room = math.min(width * each, bucket.period)
  local left = math.max(0, room - math.max(0, bucket.tat - now))
  return left / each, width, left / room
end

-- Nobody may take more than `left` units now; only ever tightens.
local function tighten(bucket, left, now)
  local width = usual(bucket, now)
  local room = math.min(width * interval(bucket, width), bucket.period)
  bucket.tat = math.max(bucket.tat, now + math.max(0, room - left * interval(bucket, width)))
end
