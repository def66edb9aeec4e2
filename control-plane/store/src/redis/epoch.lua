-- Says how long the data of this prefix have been of one piece: since when they exist, or since the
-- server that holds them was started or replaced. KEYS: the note of that. ARGV: the server's
-- run id, a fresh random id, how long the note is kept in milliseconds. Answers: id, age in ms.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local note = redis.call('HMGET', KEYS[1], 'id', 'run', 'since')
local id, since = note[1], tonumber(note[3] or now)
if not id then id = ARGV[2] end
if not note[1] or note[2] ~= ARGV[1] or since > now then since = now end
redis.call('HSET', KEYS[1], 'id', id, 'run', ARGV[1], 'since', string.format('%.0f', since))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return { id, now - since }
