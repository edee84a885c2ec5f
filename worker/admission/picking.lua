-- Whose turn it is, and on which key. Needs everything before it in grant.lua.
--
-- A lease is { lease, worker, key, account, run, at, mode, tokens, taken, probes, cancel }, `taken`
-- what each scope was charged, see reserve; `probes` the rests it reopens.

local rests = redis.call('HGETALL', rests_of)
local rest_on, note_reopened
if #rests > 0 then rest_on, note_reopened = read_rests(rests) end
local learned = read_learned()

-- What every scope has, and what of it is free: one number for each, so that the key with most
-- headroom is found before anything else of a scope is looked at.
local texts = redis.call('HMGET', buckets_of, unpack(ARGV, NAMES + 1, NAMES + SCOPES))
local hot = { struct.unpack('<' .. string.rep('d', 2 * SCOPES), ARGV[HOT]) }
local opened, share = {}, {}

local function measure(scope, used, requests_tat, tokens_tat)
  local most, behind = hot[2 * scope - 1], math.max(requests_tat, tokens_tat) - now
  if opened[scope] then most = opened[scope].streams end
  local free = most > 0 and 1 - used / most or 1 / (1 + used)
  if behind > 0 then free = math.min(free, 1 - behind / hot[2 * scope]) end
  share[scope] = free
end

for scope = 1, SCOPES do
  if texts[scope] then
    measure(scope, struct.unpack('<ddd', texts[scope]))
  else
    share[scope] = 1
  end
end

local function opening(number)
  local scope = opened[number]
  if not scope then
    scope = open_scope(number, texts[number], learned and learned[ARGV[NAMES + number]])
    opened[number] = scope
  end
  return scope
end

-- Tokens to reserve for a job on an account.
local size_of = {}
local function tokens_for(ticket, mode)
  if mode == 'admission' and ticket.cap then return ticket.prompt + ticket.cap end
  if not ticket.input then
    if size_of[ticket.kind] == nil then
      size_of[ticket.kind] = decoded(redis.call('HGET', sizes, ticket.kind)) or false
    end
    ticket.input, ticket.output = expected_tokens(ticket, size_of[ticket.kind])
  end
  return mode == 'produced' and ticket.input or ticket.input + ticket.output
end

-- How a job fits on a key: the share that is free there when it fits now. Else nil and ms to wait
-- (-1: nobody knows), why, whether only buckets hold it back, whether nothing else fits either.
local function fit_on(key, ticket)
  if rest_on then
    local wait, reason, closed = rest_on(key, ticket.model)
    if wait > 0 then return nil, wait, reason, false, closed end
  end
  local scopes = scopes_for(key, ticket.model)
  local own = opening(scopes[1])
  if ticket.tries > 0 and retries(own.state) < 1 then
    local wait = (1 - retries(own.state)) * RETRY_MS
    return nil, wait, 'retries of account ' .. own.name, false, false
  end
  local free, wait, reason, paced = 1, 0, nil, true
  local tokens = tokens_for(ticket, own.mode)
  for i, number in ipairs(scopes) do
    local longer, why, by_bucket = fit(opening(number), tokens)
    if longer ~= 0 then
      why = why .. ' of account ' .. ARGV[NAMES + number]
      if longer < 0 then return nil, -1, why, false, i == 1 end
      if longer > wait then wait, reason = longer, why end
      paced = paced and by_bucket
    end
    free = math.min(free, share[number])
  end
  if wait > 0 then return nil, wait, reason, paced, false end
  return free
end

-- The key with most headroom, if nothing forbids it and the job fits there: the usual case. Where
-- models have limits of their own, there is more to look at.
local function first_choice(ticket, claimed, first)
  local best, most = nil, 0
  for i = 0, KEYS_OF - 1 do
    local key = (first + i) % KEYS_OF + 1
    if PLACES[2 * key] > 1 then return nil end
    if share[PLACES[2 * key - 1]] > most then best, most = key, share[PLACES[2 * key - 1]] end
  end
  if best and not claimed[account_of(best)] and fit_on(best, ticket) then return best end
end

-- The only key a job may use, or the one it must not, if the pool has such keys.
local function bound_to(ticket)
  local only, others
  for key = 1, KEYS_OF do
    local alias = ARGV[ALIASES + key]
    if alias == ticket.sticky then only = alias end
    if alias ~= ticket.avoid then others = true end
  end
  return only, others and ticket.avoid
end

-- The key to grant a job on. Else nil, and what it waits for: { wait, reason, account, paced };
-- then whether another job may still find something.
local function best_key(ticket, claimed, first)
  local only, never
  if ticket.sticky or ticket.avoid then
    only, never = bound_to(ticket)
  else
    local key = first_choice(ticket, claimed, first)
    if key then return key end
  end
  local best, most, other, open = nil, -1, { wait = math.huge }, false
  for i = 0, KEYS_OF - 1 do
    local key = (first + i) % KEYS_OF + 1
    local account, alias = account_of(key), ARGV[ALIASES + key]
    if claimed[account] then
      other.reason = other.reason or 'an earlier job on account ' .. account
    elseif (only and alias ~= only) or alias == never then
      open = true
    else
      local free, wait, reason, paced, closed = fit_on(key, ticket)
      if free then
        if free > most then best, most = key, free end
      elseif wait >= 0 and wait < other.wait then
        other = { wait = wait, reason = reason, account = account, paced = paced }
      end
      other.reason = other.reason or reason
      open = open or not closed
    end
  end
  return best, other, open
end

local function lease_out(out, job, ticket, key)
  local mode = opening(PLACES[2 * key - 1]).mode
  local tokens = tokens_for(ticket, mode)
  local lease = { worker = worker, key = ARGV[ALIASES + key], account = account_of(key), run = '',
    at = now, mode = mode, tokens = tokens, taken = {} }
  for i, number in ipairs(scopes_for(key, ticket.model)) do
    local scope = opened[number]
    lease.taken[i] = reserve(scope, tokens)
    measure(number, scope.state[USED], scope.state[RT], scope.state[TT])
  end
  if ticket.tries > 0 then
    local state = opened[PLACES[2 * key - 1]].state
    state[CREDIT], state[AT] = retries(state) - 1, now
  end
  if note_reopened then lease.probes = note_reopened(key, ticket.model) end
  out.jobs[#out.jobs + 1], out.leases[#out.leases + 1] = job, lease
end

-- All leases of one call are written together; gives { job, lease, alias } flat.
local function write_leases(out, queues)
  local count = #out.jobs
  if count == 0 then return {} end
  local last = redis.call('INCRBY', counter, count) - count
  local expiry, granted, fields, scores, changed = math.floor(now + ARGV[4]), {}, {}, {}, {}
  for i, lease in ipairs(out.leases) do
    lease.lease = last + i
    local job = out.jobs[i]
    fields[2 * i - 1], fields[2 * i] = job, cjson.encode(lease)
    scores[2 * i - 1], scores[2 * i] = expiry, job
    granted[3 * i - 2], granted[3 * i - 1], granted[3 * i] = job, lease.lease, lease.key
  end
  redis.call('HSET', held, unpack(fields))
  redis.call('ZADD', leases, unpack(scores))
  redis.call('HINCRBY', load, worker, count)
  for _, queue in ipairs(queues) do
    if queue.taken then redis.call('ZREM', queue.line, unpack(queue.taken)) end
  end
  for _, scope in pairs(opened) do
    if scope.dirty then add_changed(scope, changed) end
  end
  redis.call('HSET', buckets_of, unpack(changed))
  return granted
end
