-- How a job stands, or with an empty id how many jobs the queues have. ARGV, after the common ones: id.
-- Answers nothing if there is no such job; else owner, queue, state, attempt, jobs before it, age, time
-- left, note, result. For queues: in turn a state and a queue as one text, and a number.
local id = ARGV[4]
if id == '' then
  local counts = {}
  local numbers = redis.call('HGETALL', NUMBERS)
  for i = 1, #numbers, 2 do
    if string.sub(numbers[i], 2, 2) == SEPARATOR then
      counts[#counts + 1] = { numbers[i], tonumber(numbers[i + 1]) }
    end
  end
  return answer(counts)
end

local job = load(id)
if not job then return answer({}) end
local ahead = 0
if job[STATE] == 'w' then
  local from = '[' .. job[QUEUE] .. SEPARATOR
  ahead = redis.call('ZLEXCOUNT', READY, from, '(' .. place(id, job))
end
return answer({ {
  job[OWNER], job[QUEUE], job[STATE], job[ATTEMPT], ahead, math.max(now - job[CREATED], 0),
  math.max(job[END] - now, 0), redis.call('HGET', BLOBS, 'm' .. id) or '',
  redis.call('HGET', BLOBS, 'r' .. id) or '',
} })
