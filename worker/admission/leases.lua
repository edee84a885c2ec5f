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

-- What a lease was charged too much or too little for the tokens it used, in ms.
local function difference(lease, tokens, tokens_ms, each_ms)
  if tokens > lease.tokens then return tokens_ms * (tokens / math.max(1, lease.tokens) - 1) end
  return lease.mode == 'admission' and 0 or math.min(tokens * each_ms, tokens_ms) - tokens_ms
end

-- Correct what a lease was charged to what it used: `tokens` nil keeps the estimate, and a lease
-- that never started gives everything back, the request as well.
local function correct_charge(lease, tokens, unused)
  if not tokens and not unused then return end
  for _, taken in ipairs(lease.taken) do
    local scope, request_ms, tokens_ms, day, each_ms = unpack(taken)
    local state = read_state(redis.call('HGET', buckets_of, scope))
    if unused then
      correct(state, TT, TB, -tokens_ms, lease.at)
      correct(state, RT, RB, -request_ms, lease.at)
      if state[DAY] == day then state[USED] = math.max(0, state[USED] - 1) end
    else
      correct(state, TT, TB, difference(lease, tokens, tokens_ms, each_ms), lease.at)
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
