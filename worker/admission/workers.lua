-- Who is alive. Needs pool.

-- Note that a worker lives.
local function hear_of(worker, its_slots, alive_ms)
  redis.call('ZADD', workers, math.floor(now + alive_ms), worker)
  redis.call('HSET', slots, worker, its_slots)
end

-- Forget those that were not heard of in time; whoever is told of them clears up after them.
local function forget_silent()
  local gone = redis.call('ZRANGEBYSCORE', workers, '-inf', now, 'LIMIT', 0, 100)
  for _, silent in ipairs(gone) do
    redis.call('ZREM', workers, silent)
    redis.call('HDEL', slots, silent)
  end
  return gone
end
