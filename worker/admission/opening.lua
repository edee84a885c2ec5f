-- Whether something that a key needs rests: looked at only where anything does. Needs pool, offers.
local function read_rests(stored)
  -- include rests
  local found = {}
  for i = 1, #stored, 2 do
    local rest = cjson.decode(stored[i + 1])
    if is_over(rest) then
      redis.call('HDEL', rests_of, stored[i])
    else
      found[stored[i]] = rest
    end
  end

  local function names_for(key, model)
    local account = account_of(key)
    return { 'key ' .. ARGV[ALIASES + key], 'account ' .. account, 'model ' .. account .. ' ' .. model }
  end

  -- What of a job's way rests now: ms, why, and whether every other job meets it, too.
  local function rest_on(key, model)
    for i, name in ipairs(names_for(key, model)) do
      local rest = found[name]
      if rest and (i > 1 or rest.print == prints()[key]) then
        local wait = resting(rest)
        if wait > 0 then
          return wait, name .. (i == 1 and ' is out: ' or ' cools down: ') .. rest.cause, i < 3
        end
      end
    end
    return 0
  end

  -- The rests that a lease reopens, nil when there are none.
  local function note_reopened(key, model)
    local probes
    for _, name in ipairs(names_for(key, model)) do
      local rest = found[name]
      if rest and reopening(rest) then
        rest.out, rest.at = rest.out + 1, now
        redis.call('HSET', rests_of, name, cjson.encode(rest))
        probes = probes or {}
        probes[#probes + 1] = name
      end
    end
    return probes
  end

  return rest_on, note_reopened
end
