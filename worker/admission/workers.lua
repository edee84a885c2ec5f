-- Who is alive. Needs pool.
local function hear_of(worker, its_slots, alive_ms)
  redis.call('ZADD', workers, math.floor(now + alive_ms), worker)
  redis.call('HSET', slots, worker, its_slots)
end

local function forget_the_silent()
  local silent = redis.call('ZRANGEBYSCORE', workers, '-inf', now, 'LIMIT', 0, 100)
  for _, gone in ipairs(silent) do
    redis.call('ZREM', workers, gone)
    redis.call('HDEL', slots, gone)
  end
  return silent
end
