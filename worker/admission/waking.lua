-- When somebody wakes up by itself, and what tenants are charged. Needs pool, tickets.
local SOON_MS = 100

local function somebody_wakes_soon()
  local at = tonumber(string.match(redis.call('GET', alarm) or '', '^%S+') or 0)
  return at >= now and at <= now + SOON_MS
end

-- Charge the tenant with more or fewer tokens than it was.
local function correct_turn(ticket, tokens)
  local field = ticket.class .. '/' .. ticket.tenant
  if tokens ~= 0 and redis.call('HEXISTS', turns, field) == 1 then
    redis.call('HINCRBYFLOAT', turns, field, tokens / (ticket.weight or 1))
  end
end

local function line_is_empty()
  return redis.call('EXISTS', urgent, normal, bulk) == 0
end
