-- Whose turn it is, and on which key. Needs everything before it in grant.lua.
--
-- A lease is { lease, worker, key, account, run, at, mode, tokens, taken, cancel }, `taken` what
-- each scope was charged: { scope, request ms, token ms, day, ms of one token }.

-- Classes share what there is by weight, and what one leaves is the others'.
local WEIGHTS = { urgent = 70, normal = 25, bulk = 5 }
-- Jobs that do not fit are passed over, but not more than this many.
local LOOK, PAGE = 32, 16

-- What rests, by name; nil when nothing does.
local rests

local function open_rests()
  local flat = redis.call('HGETALL', rests_of)
  if #flat > 0 then rests = {} end
  for i = 1, #flat, 2 do
    local rest = cjson.decode(flat[i + 1])
    if is_over(rest) then
      redis.call('HDEL', rests_of, flat[i])
    else
      rests[flat[i]] = rest
    end
  end
end

local function rest_names(key, model)
  return { 'key ' .. key[1], 'account ' .. key[3], 'model ' .. key[3] .. ' ' .. model }
end

-- What of a job's way rests now: ms, why, and whether every other job meets it, too.
local function rest_on(key, model)
  for i, name in ipairs(rest_names(key, model)) do
    local rest = rests[name]
    if rest and (i > 1 or rest.print == key[2]) then
      local wait = resting(rest)
      if wait > 0 then
        return wait, name .. (i == 1 and ' is out: ' or ' cools down: ') .. rest.cause, i < 3
      end
    end
  end
  return 0
end

local function note_reopened(key, model)
  for _, name in ipairs(rest_names(key, model)) do
    local rest = rests[name]
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
  if not ticket.output then
    if size_of[ticket.kind] == nil then
      size_of[ticket.kind] = decoded(redis.call('HGET', sizes, ticket.kind)) or false
    end
    ticket.output = expected_output(ticket, size_of[ticket.kind])
  end
  return ticket.prompt + ticket.output
end

-- How a job fits on a key: the share that is free there when it fits now. Else nil and ms to wait
-- (-1: nobody knows), why, whether only buckets hold it back, whether nothing else fits either.
local function fit_on(key, account, ticket)
  if rests then
    local wait, reason, closed = rest_on(key, ticket.model)
    if wait > 0 then return nil, wait, reason, false, closed end
  end
  if ticket.tries > 0 and retries(account.scopes[1].state) < 1 then
    local credit = retries(account.scopes[1].state)
    return nil, (1 - credit) * RETRY_MS, 'retries of account ' .. account.name, false, false
  end
  local share, wait, reason, paced = 1, 0, nil, true
  local tokens = tokens_for(ticket, account)
  for i, scope in ipairs(scopes_for(account, ticket.model)) do
    local longer, why, by_bucket = fit(scope, tokens)
    if longer ~= 0 then
      why = why .. ' of account ' .. scope.name
      if longer < 0 then return nil, -1, why, false, i == 1 end
      if longer > wait then wait, reason = longer, why end
      paced = paced and by_bucket
    end
    share = math.min(share, scope.share)
  end
  if wait > 0 then return nil, wait, reason, paced, false end
  return share
end

-- The only key a job may use, or the one it must not, if the pool has such keys.
local function bound_to(ticket, keys)
  if not ticket.sticky and not ticket.avoid then return nil, nil end
  local only, others
  for _, key in ipairs(keys) do
    if key[1] == ticket.sticky then only = ticket.sticky end
    if key[1] ~= ticket.avoid then others = true end
  end
  return only, others and ticket.avoid
end

