#include "lib/device/delta.h"
$ if #kinds > 1 then
#include "lib/device/warpgroup_sequences.h"
$ end
$ include("sm90a_bwd_head.cu.lua")

$ include("gpu_delta.cu.lua")
$ if #kinds > 1 then

$ include("sm90a_bwd_sequences.cu.lua")
$ end

$ if strategy == "fused" or head_dim <= 128 then
$ include("sm90a_bwd_keys.cu.lua")
$ else
$ include("sm90a_bwd_roles.cu.lua")
$ end
$ if strategy == "split" then

$ include("sm90a_bwd_queries.cu.lua")
$ end
