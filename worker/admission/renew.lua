-- The heartbeat of one worker: keep its leases and itself alive.
--
-- KEYS     leases, held, workers, slots
-- ARGV[1]  worker
-- ARGV[2]  its slots
-- ARGV[3]  ms until a lease expires unless renewed
-- ARGV[4]  ms the worker counts as alive without being heard of
-- ARGV[5+] job id, lease number, for each stream
-- Returns  {ms until the next lease of anyone expires (-1: there is none), answers}
--          an answer for each stream: 0 the lease is lost, 1 renewed, 2 renewed and cancel was
--          asked for
local leases, held, workers, slots = unpack(KEYS)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

redis.call('ZADD', workers, now + ARGV[4], ARGV[1])
redis.call('HSET', slots, ARGV[1], ARGV[2])
local replies = {}
for i = 5, #ARGV, 2 do
  local stored = redis.call('HGET', held, ARGV[i])
  local lease = stored and cjson.decode(stored)
  if lease and lease.lease == tonumber(ARGV[i + 1]) then
    redis.call('ZADD', leases, now + ARGV[3], ARGV[i])
    table.insert(replies, lease.cancel and 2 or 1)
  else
    table.insert(replies, 0)
  end
end
local wake = redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')[2]
return { wake and math.max(0, tonumber(wake) - now) or -1, replies }
