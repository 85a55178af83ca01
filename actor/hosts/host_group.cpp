// A round ends when the last rank arrives. Nobody can be in the round after the next: it would need
// all ranks to have left this one.
#include "actor/hosts/host_group.h"

#include "core/base/check.h"

#include <exception>
#include <utility>

namespace sextant {

std::string reason_of_abort(const Error& error) {
  constexpr std::string_view kStopped = "stopped: ";
  std::string reason = error.what();
  if (reason.starts_with(kStopped)) reason.erase(0, kStopped.size());
  return reason;
}

std::optional<std::string> hear_messages(HostGroup& group, HostTag tag,
                                         const std::function<void(const HostMessage&)>& take) {
  try {
    for (;;) {
      const HostMessage message = group.receive_any(tag);
      if (message.bytes.empty()) return std::nullopt;
      take(message);
    }
  } catch (const Error& error) {
    return reason_of_abort(error);
  } catch (const std::exception& error) {
    return error.what();
  }
}

HostBytes host_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string host_text(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (const std::byte byte : bytes) text.push_back(static_cast<char>(byte));
  return text;
}

namespace {

// Code, place, message and hints, each ended by a zero; nothing: no error.
HostBytes to_bytes(const std::optional<Error>& error) {
  if (!error) return {};
  std::string text(1, static_cast<char>(error->code()));
  text += error->place() + '\0' + error->message();
  for (const std::string& hint : error->hints()) text += '\0' + hint;
  return host_bytes(text);
}

Error to_error(std::span<const std::byte> bytes) {
  const auto code = static_cast<ErrorCode>(bytes.front());
  std::vector<std::string> parts(1);  // place, message, hints
  for (const char letter : host_text(bytes.subspan(1)))
    if (letter == '\0')
      parts.emplace_back();
    else
      parts.back().push_back(letter);
  return {code, Place{parts.at(0)}, parts.at(1), {parts.begin() + 2, parts.end()}};
}

}  // namespace

void HostAgreement::agree(const std::optional<Error>& own) {
  for (const HostBytes& error : all_gather(to_bytes(own)))
    if (!error.empty()) throw to_error(error);
}

HostBytes HostAgreement::broadcast(std::span<const std::byte> own, Rank root) {
  require(own.empty() || rank() == root, ErrorCode::kInternal, "rank {} brings what rank {} has",
          rank().value, root.value);
  return std::move(all_gather(own)[root.index()]);
}

void HostAgreement::agree_after(const std::function<void()>& act) {
  std::optional<Error> failed;
  try {
    act();
  } catch (const Error& error) {
    failed = error;
  } catch (const std::exception& error) {
    failed.emplace(ErrorCode::kInternal, error.what());
  }
  agree(failed);
}

std::vector<HostBytes> gather_by_messages(HostGroup& group, std::span<const std::byte> own,
                                          std::uint64_t round) {
  const HostTag tag{HostSubject::kGather, round};
  const HostBytes brought(own.begin(), own.end());
  for (std::size_t other = 0; other < group.size(); ++other)
    if (Rank(other) != group.rank()) group.send(Rank(other), tag, brought);
  std::vector<HostBytes> all(group.size());
  for (std::size_t other = 0; other < group.size(); ++other)
    all[other] = Rank(other) == group.rank() ? brought : group.receive(Rank(other), tag);
  return all;
}

class ThreadHostGroups::Member final : public HostGroup {
 public:
  Member(ThreadHostGroups& groups, Rank rank) : groups_(groups), rank_(rank) {}
  Rank rank() const override { return rank_; }
  std::size_t size() const override { return groups_.members_.size(); }
  std::string name_of(Rank member) const override {
    return fmt::format("thread {} of {}", member.value, size());
  }
  void abort(const std::string& reason) override { groups_.abort(reason); }
  std::vector<HostBytes> all_gather(std::span<const std::byte> own) override {
    return groups_.gather(rank_.index(), own);
  }
  void send(Rank to, HostTag tag, HostBytes bytes) override {
    mailbox_.require_open();
    groups_.members_.at(to.index())->mailbox_.put(tag, {rank_, std::move(bytes)});
  }
  HostBytes receive(Rank from, HostTag tag) override { return mailbox_.take(from, tag); }
  HostMessage receive_any(HostTag tag) override { return mailbox_.take_any(tag); }
  std::optional<HostMessage> try_receive_any(HostTag tag) override {
    return mailbox_.try_take(tag, std::nullopt);
  }

  void close(const std::string& reason) { mailbox_.close(reason); }

 private:
  ThreadHostGroups& groups_;
  const Rank rank_;
  HostMailbox mailbox_;
};

ThreadHostGroups::ThreadHostGroups(std::size_t ranks) : brought_(ranks) {
  for (std::size_t rank = 0; rank < ranks; ++rank)
    members_.push_back(std::make_unique<Member>(*this, Rank(rank)));
}

ThreadHostGroups::~ThreadHostGroups() = default;

HostGroup& ThreadHostGroups::of(Rank rank) { return *members_[rank.index()]; }

void ThreadHostGroups::abort(const std::string& reason) {
  std::string first;
  {
    const std::lock_guard lock(mutex_);
    if (!abort_reason_) abort_reason_ = reason;
    first = *abort_reason_;
    changed_.notify_all();
  }
  for (const auto& member : members_) member->close(first);
}

std::vector<HostBytes> ThreadHostGroups::gather(std::size_t rank, std::span<const std::byte> own) {
  std::unique_lock lock(mutex_);
  const std::uint64_t round = rounds_;
  if (!abort_reason_) {
    brought_[rank].assign(own.begin(), own.end());
    if (++arrived_ == brought_.size()) {
      gathered_ = std::exchange(brought_, std::vector<HostBytes>(brought_.size()));
      arrived_ = 0;
      ++rounds_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return rounds_ > round || abort_reason_.has_value(); });
  }
  if (rounds_ == round) fail(ErrorCode::kRankFailed, "stopped: {}", *abort_reason_);
  return gathered_;
}

}  // namespace sextant
