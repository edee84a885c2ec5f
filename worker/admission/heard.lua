-- What an answer's headers say of the limits; it only ever tightens what we keep to.
--
-- KEYS     the pool's
-- ARGV[1]  job id
-- ARGV[2]  lease number
-- ARGV[3]  the pool's keys and limits, JSON; see offers.py
-- ARGV[4+] dimension ('requests' or 'tokens'), limit, remaining (-1: not said), for each
-- Returns  1 when it was newer than what was heard before, else 0
-- include pool
-- include states
-- include buckets
-- include limits
local lease = decoded(redis.call('HGET', held, ARGV[1]))
if not lease or lease.lease ~= tonumber(ARGV[2]) then return 0 end
local account = open_accounts(cjson.decode(ARGV[3]))[lease.account]
if not account then return 0 end
local ticket = decoded(redis.call('HGET', tickets, ARGV[1]))
local scopes = scopes_for(account, ticket and ticket.model or '')
local scope = scopes[#scopes]
-- An older request's answer knows less than a newer one's.
if scope.state[HEARD] > lease.lease then return 0 end
scope.state[HEARD] = lease.lease

local learned = decoded(redis.call('HGET', learned_of, scope.name)) or {}
for i = 4, #ARGV, 3 do
  local dimension, limit, remaining = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local bucket = scope[dimension]
  if bucket then
    if limit > 0 then
      local known = limit * bucket.period / 60000
      if known < bucket.limit then learned[dimension] = { known, now } end
    end
    if remaining >= 0 then tighten(bucket, remaining, now) end
  end
end
if next(learned) then redis.call('HSET', learned_of, scope.name, cjson.encode(learned)) end
save(scope)
return 1
