-- Who is alive. Needs pool.

-- Note that a worker lives.
local function hear_of(worker, its_slots, alive_ms)
  redis.call('ZADD', workers, math.floor(now + alive_ms), worker)
  redis.call('HSET', slots, worker, its_slots)
end

-- Those that were not heard of in time. Every asker is told, until one has cleared up after them
-- and forgets them: an asker that dies on the way must not take the knowledge along.
local function silent_workers()
  return redis.call('ZRANGEBYSCORE', workers, '-inf', now, 'LIMIT', 0, 100)
end
