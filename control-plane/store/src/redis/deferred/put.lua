-- Keeps a job. ARGV, after the common ones: id, owner, party, idempotency key, queue, body, note, how long
-- it waits, how long it is kept, whether its end is to be delivered; bounds of the queue, of all jobs, of
-- all bytes. Answers 0: kept; 1 and an id: that one was there; 2, 3, 4: over a bound, in their order;
-- 5, 6, 7: over what the bound leaves its party.
local id, owner, party, key, queue, body, meta = unpack(ARGV, 4, 10)
if redis.call('HGET', JOBS, id) then return answer({ 1, id }) end
if key ~= '' then
  local known = redis.call('HGET', KEYED, owner .. SEPARATOR .. key)
  if known then return answer({ 1, known }) end
end

local function number(field)
  return tonumber(redis.call('HGET', NUMBERS, field) or 0)
end
local size = #body + #meta
local in_queue = number('w' .. SEPARATOR .. queue) + number('r' .. SEPARATOR .. queue)
local rooms = {
  { ARGV[14], in_queue, number(queue_party(queue, party)), 1 },
  { ARGV[15], redis.call('HLEN', JOBS), number('pj' .. SEPARATOR .. party), 1 },
  { ARGV[16], number('bytes'), number('pb' .. SEPARATOR .. party), size },
}
for i, room in ipairs(rooms) do
  local limit, all, own, more = unpack(room)
  local left = tonumber(limit) - all
  if more > left then return answer({ i + 1, '' }) end
  if own + more > left then return answer({ i + 4, '' }) end
end

-- After all of the party's that wait, and not before anybody's first. Jobs that were claimed before have had
-- their turn, and come back to it: they say nothing of whose it is now. Digits come before ':'.
local place_in_turn = 0
local of_queue, of_party = queue_turns(queue), party_turns(queue, party)
local first = redis.call('ZRANGEBYLEX', TURNS, '[' .. of_queue, '(' .. of_queue .. ':', 'LIMIT', 0, 1)
if first[1] then place_in_turn = tonumber(string.sub(first[1], #of_queue + 1, #of_queue + 16)) end
local last = redis.call('ZREVRANGEBYLEX', TURNS, '(' .. of_party .. ':', '[' .. of_party, 'LIMIT', 0, 1)
if last[1] then
  local own = tonumber(string.sub(last[1], #of_party + 1, #of_party + 16))
  place_in_turn = math.max(place_in_turn, own + 1)
end

local seq = write('HINCRBY', NUMBERS, 'seq', 1)
if key ~= '' then write('HSET', KEYED, owner .. SEPARATOR .. key, id) end
write('HSET', BLOBS, 'b' .. id, body, 'm' .. id, meta)
set(id, nil, {
  owner, party, key, queue, place_in_turn, seq, 'w', 0, '', '', 0, now, now + ARGV[11],
  tonumber(ARGV[12]), 0, tonumber(ARGV[13]), 0, 0, #meta, #body,
})
return answer({ 0, '' })
