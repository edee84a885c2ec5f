-- Grant leases to one worker for its free slots: reclaim what expired, promote what is due, then
-- the jobs whose turn it is, each on the key with most headroom, and say how long to sleep.
--
-- KEYS     the pool's
-- ARGV[1]  worker
-- ARGV[2]  its slots
-- ARGV[3]  leases it holds in other pools
-- ARGV[4]  ms from grant to claim
-- ARGV[5]  ms the worker counts as alive without being heard of
-- ARGV[6]  the epoch the worker knows, '' for none
-- ARGV[7]  the pool's keys and limits, JSON; see offers.py
-- Returns  {sleep_ms (-1: until woken), granted, reclaimed, epoch}
--          granted: {job, lease, alias} flat; reclaimed: {job, worker} flat
-- include pool
-- include buckets
-- include tickets
-- include leases
-- include rests
-- include limits
-- include epochs
-- include picking
local worker, room = ARGV[1], tonumber(ARGV[2]) - tonumber(ARGV[3])
local config = cjson.decode(ARGV[7])

redis.call('ZADD', workers, math.floor(now + ARGV[5]), worker)
redis.call('HSET', slots, worker, ARGV[2])
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', workers, '-inf', now, 'LIMIT', 0, 100)) do
  redis.call('ZREM', workers, gone)
  redis.call('HDEL', slots, gone)
end

local reclaimed = {}
for _, job in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 200)) do
  local lease = cjson.decode(redis.call('HGET', held, job))
  free(job, lease)
  correct_charge(lease, nil, lease.run == '')
  return_to_line(job, lease, 0)
  table.insert(reclaimed, job)
  table.insert(reclaimed, lease.worker)
end

for _, job in ipairs(redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, 1000)) do
  redis.call('ZREM', delayed, job)
  stand_in_line(job, cjson.decode(redis.call('HGET', tickets, job)))
end

local id = meet(ARGV[6])
room = room - tonumber(redis.call('HGET', load, worker) or 0)
local granted, soonest = {}, nil
if room > 0 and not line_is_empty() then granted, soonest = grant_all(config, worker, room) end
room = room - #granted / 3

if line_is_empty() then
  redis.call('DEL', nudge, blocked)
  if redis.call('EXISTS', delayed) == 0 then redis.call('DEL', turns) end
end

-- One sleeper is enough to wake up when the next job fits; the others leave it that one and come
-- a little later, in case it does not.
local LATE_MS, PACE_MS = 250, 20
if soonest then
  soonest = math.max(soonest, PACE_MS)
  local at, owner = string.match(redis.call('GET', alarm) or '', '^(%S+) (.*)$')
  at = tonumber(at)
  if at and owner ~= worker and at > now - PACE_MS and at <= now + soonest + PACE_MS then
    soonest = at - now + LATE_MS
  else
    redis.call('SET', alarm, exact(now + soonest) .. ' ' .. worker)
  end
elseif room <= 0 then
  -- Without a free slot it will not come: someone else has to look after what still waits.
  local owner = string.match(redis.call('GET', alarm) or '', '^%S+ (.*)$')
  if owner == worker then
    redis.call('DEL', alarm)
    if not line_is_empty() then wake(nudge, 'alarm', 64) end
  end
end

-- Whoever sleeps must also be up when the next lease expires or the next job falls due.
for _, set in ipairs({ leases, delayed }) do
  local first = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2]
  if first then soonest = math.min(soonest or math.huge, tonumber(first) - now + 1) end
end
return { soonest and math.ceil(math.max(1, soonest)) or -1, granted, reclaimed, id }
