-- One operation of one lease, as `Meter::apply` does it: same steps, same arithmetic.
-- KEYS: the meter's numbers, the meter's leases. ARGV: see `lease.rs`.
-- A lease is stored as granted:charged:refunded:due:seq:state; the states are active, held, over, closed.
local DAY, ENDED_KEPT, GRACE, LONGEST = 86400000, 600000, 60000, 34560000000
local NEVER, SLOT_RETRY = 9007199254740992, 1000
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

local text, kind, lease_id = ARGV[1], ARGV[2], ARGV[3]
local hold, close = ARGV[4] == '1', ARGV[5] == '1'
local a = {}
for i = 6, #ARGV do a[i] = tonumber(ARGV[i]) end
local phase = a[6]
local amount, interval = a[7], a[8]
local capacity, ttl = a[9], a[10]
local seq, charged_op, refunded_op, granted_op = a[11], a[12], a[13], a[14]
local wanted, minimum, window_op = a[15], a[16], a[17]

local time = redis.call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)

-- All numbers are in one field: kind:amount:interval:capacity:used:previous:reserved:holders:at:
-- window:window end:due.
local was, was_interval, was_capacity, used, previous, reserved, holders = '-', 0, 0, 0, 0, 0, 0
local at, window, window_end, due = 0, 0, 0, NEVER
local numbers = redis.call('HGET', KEYS[1], 'n')
if numbers then
  local i, c, u, p, r, h, t, w, e, d
  was, i, c, u, p, r, h, t, w, e, d = string.match(numbers, '^(%a):%d+:(%d+):(%d+):([^:]+):([^:]+)' ..
    ':(%d+):(%d+):(%d+):(%d+):(%d+):(%d+)$')
  was_interval, was_capacity = tonumber(i), tonumber(c)
  used, previous, reserved = tonumber(u), tonumber(p), tonumber(r)
  holders, at, window, window_end, due = tonumber(h), tonumber(t), tonumber(w), tonumber(e), tonumber(d)
end
now = max(now, at)

-- Time passes.
local id, id_end
if kind == 'c' then
  if a[19] <= now and now < a[20] then
    id, id_end = a[18], a[20]
  elseif a[22] <= now and now < a[23] then
    id, id_end = a[21], a[23]
  else
    return { 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, now }
  end
end
if kind ~= was or (kind == 's' and interval ~= was_interval) then
  used, previous, window = 0, 0, 0
end
if kind == 'b' then
  used = max(used - amount * (now - at) / interval, 0)
elseif kind == 's' then
  local index = floor(now / interval)
  if index > window then
    if index == window + 1 then previous = used else previous = 0 end
    used, window = 0, index
  end
elseif kind == 'c' then
  if id > window then
    used, reserved, holders, window, due = 0, 0, 0, id, NEVER
    redis.call('DEL', KEYS[2])
  end
  if id == window then window_end = id_end end
end
-- What was allowed before the capacity was lowered is no debt now.
if capacity < was_capacity and (kind == 'b' or kind == 's') then
  used, previous = min(used, capacity), min(previous, capacity)
end
at = now
local interval_left, window_left = 0, 0
if kind == 's' then interval_left = interval - now % interval end
if kind == 'c' then window_left = max(window_end - now, 0) end
local weighted
local function fade()
  weighted = 0
  if previous > 0 then weighted = previous * interval_left / interval end
end
fade()

local function free() return capacity - weighted - used - reserved end
local function release(n) reserved = max(reserved - n, 0) end
local function reserve(n) reserved = min(reserved + n, NEVER) end
local function pack(g, c, f, d, s, state)
  return string.format('%.0f:%.0f:%.0f:%.0f:%.0f:%s', g, c, f, d, s, state)
end
local function unpack_lease(value)
  local g, c, f, d, s, state = string.match(value, '^(%d+):(%d+):(%d+):(%d+):(%d+):(%a)$')
  return tonumber(g), tonumber(c), tonumber(f), tonumber(d), tonumber(s), state
end

local function sweep()
  local all = redis.call('HGETALL', KEYS[2])
  due = NEVER
  for i = 1, #all, 2 do
    local g, c, f, d, s, state = unpack_lease(all[i + 1])
    local rest, gone = max(g - c, 0), false
    if d < now then
      if state == 'a' then
        holders = max(holders - 1, 0)
        if hold then
          state, d = 'h', now + DAY
        else
          release(rest)
          state, d = 'o', now + ENDED_KEPT
        end
      elseif state == 'h' and kind == 'c' then
        d = now + DAY
      else
        if state == 'h' then release(rest) end
        gone = true
      end
      if gone then
        redis.call('HDEL', KEYS[2], all[i])
      else
        redis.call('HSET', KEYS[2], all[i], pack(g, c, f, d, s, state))
      end
    end
    if not gone then due = min(due, d) end
  end
