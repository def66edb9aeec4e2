-- What becomes of one job. ARGV, after the common ones: e (extend), r (release), f (finish) or
-- c (cancel), id, attempt, a time in milliseconds, a result. Answers 0: done; 1: not (extend, release),
-- or it had ended before; 2: there is no such job.
local what, id, attempt, ms, result = ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
local old = load(id)
if not old then return answer(2) end
local new = copy(old)

if what == 'f' then
  if has_ended(old) then
    if old[STATE] == 'd' and old[ATTEMPT] == attempt then return answer(0) end
    return answer(1)
  end
  new[ATTEMPT] = attempt
  finish(new, 'd', #result)
  write('HSET', BLOBS, 'r' .. id, result)
  set(id, old, new)
  return answer(0)
end

if what == 'c' then
  if old[STATE] == 'c' then return answer(0) end
  if has_ended(old) then return answer(1) end
  finish(new, 'c', 0)
  set(id, old, new)
  return answer(0)
end

-- An attempt whose lease ran out still has the job if nobody else took it.
local held = not has_ended(old) and old[ATTEMPT] == attempt and old[NODE] ~= ''
if what == 'e' then
  if not held then return answer(1) end
  new[STATE], new[AT] = 'r', now + ms
  set(id, old, new)
  return answer(0)
end
if not held then
  local again = old[STATE] == 'w' and old[NODE] == '' and old[ATTEMPT] == attempt and attempt > 0
  return answer(again and 0 or 1)
end
new[STATE], new[NODE], new[CALL], new[AT] = 'w', '', '', 0
if ms > 0 then new[AT] = now + ms end
set(id, old, new)
return answer(0)
