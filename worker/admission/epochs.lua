-- Noticing that the store lost its state: whoever knows another epoch than the store's own
-- remembers more than it does. Needs pool.

-- The epoch, and whether the caller's leases were granted by a state that is gone.
local function meet(known)
  local id = redis.call('HGET', epoch, 'id')
  if not id then
    id = exact(now)
    redis.call('HSET', epoch, 'id', id)
  end
  if known == '' or known == id then return id, false end
  -- What was used before is not known any more, so all of it counts as used.
  if redis.call('HSETNX', epoch, 'lost:' .. known, 1) == 1 then
    redis.call('HSET', epoch, 'empty', 1)
  end
  return id, true
end
