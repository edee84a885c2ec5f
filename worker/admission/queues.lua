-- The three classes in line, and whose turn it is. Needs pool.

-- Classes share what there is by weight, and what one leaves is the others'.
local WEIGHTS = { urgent = 70, normal = 25, bulk = 5 }
-- Jobs that do not fit are passed over, but not more than this many.
local LOOK, PAGE = 32, 16

local function next_of(queue, size)
  if queue.ended then return nil end
  if queue.at >= queue.length then
    queue.page = redis.call('ZRANGE', queue.line, queue.passed, queue.passed + size - 1)
    queue.at, queue.length, queue.ended = 0, #queue.page, #queue.page == 0
    if queue.ended then return nil end
    queue.tickets = redis.call('HMGET', tickets, unpack(queue.page))
  end
  return queue.page[queue.at + 1], queue.tickets[queue.at + 1]
end

-- The class whose turn it is among those with someone left to look at.
local function next_class(queues, reached, size)
  local found, start, job, text
  for _, queue in ipairs(queues) do
    local at = math.max(reached, queue.again)
    if not queue.ended and (not found or at < start) then
      local first, ticket = next_of(queue, size)
      if first then found, start, job, text = queue, at, first, ticket end
    end
  end
  return found, start, job, text
end
