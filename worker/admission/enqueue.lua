-- Put a job into the waiting line. Repeating it changes nothing.
--
-- KEYS     the pool's
-- ARGV[1]  job id
-- ARGV[2]  milliseconds it may not be granted for, 0 for none
-- ARGV[3]  its ticket without turn and cost, JSON
-- Returns  1 when it entered the line, 0 when it was there or runs
-- include pool
-- include tickets
-- include progress
-- include waking
-- The turn a class has come to.
local function turn_of(class, progress)
  for i, name in ipairs(CLASSES) do
    if name == class then return progress[4 + i] end
  end
end

local job, wait_ms, ticket = ARGV[1], tonumber(ARGV[2]), cjson.decode(ARGV[3])

if redis.call('HEXISTS', tickets, job) == 1 or redis.call('HEXISTS', held, job) == 1 then return 0 end
-- Start-time fair queueing: a tenant's jobs follow each other at the distance of their cost, and
-- none begins before the class has come to where it is now, so that idle time is not saved up.
local tenant, progress = ticket.class .. '/' .. ticket.tenant, read_progress()
local turn = math.max(turn_of(ticket.class, progress), tonumber(redis.call('HGET', turns, tenant) or 0))
-- Where turns are equal, who came first is first.
progress[12] = (progress[12] + 1) % 1000000
write_progress(progress)
ticket.turn = turn + progress[12] / 1000000
local input, output = expected_tokens(ticket, decoded(redis.call('HGET', sizes, ticket.kind)))
ticket.cost = math.max(1, input + output)
ticket.tries = 0
redis.call('HSET', turns, tenant,
  string.format('%.3f', turn + ticket.cost / (ticket.weight or 1)))
redis.call('HSET', tickets, job, cjson.encode(ticket))
if wait_ms > 0 then
  redis.call('ZADD', delayed, math.floor(now + wait_ms), job)
else
  stand_in_line(job, ticket)
end
-- One wake-up for one sleeper, unless one is about to wake up anyhow. The bound keeps wake-ups
-- nobody needs from piling up.
if not somebody_wakes_soon() then wake(nudge, 'submit', 64) end
return 1
