-- Puts a note, if there is one, and answers all that have not ended: names and values in turn.
-- KEYS: the hash of notes. ARGV: how many there are at most; then name, time to live in milliseconds and
-- value of the note. A value is its end, a colon, and what was given.
local most = tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local notes, ends, last = {}, {}, now
local function keep(name, till, value)
  notes[name] = value
  ends[#ends + 1] = { till, name }
  last = math.max(last, till)
end
local stored = redis.call('HGETALL', KEYS[1])
for i = 1, #stored, 2 do
  local till, value = string.match(stored[i + 1], '^(%d+):(.*)$')
  till = tonumber(till)
  if not till or till <= now then
    redis.call('HDEL', KEYS[1], stored[i])
  elseif stored[i] ~= ARGV[2] then
    keep(stored[i], till, value)
  end
end
if ARGV[2] then
  local till = now + ARGV[3]
  redis.call('HSET', KEYS[1], ARGV[2], string.format('%.0f:', till) .. ARGV[4])
  keep(ARGV[2], till, ARGV[4])
  table.sort(ends, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[2] < b[2]
  end)
  for i = 1, #ends - most do
    redis.call('HDEL', KEYS[1], ends[i][2])
    notes[ends[i][2]] = nil
  end
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', last - now))
end

local answer = {}
for name, value in pairs(notes) do
  answer[#answer + 1] = name
  answer[#answer + 1] = value
end
return answer
