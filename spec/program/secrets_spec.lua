-- Secrets that are fetched while the program runs: from a command, and as Amazon's programs find theirs, with
-- a signature in each request. What stands before the server checks both, the signature with botocore's own.
local between = require "spec.support.between"
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

local server = stores.all()[2]
if not program.file or not server then
  print "SKIP secrets that are fetched: MORTISE_BIN or MORTISE_TEST_URLS is not set"
  return
end

local host = server.store:match "^http://([^/]+)"
local lock_code = "mortise.with_tree_lock('/secret', function(lock) print(lock.fence > 0) end)"
-- For seconds, with requests all the time.
local long_code = [[
  mortise.with_tree_lock('/secret', function(lock)
    local ending = os.time() + %d
    while os.time() < ending do lock:check() mortise.raw("GET", "/") mortise.sleep(0.2) end
    print(lock.fence > 0)
  end)]]

-- All that could say who we are, so that nothing of this machine's own does.
local nobody = {HOME = "/dev/null/home", AWS_EC2_METADATA_DISABLED = "true"}
for _, name in ipairs {"ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "REGION", "DEFAULT_REGION",
  "PROFILE", "SHARED_CREDENTIALS_FILE", "CONFIG_FILE", "ROLE_ARN", "WEB_IDENTITY_TOKEN_FILE", "ENDPOINT_URL",
  "ENDPOINT_URL_STS", "CONTAINER_CREDENTIALS_RELATIVE_URI", "CONTAINER_CREDENTIALS_FULL_URI",
  "CONTAINER_AUTHORIZATION_TOKEN", "CONTAINER_AUTHORIZATION_TOKEN_FILE", "EC2_METADATA_SERVICE_ENDPOINT"} do
  nobody["AWS_" .. name] = ""
end

local static = {AWS_ACCESS_KEY_ID = "AKIDEXAMPLE", AWS_SECRET_ACCESS_KEY = "secret/of+the key"}

