-- Ending leases. Needs pool, tickets.
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
    local state = decoded(redis.call('HGET', buckets_of, scope))
    if state then
      if state.tokens then state.tokens[1] = state.tokens[1] - share * tokens_ms end
      if unused and state.requests then state.requests[1] = state.requests[1] - request_ms end
      if unused and state.day and state.day[1] == day then state.day[2] = state.day[2] - 1 end
      redis.call('HSET', buckets_of, scope, cjson.encode(state))
    end
  end
end

-- Put a job back. One whose ticket the store has lost gets a plain one.
local function return_to_line(job, lease, wait_ms)
  local ticket = decoded(redis.call('HGET', tickets, job))
  if not ticket then
    ticket = { turn = 0, class = 'normal', tenant = 'default', model = lease.model,
      kind = lease.kind, prompt = 0, cost = 1, tries = 0 }
    redis.call('HSET', tickets, job, cjson.encode(ticket))
  end
  if wait_ms > 0 then
    redis.call('ZADD', delayed, math.floor(now + wait_ms), job)
  else
    stand_in_line(job, ticket)
  end
end
