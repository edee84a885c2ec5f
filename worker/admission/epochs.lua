-- Noticing that the store lost its state: whoever knows another epoch than the store's own
-- remembers more than it does. Needs pool.

-- The epoch, whether the caller does not know it: what it holds was granted by a state that is gone,
-- or it holds nothing yet; when somebody was seen last, whether buckets count as empty from now on,
-- and which accounts are merged.
local function meet(known)
  local id, seen, empty, merged = unpack(
    redis.call('HMGET', epoch, 'id', 'seen', 'empty', 'merged'))
  if id and known == id then return id, false, seen, empty, merged end
  if not id then
    id = string.format('%.3f', now)
    redis.call('HSET', epoch, 'id', id)
  end
  if known ~= '' and redis.call('HSETNX', epoch, 'lost:' .. known, 1) == 1 then
    redis.call('HSET', epoch, 'empty', 1)
    empty = 1
  end
  return id, true, seen, empty, merged
end
