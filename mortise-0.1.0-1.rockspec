-- `luarocks make`: the module for Lua 5.4. What it is built with must be there (tools/setup build).
rockspec_format = "3.0"
package = "mortise"
version = "0.1.0-1"
source = {url = "file://mortise-0.1.0.tar.gz"}
description = {
  summary = "Changes large trees of documents in Elasticsearch or OpenSearch under locks",
  license = "MIT",
}
dependencies = {"lua >= 5.4, < 5.5"}
build = {
  type = "command",
  build_command = "cmake -S . -B build/rock -DCMAKE_BUILD_TYPE=RelWithDebInfo -DMORTISE_LUA_MODULES=$(LIBDIR)"
    .. " && cmake --build build/rock --target mortise_lua",
  install_command = "cmake --install build/rock --component lua",
}
