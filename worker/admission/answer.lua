-- What a provider's refusal of one lease means for everybody: something rests for a while, a limit
-- turns out to be lower, a key may be bad. The lease itself stays; settle it afterwards.
--
-- KEYS     the pool's
-- ARGV[1]  job id
-- ARGV[2]  lease number
-- ARGV[3]  what rests: 'account', 'key', 'model', 'day': the account until its day is over, or
--          'request': the key, but never until repaired
-- ARGV[4]  kind: 'rate', 'overload', 'quota' or 'auth'
-- ARGV[5]  ms to rest as the provider said, -1 when it did not
-- ARGV[6]  first rest when it said nothing, ms; doubled by every further strike
-- ARGV[7]  longest such rest, ms
-- ARGV[8]  a number from 1 to 1.05 to stretch the rest with: keys of one incident part
-- ARGV[9]  the cause, for people
-- ARGV[10] the dimension that was hit: 'requests', 'tokens', 'streams' or ''
-- ARGV[11+] the pool's keys and limits; see offers.lua
-- Returns  'back' when the job should go back into the line, 'fail' when the request itself is
--          refused; 'tired' when it has been sent away too often for this to cost nothing; '' when
--          the lease is gone
local OFFERS = 11
-- include pool
-- include offers
-- include buckets
-- include states
-- include days
-- include limits
-- include scopes
-- include rests
-- include spent
local job, kind = ARGV[1], ARGV[4]
-- Overload sends a job back for nothing this many times.
local TIRED = 30
-- A limit nobody configured is not believed to be lower than this, a minute.
local LEAST = { requests = 60, tokens = 1000 }
local lease = decoded(redis.call('HGET', held, job))
if not lease or lease.lease ~= tonumber(ARGV[2]) then return '' end
if lease.answer then return lease.answer end

local ticket = decoded(redis.call('HGET', tickets, job))
local model = ticket and ticket.model or ''

local function answered(verdict)
  lease.answer = verdict
  redis.call('HSET', held, job, cjson.encode(lease))
  return verdict
end

local function rest(name, ms, more)
  local found = decoded(redis.call('HGET', rests_of, name))
  if not found or is_over(found) then found = { strikes = 0, since = 0, ['until'] = 0 } end
  -- What was granted before the rest began belongs to the same incident.
  local is_new = lease.at >= found.since
  if is_new then found.strikes = found.strikes + 1 end
  if ms < 0 then ms = math.min(ARGV[7], ARGV[6] * 2 ^ (math.max(1, found.strikes) - 1)) end
  ms = ms * ARGV[8]
  if is_new or now + ms > found['until'] then
    if now >= found['until'] then found.since = now end
    found.open, found.out, found.at = 1, 0, 0
    found['until'] = math.max(found['until'], now + ms)
    found.cause, found.kind = ARGV[9], kind
  end
  for field, value in pairs(more or {}) do found[field] = value end
  redis.call('HSET', rests_of, name, cjson.encode(found))
  return is_new
end

-- The provider's limit is lower than the one we kept to, or there is one where we knew of none: what
-- was used of it when it was met.
local function learn(dimension)
  local scope, learned = narrowest_scope(lease.account, ticket)
  if not scope then return end
  local lower
  if dimension == 'streams' then
    lower = math.max(1, scope.state[USED] - 1)
  else
    local bucket = scope[dimension]
    forget(bucket, scope.state, now)
    local used = scope.state[bucket.at + 1] - (dimension == 'tokens' and lease.tokens or 1)
    if bucket.limit > 0 then
      -- With little used it was somebody else who used it, or seconds that are counted: that is vague.
      lower = used < bucket.limit * 0.4 and bucket.limit * 0.9 or math.min(bucket.limit * 0.95, used)
    else
      lower = math.max(LEAST[dimension] * bucket.piece_ms * PIECES / 60000, used)
    end
    lower = math.max(1, lower)
  end
  learned[dimension] = { lower, now }
  write_learned(scope, learned)
end

if kind == 'auth' then
  local name, print, others = 'key ' .. lease.key, '', 0
  for key = 1, KEYS_OF do
    local alias = ARGV[ALIASES + key]
    if alias == lease.key then
      print = prints()[key]
    else
      local other = decoded(redis.call('HGET', rests_of, 'key ' .. alias))
      if not (other and other.print == prints()[key] and now < other['until']) then
        others = others + 1
      end
    end
  end
  local before = ticket and ticket.avoid
  if before and before ~= lease.key then
    -- Two keys refuse the same request.
    redis.call('HDEL', rests_of, 'key ' .. before)
    return answered('fail')
  end
  if others == 0 or not ticket then
    if ARGV[3] == 'key' then rest(name, FOR_EVER - now, { print = print, ['until'] = FOR_EVER }) end
    return answered('fail')
  end
  ticket.avoid = lease.key
  redis.call('HSET', tickets, job, cjson.encode(ticket))
  rest(name, -1, { print = print, suspect = job })
  return answered('back')
end

local ms, name = tonumber(ARGV[5]), ARGV[3] .. ' ' .. lease.account
if ARGV[3] == 'model' then name = name .. ' ' .. model end
if ARGV[3] == 'day' then
  name = 'account ' .. lease.account
  local scope = ms < 0 and narrowest_scope(lease.account, nil)
  -- A day that rolls says nothing of its end: it is tried again like any other limit.
  if scope and not scope.is_rolling then ms = DAY_MS - (now + scope.day_ms) % DAY_MS end
end
local is_new = rest(name, ms)
if kind == 'rate' then
  count_spent(lease.account, 'refused', 1)
  if is_new and ARGV[10] ~= '' then learn(ARGV[10]) end
end
-- Whoever is overloaded for ever is out of order: from then on that costs attempts.
return answered(kind == 'overload' and ticket and ticket.tries >= TIRED and 'tired' or 'back')
