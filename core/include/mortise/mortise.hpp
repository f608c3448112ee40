/* libmortise for C++11 and later: locks and clients that are given back when their scope ends, errors that are thrown.
 * All in this header; the program is linked with libmortise, and with libmortise-host where it uses mortise::host.
 *
 *   mortise::client client("sqlite:store.db");
 *   auto lock = client.lock({"/clinton"}, mortise::exclusive, std::chrono::seconds(5));
 *   ... lock.check() before each step that matters ... */
#ifndef MORTISE_HPP
#define MORTISE_HPP

#include <mortise/mortise.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mortise {

using std::chrono::milliseconds;

/* What a call did not do. For locks that were not had, `blockers` has who is in the way. */
class error : public std::runtime_error {
public:
  explicit error(const mortise_error &e, const mortise_blockers &who = mortise_blockers())
      : std::runtime_error(e.message), details(e), blockers(who) {}
  mortise_status code() const noexcept { return details.code; }
  mortise_error details;
  mortise_blockers blockers;
};

inline void check(mortise_status status, const mortise_error &e) {
  if (status != MORTISE_OK) throw error(e);
}

/* As mortise_options, with strings of its own kept by whoever sets them. */
struct options : mortise_options {
  explicit options(const char *url) {
    mortise_options_init(this);
    store = url;
  }
};

enum mode { exclusive = MORTISE_EXCLUSIVE, shared = MORTISE_SHARED, six = MORTISE_SIX };

/* A lock, given back at the end of its scope. It must end before its client does. */
class lock {
public:
  explicit lock(mortise_lock *held) noexcept : held_(held) {}

  void check() const {
    mortise_error e;
    mortise::check(mortise_lock_check(held_.get(), &e), e);
  }
  bool is_held() const noexcept { return mortise_lock_check(held_.get(), nullptr) == MORTISE_OK; }
  milliseconds remaining() const noexcept { return milliseconds(mortise_lock_remaining_ms(held_.get())); }
  std::uint64_t fence() const noexcept { return mortise_lock_fence(held_.get()); }
  std::string epoch() const { return mortise_lock_epoch(held_.get()); }

  void convert(mode to, milliseconds wait) {
    mortise_error e;
    mortise_blockers who;
    if (mortise_lock_convert(held_.get(), static_cast<mortise_lock_mode>(to), wait.count(), &who, &e) != MORTISE_OK)
      throw error(e, who);
  }
  /* At once, and says whether that was written; without it the destructor does the same in silence. */
  void release() {
    mortise_error e;
    mortise::check(mortise_lock_release(held_.release(), &e), e);
  }

private:
  struct giver {
    void operator()(mortise_lock *l) const noexcept { mortise_lock_release(l, nullptr); }
  };
  std::unique_ptr<mortise_lock, giver> held_;
};

/* Of the thread that uses it. */
class client {
public:
  explicit client(const options &o) {
    mortise_error e;
    opened_.reset(mortise_client_open(&o, &e));
    if (!opened_) throw error(e);
  }
  explicit client(const char *url) : client(options(url)) {}

  /* The lock table and the index of jobs, where they are missing. */
  void init_tables(std::uint32_t stripes = 0) {
    mortise_error e;
    check(mortise_client_init_tables(opened_.get(), stripes, &e), e);
  }

  /* Trees. Without `wait`: as the client's options say. */
  mortise::lock lock(const std::vector<std::string> &paths, mode how = exclusive, milliseconds wait = milliseconds(-1)) {
    return acquire(MORTISE_LOCK_TREE, nullptr, paths, how, wait);
  }
  mortise::lock lock_documents(const std::string &index, const std::vector<std::string> &ids, mode how = exclusive,
                               milliseconds wait = milliseconds(-1)) {
    return acquire(MORTISE_LOCK_DOCUMENT, index.c_str(), ids, how, wait);
  }
  mortise::lock lock_names(const std::string &category, const std::vector<std::string> &names, mode how = exclusive,
                           milliseconds wait = milliseconds(-1)) {
    return acquire(MORTISE_LOCK_NAMED, category.c_str(), names, how, wait);
  }

  mortise_client *get() const noexcept { return opened_.get(); }

private:
  mortise::lock acquire(mortise_lock_kind kind, const char *index, const std::vector<std::string> &names, mode how,
                        milliseconds wait) {
    std::vector<const char *> list;
    for (const std::string &name : names) list.push_back(name.c_str());
    mortise_lock_request request;
    mortise_lock_request_init(&request);
    request.kind = kind;
    request.index = index;
    request.paths = list.data();
    request.n = list.size();
    request.mode = static_cast<mortise_lock_mode>(how);
    request.wait_ms = wait.count();
    mortise_error e;
    mortise_blockers who;
    mortise_lock *held = mortise_lock_acquire(opened_.get(), &request, &who, &e);
    if (!held) throw error(e, who);
    return mortise::lock(held);
  }

  struct closer {
    void operator()(mortise_client *c) const noexcept { mortise_client_free(c); }
  };
  std::unique_ptr<mortise_client, closer> opened_;
};

} // namespace mortise

#endif
