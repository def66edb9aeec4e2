-- Keeps a job. ARGV, after the common ones: id, owner, idempotency key, queue, body, note, how long it
-- waits, how long it is kept, whether its end is to be delivered; bounds of the queue, of all jobs, of
-- all bytes. Answers 0: kept; 1 and an id: that one was there; 2, 3, 4: over a bound, in their order.
local id, owner, key, queue, body, meta = unpack(ARGV, 4, 9)
if redis.call('HGET', JOBS, id) then return answer({ 1, id }) end
if key ~= '' then
  local known = redis.call('HGET', KEYED, owner .. SEPARATOR .. key)
  if known then return answer({ 1, known }) end
end
local numbers =
  redis.call('HMGET', NUMBERS, 'w' .. SEPARATOR .. queue, 'r' .. SEPARATOR .. queue, 'bytes', 'seq')
local bytes = tonumber(numbers[3] or 0) + #body + #meta
if tonumber(numbers[1] or 0) + tonumber(numbers[2] or 0) >= tonumber(ARGV[13]) then
  return answer({ 2, '' })
end
if redis.call('HLEN', JOBS) >= tonumber(ARGV[14]) then return answer({ 3, '' }) end
if bytes > tonumber(ARGV[15]) then return answer({ 4, '' }) end

local seq = write('HINCRBY', NUMBERS, 'seq', 1)
if key ~= '' then write('HSET', KEYED, owner .. SEPARATOR .. key, id) end
write('HSET', BLOBS, 'b' .. id, body, 'm' .. id, meta)
set(id, nil, {
  owner, key, queue, seq, 'w', 0, '', '', 0, now, now + ARGV[10], tonumber(ARGV[11]), 0,
  tonumber(ARGV[12]), 0, 0, #meta, #body,
})
return answer({ 0, '' })
