-- Begin an attempt: raise the fence, say in the log why it exists, and who died before it.
--
-- KEYS[1]  log, a stream; created here and nowhere else
-- KEYS[2]  record, a hash
-- ARGV[1]  lease number; an older one than the last is refused, the same one is a repeated
--          call whose reply was lost and gets the same answer
-- ARGV[2]  worker
-- ARGV[3]  key alias
-- ARGV[4]  'run', or 'close' to only seal a job that nobody runs
-- ARGV[5]  base and
-- ARGV[6]  offset to keep when closing
-- Returns  {'unknown'}, {'ended'}, {'stale'}, {'running'} (when closing), or
--          {'claimed', attempt, payload of N-0, crashes, cancel_ms, failures}
local log, record = KEYS[1], KEYS[2]
local lease, worker, key, purpose = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

local state, held, model, crashes, cancelled, why, failures = unpack(redis.call('HMGET', record,
  'state', 'lease', 'model', 'crashes', 'cancel_ms', 'why', 'failures'))
crashes, cancelled, failures = tonumber(crashes or 0), tonumber(cancelled or 0), tonumber(failures or 0)

if not state then return { 'unknown' } end
if state == 'ended' then return { 'ended' } end
if purpose == 'close' and state == 'running' then return { 'running' } end
if purpose == 'run' and held and lease < tonumber(held) then return { 'stale' } end
if purpose == 'run' and held and lease == tonumber(held) and state == 'running' then
  local current = tonumber(redis.call('HGET', record, 'attempt'))
  local first = redis.call('XRANGE', log, current .. '-0', current .. '-0')[1]
  return { 'claimed', current, first[2][2], crashes, cancelled, failures }
end

local reason = why or ''
if state == 'running' then
  crashes = crashes + 1
  local before = redis.call('HGET', record, 'worker') or '?'
  reason = 'worker lost: ' .. before
  redis.call('HSET', record, 'crashes', crashes, 'crash:' .. crashes, before)
end

local attempt = redis.call('HINCRBY', record, 'attempt', 1)
local entry = { type = 'attempt', mode = attempt == 1 and 'start' or 'restart', base = '0-0',
  offset = 0, worker = worker, key = key, model = model or '', reason = reason }
if purpose == 'close' then
  entry.mode, entry.base, entry.offset = 'close', ARGV[5], tonumber(ARGV[6])
else
  redis.call('HSET', record, 'lease', lease)
end
local payload = cjson.encode(entry)
redis.call('XADD', log, attempt .. '-0', 'e', payload)

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSETNX', record, 'started_ms', now)
redis.call('HSET', record, 'state', 'running', 'worker', worker, 'key', key, 'attempt_ms', now)
redis.call('HDEL', record, 'why')
return { 'claimed', attempt, payload, crashes, cancelled, failures }
