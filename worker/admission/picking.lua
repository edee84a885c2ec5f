-- Whose turn it is, and on which key. Needs pool, buckets, tickets, leases, rests, limits.
--
-- A lease is { lease, worker, key, account, model, run, at, mode, kind, tokens, taken, cancel },
-- `taken` what each scope was charged: { scope, request ms, token ms, day }.

-- Classes share what there is by weight, and what one leaves is the others'.
local WEIGHTS = { urgent = 70, normal = 25, bulk = 5 }
-- Jobs that do not fit are passed over, but not more than this many.
local LOOK = 32
local PAGE = 16

local rests_now = {}

local function rest_named(name)
  local rest = rests_now[name]
  if rest and is_over(rest) then
    redis.call('HDEL', rests_of, name)
    rests_now[name] = nil
    return nil
  end
  return rest
end

-- Milliseconds until nothing rests that a job would need, why, and whether that holds for every job.
local function rest_of_key(key, account, model)
  local own = rest_named('key ' .. key.alias)
  if own and own.print == key.print then
    local wait = resting(own)
    if wait > 0 then return wait, 'key ' .. key.alias .. ' is out: ' .. own.cause, true end
  end
  for _, name in ipairs({ 'account ' .. account.name, 'model ' .. account.name .. ' ' .. model }) do
    local rest = rest_named(name)
    local wait = rest and resting(rest) or 0
    if wait > 0 then
      return wait, name .. ' cools down: ' .. rest.cause, name == 'account ' .. account.name
    end
  end
  return 0
end

local function note_reopened(key, account, model)
  local names = { 'key ' .. key.alias, 'account ' .. account.name,
    'model ' .. account.name .. ' ' .. model }
  for _, name in ipairs(names) do
    local rest = rests_now[name]
    if rest and reopening(rest) then
      rest.reopened = (rest.reopened or 0) + 1
      redis.call('HSET', rests_of, name, cjson.encode(rest))
    end
  end
end

-- Tokens to reserve for a job on an account.
local size_of = {}
local function tokens_for(ticket, account)
  if account.mode == 'produced' then return ticket.prompt end
  if account.mode == 'admission' and ticket.cap then return ticket.prompt + ticket.cap end
  if size_of[ticket.kind] == nil then
    size_of[ticket.kind] = decoded(redis.call('HGET', sizes, ticket.kind)) or false
  end
  return ticket.prompt + expected_output(ticket, size_of[ticket.kind])
end

-- How a job fits on a key: { wait = ms (-1: nobody knows), reason }, with `share`, what is free
-- there, when it fits now; `paced` when only its buckets hold it back; `closed` when the key has
-- nothing for any other job either.
local function fit_on(key, account, ticket)
  local wait, reason, closed = rest_of_key(key, account, ticket.model)
  if wait > 0 then return { wait = wait, reason = reason, closed = closed } end
  if ticket.tries > 0 then
    local credit = retries(account.scopes[1].state)
    if credit < 1 then
      return { wait = (1 - credit) * RETRY_MS, reason = 'retries of account ' .. account.name }
    end
  end
  local share, paced = 1, true
  local tokens = tokens_for(ticket, account)
  for i, scope in ipairs(scopes_for(account, ticket.model)) do
    local longer, why, free_share = fit(scope, tokens)
    if longer ~= 0 then
      why = why .. ' of account ' .. scope.name
      if longer < 0 then return { wait = -1, reason = why, closed = i == 1 } end
      if longer > wait then wait, reason = longer, why end
      paced = paced and free_share ~= nil
    end
    share = math.min(share, free_share or 0)
  end
  return { wait = wait, reason = reason, share = share, paced = paced }
end

local function may_use(key, ticket, only, others)
  if only then return key.alias == only end
  return not (others and key.alias == ticket.avoid)
end

