-- The limits of scopes, and how far they are used. Needs pool, offers, buckets, states, days.

-- A limit that was learned grows by this share a minute until it is the configured one again.
local REGROWTH = 0.02
-- What fits but for this much, fits.
local EPSILON_MS = 0.01

-- Limits that were learned, by the names of scopes; nil when there are none.
local function read_learned()
  local flat = redis.call('HGETALL', learned_of)
  if #flat == 0 then return nil end
  local found = {}
  for i = 1, #flat, 2 do found[flat[i]] = cjson.decode(flat[i + 1]) end
  return found
end

local function lower_of(configured, learned)
  if not learned then return configured end
  local grown = learned[1] * (1 + REGROWTH * math.max(0, now - learned[2]) / 60000)
  if configured > 0 and grown >= configured then return configured end
  return math.max(1, grown)
end

local function bucket(limit, burst, period, tat, at)
  local strict = burst < 1
  return { limit = limit, strict = strict, piece_ms = period / PIECES, tat = tat, at = at,
    interval = limit > 0 and period / limit * (strict and CELLS / PIECES or 1) or 0,
    room = strict and period * burst * CELLS / PIECES or period }
end

-- Everything of one scope; `learned` is what was learned of its limits, or nil.
local function open_scope(number, text, learned)
  local streams, requests, tokens, day_limit, burst, period, mode, day_ms, rolling =
    struct.unpack('<ddddddddd', ARGV[NUMBERS], (number - 1) * 72 + 1)
  if learned then
    streams = lower_of(streams, learned.streams)
    requests = lower_of(requests, learned.requests)
    tokens = lower_of(tokens, learned.tokens)
  end
  local scope = { number = number, name = ARGV[NAMES + number], state = read_state(text),
    streams = streams, day_limit = day_limit, day_ms = day_ms, mode = MODES[mode], dirty = false,
    is_rolling = rolling == 1,
    requests = bucket(requests, burst, period, RT, RW), rolling = false,
    tokens = bucket(tokens, burst, period, TT, TW) }
  if day_limit > 0 then
    if rolling == 1 then
      scope.rolling = read_rolling(scope.name)
    else
      local day = math.floor((now + day_ms) / DAY_MS)
      if scope.state[DAY] ~= day then scope.state[DAY], scope.state[TODAY] = day, 0 end
    end
  end
  return scope
end

-- Milliseconds until there is another request today, 0 for now.
local function wait_for_day(scope)
  if scope.rolling then
    return math.max(0, wait_in_window(rolling_day(scope.day_limit), scope.rolling, 1, now))
  end
  if scope.state[TODAY] < scope.day_limit then return 0 end
  return (scope.state[DAY] + 1) * DAY_MS - scope.day_ms - now
end

-- Milliseconds until a job fits and what it waits for; 0 when it fits now. A stream that is missing
-- has no time; -1 stands for it. Last whether only the buckets hold it back.
local function fit(scope, tokens)
  local state = scope.state
  if scope.streams > 0 and state[USED] >= scope.streams then return -1, 'streams', false end
  if scope.day_limit > 0 then
    local wait = wait_for_day(scope)
    if wait > 0 then return wait, 'requests a day', false end
  end
  local wait, reason = wait_for(scope.requests, state, 1, now), 'requests a minute'
  local longer = wait_for(scope.tokens, state, tokens, now)
  if longer > wait then wait, reason = longer, 'tokens a minute' end
  if wait < EPSILON_MS then return 0 end
  return wait, reason, true
end

-- Reserve one request, its tokens and a stream; what the lease must give back one day: { scope,
-- day, piece, ms of a request, ms of a token }.
local function reserve(scope, tokens)
  local state, day = scope.state, scope.state[DAY]
  scope.dirty = true
  state[USED], state[TODAY] = state[USED] + 1, state[TODAY] + 1
  local piece = take(scope.requests, state, 1, now)
  take(scope.tokens, state, tokens, now)
  if scope.rolling then
    count_in(scope.rolling, 1, scope.rolling[1], 1)
    day = -1 - scope.rolling[1]
  end
  return { scope.name, day, piece, scope.requests.interval, scope.tokens.interval }
end

-- What changed, as fields and values to be stored.
local function add_changed(scope, fields)
  local n = #fields
  fields[n + 1], fields[n + 2] = scope.name, struct.pack(STATE, unpack(scope.state))
  if scope.rolling then
    fields[n + 3] = 'day ' .. scope.name
    fields[n + 4] = struct.pack(ROLLING, unpack(scope.rolling))
  end
end
