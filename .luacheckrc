-- The generator and the tools. Templates (gen/templates) are text with Lua in it, and have a test of their own.
std = "lua54"
max_line_length = 160
exclude_files = { "gen/templates/**" }
