-- Write down what earlier attempts of a job have used. Repeating it changes nothing. What they left
-- behind at the provider is dealt with then.
--
-- KEYS[1]  record, a hash
-- ARGV[1]  the last attempt that is accounted for with this
-- ARGV[2+] attempt and what it used, JSON
-- Returns  1, or 0 when there is no record
local record, upto = KEYS[1], tonumber(ARGV[1])

if redis.call('EXISTS', record) == 0 then return 0 end
for i = 2, #ARGV, 2 do redis.call('HSETNX', record, 'spent:' .. ARGV[i], ARGV[i + 1]) end
if upto > tonumber(redis.call('HGET', record, 'accounted') or 0) then
  redis.call('HSET', record, 'accounted', upto)
end
local left = redis.call('HGET', record, 'left')
if left then
  local others = {}
  for attempt, point in pairs(cjson.decode(left)) do
    if tonumber(attempt) > upto then others[attempt] = point end
  end
  if next(others) then
    redis.call('HSET', record, 'left', cjson.encode(others))
  else
    redis.call('HDEL', record, 'left')
  end
end
return 1
