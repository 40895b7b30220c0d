$ include(schedule == "short" and "sm90a_fwd_short.cu.lua" or "sm90a_fwd_persistent.cu.lua")
