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
-- ARGV[11] the pool's keys and limits, JSON; see offers.py
-- Returns  'back' when the job should go back into the line, 'fail' when the request itself is
--          refused; '' when the lease is gone
-- include pool
-- include states
-- include buckets
-- include rests
-- include limits
local job, kind = ARGV[1], ARGV[4]
local lease = decoded(redis.call('HGET', held, job))
if not lease or lease.lease ~= tonumber(ARGV[2]) then return '' end
if lease.answer then return lease.answer end

local config = cjson.decode(ARGV[11])
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
    if now >= found['until'] then found.since, found.reopened = now, 0 end
    found['until'] = math.max(found['until'], now + ms)
    found.cause, found.kind = ARGV[9], kind
  end
  for field, value in pairs(more or {}) do found[field] = value end
  redis.call('HSET', rests_of, name, cjson.encode(found))
  return is_new
end

-- The provider's limit is lower than the one we kept to.
local function learn(dimension)
  local account = open_accounts(config)[lease.account]
  if not account then return end
  local scopes = scopes_for(account, model)
  local scope = scopes[#scopes]
  local lower
  if dimension == 'streams' then
    lower = math.max(1, scope.used - 1)
  elseif scope[dimension] then
    lower = math.max(1, scope[dimension].limit * 0.9)
  end
  if not lower then return end
  local learned = decoded(redis.call('HGET', learned_of, scope.name)) or {}
  learned[dimension] = { lower, now }
  redis.call('HSET', learned_of, scope.name, cjson.encode(learned))
end

if kind == 'auth' then
  local name, print, others = 'key ' .. lease.key, '', 0
  for _, key in ipairs(config[1]) do
    if key[1] == lease.key then
      print = key[2]
    else
      local other = decoded(redis.call('HGET', rests_of, 'key ' .. key[1]))
      if not (other and other.print == key[2] and now < other['until']) then
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
  for _, account in ipairs(config[2]) do
    if ms < 0 and account[1] == lease.account then
      ms = 86400000 - (now + account[3]) % 86400000
    end
  end
end
local is_new = rest(name, ms)
if kind == 'rate' then
  count_spent(lease.account, 'refused', 1)
  if is_new and ARGV[10] ~= '' then learn(ARGV[10]) end
end
return answered('back')
