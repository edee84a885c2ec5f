-- End a lease: free its slot, correct its charge, and put the job back into the line or take it
-- out for good.
--
-- KEYS     the pool's
-- ARGV[1]  job id
-- ARGV[2]  lease number
-- ARGV[3]  'done' or 'back'
-- ARGV[4]  ms a job put back may not be granted for, 0 for none; it keeps its turn
-- ARGV[5]  tokens the prompt took, -1 when not known
-- ARGV[6]  tokens the answer took, -1 when not known
-- ARGV[7]  'refused' when the provider sent the job away, 'answered' when it gave the whole answer
-- ARGV[8]  the only key the job may run on from now, '' for any, '-' for what held before
-- Returns  1 when settled, 0 when the lease was settled or lost before
-- include pool
-- include tickets
-- include waking
-- include buckets
-- include states
-- include days
-- include leases
-- include rests
-- include spent
local job, wait_ms = ARGV[1], tonumber(ARGV[4])
local input, output, how = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]

local lease = decoded(redis.call('HGET', held, job))
if not lease or lease.lease ~= tonumber(ARGV[2]) then return 0 end
local room = tonumber(redis.call('HGET', slots, lease.worker) or 0)
local used_slots = tonumber(redis.call('HGET', load, lease.worker) or 0)
local used = input >= 0 and output >= 0 and input + output or nil
free(job, lease, used, lease.run == '')
report(lease, how == 'answered')

local ticket = decoded(redis.call('HGET', tickets, job))
if used and used > 0 then
  count_spent(lease.account, 'tokens', used)
  if ticket then correct_turn(ticket, ARGV[3] == 'done' and used - ticket.cost or used) end
end

-- What is usual, and how far one is from it, mostly.
local function learn(size, mean, deviation, value)
  size[deviation] = size[deviation] + (math.abs(value - size[mean]) - size[deviation]) / 4
  size[mean] = size[mean] + (value - size[mean]) / 8
end

if how == 'answered' and ticket then
  local size = decoded(redis.call('HGET', sizes, ticket.kind)) or {}
  if output > 0 and not size.mean then
    size.mean, size.deviation = output, output / 2
  elseif output > 0 then
    learn(size, 'mean', 'deviation', output)
  end
  if input > 0 and ticket.prompt > 0 then
    -- The estimate is believed until answers say otherwise.
    if not size.share then size.share, size.share_deviation = 1, 0 end
    learn(size, 'share', 'share_deviation', input / ticket.prompt)
  end
  if size.mean then redis.call('HSET', sizes, ticket.kind, cjson.encode(size)) end
  local state = read_state(redis.call('HGET', buckets_of, lease.account))
  if state[AT] > 0 and state[CREDIT] < RETRIES then
    state[CREDIT], state[AT] = math.min(RETRIES, retries(state) + EARNED), now
    write_state(lease.account, state)
  end
  -- Another key answered what this one refused: the key was at fault, not the request.
  if ticket.avoid then condemn(ticket.avoid) end
end

if ARGV[3] == 'done' then
  redis.call('HDEL', tickets, job)
else
  if ticket then
    if how == 'refused' then ticket.tries = ticket.tries + 1 end
    if ARGV[8] ~= '-' then ticket.sticky = ARGV[8] ~= '' and ARGV[8] or nil end
    redis.call('HSET', tickets, job, cjson.encode(ticket))
  end
  return_to_line(job, lease, wait_ms)
end

-- A worker that was full hears of its free slot, and takes what became free with it; else any worker
-- that sleeps will do. One that gives its job back may be shutting down and take nothing any more.
local was_full = room > 0 and used_slots >= room
if was_full then
  local inbox = inboxes .. ':' .. lease.worker
  wake(inbox, 'slot', 1024)
  redis.call('EXPIRE', inbox, 3600)
end
if ARGV[3] == 'back'
    or not was_full and not line_is_empty() and not somebody_wakes_soon() then
  wake(nudge, 'settle', 64)
end
return 1
