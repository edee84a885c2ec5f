-- Ending leases. Needs pool, tickets, states.
local function decrement(hash, field)
  if redis.call('HINCRBY', hash, field, -1) <= 0 then redis.call('HDEL', hash, field) end
end

-- Free the slot of the worker and the streams of the account.
local function free(job, lease)
  redis.call('ZREM', leases, job)
  redis.call('HDEL', held, job)
  decrement(load, lease.worker)
  for _, taken in ipairs(lease.taken) do decrement(streams, taken[1]) end
end

-- Correct what a lease was charged to what it used: `tokens` nil keeps the estimate, and a lease
-- that never started gives everything back, the request as well. Only `produced` and debts add.
local function correct_charge(lease, tokens, unused)
  local share = 0
  if unused then
    share = 1
  elseif tokens and lease.tokens > 0 then
    share = 1 - tokens / lease.tokens
    if lease.mode == 'admission' then share = math.min(0, share) end
  end
  if share == 0 then return end
  for _, taken in ipairs(lease.taken) do
    local scope, request_ms, tokens_ms, day = unpack(taken)
    local state = read_state(redis.call('HGET', buckets_of, scope))
    state[TT] = math.max(0, state[TT] - share * tokens_ms)
    if unused then
      state[RT] = math.max(0, state[RT] - request_ms)
      if state[DAY] == day then state[USED] = math.max(0, state[USED] - 1) end
    end
    write_state(scope, state)
  end
end

-- Put a job back. One whose ticket the store has lost gets a plain one.
local function return_to_line(job, lease, wait_ms)
  local ticket = decoded(redis.call('HGET', tickets, job))
  if not ticket then
    ticket = { turn = 0, class = 'normal', tenant = 'default', model = '',
      kind = '', prompt = 0, cost = 1, tries = 0 }
    redis.call('HSET', tickets, job, cjson.encode(ticket))
  end
  if wait_ms > 0 then
    redis.call('ZADD', delayed, math.floor(now + wait_ms), job)
  else
    stand_in_line(job, ticket)
  end
end
