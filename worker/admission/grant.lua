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
-- ARGV[7]  ms without any call after which the store was out of reach, 0: never
-- ARGV[8]  ms that everybody is given then
-- ARGV[9+] the pool's keys and limits; see offers.lua
-- Returns  {sleep_ms (-1: until woken), granted, reclaimed, gone, epoch}
--          granted: {job, lease, alias} flat; reclaimed: {job, worker} flat; gone: workers that
--          were not heard of any more, told until they are forgotten
local OFFERS = 9
-- include pool
-- include buckets
-- include states
-- include tickets
-- include days
-- include progress
local worker, room = ARGV[1], tonumber(ARGV[2]) - tonumber(ARGV[3])

-- Until when nothing of a sorted set of times happens; mostly that is all there is to know.
local function first_of(set)
  local score = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2]
  return score and tonumber(score) or math.huge
end

-- The heartbeat says often enough who is alive; here it is said of those that have none yet.
local function look_after_workers()
  -- include workers
  local alive_until = redis.call('ZSCORE', workers, worker)
  if not alive_until or tonumber(alive_until) < now + ARGV[5] / 2 then
    hear_of(worker, ARGV[2], ARGV[5])
  end
  return silent_workers()
end

-- What dead workers were handed and had not begun expires now: nobody else would look at it before
-- its hand-off time is over.
local function take_back(gone)
  local dead = {}
  for _, name in ipairs(gone) do
    if redis.call('HEXISTS', load, name) == 1 then dead[name] = true end
  end
  if not next(dead) then return end
  local all = redis.call('HGETALL', held)
  for i = 1, #all, 2 do
    local lease = cjson.decode(all[i + 1])
    if dead[lease.worker] and lease.run == '' then
      redis.call('ZADD', leases, math.floor(now), all[i])
    end
  end
end

local function look_after_time(reclaimed)
  -- include rests
  -- include leases
  for _, job in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 200)) do
    local lease = decoded(redis.call('HGET', held, job))
    if lease then
      free(job, lease, nil, lease.run == '')
      report(lease, false)
      return_to_line(job, lease, 0)
      table.insert(reclaimed, job)
      table.insert(reclaimed, lease.worker)
    else
      redis.call('ZREM', leases, job)
    end
  end
  for _, job in ipairs(redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, 1000)) do
    redis.call('ZREM', delayed, job)
    local ticket = decoded(redis.call('HGET', tickets, job))
    if ticket then stand_in_line(job, ticket) end
  end
end

-- include epochs
-- include outages
local id, is_stranger, seen, empty, merged = meet(ARGV[6])
notice_outage(ARGV[6], seen, tonumber(ARGV[7]), tonumber(ARGV[8]))
local gone, reclaimed, lapse = {}, {}, first_of(workers)
if is_stranger or lapse < now + ARGV[5] / 2 then gone = look_after_workers() end
if #gone > 0 then take_back(gone) end
local expiry, due = first_of(leases), first_of(delayed)
local came_back = expiry <= now or due <= now
if came_back then
  look_after_time(reclaimed)
  expiry, due = first_of(leases), first_of(delayed)
end

-- Leases for up to `room` jobs, ms until the next one fits (nil: nobody knows), and whether nobody
-- waits any more.
local function grant_all()
  -- include queues
  local progress, queues = read_progress(), {}
  for i, class in ipairs(CLASSES) do
    queues[i] = { class = class, line = lines[class], at = 0, length = 0, passed = 0,
      again = progress[1 + i], turn = progress[4 + i] }
  end
  local size = math.min(PAGE, room)
  if not next_class(queues, progress[1], size) then return {}, nil, true end
  -- include offers
  if merged then
    -- include merging
  end
  -- include limits
  -- include opening
  -- include picking
  if empty then
    -- include emptying
  end
  local out, claimed, soonest, head, looked = { jobs = {}, leases = {} }, {}, nil, nil, 0
  while room > 0 and looked < LOOK do
    local queue, start, job, text = next_class(queues, progress[1], size)
    if not queue then break end
    queue.at = queue.at + 1
    local ticket, key, other, open = decoded(text)
    if ticket then
      key, other, open = best_key(ticket, claimed, progress[10])
      queue.passed = queue.passed + 1
    end
    if not ticket then
      -- A place without a ticket is nobody's, and must not stop all that come behind it.
      redis.call('ZREM', queue.line, job)
      looked = looked + 1
    elseif key then
      lease_out(out, job, ticket, key)
      queue.taken = queue.taken or {}
      queue.taken[#queue.taken + 1] = job
      progress[1], queue.again = start, start + ticket.cost / WEIGHTS[queue.class]
      progress[10], queue.turn = key, math.max(queue.turn, ticket.turn)
      room = room - 1
    else
      looked, size = looked + 1, PAGE
      if other.wait < math.huge then soonest = math.min(soonest or math.huge, other.wait) end
      head = head or { job = job, reason = other.reason, at = now,
        ['until'] = other.wait < math.huge and now + other.wait or nil }
      -- What comes next on that account is for this job: smaller ones do not overtake it for ever.
      if other.paced then claimed[other.account] = true end
      if not open then break end
    end
  end

  local granted = write_leases(out, queues)
  if #granted > 0 then
    for i, queue in ipairs(queues) do progress[1 + i], progress[4 + i] = queue.again, queue.turn end
    local gap = progress[8] > 0 and math.max(0, now - progress[8]) * 3 / #granted or 0
    progress[8], progress[9] = now, progress[9] + (gap - progress[9]) / 8
  end
  if head then
    redis.call('SET', blocked, cjson.encode(head), 'PX', 60000)
    progress[11] = 1
  elseif progress[11] == 1 and #granted > 0 then
    redis.call('DEL', blocked)
    progress[11] = 0
  end
  write_progress(progress)
  return granted, soonest, not head and room > 0
end

room = room - tonumber(redis.call('HGET', load, worker) or 0)
local granted, soonest, is_empty = {}, nil, nil
if room > 0 then granted, soonest, is_empty = grant_all() end
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
    redis.call('SET', alarm, string.format('%.3f %s', now + soonest, worker))
  end
elseif room <= 0 and not is_empty then
  -- Without a free slot it will not come: someone else has to look after what still waits, and what
  -- came back just now, since nobody finds an expired lease any more.
  local owner = string.match(redis.call('GET', alarm) or '', '^%S+ (.*)$')
  if owner == worker then redis.call('DEL', alarm) end
  if owner == worker or came_back then wake(nudge, 'alarm', 64) end
end

-- Whoever sleeps must also be up when the next lease expires or the next job falls due, and when a
-- worker that holds leases may turn out to be dead.
if #granted > 0 then expiry = math.min(expiry, math.floor(now + ARGV[4])) end
if expiry < math.huge and lapse > now then expiry = math.min(expiry, lapse) end
soonest = math.min(soonest or math.huge, math.min(expiry, due) - now + 1)
return { soonest < math.huge and math.ceil(math.max(1, soonest)) or -1, granted, reclaimed, gone,
  id }
