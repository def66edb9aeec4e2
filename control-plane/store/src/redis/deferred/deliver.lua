-- Ends that are to be delivered. ARGV, after the common ones: c, how many at most, how long nobody else
-- gets them, bytes of one answer at most; or d (over) or a (again), id, attempt, after how long.
-- Answers for each end: id, attempt, age, state, note, result.
local what = ARGV[4]
if what ~= 'c' then
  local id, old = ARGV[5], load(ARGV[5])
  if old and old[DELIVER_AT] > 0 and old[TRIES] == tonumber(ARGV[6]) then
    local new = copy(old)
    new[DELIVER_AT] = 0
    if what == 'a' then new[DELIVER_AT] = now + ARGV[7] end
    set(id, old, new)
  end
  return answer({})
end

local given, bytes = {}, 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', 0, ARGV[5])) do
  local old = load(id)
  if not old then
    write('ZREM', DUE, id)
  else
    bytes = bytes + old[META] + old[BLOB]
    if #given > 0 and bytes > tonumber(ARGV[7]) then break end
    local new = copy(old)
    new[TRIES], new[DELIVER_AT] = old[TRIES] + 1, now + ARGV[6]
    set(id, old, new)
    given[#given + 1] = {
      id, new[TRIES], math.max(now - old[ENDED], 0), old[STATE],
      redis.call('HGET', BLOBS, 'm' .. id) or '', redis.call('HGET', BLOBS, 'r' .. id) or '',
    }
  end
end
return answer(given)
