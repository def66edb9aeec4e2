-- Some of the jobs, in no order. ARGV, after the common ones: where to go on ('0': at the beginning),
-- about how many. Answers where to go on ('0': that was all) and for each job: id, owner, queue, state,
-- attempt, age, time left. A job that is there all the time comes at least once.
local found = redis.call('HSCAN', JOBS, ARGV[4], 'COUNT', ARGV[5])
local jobs = {}
for i = 1, #found[2], 2 do
  local id = found[2][i]
  local job = load(id)
  if job then
    jobs[#jobs + 1] = {
      id, job[OWNER], job[QUEUE], job[STATE], job[ATTEMPT], math.max(now - job[CREATED], 0),
      math.max(job[END] - now, 0),
    }
  end
end
return answer({ found[1], jobs })
