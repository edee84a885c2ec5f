-- Note in a job's record up to which attempt its spending is in the books.
--
-- KEYS[1]  record, a hash
-- ARGV[1]  attempt
-- Returns  1, or 0 when there is no record any more
local record, upto = KEYS[1], tonumber(ARGV[1])

if redis.call('EXISTS', record) == 0 then return 0 end
if upto > tonumber(redis.call('HGET', record, 'booked') or 0) then
  redis.call('HSET', record, 'booked', upto)
end
return 1
