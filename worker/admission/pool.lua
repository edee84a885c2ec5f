-- The keys of a pool, as keys.py lists them, and the server's time in milliseconds.
local urgent, normal, bulk, delayed, tickets, leases, held, load, workers, slots, counter,
  nudge, fair, turns, sizes, buckets_of, rests_of, learned_of, spent, alarm, blocked, epoch,
  inboxes = unpack(KEYS)
local lines = { urgent = urgent, normal = normal, bulk = bulk }
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000

local function decoded(text) return text and cjson.decode(text) end

local function wake(list, word, most)
  redis.call('LPUSH', list, word)
  redis.call('LTRIM', list, 0, most - 1)
end
