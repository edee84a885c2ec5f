-- How far the line has come, an array of nine numbers. Needs pool.
--
--   reached             virtual time of all classes together
--   urgent normal bulk  when it is each class's turn again
--   at_urgent at_normal at_bulk  the turn each class has come to among its own jobs
--   granted_at pace     the last grant, and how many ms usually lie between two
local CLASSES = { 'urgent', 'normal', 'bulk' }

local function read_progress()
  local text = redis.call('GET', fair)
  return text and cjson.decode(text) or { 0, 0, 0, 0, 0, 0, 0, 0, 0 }
end

local function write_progress(numbers)
  redis.call('SET', fair, string.format(
    '[%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f]', unpack(numbers)))
end

-- The turn a class has come to.
local function reached_by(class)
  for i, name in ipairs(CLASSES) do
    if name == class then return read_progress()[4 + i] end
  end
end
