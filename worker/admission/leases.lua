-- Ending leases. Needs pool, tickets, buckets, states, days.
local function decrement(hash, field)
  if redis.call('HINCRBY', hash, field, -1) <= 0 then redis.call('HDEL', hash, field) end
end

-- Charge more or fewer units for what was taken in `piece`. What is more than was reserved, and of a
-- time no window reaches any more, is owed from now on.
local function correct(state, tat, at, piece, units, unit_ms)
  if units > 0 then state[tat] = math.max(state[tat], now) end
  state[tat] = state[tat] + units * unit_ms
  if not count_in(state, at, piece, units) and units > 0 then
    count_in(state, at, state[at], units)
  end
end

-- Units a lease was charged too few or too many of.
local function difference(lease, tokens)
  if tokens < lease.tokens and lease.mode == 'admission' then return 0 end
  return tokens - lease.tokens
end

-- End a lease: its streams are free again, and what it was charged is corrected to what it used.
-- `tokens` nil keeps the estimate; one that never started gives everything back, the request too.
local function free(job, lease, tokens, unused)
  redis.call('ZREM', leases, job)
  redis.call('HDEL', held, job)
  decrement(load, lease.worker)
  for _, taken in ipairs(lease.taken) do
    local scope, day, piece, request_ms, token_ms = unpack(taken)
    local state = read_state(redis.call('HGET', buckets_of, scope))
    state[USED] = math.max(0, state[USED] - 1)
    if unused then
      correct(state, RT, RW, piece, -1, request_ms)
      correct(state, TT, TW, piece, -lease.tokens, token_ms)
      give_back_day(scope, state, day)
    elseif tokens then
      correct(state, TT, TW, piece, difference(lease, tokens), token_ms)
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
