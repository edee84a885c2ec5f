-- Quantities of the last hour, kept in pieces of five minutes. Needs pool.
local PIECE_MS = 300000

local function count_spent(account, quantity, amount)
  local piece = math.floor(now / PIECE_MS)
  local field = account .. '|' .. quantity .. '|' .. piece
  if redis.call('HINCRBY', spent, field, math.floor(amount)) > amount then return end
  for _, old in ipairs(redis.call('HKEYS', spent)) do
    if tonumber(string.match(old, '%d+$')) < piece - 12 then redis.call('HDEL', spent, old) end
  end
end
