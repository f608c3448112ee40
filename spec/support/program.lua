-- Running the built program (MORTISE_BIN).
local program = {}

program.file = os.getenv "MORTISE_BIN"

local function quote(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end
program.quote = quote

-- What a file has.
function program.read(file)
  local handle = assert(io.open(file, "rb"))
  local text = handle:read "a"
  handle:close()
  return text
end

local function slurp(file)
  local text = program.read(file)
  os.remove(file)
  return text
end

local function environment(given)
  local words = {
    "env", "-u", "LD_PRELOAD", "-u", "MORTISE_STORE", "-u", "MORTISE_NAMESPACE", "-u", "MORTISE_PROFILE",
    "HOME=/dev/null/home",
  }
  for name, value in pairs(given or {}) do words[#words + 1] = quote(name .. "=" .. value) end
  return table.concat(words, " ")
end

local by_environment = {["--store"] = "MORTISE_STORE", ["--namespace"] = "MORTISE_NAMESPACE"}

-- Puts the store and the namespace into the environment, where commands in advice need not repeat them.
local function unsaid(words, env)
  local rest, i = {}, 1
  while words[i] do
    local name = by_environment[words[i]]
    if name and words[i + 1] and not env[name] then
      env[name], i = words[i + 1], i + 2
    else
      rest[#rest + 1], i = words[i], i + 1
    end
  end
  return rest
end

-- Runs it with these words. `given`: env, input, folder, seconds, typed (the store and the namespace stay
-- options). -> status, stdout, stderr
function program.run(words, given)
  given = given or {}
  local env = {}
  for name, value in pairs(given.env or {}) do env[name] = value end
  if not given.typed then words = unsaid(words, env) end
  local out, err, input = os.tmpname(), os.tmpname(), os.tmpname()
  local handle = io.open(input, "wb")
  handle:write(given.input or "")
  handle:close()
  local quoted = {}
  for i, word in ipairs(words) do quoted[i] = quote(word) end
  local command = ("cd %s && %s timeout %d %s %s <%s >%s 2>%s"):format(quote(given.folder or "."),
    environment(env), given.seconds or 60, quote(program.file), table.concat(quoted, " "), input,
    out, err)
  local _, how, number = os.execute(command)
  os.remove(input)
  assert(how == "exit", "ended by signal " .. tostring(number))
  return number, slurp(out), slurp(err)
end

-- A file with this text; removed by the caller.
function program.write(text, suffix)
  local file = os.tmpname()
  os.remove(file)
  file = file .. (suffix or "")
  local handle = assert(io.open(file, "wb"))
  handle:write(text)
  handle:close()
  return file
end

return program