-- The key to grant a job on. Else the soonest fit there is, with its account, and whether another
-- job may still find something.
local function best_key(config, accounts, ticket, claimed, first)
  local only, others
  for _, key in ipairs(config.keys) do
    if key.alias == ticket.sticky then only = ticket.sticky end
    if key.alias ~= ticket.avoid then others = true end
  end
  local best, most, soonest, open = nil, -1, { wait = math.huge }, false
  for i = 0, #config.keys - 1 do
    local key = config.keys[(first + i) % #config.keys + 1]
    if not claimed[key.account] then
      local found = { wait = -1, reason = 'key ' .. tostring(only or ticket.avoid) }
      if may_use(key, ticket, only, others) then
        found = fit_on(key, accounts[key.account], ticket)
        if found.wait == 0 and found.share > most then best, most = key, found.share end
      end
      if found.wait >= 0 and found.wait < soonest.wait then
        found.account, soonest = key.account, found
      end
      soonest.reason = soonest.reason or found.reason
      open = open or not found.closed
    end
  end
  return best, soonest, open
end

local function next_of(queue)
  if queue.ended then return nil end
  if queue.at >= #queue.page then
    queue.page = redis.call('ZRANGE', queue.line, queue.passed, queue.passed + PAGE - 1)
    queue.at = 0
    queue.ended = #queue.page == 0
    if queue.ended then return nil end
    queue.tickets = redis.call('HMGET', tickets, unpack(queue.page))
  end
  return queue.page[queue.at + 1], queue.tickets[queue.at + 1]
end

-- The class whose turn it is among those with someone left to look at.
local function next_class(queues, reached)
  local found, start, job, text
  for _, queue in ipairs(queues) do
    local first, ticket = next_of(queue)
    local at = math.max(reached, queue.at_class)
    if first and (not found or at < start) then
      found, start, job, text = queue, at, first, ticket
    end
  end
  return found, start, job, text
end

local function lease_out(job, ticket, key, account, worker)
  local tokens = tokens_for(ticket, account)
  local lease = { lease = redis.call('INCR', counter), worker = worker, key = key.alias,
    account = account.name, model = ticket.model, run = '', at = now, mode = account.mode,
    kind = ticket.kind, tokens = tokens, taken = {} }
  for _, scope in ipairs(scopes_for(account, ticket.model)) do
    table.insert(lease.taken, reserve(scope, tokens))
  end
  if ticket.tries > 0 then
    local state = account.scopes[1].state
    state.retries = { retries(state) - 1, now }
  end
  note_reopened(key, account, ticket.model)
  redis.call('HSET', held, job, cjson.encode(lease))
  redis.call('ZADD', leases, math.floor(now + ARGV[4]), job)
  redis.call('HINCRBY', load, worker, 1)
  return lease.lease
end

-- Leases for up to `room` jobs, and ms until the next one fits (nil: nobody knows).
local function grant_all(config, worker, room)
  local flat = redis.call('HGETALL', rests_of)
  for i = 1, #flat, 2 do rests_now[flat[i]] = cjson.decode(flat[i + 1]) end
  local accounts = open_accounts(config)
  if redis.call('HDEL', epoch, 'empty') == 1 then
    for _, account in pairs(accounts) do
      for _, scope in ipairs(account.scopes) do
        if scope.requests then buckets.tighten(scope.requests, 0, now) end
        if scope.tokens then buckets.tighten(scope.tokens, 0, now) end
        scope.dirty = true
      end
    end
  end

  local names = { 'urgent', 'normal', 'bulk' }
  local times = redis.call('HMGET', fair, 'reached', 'urgent', 'normal', 'bulk', 'at:urgent',
    'at:normal', 'at:bulk', 'granted_at', 'pace')
  local reached, queues = tonumber(times[1] or 0), {}
  for i, class in ipairs(names) do
    queues[i] = { class = class, line = lines[class], page = {}, at = 0, passed = 0,
      at_class = tonumber(times[i + 1] or 0), at_job = tonumber(times[i + 4] or 0) }
  end

  local granted, claimed, soonest, head, looked = {}, {}, nil, nil, 0
  local first = tonumber(redis.call('GET', counter) or 0)
  while room > 0 and looked < LOOK do
    local queue, start, job, text = next_class(queues, reached)
    if not queue then break end
    local ticket = cjson.decode(text)
    local key, other, open = best_key(config, accounts, ticket, claimed, first)
    queue.at = queue.at + 1
    if key then
      redis.call('ZREM', queue.line, job)
      first = lease_out(job, ticket, key, accounts[key.account], worker)
      table.insert(granted, job)
      table.insert(granted, first)
      table.insert(granted, key.alias)
      reached, queue.at_class = start, start + ticket.cost / WEIGHTS[queue.class]
      queue.at_job = math.max(queue.at_job, ticket.turn)
      room = room - 1
    else
      queue.passed, looked = queue.passed + 1, looked + 1
      if other.wait < math.huge then soonest = math.min(soonest or math.huge, other.wait) end
      head = head or { job = job, reason = other.reason, at = now,
        ['until'] = other.wait < math.huge and now + other.wait or nil }
      -- What comes next on that account is for this job: smaller ones do not overtake it for ever.
      if other.paced then claimed[other.account] = true end
      if not open then break end
    end
  end

  if head then
    redis.call('SET', blocked, cjson.encode(head), 'PX', 60000)
  elseif #granted > 0 then
    redis.call('DEL', blocked)
  end
  if #granted > 0 then
    local pace, gap = tonumber(times[9]), times[8] and (now - times[8]) / (#granted / 3)
    pace = pace and gap and pace + (gap - pace) / 8 or gap or 0
    redis.call('HSET', fair, 'reached', exact(reached), 'urgent', exact(queues[1].at_class),
      'normal', exact(queues[2].at_class), 'bulk', exact(queues[3].at_class),
      'at:urgent', exact(queues[1].at_job), 'at:normal', exact(queues[2].at_job),
      'at:bulk', exact(queues[3].at_job), 'granted_at', exact(now), 'pace', exact(pace))
    save_all(accounts)
  end
  return granted, soonest
end
