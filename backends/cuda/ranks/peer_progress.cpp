// A question goes to the process of the rank; its answer comes under the number of the question.
#include "backends/cuda/ranks/peer_progress.h"

#include "core/base/check.h"

#include <cstring>
#include <thread>
#include <utility>

namespace sextant {
namespace {

constexpr HostTag kQuestions{HostSubject::kProgress, 0};

HostTag answer_to(std::uint64_t question) { return {HostSubject::kProgress, question}; }

struct Question {
  std::uint64_t number = 0;  // from 1
  std::int64_t rank = 0;
};

template <typename T>
HostBytes to_bytes(std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}

template <typename T>
std::vector<T> from_bytes(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace

PeerProgress::PeerProgress(const RankProcesses& processes, std::function<Counts(Rank)> own,
                           std::function<void(const std::string&)> lost)
    : processes_(processes),
      own_(std::move(own)),
      lost_(std::move(lost)),
      hearing_([this] { hear(); }) {}

// An empty message to oneself ends the hearing.
PeerProgress::~PeerProgress() {
  try {
    processes_.group.send(processes_.group.rank(), kQuestions, {});
  } catch (const Error&) {  // the group is aborted, and the thread has heard it
  }
  hearing_.join();
}

void PeerProgress::hear() {
  const auto answer = [this](const HostMessage& message) {
    for (const Question& question : from_bytes<Question>(message.bytes)) {
      const Counts counts = own_(Rank(static_cast<std::size_t>(question.rank)));
      processes_.group.send(message.from, answer_to(question.number),
                            to_bytes(std::span<const std::int64_t>(counts)));
    }
  };
  if (const auto reason = hear_messages(processes_.group, kQuestions, answer)) lost_(*reason);
}

std::optional<PeerProgress::Counts> PeerProgress::of(Rank rank) {
  const std::lock_guard lock(mutex_);
  const Answer known = answers_[rank];
  if (known.when != Clock::time_point{} && Clock::now() - known.when < kIsNew) return known.counts;
  const std::optional<Counts> counts = ask(rank);
  answers_[rank] = {Clock::now(), counts};
  // Silence is of the process.
  if (!counts)
    for (const Rank beside : processes_.blocks.ranks_of(processes_.blocks.process_of(rank)))
      answers_[beside] = {Clock::now(), counts};
  return counts;
}

std::optional<PeerProgress::Counts> PeerProgress::ask(Rank rank) {
  constexpr std::chrono::milliseconds kLook{1};
  const Question question{++questions_, rank.value};
  const Clock::time_point end = Clock::now() + kPatience;
  try {
    processes_.group.send(processes_.blocks.process_of(rank), kQuestions,
                          to_bytes(std::span(&question, 1)));
    while (Clock::now() < end) {
      if (const auto answer = processes_.group.try_receive_any(answer_to(question.number)))
        return from_bytes<std::int64_t>(answer->bytes);
      std::this_thread::sleep_for(kLook);
    }
  } catch (const Error&) {  // aborted
  }
  return std::nullopt;
}

}  // namespace sextant
