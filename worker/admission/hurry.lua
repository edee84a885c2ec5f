-- Put a job that waits, and has only to be closed, at the head of its class: at once, and for no
-- tokens of any limit.
--
-- KEYS     the pool's
-- ARGV[1]  job id
-- Returns  1 when it waits, 0 when it is held or not in the line
-- include pool
-- include tickets
-- include waking
local job = ARGV[1]

local ticket = decoded(redis.call('HGET', tickets, job))
if not ticket or redis.call('HEXISTS', held, job) == 1 then return 0 end
ticket.turn, ticket.tries, ticket.prompt, ticket.cap = 0, 0, 0, 0
redis.call('HSET', tickets, job, cjson.encode(ticket))
redis.call('ZREM', delayed, job)
stand_in_line(job, ticket)
if not somebody_wakes_soon() then wake(nudge, 'cancel', 64) end
return 1
