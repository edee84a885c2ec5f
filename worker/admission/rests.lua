-- What is kept out of use, and why. Needs pool.
--
-- A rest is { since, ["until"], cause, kind, strikes, open, out, at, print, suspect }, under
-- 'account NAME', 'key ALIAS' or 'model ACCOUNT MODEL'. After its end it is open for one stream, and
-- for twice as many with each that gets an answer; `out` are under way, the last since `at`. Its
-- strikes are remembered for ten minutes.
local FOR_EVER = 9007199254740991
local MEMORY_MS = 600000
-- Open for this many it is open for all; one stream more may go when nothing is heard for so long.
local WIDE, SILENCE_MS = 64, 10000

local function is_over(rest) return now > rest['until'] + MEMORY_MS end

local function reopening(rest) return rest.open <= WIDE and not is_over(rest) end

-- Milliseconds until one more job may go there, 0 for now.
local function resting(rest)
  if now < rest['until'] then return rest['until'] - now end
  if rest.out < rest.open or not reopening(rest) then return 0 end
  return math.max(0, rest.at + SILENCE_MS - now)
end

-- A stream that went where something reopens has got an answer, or ended.
local function report(lease, has_answer)
  if not lease.probes or lease.reported then return end
  lease.reported = true
  for _, name in ipairs(lease.probes) do
    local rest = decoded(redis.call('HGET', rests_of, name))
    if rest and lease.at >= rest['until'] then
      rest.out = math.max(0, rest.out - 1)
      if has_answer then rest.open = rest.open * 2 end
      redis.call('HSET', rests_of, name, cjson.encode(rest))
    end
  end
end

-- Out for good, until its secret changes or somebody enables it.
local function condemn(alias)
  local name = 'key ' .. alias
  local rest = decoded(redis.call('HGET', rests_of, name))
  if not rest then return end
  rest['until'], rest.suspect = FOR_EVER, nil
  redis.call('HSET', rests_of, name, cjson.encode(rest))
end
