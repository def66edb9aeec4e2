-- Tries each command that the other scripts use on a key of its own; answers those that failed with
-- the reason, as pairs. KEYS: two keys that hold nothing.
local tries = {
  { 'TIME' },
  { 'SET', KEYS[1], '1', 'PX', '1000' },
  { 'GET', KEYS[1] },
  { 'PEXPIRE', KEYS[1], '1000' },
  { 'HSET', KEYS[2], 'f', '1' },
  { 'HINCRBY', KEYS[2], 'f', '1' },
  { 'HGET', KEYS[2], 'f' },
  { 'HMGET', KEYS[2], 'f' },
  { 'HGETALL', KEYS[2] },
  { 'PEXPIRE', KEYS[2], '1000' },
  { 'HLEN', KEYS[2] },
  { 'HDEL', KEYS[2], 'f' },
  { 'DEL', KEYS[1] },
  { 'ZADD', KEYS[1], '0', 'm' },
  { 'ZRANGEBYLEX', KEYS[1], '-', '+' },
  { 'ZREVRANGEBYLEX', KEYS[1], '+', '-' },
  { 'ZRANGEBYSCORE', KEYS[1], '-inf', '+inf' },
  { 'ZLEXCOUNT', KEYS[1], '-', '+' },
  { 'ZREM', KEYS[1], 'm' },
}
local failed = {}
for _, try in ipairs(tries) do
  local answer = redis.pcall(unpack(try))
  if type(answer) == 'table' and answer.err then
    failed[#failed + 1] = string.lower(try[1])
    failed[#failed + 1] = answer.err
  end
end
return failed
