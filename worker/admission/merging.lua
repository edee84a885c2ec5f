-- Let accounts that turned out to be others' share those's limits. Needs offers; `merged` is what is
-- stored of them, see organisations.
local other_of = cjson.decode(merged)
for key = 1, KEYS_OF do
  local other = other_of[account_of(key)]
  for of = 1, other and KEYS_OF or 0 do
    if account_of(of) == other then
      PLACES[2 * key - 1], PLACES[2 * key] = PLACES[2 * of - 1], PLACES[2 * of]
    end
  end
end