end

local status, granted = 0, 0
if kind == 'c' and window_op ~= 0 and window_op ~= window then
  status = 4
else
  if phase == 0 and now > due then sweep() end
  local charged, refunded, lease_due, lease_seq, state
  local stored = redis.call('HGET', KEYS[2], lease_id)
  if stored then
    granted, charged, refunded, lease_due, lease_seq, state = unpack_lease(stored)
  else
    granted, charged, refunded = max(granted_op, charged_op), charged_op, refunded_op
    lease_due, lease_seq, state = NEVER, seq, 'a'
    if granted > 0 then
      reserve(granted - charged)
      if kind == 'b' or kind == 's' then
        used = max(used, min(used + (charged - refunded), capacity))
      else
        used = min(used + (charged - refunded), NEVER)
      end
    end
    holders = holders + 1
  end

  local function merge()
    local more = charged_op - charged
    if more > 0 then
      used = min(used + more, NEVER)
      if state == 'a' or state == 'h' then release(min(more, max(granted - charged, 0))) end
      charged = charged_op
      granted = max(granted, charged)
    end
    local back = refunded_op - refunded
    if back > 0 then
      local beyond = max(back - used, 0)
      used = max(used - back, 0)
      if kind == 's' then
        previous = max(previous - beyond, 0)
        fade()
      end
      refunded = refunded_op
    end
  end

  if seq < lease_seq then
    merge()
    status = 6
  else
    if state == 'a' and granted_op > granted then
      reserve(granted_op - granted)
      granted = granted_op
    end
    merge()
    if close then
      if state == 'a' or state == 'h' then
        if state == 'a' then holders = max(holders - 1, 0) end
        release(max(granted - charged, 0))
        state, lease_seq = 'c', seq
      elseif not (state == 'c' and lease_seq == seq) then
        status = 3
      end
    elseif state ~= 'a' then
      status = 3
    else
      lease_seq = seq
      if wanted <= granted then
        local to = max(wanted, charged)
        release(granted - to)
        granted = to
      elseif phase == 2 then
        status = 7
      else
        local need = wanted - granted
        local give = min(need, max(floor(free()), 0))
        if give == need or give >= minimum then
          reserve(give)
          granted = granted + give
        end
        if granted < wanted then
          if granted > granted_op then status = 1 else status = 2 end
        end
      end
    end
    local lives = ENDED_KEPT
    if state == 'a' then lives = ttl elseif state == 'h' then lives = DAY end
    lease_due = now + lives
    due = min(due, lease_due)
  end
  redis.call('HSET', KEYS[2], lease_id, pack(granted, charged, refunded, lease_due, lease_seq, state))
end

-- What the holder is told, and how long it is kept.
local wants = max(minimum, 1)
local missing = wants - free()
local retry, reset = 0, 0
if missing > 0 then
  if kind == 'b' then
    retry = ceil(missing * interval / amount)
  elseif kind == 'c' then
    retry = window_left
  elseif kind == 'x' then
    retry = SLOT_RETRY
  elseif missing <= weighted then
    retry = ceil(missing * interval / previous)
  else
    local room, fades = capacity - reserved - wants, 0
    if used > room then
      if room < 0 then fades = interval else fades = ceil(interval * (1 - room / used)) end
    end
    retry = interval_left + fades
  end
end
if kind == 'b' then
  reset = ceil(used * interval / amount)
elseif kind == 'c' then
  reset = window_left
elseif kind == 's' and used > 0 then
  reset = interval_left + interval
elseif kind == 's' and previous > 0 then
  reset = interval_left
end
retry, reset = min(retry, NEVER), min(reset, NEVER)
local settles = 2 * ttl + GRACE
local keep = settles
if kind == 'b' then
  keep = reset + settles
elseif kind == 's' then
  keep = 2 * interval + settles
elseif kind == 'c' then
  keep = window_left + ttl + DAY
end
if hold then keep = max(keep, DAY + settles) end
keep = string.format('%.0f', min(keep, LONGEST))

if not numbers then redis.call('HSET', KEYS[1], 'x', text) end
redis.call('HSET', KEYS[1], 'n', string.format(
  '%s:%.0f:%.0f:%.0f:%.17g:%.17g:%.0f:%.0f:%.0f:%.0f:%.0f:%.0f', kind, amount, interval, capacity,
  used, previous, reserved, holders, at, window, window_end, due))
redis.call('PEXPIRE', KEYS[1], keep)
redis.call('PEXPIRE', KEYS[2], keep)

local shown = 0
if kind == 'c' then shown = window end
local only_reserved = 0
if free() < wants and capacity - weighted - used >= wants then only_reserved = 1 end
return { status, granted, ceil(weighted + used), reserved, holders, retry, reset, shown, window_left,
  only_reserved, now }
