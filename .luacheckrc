std = "lua54"
max_line_length = 110
globals = { "mortise" }
files["spec"] = { std = "lua54+busted" }
