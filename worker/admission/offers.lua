-- What a pool has to offer, in arguments from OFFERS on; see offers.py. Needs OFFERS.
--
--   keys, scopes       how many there are of each
--   alias...           of the keys
--   name...            of the scopes: an account's own limits, then those of its families of models
--   places             doubles: the number of its account's first scope and how many, for each key
--   hot                doubles: streams and the room of the pace (ms), for each scope
--   numbers            doubles: nine for each scope; see open_scope
--   rare               JSON: fingerprints of the keys, and Lua patterns of the scopes' models
local KEYS_OF, SCOPES = tonumber(ARGV[OFFERS]), tonumber(ARGV[OFFERS + 1])
local ALIASES = OFFERS + 1
local NAMES = ALIASES + KEYS_OF
local PLACES = { struct.unpack('<' .. string.rep('d', 2 * KEYS_OF), ARGV[NAMES + SCOPES + 1]) }
local HOT, NUMBERS, RARE = NAMES + SCOPES + 2, NAMES + SCOPES + 3, NAMES + SCOPES + 4
local MODES = { [0] = 'refund', 'admission', 'produced' }

-- Fingerprints and patterns, for those who need them.
local rare
local function prints() rare = rare or cjson.decode(ARGV[RARE]); return rare[1] end
local function patterns() rare = rare or cjson.decode(ARGV[RARE]); return rare[2] end

local function account_of(key) return ARGV[NAMES + PLACES[2 * key - 1]] end

-- The scopes of a key's account that count a model.
local function scopes_for(key, model)
  local first, count = PLACES[2 * key - 1], PLACES[2 * key]
  local found = { first }
  for scope = first + 1, first + count - 1 do
    if string.find(model, patterns()[scope]) then found[#found + 1] = scope end
  end
  return found
end