describe("a secret that is fetched", function()
  local namespace

  before_each(function()
    namespace = stores.name "ns"
    local client <close> = stores.connect(server, {namespace = namespace})
    stores.use(server, client)
  end)

  local function run(store, words, env, code)
    local given = {}
    for name, value in pairs(nobody) do given[name] = value end
    for name, value in pairs(env or {}) do given[name] = value end
    for _, name in ipairs {"http_proxy", "https_proxy", "no_proxy"} do given[name] = "" end
    local all = {"--store", store, "--namespace", namespace, "--lease", "10s", "--timeout", "10s"}
    for _, word in ipairs(words) do all[#all + 1] = word end
    all[#all + 1], all[#all + 2] = "-e", code or lock_code
    return program.run(all, {env = given})
  end

  local function at(guard) return "http://127.0.0.1:" .. guard.place end

  local function works(guard, words, env, code)
    local status, out, err = run(at(guard), words, env, code)
    assert.same({0, "true\n"}, {status, out}, err .. guard:said())
    return err
  end

  describe("of Amazon's", function()
    local aws = {"--aws", "--aws-region", "eu-central-1"}

    it("comes from the environment", function()
      local guard <close> = between.start("guard.py", host)
      assert.equal("", works(guard, aws, static))
      assert.equal("", works(guard, {"--aws"}, {AWS_REGION = "eu-central-1",
        AWS_ACCESS_KEY_ID = "AKIDEXAMPLE", AWS_SECRET_ACCESS_KEY = "secret/of+the key"}))
      assert.equal(0, guard:count " 403")
    end)

    it("signs any name of a document and of an index, and bodies that are compressed", function()
      local guard <close> = between.start("guard.py", host)
      local relay <close> = between.start("relay.py", "proxy", "127.0.0.1:" .. guard.place)
      local index = stores.name "odd"
      local code = ([[
        local ids = {"a/b c+d", "ü(%%)=&", "~._-*", "%%2F", "..", "a,b;c:d@e!f'g$h[i]",
          ("0123456789"):rep(40)}
        for i, id in ipairs(ids) do
          mortise.index("%s", id, {path = "/x", n = i, text = ("abcdefgh "):rep(5000)}, {routing = "r+/ =&"})
          assert(mortise.get("%s", id, {routing = "r+/ =&"}).n == i)
        end
        mortise.refresh "%s*,-%s-none*"
        assert(mortise.count("%s*") == #ids)
        mortise.drop_index "%s"
        print(true)]]):gsub("%%s", index):gsub("%%%%", "%%")
      local status, out, err = run("http://es.example:9200",
        {"--proxy", "http://127.0.0.1:" .. relay.place, table.unpack(aws)}, static, code)
      assert.same({0, "true\n"}, {status, out}, err .. guard:said())
      assert.equal(0, guard:count " 403")
    end)

    it("comes from a profile, its command, and a web identity", function()
      local guard <close> = between.start("guard.py", host)
      local config = program.write([[
# a comment
[default]
region = us-east-1
[profile mine]
region=eu-central-1
[profile by-command]
region = eu-central-1
credential_process = echo '{"AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "secret/of+the key"}'
[profile of-a-role]
region = eu-central-1
role_arn = arn:aws:iam::123456789012:role/a
source_profile = mine
]])
      local credentials = program.write([[
[default]
aws_access_key_id = AKIDEXAMPLE
aws_secret_access_key = another
[mine]
aws_access_key_id=AKIDEXAMPLE
aws_secret_access_key = secret/of+the key
]])
      local function of(profile)
        return {AWS_CONFIG_FILE = config, AWS_SHARED_CREDENTIALS_FILE = credentials, AWS_PROFILE = profile}
      end
      works(guard, {"--aws"}, of "mine")
      works(guard, {"--aws"}, of "by-command")
      local status, _, err = run(at(guard), {"--aws"}, of "of-a-role")
      assert.equal(1, status)
      says(err, "of-a-role", "role_arn", "aws configure export-credentials")
      status, _, err = run(at(guard), {"--aws"}, of "default") -- its secret is another, and its region
      assert.equal(4, status)
      says(err, "does not match", "403")
      local identity = program.write "identity+/=\n"
      works(guard, aws, {AWS_ROLE_ARN = "arn:aws:iam::123456789012:role/a",
        AWS_WEB_IDENTITY_TOKEN_FILE = identity, AWS_ENDPOINT_URL_STS = at(guard) .. "/amazon/sts"})
      for _, file in ipairs {config, credentials, identity} do os.remove(file) end
    end)

    it("comes from a container, and from an instance", function()
      local guard <close> = between.start("guard.py", host)
      works(guard, aws, {AWS_CONTAINER_CREDENTIALS_FULL_URI = at(guard) .. "/amazon/container",
        AWS_CONTAINER_AUTHORIZATION_TOKEN = "of-the-container"})
      works(guard, aws, {AWS_EC2_METADATA_DISABLED = "",
        AWS_EC2_METADATA_SERVICE_ENDPOINT = at(guard) .. "/amazon"})
      local status, _, err = run(at(guard), aws,
        {AWS_CONTAINER_CREDENTIALS_FULL_URI = "http://192.0.2.1/credentials"})
      assert.equal(2, status)
      says(err, "AWS_CONTAINER_CREDENTIALS_FULL_URI", "192.0.2.1")
      status, _, err = run(at(guard), aws, {
        AWS_CONTAINER_CREDENTIALS_FULL_URI = at(guard) .. "/amazon/container",
        AWS_CONTAINER_AUTHORIZATION_TOKEN = "another's"})
      assert.equal(4, status)
      says(err, "container", "401")
      assert.is_nil(err:find("another's", 1, true))
    end)

    it("is renewed when it ends, whether its end was told or not", function()
      -- One that is refused within 5 s is not asked for again.
      for _, how in ipairs {{3, "life=2"}, {8, "life=6", "claims=3600"}} do
        local guard <close> = between.start("guard.py", host, table.unpack(how, 2))
        works(guard, aws, {AWS_CONTAINER_CREDENTIALS_FULL_URI = at(guard) .. "/amazon/container",
          AWS_CONTAINER_AUTHORIZATION_TOKEN = "of-the-container"}, long_code:format(how[1]))
        assert.is_true(guard:count "GET /amazon/container 200" >= 2, guard:said())
      end
    end)

    it("is signed with the server's time, where this machine's clock is another", function()
      for _, shift in ipairs {3600, -3600} do
        local guard <close> = between.start("guard.py", host, "shift=" .. shift)
        says(works(guard, aws, static), "this machine's clock is 3", shift > 0 and "behind" or "ahead of")
        assert.is_true(guard:count "403 Signature expired" <= 3, guard:said())
      end
    end)

    it("says what is missing", function()
      local status, _, err = run(server.store, aws)
      assert.equal(2, status)
      says(err, "no credentials", "the environment", "the profile default", "/dev/null/home/.aws/credentials")
      status, _, err = run(server.store, {"--aws"}, static)
      assert.equal(2, status)
      says(err, "region")
      status, _, err = run("https://x.us-east-1.aoss.amazonaws.com", {"--aws"}, static)
      assert.equal(1, status)
      says(err, "serverless")
      status, _, err = run(server.store, aws, {AWS_ACCESS_KEY_ID = "AKIDEXAMPLE"})
      assert.equal(2, status)
      says(err, "AWS_SECRET_ACCESS_KEY")
    end)
  end)

  describe("from a command", function()
    for scheme, word in pairs {ApiKey = "--api-key-command", Bearer = "--bearer-command"} do
      it("is fetched again when the server refuses it: " .. scheme, function()
        local key, trace = program.write "first-key\n", program.write ""
        local guard <close> = between.start("guard.py", host, "scheme=" .. scheme, "key=" .. key)
        local runs = program.write ""
        local command = ("echo >>%s; cat %s"):format(runs, key)
        works(guard, {word, command})
        local turn = ("sleep 5.5; echo second-key >%s"):format(key)
        os.execute(("(%s) </dev/null >/dev/null 2>&1 &"):format(turn))
        local words = {word, command, "--log-level", "debug", "--trace-http", trace}
        local err = works(guard, words, nil, long_code:format(8))
        assert.is_true(guard:count " 401" >= 1, guard:said())
        for _, text in ipairs {err, program.read(trace)} do
          assert.is_nil(text:find("first-key", 1, true))
          assert.is_nil(text:find("second-key", 1, true))
        end
        assert.is_true(#program.read(runs) <= 12, program.read(runs))
        for _, file in ipairs {key, trace, runs} do os.remove(file) end
      end)
    end

    it("is refused once, not for ever, where it is a wrong one", function()
      local key = program.write "right"
      local guard <close> = between.start("guard.py", host, "scheme=ApiKey", "key=" .. key)
      local status, _, err = run(at(guard), {"--api-key-command", "echo wrong"})
      assert.equal(4, status)
      says(err, "401")
      assert.is_nil(err:find("wrong", 1, true))
      assert.is_true(guard:count " 401" <= 4, guard:said())
      os.remove(key)
    end)

    it("that fails is named", function()
      local function fails(command, ...)
        local before = os.time()
        local status, _, err = run(server.store, {"--api-key-command", command, "--timeout", "2s"})
        assert.equal(4, status, err)
        says(err, ...)
        assert.is_true(os.time() - before < 20)
      end
      fails("exit 3", "the command 'exit 3'", "status 3")
      fails("true", "prints nothing")
      fails("echo 'two words'", "prints no secret")
      fails("kill -9 $$", "signal 9")
      fails("/nonexistent/command", "status 127")
      fails("head -c 100000 /dev/zero", "64 KiB")
      fails("sleep 1000", "its time was over", "secret")
    end)
  end)
end)
