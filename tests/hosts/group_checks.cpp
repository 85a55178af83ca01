// Sizes go beyond what MPI sends at once without asking the receiver.
#include "tests/hosts/group_checks.h"

#include "core/base/check.h"

#include <cstddef>
#include <thread>

namespace sextant::testing {
namespace {

void expect(bool condition, const HostGroup& group, const std::string& what) {
  require(condition, ErrorCode::kVerification, "member {} of {}: {}", group.rank().value,
          group.size(), what);
}

HostBytes pattern(std::size_t size, std::size_t seed) {
  HostBytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(seed * 31 + i * 7);
  return bytes;
}

constexpr std::size_t kSizes[] = {0, 1, 100, 5'000, 300'000, 3, 2'000'000};

HostTag tag(std::uint64_t key) { return {HostSubject::kTest, key}; }

void gather_all(HostGroup& group) {
  for (std::size_t round = 0; round < 20; ++round) {
    const std::size_t own = group.rank().index();
    const std::vector<HostBytes> all = group.all_gather(pattern(own * 1'000 + round, own));
    expect(all.size() == group.size(), group, "a part of each member");
    for (std::size_t other = 0; other < all.size(); ++other)
      expect(all[other] == pattern(other * 1'000 + round, other), group, "what each brought");
  }
}

void broadcast_from_each(HostGroup& group) {
  for (std::size_t root = 0; root < group.size(); ++root) {
    const bool is_root = root == group.rank().index();
    const HostBytes got = group.broadcast(is_root ? pattern(400, root) : HostBytes{}, Rank(root));
    expect(got == pattern(400, root), group, "what the root brought");
  }
}

// The first by number counts, with its code and hints, and nobody goes on alone.
void agree_on_first_error(HostGroup& group) {
  group.agree(std::nullopt);
  std::optional<Error> own;
  if (group.rank().index() == 1)
    own.emplace(ErrorCode::kInfeasible, "no room", std::vector<std::string>{"a", ""});
  if (group.rank().index() > 1) own.emplace(ErrorCode::kDevice, "no card");
  bool refused = false;
  try {
    group.agree(own);
  } catch (const Error& error) {
    refused = error.code() == ErrorCode::kInfeasible && std::string(error.what()) == "no room" &&
              error.hints() == std::vector<std::string>{"a", ""};
  }
  expect(refused, group, "the error of member 1");
  refused = false;
  try {
    group.agree_after([&] {
      if (group.rank().index() == 0) throw std::runtime_error("lost");
    });
  } catch (const Error& error) {
    refused = error.code() == ErrorCode::kInternal && std::string(error.what()) == "lost";
  }
  expect(refused, group, "the error of member 0");
  group.agree(std::nullopt);
}

// Long and short messages of one sender and tag, in the order in which they were sent.
void keep_order(HostGroup& group) {
  const std::size_t own = group.rank().index();
  for (std::size_t to = 0; to < group.size(); ++to)
    for (const std::size_t size : kSizes) group.send(Rank(to), tag(1), pattern(size, own + size));
  for (std::size_t from = group.size(); from-- > 0;)
    for (const std::size_t size : kSizes)
      expect(group.receive(Rank(from), tag(1)) == pattern(size, from + size), group,
             fmt::format("{} bytes from member {} in their turn", size, from));
}

// Whoever waits for one tag does not get another's message, whichever came first.
void keep_tags_apart(HostGroup& group) {
  const std::size_t next = (group.rank().index() + 1) % group.size();
  const std::size_t last = (group.rank().index() + group.size() - 1) % group.size();
  for (std::uint64_t key = 10; key < 20; ++key)
    group.send(Rank(next), tag(key), pattern(50, group.rank().index() + key));
  for (std::uint64_t key = 20; key-- > 10;)
    expect(group.receive(Rank(last), tag(key)) == pattern(50, last + key), group,
           "the message of the tag");
}

void receive_from_any(HostGroup& group) {
  constexpr std::size_t kEach = 50;
  for (std::size_t i = 0; i < kEach; ++i)
    for (std::size_t to = 0; to < group.size(); ++to) group.send(Rank(to), tag(30), pattern(i, 0));
  std::vector<std::size_t> seen(group.size(), 0);
  for (std::size_t i = 0; i < kEach * group.size(); ++i) {
    const HostMessage message = group.receive_any(tag(30));
    expect(message.bytes.size() == seen[message.from.index()]++, group, "the sender's order");
  }
  for (const std::size_t messages : seen) expect(messages == kEach, group, "all messages of each");
}

// Several threads of a member talk at the same time, each under its own tag.
void talk_on_threads(HostGroup& group) {
  constexpr std::uint64_t kThreads = 4;
  std::vector<std::thread> threads;
  std::vector<std::string> failures(kThreads);
  for (std::uint64_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      try {
        const std::size_t next = (group.rank().index() + 1) % group.size();
        const std::size_t last = (group.rank().index() + group.size() - 1) % group.size();
        for (std::size_t i = 0; i < 100; ++i) {
          group.send(Rank(next), tag(40 + t), pattern(i * 10, t));
          expect(group.receive(Rank(last), tag(40 + t)) == pattern(i * 10, t), group, "a message");
        }
      } catch (const std::exception& error) {
        failures[t] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) expect(failure.empty(), group, failure);
}

// Who waits for what never comes is woken with the reason, and so is whoever asks later.
void abort_all(HostGroup& group) {
  const Rank last(group.size() - 1);
  if (group.rank() == last) {
    // All others are about to wait.
    for (std::size_t other = 0; other < last.index(); ++other) group.receive(Rank(other), tag(50));
    group.abort("the last member has had enough");
  } else {
    group.send(last, tag(50), {});
  }
  for (int call = 0; call < 2; ++call) {
    std::string reason;
    try {
      if (call == 0) group.receive(group.rank(), tag(51));
      if (call == 1) group.all_gather({});
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kRankFailed) reason = error.what();
    }
    expect(reason.find("has had enough") != std::string::npos, group,
           "the reason of the abort, not: " + reason);
  }
}

}  // namespace

std::vector<GroupCheck> group_checks() {
  return {{"all get what each brought", gather_all},
          {"all get what the root brought", broadcast_from_each},
          {"all go on, or all have the first error", agree_on_first_error},
          {"messages of a sender keep their order", keep_order},
          {"messages of other tags do not come in between", keep_tags_apart},
          {"messages of all come to whoever takes any", receive_from_any},
          {"threads of a member talk at the same time", talk_on_threads},
          {"an abort ends the calls of all", abort_all}};
}

}  // namespace sextant::testing
