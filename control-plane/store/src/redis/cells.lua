-- Merges what is told of provider keys, as `Cells::change` does it: same order, same arithmetic.
-- KEYS: the hash of cells. ARGV: how long ended cells are kept, how many there are at most, how long
-- the hash is kept in milliseconds; then for each change ten: m (merge) or c (clear), the field,
-- state, cleared (1 or 0), time left, time since the end, age, strikes, generation, text.
-- A value is state:cleared:end:since:strikes:generation:text; fields that begin with o are operators'.
-- Answers the time, then fields and values in turn.
local kept, most, hash_kept = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local cells, others, count = {}, {}, 0
local stored = redis.call('HGETALL', KEYS[1])
for i = 1, #stored, 2 do
  local s, c, e, b, n, g, t = string.match(stored[i + 1], '^(%d):([01]):(%d+):(%d+):(%d+):(%d+):(.*)$')
  if s then
    cells[stored[i]] = { tonumber(s), tonumber(c), tonumber(e), tonumber(b), tonumber(n), tonumber(g), t }
    count = count + 1
  else
    others[#others + 1] = i
  end
end

local STATE, CLEARED, END, SINCE, STRIKES, GENERATION, TEXT = 1, 2, 3, 4, 5, 6, 7
local BY_END = { END, STATE, SINCE, TEXT }
local BY_GENERATION = { GENERATION, CLEARED, END, STRIKES, STATE, SINCE, TEXT }
local function before(a, b, order)
  for _, at in ipairs(order) do
    if a[at] ~= b[at] then return a[at] < b[at] end
  end
  return false
end
local function join(a, b, operator)
  if a[CLEARED] == 1 or b[CLEARED] == 1 or operator then
    if before(a, b, BY_GENERATION) then return b end
    return a
  end
  local later, newer = a, a
  if before(a, b, BY_END) then later = b end
  if before(a, b, { GENERATION, STRIKES }) then newer = b end
  return { later[STATE], 0, later[END], later[SINCE], newer[STRIKES], newer[GENERATION], later[TEXT] }
end

local touched = {}
for i = 4, #ARGV, 10 do
  local field, generation = ARGV[i + 1], tonumber(ARGV[i + 8])
  local known = cells[field]
  if ARGV[i] == 'm' then
    local told = { tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), 
      math.max(now + ARGV[i + 4] - ARGV[i + 5], 0), math.max(now - ARGV[i + 6], 0),
      tonumber(ARGV[i + 7]), generation, ARGV[i + 9] }
    if known then
      told = join(known, told, string.sub(field, 1, 1) == 'o')
    else
      count = count + 1
    end
    cells[field], touched[field] = told, true
  elseif known and known[CLEARED] == 0 and known[GENERATION] <= generation then
    cells[field], touched[field] = { 0, 1, now, now, 0, generation, ARGV[i + 9] }, true
  end
end

local function drop(field)
  redis.call('HDEL', KEYS[1], field)
  cells[field], touched[field] = nil, nil
  count = count - 1
end
for field, cell in pairs(cells) do
  if cell[END] + kept < now then drop(field) end
end
if count > most then
  local ends = {}
  for field, cell in pairs(cells) do
    if string.sub(field, 1, 1) == 'u' then ends[#ends + 1] = { cell[END], field } end
  end
  table.sort(ends, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[2] < b[2]
  end)
  for i = 1, math.min(count - most, #ends) do drop(ends[i][2]) end
end

local function pack(cell)
  return string.format('%d:%d:%.0f:%.0f:%.0f:%.0f:', cell[STATE], cell[CLEARED], cell[END], cell[SINCE],
    cell[STRIKES], cell[GENERATION]) .. cell[TEXT]
end
for field in pairs(touched) do redis.call('HSET', KEYS[1], field, pack(cells[field])) end
if next(touched) then redis.call('PEXPIRE', KEYS[1], hash_kept) end

local answer = {}
for field, cell in pairs(cells) do
  answer[#answer + 1] = field
  answer[#answer + 1] = pack(cell)
end
for _, i in ipairs(others) do
  answer[#answer + 1] = stored[i]
  answer[#answer + 1] = stored[i + 1]
end
return { now, answer }
