-- Turn a granted lease into a running one. Only the first message of a grant gets through.
--
-- KEYS     the pool's
-- ARGV[1]  job id
-- ARGV[2]  lease number
-- ARGV[3]  worker
-- ARGV[4]  id of this run; the same id again is a repeated call and gets the same answer
-- ARGV[5]  ms until the lease expires unless renewed
-- Returns  1 when the lease is this run's, else 0
-- include pool
local job, run = ARGV[1], ARGV[4]

local lease = decoded(redis.call('HGET', held, job))
if not lease then return 0 end
if lease.lease ~= tonumber(ARGV[2]) or lease.worker ~= ARGV[3] then return 0 end
if lease.run ~= '' and lease.run ~= run then return 0 end

lease.run = run
redis.call('HSET', held, job, cjson.encode(lease))
redis.call('ZADD', leases, math.floor(now + ARGV[5]), job)
return 1
