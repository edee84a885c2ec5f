-- What was used before is not known any more, so all of it counts as used. Needs picking.
-- include tightening
local changed = {}
for number = 1, SCOPES do
  local scope = opening(number)
  for _, bucket in ipairs({ scope.requests, scope.tokens }) do
    if bucket.limit > 0 then use_up(bucket, scope.state, now) end
  end
  measure(number, scope.state[USED], scope.state[RT], scope.state[TT])
  add_changed(scope, changed)
end
redis.call('HSET', buckets_of, unpack(changed))
redis.call('HDEL', epoch, 'empty')
