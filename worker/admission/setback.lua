-- The server's clock was set back, or one that is behind took over: what was to happen in a while
-- still happens in a while, and not when the clock comes back to where it was. Needs pool, buckets,
-- states; `back_ms` is how far.
for _, set in ipairs({ leases, workers, delayed }) do
  local flat = redis.call('ZRANGE', set, 0, -1, 'WITHSCORES')
  for i = 1, #flat, 2 do redis.call('ZADD', set, math.floor(flat[i + 1] - back_ms), flat[i]) end
end

local function each(hash, change)
  local flat = redis.call('HGETALL', hash)
  for i = 1, #flat, 2 do
    local changed = change(flat[i], flat[i + 1])
    if changed then redis.call('HSET', hash, flat[i], changed) end
  end
end

each(held, function(_, text)
  local lease = cjson.decode(text)
  lease.at = lease.at - back_ms
  return cjson.encode(lease)
end)
each(rests_of, function(_, text)
  local rest = cjson.decode(text)
  rest.since, rest.at = rest.since - back_ms, rest.at - back_ms
  -- What is out for good stays so.
  if rest['until'] - now < 86400000 * 365 then rest['until'] = rest['until'] - back_ms end
  return cjson.encode(rest)
end)
each(buckets_of, function(name, text)
  if string.sub(name, 1, 4) == 'day ' then return nil end
  local state = read_state(text)
  for _, at in ipairs({ RT, TT, AT }) do state[at] = math.max(0, state[at] - back_ms) end
  return struct.pack(STATE, unpack(state))
end)
redis.call('DEL', alarm)
redis.call('HSET', epoch, 'seen', string.format('%.3f', now))
