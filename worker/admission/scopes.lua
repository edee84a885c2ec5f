-- The one scope that a refusal or a header speaks of. Needs pool, offers, limits.

-- The scope with the narrowest limits that counts the ticket's model, and what was learned of it.
local function narrowest_scope(account, ticket)
  for key = 1, KEYS_OF do
    if account_of(key) == account then
      local scopes = scopes_for(key, ticket and ticket.model or '')
      local number = scopes[#scopes]
      local name = ARGV[NAMES + number]
      local learned = decoded(redis.call('HGET', learned_of, name)) or {}
      return open_scope(number, redis.call('HGET', buckets_of, name), learned), learned
    end
  end
end

local function write_learned(scope, learned)
  if next(learned) then redis.call('HSET', learned_of, scope.name, cjson.encode(learned)) end
end
