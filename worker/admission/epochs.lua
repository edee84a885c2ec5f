-- Noticing that the store lost its state: whoever knows another epoch than the store's own
-- remembers more than it does. Needs pool.

-- The epoch, whether buckets count as empty from now on, when somebody was seen last, and whether
-- the caller does not know this epoch: what it holds was granted by a state that is gone, or it
-- holds nothing yet.
local function meet(known)
  local id, empty, seen = unpack(redis.call('HMGET', epoch, 'id', 'empty', 'seen'))
  if id and known == id then return id, empty, seen, false end
  if not id then
    id = string.format('%.3f', now)
    redis.call('HSET', epoch, 'id', id)
  end
  if known ~= '' and redis.call('HSETNX', epoch, 'lost:' .. known, 1) == 1 then
    redis.call('HSET', epoch, 'empty', 1)
    empty = 1
  end
  return id, empty, seen, true
end
