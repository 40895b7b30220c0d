local explain = {}
function explain.summary(loaded) return #loaded.records .. " variants\n" end
function explain.variant() return nil, "later" end
return explain
