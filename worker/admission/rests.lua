-- What is kept out of use, and why. Needs pool.
--
-- A rest is { since, ["until"], cause, kind, strikes, reopened, print, suspect }, under
-- 'account NAME', 'key ALIAS' or 'model ACCOUNT MODEL'. After its end it reopens with one job,
-- then two, doubling every half second; its strikes are remembered for ten minutes.
local FOR_EVER = 9007199254740991
local STEP_MS, STEPS, MEMORY_MS = 500, 7, 600000

-- Milliseconds until one more job may go there, 0 for now.
local function resting(rest)
  if now < rest['until'] then return rest['until'] - now end
  local step = math.floor((now - rest['until']) / STEP_MS)
  if step >= STEPS or (rest.reopened or 0) < 2 ^ step then return 0 end
  return rest['until'] + STEP_MS * (step + 1) - now
end

local function reopening(rest)
  return now < rest['until'] + STEP_MS * STEPS
end

local function is_over(rest) return now > rest['until'] + MEMORY_MS end

local function condemn(alias)
  local name = 'key ' .. alias
  local rest = decoded(redis.call('HGET', rests_of, name))
  if not rest then return end
  rest['until'], rest.suspect = FOR_EVER, nil
  redis.call('HSET', rests_of, name, cjson.encode(rest))
end

-- Quantities of the last hour are kept in pieces of five minutes.
local PIECE_MS = 300000

local function count_spent(account, quantity, amount)
  local piece = math.floor(now / PIECE_MS)
  local field = account .. '|' .. quantity .. '|' .. piece
  if redis.call('HINCRBY', spent, field, math.floor(amount)) > amount then return end
  for _, old in ipairs(redis.call('HKEYS', spent)) do
    if tonumber(string.match(old, '%d+$')) < piece - 12 then redis.call('HDEL', spent, old) end
  end
end
