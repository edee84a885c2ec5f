-- Accounts that turn out to be one, since the provider names one organisation for their keys. Needs
-- pool, offers. Which account is whose stands in the epoch: 'org NAME', and 'merged' for all, JSON.

-- Note whose key it is. The account of the pool's first key of an organisation is that of all its
-- keys; returns { account, its other } when that is news of this key's account, else {}.
local function find_organisation(alias, organisation)
  local own
  for key = 1, KEYS_OF do
    if ARGV[ALIASES + key] == alias then own = account_of(key) end
  end
  if organisation == '' or not own then return {} end
  if redis.call('HGET', epoch, 'org ' .. own) == organisation then return {} end
  redis.call('HSET', epoch, 'org ' .. own, organisation)
  local first, merged = {}, {}
  for key = 1, KEYS_OF do
    local account = account_of(key)
    local whose = redis.call('HGET', epoch, 'org ' .. account)
    if whose then
      first[whose] = first[whose] or account
      if first[whose] ~= account then merged[account] = first[whose] end
    end
  end
  if next(merged) then
    redis.call('HSET', epoch, 'merged', cjson.encode(merged))
  else
    redis.call('HDEL', epoch, 'merged')
  end
  for account, other in pairs(merged) do
    if account == own or other == own then return { account, other } end
  end
  return {}
end
