-- The arithmetic of one bucket: see buckets.py, which says what it guarantees and why.
--
-- A bucket is { limit, burst, period } (units, share of the limit, ms) with the state
-- { tat, widest, wide_until } (ms, units, ms). Nothing here touches the store.

local function usual(bucket, now)
  local least = bucket.limit * bucket.burst
  if bucket.wide_until > now then return math.max(least, bucket.widest) end
  return least
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

-- Take `cost`; returns the milliseconds it was charged.
local function take(bucket, cost, now)
  local width = usual(bucket, now)
  local fitting = math.min(cost, bucket.limit)
  if fitting > bucket.limit * bucket.burst and fitting >= width then
    width, bucket.widest, bucket.wide_until = fitting, fitting, now + 1.25 * bucket.period
  end
  local ms = charge(bucket, width, cost)
  bucket.tat = math.max(bucket.tat, now) + ms
  return ms
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
