-- The limits of accounts, and how far they are used. Needs pool, buckets, rests.
--
-- A scope is an account, or some models of one. Its buckets are stored as
-- { requests = { tat, widest, wide_until }, tokens = the same, day = { number, requests },
--   retries = { credit, at } }, and its lower limits as { <dimension> = { limit, at } }.

-- A limit that was learned grows by this share a minute until it is the configured one again.
local REGROWTH = 0.02
-- What fits but for this much, fits.
local ROUNDING_MS = 0.01

local function lower_of(configured, learned)
  if not learned then return configured end
  local grown = learned[1] * (1 + REGROWTH * (now - learned[2]) / 60000)
  if configured > 0 and grown >= configured then return configured end
  return math.max(1, grown)
end

local function bucket_of(limit, spec, state)
  if limit <= 0 then return nil end
  local tat, widest, wide_until = unpack(state or { 0, 0, 0 })
  return { limit = limit, burst = spec.burst, period = spec.period,
    tat = tat, widest = widest, wide_until = wide_until }
end

local function scope_of(spec, day_ms, state, used, learned)
  state, learned = state or {}, learned or {}
  local day = math.floor((now + day_ms) / 86400000)
  local scope = { name = spec.name, models = spec.models, state = state, used = used,
    streams = lower_of(spec.streams, learned.streams),
    requests = bucket_of(lower_of(spec.requests, learned.requests), spec, state.requests),
    tokens = bucket_of(lower_of(spec.tokens, learned.tokens), spec, state.tokens),
    day = day, day_limit = spec.day, day_used = 0, day_ends = (day + 1) * 86400000 - day_ms }
  if state.day and state.day[1] == day then scope.day_used = state.day[2] end
  return scope
end

-- Every account of the configuration with its scopes, by name.
local function open_accounts(config)
  local names, accounts, n = {}, {}, 0
  for _, account in ipairs(config.accounts) do
    for _, spec in ipairs(account.scopes) do table.insert(names, spec.name) end
  end
  local states, counts = redis.call('HMGET', buckets_of, unpack(names)),
    redis.call('HMGET', streams, unpack(names))
  local lowered = {}
  local flat = redis.call('HGETALL', learned_of)
  for i = 1, #flat, 2 do lowered[flat[i]] = cjson.decode(flat[i + 1]) end
  for _, account in ipairs(config.accounts) do
    local opened = { name = account.name, mode = account.mode, scopes = {} }
    for _, spec in ipairs(account.scopes) do
      n = n + 1
      table.insert(opened.scopes, scope_of(spec, account.day_ms, decoded(states[n]),
        tonumber(counts[n] or 0), lowered[spec.name]))
    end
    accounts[account.name] = opened
  end
  return accounts
end

-- The scopes of an account that count a model.
local function scopes_for(account, model)
  account.of = account.of or {}
  local found = account.of[model]
  if found then return found end
  found = {}
  for _, scope in ipairs(account.scopes) do
    if scope.models == '' or string.find(model, scope.models) then table.insert(found, scope) end
  end
  account.of[model] = found
  return found
end

-- Milliseconds until a job fits, what it waits for, and the share of the scope that is free.
-- A stream that is missing has no time; -1 stands for it.
local function fit(scope, tokens)
  local free_share = 1 / (1 + scope.used)
  if scope.streams > 0 then
    if scope.used >= scope.streams then return -1, 'streams' end
    free_share = 1 - scope.used / scope.streams
  end
  if scope.day_limit > 0 and scope.day_used >= scope.day_limit then
    return scope.day_ends - now, 'requests a day'
  end
  local wait, reason = 0, nil
  if scope.requests then
    wait, reason = buckets.wait(scope.requests, 1, now), 'requests a minute'
    free_share = math.min(free_share, buckets.headroom(scope.requests, now))
  end
  if scope.tokens then
    local longer = buckets.wait(scope.tokens, tokens, now)
    if longer > wait then wait, reason = longer, 'tokens a minute' end
    free_share = math.min(free_share, buckets.headroom(scope.tokens, now))
  end
  if wait < ROUNDING_MS then wait = 0 end
  return wait, reason, free_share
end

-- Reserve one request, its tokens and a stream; what the lease must give back one day.
local function reserve(scope, tokens)
  scope.used, scope.dirty = scope.used + 1, true
  scope.day_used = scope.day_used + 1
  redis.call('HINCRBY', streams, scope.name, 1)
  return { scope.name,
    scope.requests and buckets.take(scope.requests, 1, now) or 0,
    scope.tokens and buckets.take(scope.tokens, tokens, now) or 0,
    scope.day }
end

local function save(scope)
  local state = scope.state
  for _, kind in ipairs({ 'requests', 'tokens' }) do
    local bucket = scope[kind]
    if bucket then state[kind] = { bucket.tat, bucket.widest, bucket.wide_until } end
  end
  if scope.day_limit > 0 then state.day = { scope.day, scope.day_used } end
  if next(state) then redis.call('HSET', buckets_of, scope.name, cjson.encode(state)) end
end

local function save_all(accounts)
  for _, account in pairs(accounts) do
    for _, scope in ipairs(account.scopes) do
      if scope.dirty then save(scope) end
    end
  end
end
