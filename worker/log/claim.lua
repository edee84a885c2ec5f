-- Begin an attempt: raise the fence, decide what becomes of the text so far, and say in the log
-- why the attempt exists and who died before it.
--
-- The ladder: a response that goes on at the provider is taken up again, unless the text before that
-- point is lost with the log; a job that asked for it is continued behind its text; else the answer is
-- restarted. Before the first visible delta there is nothing to decide. A job that asked to fail is
-- only closed. An answer that is whole and has to be corrected is never restarted: what begins again
-- behind it is the correction. A response that goes on and is not taken up is `left` behind: its
-- point, by the last attempt that read it, until it was stopped and what it used is in the record; see
-- account.lua.
--
-- KEYS[1]  log, a stream; created here and nowhere else
-- KEYS[2]  record, a hash
-- ARGV[1]  lease number; an older one than the last is refused, the same one of the same worker is
--          a repeated call whose reply was lost and gets the same answer
-- ARGV[2]  worker
-- ARGV[3]  key alias
-- ARGV[4]  'run', or 'close' to only seal a job that is neither in the line nor held: whoever ran it
--          last is dead or without its lease
-- Returns  {'unknown'}, {'ended'}, {'stale'}, or
--          {'claimed', attempt, payload of N-0, workers that died under the job, cancel_ms,
--          failures, resume, ms left until the deadline or '', and for who watches: when the job
--          was submitted, when the attempt before began (0: none), when this one, its policy;
--          what is to be corrected, or ''; of the money {attempts accounted for, attempts
--          booked, task, ticket, cost limit}; and `left`, or ''}
local log, record = KEYS[1], KEYS[2]
local lease, worker, key, purpose = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

local state, held, model, crashes, cancelled, why, failures, resume, policy, deadline, created,
  before, repair = unpack(redis.call('HMGET', record, 'state', 'lease', 'model', 'crashes',
    'cancel_ms', 'why', 'failures', 'resume', 'on_interrupt', 'deadline_ms', 'created_ms',
    'attempt_ms', 'repair'))
local accounted, booked, task, ticket, max_cost = unpack(
  redis.call('HMGET', record, 'accounted', 'booked', 'task', 'ticket', 'max_cost_micros'))
crashes, failures = tonumber(crashes or 0), tonumber(failures or 0)
cancelled, resume, policy = tonumber(cancelled or 0), resume or '', policy or 'auto'

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function claimed(attempt, payload)
  local lost = {}
  for i = 1, crashes do lost[i] = redis.call('HGET', record, 'crash:' .. i) end
  return { 'claimed', attempt, payload, lost, cancelled, failures, resume,
    deadline and tonumber(deadline) - now or '', tonumber(created or now),
    tonumber(redis.call('HGET', record, 'before_ms') or 0),
    tonumber(redis.call('HGET', record, 'attempt_ms') or now), policy, repair or '',
    { tonumber(accounted or 0), tonumber(booked or 0), task or '', ticket or '',
      tonumber(max_cost or 0) }, redis.call('HGET', record, 'left') or '' }
end

-- Nobody will take up the response that an earlier attempt began.
local function leave_behind(last_reader)
  if resume ~= '' then
    local left = cjson.decode(redis.call('HGET', record, 'left') or '{}')
    left[last_reader] = cjson.decode(resume)
    redis.call('HSET', record, 'left', cjson.encode(left))
  end
  redis.call('HDEL', record, 'resume')
  resume = ''
end

if not state then return { 'unknown' } end
if state == 'ended' then return { 'ended' } end
if purpose == 'run' and held and lease < tonumber(held) then return { 'stale' } end
if purpose == 'run' and held and lease == tonumber(held) and state == 'running'
    and redis.call('HGET', record, 'worker') == worker then
  local current = tonumber(redis.call('HGET', record, 'attempt'))
  local first = redis.call('XRANGE', log, current .. '-0', current .. '-0')[1]
  return claimed(current, first[2][2])
end

-- Everything is read before anything is written: a log that is none must leave no trace of a claim.
-- Where the text so far ends, in characters: bytes that do not continue a UTF-8 sequence.
local base, length = '0-0', 0
local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
if last then
  local entry = cjson.decode(last[2][2])
  base, length = last[1], entry.offset
  if entry.type == 'text' then
    local _, characters = string.gsub(entry.text, '[^\128-\191]', '')
    length = length + characters
  end
end

-- What is to be corrected; not any more when the store has lost its end.
local kept = repair and cjson.decode(repair)
if kept and not redis.call('XRANGE', log, kept.base, kept.base)[1] then
  redis.call('HDEL', record, 'repair')
  repair, kept = false, nil
end
local said = length - (kept and kept.offset or 0)

local reason = why or ''
if state == 'running' then
  crashes = crashes + 1
  local lost = redis.call('HGET', record, 'worker') or '?'
  reason = 'worker lost: ' .. lost
  redis.call('HSET', record, 'crashes', crashes, 'crash:' .. crashes, lost)
end

-- A failover may have taken the counter back, and the log be repaired by who wrote it: the fence is
-- whichever is higher.
local attempt = tonumber(redis.call('HGET', record, 'attempt') or 0)
if last then attempt = math.max(attempt, tonumber(string.match(last[1], '^%d+'))) end
local last_reader = redis.call('HGET', record, 'reader') or tostring(attempt)
attempt = attempt + 1
redis.call('HSET', record, 'attempt', attempt)
local mode = attempt == 1 and 'start' or 'restart'
if purpose ~= 'run' or (policy == 'fail' and said > 0) then
  mode = 'close'
elseif resume ~= '' and policy == 'auto' and last then
  mode = 'reattach'
elseif policy == 'continue' and said > 0 then
  mode = 'continue'
end
if mode == 'restart' and kept then
  mode, base, length = 'repair', kept.base, kept.offset
elseif mode == 'start' or mode == 'restart' then
  base, length = '0-0', 0
end
if mode ~= 'close' then
  if mode ~= 'reattach' then leave_behind(last_reader) end
  redis.call('HSET', record, 'reader', attempt)
end

local payload = cjson.encode({ type = 'attempt', mode = mode, base = base, offset = length,
  after = last and last[1] or '0-0', worker = worker, key = key, model = model or '', reason = reason })

-- Adler-32, as `entries.check_of_first` reckons it.
local low, high = 1, 0
for i = 1, #payload do
  low = (low + string.byte(payload, i)) % 65521
  high = (high + low) % 65521
end
redis.call('XADD', log, attempt .. '-0', 'e', payload,
  'c', string.format('%d', high * 65536 + low))

if purpose == 'run' then redis.call('HSET', record, 'lease', lease) end
redis.call('HSETNX', record, 'started_ms', now)
if purpose == 'run' then
  redis.call('HSET', record, 'state', 'running', 'worker', worker, 'key', key, 'attempt_ms', now,
    'before_ms', before or 0)
  redis.call('HDEL', record, 'why')
else
  -- Nobody runs it. Should whoever closes it die before the seal, it can be granted and closed.
  redis.call('HSET', record, 'state', 'waiting')
end
return claimed(attempt, payload)
