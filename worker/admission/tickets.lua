-- A job's ticket: what the line knows of it, from submit to the last settle.
--
-- { turn, class, tenant, model, kind, prompt, cap, cost, tries, avoid, sticky }
--   turn    virtual time at which it is this job's turn within its class
--   kind    task, model and effort: whose answers its own will be like
--   prompt  tokens of the prompt; cap: the most it may answer, absent when not limited
--   cost    tokens its tenant was charged with
--   tries   how often a provider sent it back; avoid: a key it does not go to again
--   sticky  the only key it may run on

-- Answers of an unknown kind count as this long, in tokens, until the first one has come.
local UNKNOWN_OUTPUT = 2000

-- What an answer of this kind will take: the mean and twice the deviation, the cap at most.
local function expected_output(ticket, size)
  local expected = size and size.mean + 2 * size.deviation or UNKNOWN_OUTPUT
  return math.ceil(math.min(expected, ticket.cap or expected))
end

local function stand_in_line(job, ticket)
  redis.call('ZADD', lines[ticket.class], ticket.turn, job)
end

-- Charge the tenant with more or fewer tokens than it was.
local function correct_turn(ticket, tokens)
  local field = ticket.class .. '/' .. ticket.tenant
  if tokens ~= 0 and redis.call('HEXISTS', turns, field) == 1 then
    redis.call('HINCRBYFLOAT', turns, field, tokens)
  end
end

local SOON_MS = 100

local function somebody_wakes_soon()
  local at = tonumber(string.match(redis.call('GET', alarm) or '', '^%S+') or 0)
  return at >= now and at <= now + SOON_MS
end

local function line_is_empty()
  return redis.call('EXISTS', urgent, normal, bulk) == 0
end
