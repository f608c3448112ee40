-- The store into which a migration copies, where that is another one: a client, a URL, or a profile of the
-- configuration file, which has the credentials. The job's document keeps the URL and the profile's name.
local client = require "mortise.client"
local config = require "mortise.config"
local errors = require "mortise.errors"

local other_store = {}

-- A client of it, and the profile's name.
function other_store.open(given)
  if getmetatable(given) == client.class then return given end
  if type(given) ~= "string" or given == "" then
    errors.bad "migrate: option `to_store` is a client, a URL, or the name of a profile"
  end
  local connect = require("mortise").connect
  if given:find(":", 1, true) then return connect {store = given} end
  return connect(config.profile(given)), given
end

-- The same for whoever goes on, who must not copy into a third one. `kept`: {url=, profile=} of the job's
-- document.
function other_store.again(kept, given)
  local opened = other_store.open(given or kept.profile or kept.url)
  if opened:url() == kept.url then return opened end
  errors.raise("invalid_argument", "the migration copies into the store %s, not %s", kept.url, opened:url())
end

return other_store
