-- Begins every script of deferred requests, which do what the engine does: same order, same answers.
-- KEYS: jobs by id; bodies (b), notes (m) and results (r) by letter and id; ids by owner and
-- idempotency key; what is to be claimed, by queue, turn and order; what nobody has claimed yet, by
-- queue, turn and order (q), and by queue, party, turn and order (p); when something becomes of a job by
-- itself; ends to be delivered; what runs, by node and call; numbers. ARGV: the longest step of time,
-- how many jobs are seen to beside the script's own work, how long keys are kept, all in milliseconds.
local JOBS, BLOBS, KEYED, READY, TURNS, TIMERS, DUE, CLAIMS, NUMBERS = unpack(KEYS)
local OWNER, PARTY, KEY, QUEUE, TURN, SEQ, STATE, ATTEMPT, NODE, CALL, AT, CREATED, END, KEEP, ENDED,
  DELIVER, DELIVER_AT, TRIES, META, BLOB =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20
local SEPARATOR, AFTER_SEPARATOR = '\31', '\32'

local touched = {}
local function write(command, key, ...)
  touched[key] = true
  return redis.call(command, key, ...)
end
local function answer(value)
  for key in pairs(touched) do redis.call('PEXPIRE', key, ARGV[3]) end
  return value
end

local time = redis.call('TIME')
local host = time[1] * 1000 + math.floor(time[2] / 1000)
local clock = redis.call('HMGET', NUMBERS, 'now', 'host')
local now = tonumber(clock[1] or 1)
now = now + math.max(0, math.min(host - tonumber(clock[2] or host), tonumber(ARGV[1])))
write('HSET', NUMBERS, 'now', string.format('%.0f', now), 'host', string.format('%.0f', host))

local function has_ended(job)
  return job[STATE] ~= 'w' and job[STATE] ~= 'r'
end
local function load(id)
  local bytes = redis.call('HGET', JOBS, id)
  if not bytes then return nil end
  local read, job = pcall(cmsgpack.unpack, bytes)
  if read and type(job) == 'table' and #job == BLOB then return job end
  return nil
end
local function place(id, job)
  return string.format('%s%s%016.0f%016.0f%s%s', job[QUEUE], SEPARATOR, job[TURN], job[SEQ], SEPARATOR, id)
end
-- Where the turns of a queue are, and those of one of its parties.
local function queue_turns(queue)
  return 'q' .. queue .. SEPARATOR
end
local function party_turns(queue, party)
  return 'p' .. queue .. SEPARATOR .. party .. SEPARATOR
end
local function turns(job)
  local at = string.format('%016.0f%016.0f', job[TURN], job[SEQ])
  return queue_turns(job[QUEUE]) .. at, party_turns(job[QUEUE], job[PARTY]) .. at
end
local function is_fresh(job)
  return job[STATE] == 'w' and job[ATTEMPT] == 0
end
local function claimed(id, job)
  return job[NODE] .. SEPARATOR .. job[CALL] .. SEPARATOR .. id
end
local function add(field, by)
  if by == 0 then return end
  local amount = string.format('%.0f', by)
  if write('HINCRBY', NUMBERS, field, amount) == 0 then redis.call('HDEL', NUMBERS, field) end
end
local function queue_party(queue, party)
  return 'pq' .. SEPARATOR .. queue .. SEPARATOR .. party
end
-- Counts a job, or with -1 takes it out of the numbers.
local function count(job, by)
  local bytes = by * (job[META] + job[BLOB])
  add('bytes', bytes)
  add('pj' .. SEPARATOR .. job[PARTY], by)
  add('pb' .. SEPARATOR .. job[PARTY], bytes)
  if has_ended(job) then return end
  add(job[STATE] .. SEPARATOR .. job[QUEUE], by)
  add(queue_party(job[QUEUE], job[PARTY]), by)
end

-- Changes a job, and every index with it; nil: it is not there.
local function set(id, old, new)
  if old then
    if is_fresh(old) then write('ZREM', TURNS, turns(old)) end
    if old[STATE] == 'w' and old[AT] == 0 then write('ZREM', READY, place(id, old)) end
    if old[STATE] == 'r' then write('ZREM', CLAIMS, claimed(id, old)) end
    if old[DELIVER_AT] > 0 then write('ZREM', DUE, id) end
    count(old, -1)
  end
  if not new then
    write('HDEL', JOBS, id)
    write('HDEL', BLOBS, 'b' .. id, 'm' .. id, 'r' .. id)
    write('ZREM', TIMERS, id)
    if old[KEY] ~= '' then write('HDEL', KEYED, old[OWNER] .. SEPARATOR .. old[KEY]) end
    return
  end
  local timer = new[END]
  if new[STATE] == 'r' then
    timer = new[AT]
    write('ZADD', CLAIMS, 0, claimed(id, new))
  elseif new[STATE] == 'w' then
    if is_fresh(new) then
      local of_queue, of_party = turns(new)
      write('ZADD', TURNS, 0, of_queue, 0, of_party)
    end
    if new[AT] == 0 then
      write('ZADD', READY, 0, place(id, new))
    else
      timer = math.min(new[AT], new[END])
    end
  end
  write('ZADD', TIMERS, timer, id)
  if new[DELIVER_AT] > 0 then write('ZADD', DUE, new[DELIVER_AT], id) end
  if has_ended(new) and not (old and has_ended(old)) then write('HDEL', BLOBS, 'b' .. id) end
  count(new, 1)
  write('HSET', JOBS, id, cmsgpack.pack(new))
end

local function copy(job)
  return { unpack(job, 1, BLOB) }
end

-- The job ends now; so many bytes are left of it beside its note.
local function finish(job, state, bytes)
  job[STATE], job[AT], job[NODE], job[CALL] = state, 0, '', ''
  job[ENDED], job[END], job[BLOB] = now, now + job[KEEP], bytes
  job[DELIVER_AT] = 0
  if job[DELIVER] == 1 and state ~= 'c' then job[DELIVER_AT] = now end
end

for _, id in ipairs(redis.call('ZRANGEBYSCORE', TIMERS, '-inf', now, 'LIMIT', 0, ARGV[2])) do
  local old = load(id)
  if not old then
    -- Nobody knows what it was.
    write('ZREM', TIMERS, id)
  elseif has_ended(old) then
    set(id, old, nil)
  else
    local new = copy(old)
    if old[END] <= now then finish(new, 'x', 0) else new[STATE], new[AT] = 'w', 0 end
    set(id, old, new)
  end
end
