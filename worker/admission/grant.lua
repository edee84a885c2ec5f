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
-- ARGV[8]  ms without any call after which the store was out of reach, 0: never
-- ARGV[9]  ms that everybody is given then
-- Returns  {sleep_ms (-1: until woken), granted, reclaimed, gone, epoch}
--          granted: {job, lease, alias} flat; reclaimed: {job, worker} flat; gone: workers that
--          were not heard of any more, told until they are forgotten
-- include pool
-- include workers
-- include tickets
-- include states
-- include leases
-- include buckets
-- include limits
-- include rests
-- include progress
-- include epochs
-- include outages
-- include picking
local worker, room = ARGV[1], tonumber(ARGV[2]) - tonumber(ARGV[3])

notice_outage(ARGV[6], tonumber(ARGV[8]), tonumber(ARGV[9]))
-- The heartbeat says often enough who is alive; here it is said of those that have none yet.
local alive_until = redis.call('ZSCORE', workers, worker)
if not alive_until or tonumber(alive_until) < now + ARGV[5] / 2 then
  hear_of(worker, ARGV[2], ARGV[5])
end
local gone = silent_workers()

local function first_of(set)
  local score = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2]
  return score and tonumber(score) or math.huge
end

local reclaimed = {}
local expiry, due = first_of(leases), first_of(delayed)
if expiry <= now then
  for _, job in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 200)) do
    local lease = cjson.decode(redis.call('HGET', held, job))
    free(job, lease)
    correct_charge(lease, nil, lease.run == '')
    return_to_line(job, lease, 0)
    table.insert(reclaimed, job)
    table.insert(reclaimed, lease.worker)
  end
  expiry = first_of(leases)
end
if due <= now then
  for _, job in ipairs(redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, 1000)) do
    redis.call('ZREM', delayed, job)
    stand_in_line(job, cjson.decode(redis.call('HGET', tickets, job)))
  end
  due = first_of(delayed)
end

local id = meet(ARGV[6])
room = room - tonumber(redis.call('HGET', load, worker) or 0)
local granted, soonest, is_empty = {}, nil, nil
if room > 0 then granted, soonest, is_empty = grant_all(worker, room) end
room = room - #granted / 3
if is_empty then
  redis.call('DEL', nudge, blocked)
  if due == math.huge then redis.call('DEL', turns) end
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
elseif room <= 0 and not is_empty then
  -- Without a free slot it will not come: someone else has to look after what still waits.
  local owner = string.match(redis.call('GET', alarm) or '', '^%S+ (.*)$')
  if owner == worker then
    redis.call('DEL', alarm)
    wake(nudge, 'alarm', 64)
  end
end

-- Whoever sleeps must also be up when the next lease expires or the next job falls due.
if #granted > 0 then expiry = math.min(expiry, math.floor(now + ARGV[4])) end
soonest = math.min(soonest or math.huge, math.min(expiry, due) - now + 1)
return { soonest < math.huge and math.ceil(math.max(1, soonest)) or -1, granted, reclaimed, gone,
  id }
