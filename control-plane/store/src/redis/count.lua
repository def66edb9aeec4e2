-- Counts a batch of one source's events, once: the cursor moves together with the counters.
-- KEYS: the source's cursor, then the hashes of counters. ARGV: first and last number, whether
-- nothing exists before the first (1 or 0), how long the cursor is kept in milliseconds; then for
-- each hash of counters how long it is kept, how many pairs follow, and pairs of field and amount.
-- Answers: counted up to here; send from here on (0: counted); numbers that were jumped over.
local first, last, nothing_before = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local cursor, lost = tonumber(redis.call('GET', KEYS[1]) or 0), 0
local function move(to)
  redis.call('SET', KEYS[1], string.format('%.0f', to), 'PX', ARGV[4])
end

if first > cursor + 1 and nothing_before then
  lost = first - 1 - cursor
  cursor = first - 1
  move(cursor)
end
if last <= cursor then
  if cursor > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
  return { cursor, 0, lost }
end
if first ~= cursor + 1 then return { cursor, cursor + 1, 0 } end

move(last)
local i = 5
for k = 2, #KEYS do
  local kept, pairs_end = ARGV[i], i + 2 + 2 * tonumber(ARGV[i + 1])
  i = i + 2
  while i < pairs_end do
    -- At the end of its range a counter stays there.
    local done = redis.pcall('HINCRBY', KEYS[k], ARGV[i], ARGV[i + 1])
    if type(done) == 'table' and done.err then
      if not string.find(done.err, 'overflow', 1, true) then return done end
      redis.call('HSET', KEYS[k], ARGV[i], '9223372036854775807')
    end
    i = i + 2
  end
  redis.call('PEXPIRE', KEYS[k], kept)
end
return { last, 0, lost }
