// Locks in C++, without Lua: given back at the end of their scope, errors thrown.
//
//   cpp STORE PATH
#include <mortise/mortise.hpp>

#include <cstdio>

int main(int argc, char **argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: cpp STORE PATH\n"), 2;
  const std::string path = argv[2];
  try {
    mortise::client client{argv[1]}, other{argv[1]};
    auto lock = client.lock({path}, mortise::exclusive, std::chrono::seconds(5));
    std::printf("%s is locked, with fence %llu\n", path.c_str(), static_cast<unsigned long long>(lock.fence()));
    try {
      other.lock({path + "/below"}, mortise::shared, std::chrono::seconds(0));
    } catch (const mortise::error &e) {
      std::printf("%s: %s holds %s\n", mortise_status_name(e.code()), e.blockers.list[0].program, e.blockers.list[0].path);
    }
    lock.convert(mortise::shared, std::chrono::seconds(0));
    auto below = other.lock({path + "/below"}, mortise::shared, std::chrono::seconds(0));
    lock.check(); // before each step that matters
    below.release();
  } catch (const mortise::error &e) {
    std::fprintf(stderr, "cpp: %s\n", e.what());
    return mortise_status_exit(e.code());
  }
}