-- The key to grant a job on. Else nil, and what it waits for: { wait, reason, account, paced };
-- then whether another job may still find something.
local function best_key(keys, accounts, ticket, claimed, first)
  local only, never = bound_to(ticket, keys)
  local best, most, other, open = nil, -1, { wait = math.huge }, false
  for i = 0, #keys - 1 do
    local key = keys[(first + i) % #keys + 1]
    if claimed[key[3]] then
      other.reason = other.reason or 'an earlier job on account ' .. key[3]
    elseif (only and key[1] ~= only) or key[1] == never then
      open = true
    else
      local share, wait, reason, paced, closed = fit_on(key, accounts[key[3]], ticket)
      if share then
        if share > most then best, most = key, share end
      elseif wait >= 0 and wait < other.wait then
        other = { wait = wait, reason = reason, account = key[3], paced = paced }
      end
      other.reason = other.reason or reason
      open = open or not closed
    end
  end
  return best, other, open
end

local function next_of(queue, size)
  if queue.ended then return nil end
  if queue.at >= #queue.page then
    queue.page = redis.call('ZRANGE', queue.line, queue.passed, queue.passed + size - 1)
    queue.at, queue.ended = 0, #queue.page == 0
    if queue.ended then return nil end
    queue.tickets = redis.call('HMGET', tickets, unpack(queue.page))
  end
  return queue.page[queue.at + 1], queue.tickets[queue.at + 1]
end

-- The class whose turn it is among those with someone left to look at.
local function next_class(queues, reached, size)
  local found, start, job, text
  for _, queue in ipairs(queues) do
    local at = math.max(reached, queue.again)
    if not queue.ended and (not found or at < start) then
      local first, ticket = next_of(queue, size)
      if first then found, start, job, text = queue, at, first, ticket end
    end
  end
  return found, start, job, text
end

-- All leases of one call are written together.
local function write_leases(worker, accounts, queues, out)
  if #out.granted == 0 then return end
  redis.call('HSET', held, unpack(out.held))
  redis.call('ZADD', leases, unpack(out.leases))
  redis.call('HINCRBY', load, worker, #out.granted / 3)
  for _, queue in ipairs(queues) do
    if #queue.taken > 0 then redis.call('ZREM', queue.line, unpack(queue.taken)) end
  end
  for _, account in pairs(accounts) do
    for _, scope in ipairs(account.scopes) do
      if scope.more > 0 then redis.call('HINCRBY', streams, scope.name, scope.more) end
      if scope.dirty then save(scope) end
    end
  end
end

local function lease_out(out, job, ticket, key, account, worker)
  local tokens = tokens_for(ticket, account)
  local lease = { lease = redis.call('INCR', counter), worker = worker, key = key[1],
    account = account.name, run = '', at = now, mode = account.mode, tokens = tokens, taken = {} }
  for i, scope in ipairs(scopes_for(account, ticket.model)) do
    lease.taken[i] = reserve(scope, tokens)
  end
  if ticket.tries > 0 then
    local state = account.scopes[1].state
    state[CREDIT], state[AT] = retries(state) - 1, now
  end
  if rests then note_reopened(key, ticket.model) end
  local n = #out.held
  out.held[n + 1], out.held[n + 2] = job, cjson.encode(lease)
  out.leases[n + 1], out.leases[n + 2] = out.expiry, job
  for _, part in ipairs({ job, lease.lease, key[1] }) do out.granted[#out.granted + 1] = part end
  return lease.lease
end

local function empty_buckets(accounts)
  for _, account in pairs(accounts) do
    for _, scope in ipairs(account.scopes) do
      if scope.requests then tighten(scope.requests, 0, now) end
      if scope.tokens then tighten(scope.tokens, 0, now) end
      save(scope)
    end
  end
end

-- Leases for up to `room` jobs, ms until the next one fits (nil: nobody knows), and whether nobody
-- waits any more.
local function grant_all(worker, room)
  local progress, queues = read_progress(), {}
  for i, class in ipairs(CLASSES) do
    queues[i] = { class = class, line = lines[class], page = {}, at = 0, passed = 0, taken = {},
      again = progress[1 + i], turn = progress[4 + i] }
  end
  local size = math.min(PAGE, room)
  if not next_class(queues, progress[1], size) then return {}, nil, true end

  local config = cjson.decode(ARGV[7])
  local accounts = open_accounts(config)
  open_rests()
  if redis.call('HDEL', epoch, 'empty') == 1 then empty_buckets(accounts) end
  local out = { granted = {}, held = {}, leases = {}, expiry = math.floor(now + ARGV[4]) }
  local claimed, soonest, head, looked = {}, nil, nil, 0
  local first = tonumber(redis.call('GET', counter) or 0)
  while room > 0 and looked < LOOK do
    local queue, start, job, text = next_class(queues, progress[1], size)
    if not queue then break end
    local ticket = cjson.decode(text)
    local key, other, open = best_key(config[1], accounts, ticket, claimed, first)
    queue.at, queue.passed = queue.at + 1, queue.passed + 1
    if key then
      first = lease_out(out, job, ticket, key, accounts[key[3]], worker)
      queue.taken[#queue.taken + 1] = job
      progress[1], queue.again = start, start + ticket.cost / WEIGHTS[queue.class]
      queue.turn = math.max(queue.turn, ticket.turn)
      room = room - 1
    else
      looked, size = looked + 1, PAGE
      if other.wait < math.huge then soonest = math.min(soonest or math.huge, other.wait) end
      head = head or { job = job, reason = other.reason, at = now,
        ['until'] = other.wait < math.huge and now + other.wait or nil }
      -- What comes next on that account is for this job: smaller ones do not overtake it for ever.
      if other.paced then claimed[other.account] = true end
      if not open then break end
    end
  end

  write_leases(worker, accounts, queues, out)
  local count = #out.granted / 3
  if count > 0 then
    for i, queue in ipairs(queues) do progress[1 + i], progress[4 + i] = queue.again, queue.turn end
    local gap = progress[8] > 0 and (now - progress[8]) / count or 0
    progress[8], progress[9] = now, progress[9] + (gap - progress[9]) / 8
    write_progress(progress)
  end
  if head then
    redis.call('SET', blocked, cjson.encode(head), 'PX', 60000)
  elseif count > 0 then
    redis.call('DEL', blocked)
  end
  return out.granted, soonest, not head and room > 0
end
