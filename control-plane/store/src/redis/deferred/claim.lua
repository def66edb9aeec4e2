-- Gives jobs to be run. ARGV, after the common ones: node, call, how long they are given for, bytes and
-- jobs of one answer at most; then in turn queues and how many jobs of each. Answers for each job: id,
-- queue, attempt, owner, age, body, note.
local node, call, until_ms = ARGV[4], ARGV[5], now + ARGV[6]
local given = {}
local function give(id, job)
  given[#given + 1] = {
    id, job[QUEUE], job[ATTEMPT], job[OWNER], math.max(now - job[CREATED], 0),
    redis.call('HGET', BLOBS, 'b' .. id) or '', redis.call('HGET', BLOBS, 'm' .. id) or '',
  }
end

local mine = node .. SEPARATOR .. call .. SEPARATOR
local upto = node .. SEPARATOR .. call .. AFTER_SEPARATOR
local before = redis.call('ZRANGEBYLEX', CLAIMS, '[' .. mine, '(' .. upto)
for _, member in ipairs(before) do
  local id = string.sub(member, #mine + 1)
  local old = load(id)
  if old then
    local new = copy(old)
    new[AT] = until_ms
    set(id, old, new)
    give(id, new)
  end
end
if #before > 0 then return answer(given) end

local bytes, most_bytes, most = 0, tonumber(ARGV[7]), tonumber(ARGV[8])
for i = 9, #ARGV, 2 do
  local queue, wanted = ARGV[i], tonumber(ARGV[i + 1])
  local from, to = '[' .. queue .. SEPARATOR, '(' .. queue .. AFTER_SEPARATOR
  local found = redis.call('ZRANGEBYLEX', READY, from, to, 'LIMIT', 0, math.min(wanted, most + 1))
  for _, member in ipairs(found) do
    -- After the queue, two times sixteen digits and two separators.
    local id = string.sub(member, #queue + 35)
    local old = load(id)
    if not old then
      write('ZREM', READY, member)
    else
      bytes = bytes + old[META] + old[BLOB]
      if #given >= most or (#given > 0 and bytes > most_bytes) then return answer(given) end
      local new = copy(old)
      new[STATE], new[ATTEMPT], new[NODE], new[CALL] = 'r', old[ATTEMPT] + 1, node, call
      new[AT] = until_ms
      set(id, old, new)
      give(id, new)
    end
  end
end
return answer(given)
