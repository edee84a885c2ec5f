-- Grant leases to one worker for its free slots: reclaim what expired, promote what is due,
-- then first in, first out, each on the key of the account with the fewest streams.
--
-- KEYS     line, delayed, places, leases, held, load, streams, workers, slots, counter, nudge
-- ARGV[1]  worker
-- ARGV[2]  its slots
-- ARGV[3]  leases it holds in other pools
-- ARGV[4]  ms from grant to claim
-- ARGV[5]  ms the worker counts as alive without being heard of
-- ARGV[6+] alias, account, streams the account allows (0: no limit), for each key of the pool
-- Returns  {sleep_ms (-1: until woken), granted, reclaimed, gone}
--          granted: {job, lease, alias} flat; reclaimed: {job, worker} flat; gone: workers that
--          were not heard of any more, each told to one asker only
local line, delayed, places, leases, held, load, streams, workers, slots, counter, nudge = unpack(KEYS)
local worker, room = ARGV[1], tonumber(ARGV[2]) - tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

redis.call('ZADD', workers, now + ARGV[5], worker)
redis.call('HSET', slots, worker, ARGV[2])
local gone = redis.call('ZRANGEBYSCORE', workers, '-inf', now, 'LIMIT', 0, 100)
for _, silent in ipairs(gone) do
  redis.call('ZREM', workers, silent)
  redis.call('HDEL', slots, silent)
end

local function decrement(hash, field)
  if redis.call('HINCRBY', hash, field, -1) <= 0 then redis.call('HDEL', hash, field) end
end

local reclaimed = {}
for _, job in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 200)) do
  local lease = cjson.decode(redis.call('HGET', held, job))
  redis.call('ZREM', leases, job)
  redis.call('HDEL', held, job)
  decrement(load, lease.worker)
  decrement(streams, lease.account)
  redis.call('ZADD', line, redis.call('HGET', places, job), job)
  table.insert(reclaimed, job)
  table.insert(reclaimed, lease.worker)
end

for _, job in ipairs(redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, 1000)) do
  redis.call('ZREM', delayed, job)
  redis.call('ZADD', line, redis.call('HGET', places, job), job)
end

local function best_key()
  local alias, account, fewest
  for i = 6, #ARGV, 3 do
    local used = tonumber(redis.call('HGET', streams, ARGV[i + 1]) or 0)
    local limit = tonumber(ARGV[i + 2])
    if (limit == 0 or used < limit) and (not fewest or used < fewest) then
      alias, account, fewest = ARGV[i], ARGV[i + 1], used
    end
  end
  return alias, account
end

room = room - tonumber(redis.call('HGET', load, worker) or 0)
local granted = {}
while room > 0 do
  local alias, account = best_key()
  if not alias then break end
  local job = redis.call('ZPOPMIN', line)[1]
  if not job then break end
  local lease = redis.call('INCR', counter)
  redis.call('HSET', held, job, cjson.encode({
    lease = lease, worker = worker, key = alias, account = account, run = '' }))
  redis.call('ZADD', leases, now + ARGV[4], job)
  redis.call('HINCRBY', load, worker, 1)
  redis.call('HINCRBY', streams, account, 1)
  table.insert(granted, job)
  table.insert(granted, lease)
  table.insert(granted, alias)
  room = room - 1
end

if redis.call('EXISTS', line) == 0 then redis.call('DEL', nudge) end
-- Whoever sleeps must be up when the next lease expires or the next job falls due.
local wake = redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')[2]
local due = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
if due and (not wake or tonumber(due) < tonumber(wake)) then wake = due end
return { wake and math.max(1, tonumber(wake) - now + 1) or -1, granted, reclaimed, gone }
