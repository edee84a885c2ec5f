-- A job's ticket: what the line knows of it, from submit to the last settle.
--
-- { turn, class, tenant, weight, model, kind, prompt, cap, cost, tries, avoid, sticky }
--   turn    virtual time at which it is this job's turn within its class
--   weight  of its tenant, absent for 1
--   kind    task, model and effort: whose answers its own will be like
--   prompt  tokens of the prompt; cap: the most it may answer, absent when not limited
--   cost    tokens its tenant was charged with
--   tries   how often a provider sent it back; avoid: a key it does not go to again
--   sticky  the only key it may run on

-- Tokens a job will take: the prompt as its kind's turned out to be estimated, and the answer; both
-- the mean and twice the deviation, the answer its cap at most. `size` nil: none of its kind ended.
-- An answer of an unknown kind counts as 2,000.
local function expected_tokens(ticket, size)
  local output = size and size.mean + 2 * size.deviation or 2000
  local share = size and size.share and size.share + 2 * size.share_deviation or 1
  return math.ceil(ticket.prompt * share), math.ceil(math.min(output, ticket.cap or output))
end

local function stand_in_line(job, ticket)
  redis.call('ZADD', lines[ticket.class], ticket.turn, job)
end
