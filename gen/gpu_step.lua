-- What the steps of a server of the families `sm80` and `sm90a` share: their kernels' launches, the spans of keys, and
-- for how many queries against a cache the plan takes them.
local step = {}

step.SPAN = 1024                      -- keys of the first spans
local PLAN_BYTES = 8 * 4096 + 5 * 128 -- of the kernel that plans: PLAN_SHARED_BYTES of lib/device/step_plan.h

--- The end of a row's name.
function step.how(family, record)
  local span = record.span or step.SPAN
  return ("%s_step_%sm%dn%d"):format(family, span ~= step.SPAN and ("s%d_"):format(span) or "", record.m, record.n)
end

--- struct glint_gpu_launch, in launch order. blocks: of a multiprocessor.
function step.launches(record, blocks)
  return {
    { suffix = "_plan", grid = "GLINT_GPU_STEP_PLAN", rows = record.m, threads = 1024, smem_bytes = PLAN_BYTES, dependent = 1 },
    { suffix = "", grid = "GLINT_GPU_STEP_UNITS", rows = record.m, threads = record.threads, smem_bytes = record.smem_bytes,
      blocks_per_sm = blocks, dependent = 1 },
    { suffix = "_merge", grid = "GLINT_GPU_STEP_MERGE", rows = 16, threads = 128, smem_bytes = 0, dependent = 1 },
  }
end

--- What a step's kernels take: everything.
function step.takes()
  return { lengths = true, ragged = true, pages = true, ragged_pages = true, sinks = true, canonical = true }
end

--- The limits of both; report(field, wrong, right) for each that is broken.
function step.check(record, report)
  if record.cache_from > record.cache_up_to then report("cache_up_to", "is below cache_from", tostring(record.cache_from)) end
  if record.span % record.n ~= 0 then
    report("span", ("a span is whole tiles of %d keys"):format(record.n), ("a multiple of %d"):format(record.n))
  end
end

return step
