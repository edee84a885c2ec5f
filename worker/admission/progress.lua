-- How far the line has come, numbers, packed. Needs pool.
--
--   reached             virtual time of all classes together
--   urgent normal bulk  when it is each class's turn again
--   at_urgent at_normal at_bulk  the turn each class has come to among its own jobs
--   granted_at pace     the last grant, and how many ms usually lie between two
--   key                 the number of the key that was granted last
--   is_blocked          1 while `blocked` says what the next job waits for
--   came                how many jobs came, modulo a million
local CLASSES = { 'urgent', 'normal', 'bulk' }

local PROGRESS = '<dddddddddddd'

local function read_progress()
  local text = redis.call('GET', fair)
  return text and { struct.unpack(PROGRESS, text) } or { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
end

local function write_progress(numbers)
  redis.call('SET', fair, struct.pack(PROGRESS, unpack(numbers, 1, 12)))
end
