-- The families of kernels that a spec may name. A new family is one file gen/families/<name>.lua and one word here; it
-- must not touch another family. What such a file returns is described in gen/README.md.
local NAMES = { "cpu", "sm80", "sm90a" }

local registry = { names = NAMES }

--- The description of family `name`, or nil.
function registry.get(name)
  for _, known in ipairs(NAMES) do
    if known == name then return require("gen.families." .. name) end
  end
end

return registry
