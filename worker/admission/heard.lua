-- What an answer's headers say of the limits; it only ever tightens what we keep to.
--
-- KEYS     the pool's
-- ARGV[1]  job id
-- ARGV[2]  lease number
-- ARGV[3]  what was said, JSON: the organisation ('' not said), then dimension ('requests' or
--          'tokens'), limit, remaining (-1: not said), for each
-- ARGV[4+] the pool's keys and limits; see offers.lua
-- Returns  {1 when it was newer than what was heard before, else 0; then, when the key's account
--          turns out to be another's: its name, and that of the other}
local OFFERS = 4
-- include pool
-- include offers
-- include buckets
-- include tightening
-- include states
-- include days
-- include limits
-- include scopes
-- include organisations
local lease = decoded(redis.call('HGET', held, ARGV[1]))
if not lease or lease.lease ~= tonumber(ARGV[2]) then return { 0 } end
local scope, learned = narrowest_scope(lease.account, decoded(redis.call('HGET', tickets, ARGV[1])))
if not scope then return { 0 } end
-- An older request's answer knows less than a newer one's.
if scope.state[HEARD] > lease.lease then return { 0 } end
scope.state[HEARD] = lease.lease

local said = cjson.decode(ARGV[3])
for i = 2, #said, 3 do
  local bucket, limit, remaining = scope[said[i]], said[i + 1], said[i + 2]
  if limit > 0 then
    local known = limit * bucket.piece_ms * PIECES / 60000
    -- A limit that was found to be lower than this holds.
    if bucket.limit == 0 or known < bucket.limit then
      learned[said[i]], bucket.limit = { known, now }, known
    end
  end
  if remaining >= 0 and bucket.limit > 0 then tighten(bucket, scope.state, remaining, now) end
end
write_learned(scope, learned)
write_state(scope.name, scope.state)
return { 1, unpack(find_organisation(lease.key, said[1])) }
