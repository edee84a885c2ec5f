-- Only behind the entry that the caller takes for the last one: its id, and its check if that is
-- known, for after a failover two attempts may have the same number. Else the script ends here, with
-- what the log ends with.
--
-- KEYS[1]  log, a stream
-- ARGV[1]  id of the entry that must be the last one now
-- ARGV[2]  its check, '' for any
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if not last then return '' end
if last[1] ~= ARGV[1] or (ARGV[2] ~= '' and last[2][4] ~= ARGV[2]) then
  return { last[1], last[2][4] or '' }
end
