-- The limits of accounts, and how far they are used. Needs pool, states, buckets.
--
-- The configuration is arrays, as offers.py has them: { keys, accounts }, a key { alias, print,
-- account }, an account { name, mode, day_ms, scopes }, a scope as below. A scope is an account, or
-- some models of one.

-- A limit that was learned grows by this share a minute until it is the configured one again.
local REGROWTH = 0.02
-- What fits but for this much, fits.
local EPSILON_MS = 0.01

local function lower_of(configured, learned)
  if not learned then return configured end
  local grown = learned[1] * (1 + REGROWTH * (now - learned[2]) / 60000)
  if configured > 0 and grown >= configured then return configured end
  return math.max(1, grown)
end

-- `at` is where the bucket begins in the state.
local function bucket(limit, burst, period, state, at)
  return limit > 0 and { limit = limit, burst = burst, period = period, tat = state[at],
    widest = state[at + 1], wide_until = state[at + 2], wide_next = state[at + 3],
    busy_since = state[at + 4] }
end

-- With every field it will ever have: a table that grows is a slow one.
local function scope_of(spec, day_ms, text, used, learned)
  local name, models, most, requests, tokens, day_limit, burst, period = unpack(spec)
  local state = read_state(text)
  if learned then
    most = lower_of(most, learned.streams)
    requests = lower_of(requests, learned.requests)
    tokens = lower_of(tokens, learned.tokens)
  end
  local scope = { name = name, models = models, state = state, used = used, streams = most,
    requests = bucket(requests, burst, period, state, RT),
    tokens = bucket(tokens, burst, period, state, TT),
    day_limit = day_limit, day_ends = 0, share = 0, free_requests = 0, free_tokens = 0,
    stale = true, dirty = false, more = 0 }
  if day_limit > 0 then
    local day = math.floor((now + day_ms) / 86400000)
    if state[DAY] ~= day then state[DAY], state[USED] = day, 0 end
    scope.day_ends = (day + 1) * 86400000 - day_ms
  end
  return scope
end

-- Every account of the configuration with its scopes, by name.
local function open_accounts(config)
  local names, accounts, n = {}, {}, 0
  for _, account in ipairs(config[2]) do
    for _, spec in ipairs(account[4]) do names[#names + 1] = spec[1] end
  end
  local states = redis.call('HMGET', buckets_of, unpack(names))
  local counts = redis.call('HMGET', streams, unpack(names))
  local lowered, flat = {}, redis.call('HGETALL', learned_of)
  for i = 1, #flat, 2 do lowered[flat[i]] = cjson.decode(flat[i + 1]) end
  for _, account in ipairs(config[2]) do
    local scopes = {}
    for i, spec in ipairs(account[4]) do
      n = n + 1
      scopes[i] = scope_of(spec, account[3], states[n], tonumber(counts[n] or 0), lowered[spec[1]])
    end
    accounts[account[1]] = { name = account[1], mode = account[2], scopes = scopes,
      of = #scopes > 1 and {} }
  end
  return accounts
end

-- The scopes of an account that count a model.
local function scopes_for(account, model)
  if not account.of then return account.scopes end
  local found = account.of[model]
  if found then return found end
  found = {}
  for _, scope in ipairs(account.scopes) do
    if scope.models == '' or string.find(model, scope.models) then found[#found + 1] = scope end
  end
  account.of[model] = found
  return found
end

-- What is free now, computed once until something is reserved.
local function measure(scope)
  local share, left, width, part = 1 / (1 + scope.used), nil, nil, nil
  if scope.streams > 0 then share = 1 - scope.used / scope.streams end
  scope.free_requests, scope.free_tokens = math.huge, math.huge
  if scope.requests then
    left, width, part = view(scope.requests, now)
    scope.free_requests, share = math.min(left, width), math.min(share, part)
  end
  if scope.tokens then
    left, width, part = view(scope.tokens, now)
    scope.free_tokens, share = math.min(left, width), math.min(share, part)
  end
  scope.stale, scope.share = false, share
end

-- Milliseconds until a job fits and what it waits for; 0 when it fits now. A stream that is missing
-- has no time; -1 stands for it. Last whether only the buckets hold it back.
local function fit(scope, tokens)
  if scope.stale then measure(scope) end
  if scope.streams > 0 and scope.used >= scope.streams then return -1, 'streams' end
  if scope.day_limit > 0 and scope.state[USED] >= scope.day_limit then
    return scope.day_ends - now, 'requests a day', false
  end
  if scope.free_requests >= 1 and scope.free_tokens >= tokens then return 0 end
  local wait, reason = 0, nil
  if scope.requests then
    wait, reason = wait_for(scope.requests, 1, now), 'requests a minute'
  end
  if scope.tokens then
    local longer = wait_for(scope.tokens, tokens, now)
    if longer > wait then wait, reason = longer, 'tokens a minute' end
  end
  if wait < EPSILON_MS then return 0 end
  return wait, reason, true
end

-- Reserve one request, its tokens and a stream; what the lease must give back one day.
local function reserve(scope, tokens)
  scope.used, scope.dirty, scope.stale = scope.used + 1, true, true
  scope.more = scope.more + 1
  scope.state[USED] = scope.state[USED] + 1
  local request_ms, tokens_ms, each_ms = 0, 0, 0
  if scope.requests then request_ms = take(scope.requests, 1, now) end
  if scope.tokens then tokens_ms, each_ms = take(scope.tokens, tokens, now) end
  return { scope.name, request_ms, tokens_ms, scope.state[DAY], each_ms }
end

local function save(scope)
  local state, r, t = scope.state, scope.requests, scope.tokens
  if r then
    state[RT], state[RW], state[RU], state[RN], state[RB] =
      r.tat, r.widest, r.wide_until, r.wide_next, r.busy_since
  end
  if t then
    state[TT], state[TW], state[TU], state[TN], state[TB] =
      t.tat, t.widest, t.wide_until, t.wide_next, t.busy_since
  end
  write_state(scope.name, state)
end
