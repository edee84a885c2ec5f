-- Noticing that nobody has reached the store for a while, and that its clock was set back. Needs pool,
-- buckets, states.
local SETBACK_MS = 1000

-- Whoever comes first after that lets everybody live a little longer: owners were cut off as well,
-- and none of them is dead for that. One that knows no epoch has just been started, perhaps in the
-- place of all that died; it waits for nobody.
local function notice_outage(known, seen, quiet_ms, grace_ms)
  seen = seen and tonumber(seen)
  if seen and now < seen - SETBACK_MS then
    local back_ms = seen - now
    -- include setback
    return
  end
  -- A tenth of the time is near enough, and spares most calls the writing.
  if seen and now - seen < quiet_ms / 10 then return end
  redis.call('HSET', epoch, 'seen', string.format('%.3f', now))
  seen = seen or now
  if known == '' or quiet_ms <= 0 or now - seen <= quiet_ms then return end
  for _, set in ipairs({ leases, workers }) do
    for _, name in ipairs(redis.call('ZRANGEBYSCORE', set, '-inf', now)) do
      redis.call('ZADD', set, math.floor(now + grace_ms), name)
    end
  end
end
