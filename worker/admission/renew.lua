-- The heartbeat of one worker: keep its leases and itself alive. One that takes nothing any more gives
-- back what it was granted and has not begun.
--
-- KEYS     the pool's
-- ARGV[1]  worker
-- ARGV[2]  its slots, 0 when it takes nothing any more
-- ARGV[3]  ms until a lease expires unless renewed
-- ARGV[4]  ms the worker counts as alive without being heard of
-- ARGV[5]  the epoch the worker knows, '' for none
-- ARGV[6]  ms without any call after which the store was out of reach, 0: never
-- ARGV[7]  ms that everybody is given then
-- ARGV[8+] job id, lease number, key, account, tokens produced so far, 1 when only this key can go
--          on with the answer (else 0), for each stream
-- Returns  {ms until a lease of anyone may expire (-1: there is none), answers, epoch}
--          an answer for each stream: 0 the lease is lost, 1 renewed, 2 renewed and cancel was
--          asked for, 3 renewed, and whether cancel was asked for was lost with the lease
-- include pool
-- include buckets
-- include states
-- include rests
-- include days
-- include tickets
-- include leases
-- include workers
-- include epochs
-- include outages
local worker = ARGV[1]

local id, lost, seen = meet(ARGV[5])
notice_outage(ARGV[5], seen, tonumber(ARGV[6]), tonumber(ARGV[7]))
hear_of(worker, ARGV[2], ARGV[4])
lost = lost and ARGV[5] ~= ''

-- The store lost this lease, and nobody else has the job: what runs goes on to count.
local function adopt(job, number, key, account)
  local lease = { lease = number, worker = worker, key = key, account = account, run = 'adopted',
    at = now, mode = 'refund', tokens = 0,
    taken = { { account, 0, -1, 0, 0 } } }
  redis.call('HSET', held, job, cjson.encode(lease))
  redis.call('HINCRBY', load, worker, 1)
  local state = read_state(redis.call('HGET', buckets_of, account))
  state[USED] = state[USED] + 1
  write_state(account, state)
  if number > tonumber(redis.call('GET', counter) or 0) then redis.call('SET', counter, number) end
  return lease
end

-- What came since the last time: where a provider counts tokens as they are produced, so do we; and
-- where something reopens, it does what it should.
local function note_produced(job, lease, produced)
  local more, before = produced - (lease.produced or 0), lease.reported
  if more <= 0 then return end
  report(lease, true)
  if lease.mode == 'produced' then
    for _, taken in ipairs(lease.taken) do
      local state = read_state(redis.call('HGET', buckets_of, taken[1]))
      correct(state, TT, TW, -1, more, taken[5])
      write_state(taken[1], state)
    end
    lease.tokens, lease.produced = lease.tokens + more, produced
  elseif lease.reported == before then
    return
  end
  redis.call('HSET', held, job, cjson.encode(lease))
end

-- Where the provider keeps the answer, the next attempt has to go, whatever ends this one.
local function bind(job, lease)
  if lease.bound then return end
  lease.bound = true
  redis.call('HSET', held, job, cjson.encode(lease))
  local ticket = decoded(redis.call('HGET', tickets, job))
  if not ticket then return end
  ticket.sticky = lease.key
  redis.call('HSET', tickets, job, cjson.encode(ticket))
end

local function give_back(begun)
  local all = redis.call('HGETALL', held)
  for i = 1, #all, 2 do
    local job, lease = all[i], cjson.decode(all[i + 1])
    if lease.worker == worker and lease.run == '' and not begun[job] then
      free(job, lease, nil, true)
      report(lease, false)
      return_to_line(job, lease, 0)
      wake(nudge, 'settle', 64)
    end
  end
end

local replies, begun = {}, {}
for i = 8, #ARGV, 6 do
  local job, number = ARGV[i], tonumber(ARGV[i + 1])
  begun[job] = true
  local lease, adopted = decoded(redis.call('HGET', held, job)), false
  if not lease and lost then
    lease, adopted = adopt(job, number, ARGV[i + 2], ARGV[i + 3]), true
  end
  if lease and lease.lease == number and lease.worker == worker then
    redis.call('ZADD', leases, math.floor(now + ARGV[3]), job)
    note_produced(job, lease, tonumber(ARGV[i + 4]))
    if ARGV[i + 5] == '1' then bind(job, lease) end
    table.insert(replies, adopted and 3 or lease.cancel and 2 or 1)
  else
    table.insert(replies, 0)
  end
end
if ARGV[2] == '0' and redis.call('HEXISTS', load, worker) == 1 then give_back(begun) end

-- The next lease may be one that a dead worker did not begin: that is over with its worker.
local first = redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')[2]
local next_dead = first and redis.call('ZRANGE', workers, 0, 0, 'WITHSCORES')
if first and redis.call('HEXISTS', load, next_dead[1]) == 1 then
  first = math.min(first, next_dead[2])
end
return { first and math.max(0, math.ceil(first - now)) or -1, replies, id }
