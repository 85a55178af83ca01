// Communicators, and scripts as NCCL's calls.
#include "backends/cuda/nccl_exchange.h"

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_check.h"
#include "core/base/check.h"
#include "core/graphs/meeting_members.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <type_traits>
#include <utility>

#ifdef SEXTANT_HAS_NCCL
#include "backends/cuda/nccl_settings.h"
#endif

namespace sextant {

#ifndef SEXTANT_HAS_NCCL

bool has_nccl() { return false; }
std::string nccl_version() { return ""; }

struct NcclExchange::Member {};
NcclExchange::NcclExchange(const PhysicalGraph& graph, bool deterministic,
                           std::optional<RanksElsewhere> elsewhere)
    : graph_(graph), deterministic_(deterministic), elsewhere_(std::move(elsewhere)) {
  fail(ErrorCode::kDevice, "this build has no NCCL");
}
NcclExchange::~NcclExchange() = default;
Bytes NcclExchange::communicator_bytes(std::span<const CudaCommunication* const>) const {
  return Bytes(0);
}
int NcclExchange::processors_of_slow() const { return 0; }
void NcclExchange::connect(std::span<CudaCommunication* const>, HostAgreement&) {}
void NcclExchange::enqueue(std::span<const Part>) {}
void NcclExchange::note_replay(Rank, std::int64_t) {}
std::optional<std::string> NcclExchange::fault(Rank) { return std::nullopt; }
std::string NcclExchange::arrivals(const CudaCommunication&, std::int64_t) const { return ""; }
bool NcclExchange::have_all_arrived(const CudaCommunication&, std::int64_t) const { return true; }
std::vector<std::int64_t> NcclExchange::enqueued(Rank) const { return {}; }
void NcclExchange::announce_abort(const std::string&) {}
void NcclExchange::abort(const std::string&, Rank) {}
std::optional<std::string> NcclExchange::abort_reason() const { return std::nullopt; }
void NcclExchange::close(Rank) {}
Traffic NcclExchange::traffic() const { return {}; }

#else

bool has_nccl() { return true; }

std::string nccl_version() {
  int version = 0;
  SEXTANT_NCCL(ncclGetVersion(&version));
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

namespace {

// An inner wait of `abort` for a launch thread that is inside NCCL.
constexpr std::chrono::seconds kPatience{2};

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return ncclFloat64;
    case DType::kF32:
      return ncclFloat32;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kF16:
      return ncclFloat16;
    case DType::kI64:
      return ncclInt64;
    case DType::kI32:
      return ncclInt32;
    case DType::kBool:
    case DType::kE4M3:  // moved, never added
    case DType::kE5M2:
    case DType::kU8:
      return ncclUint8;
  }
  return ncclUint8;
}

// Scripts hand over no largest or smallest of floats, whose NaN NCCL drops, and no sum of flags.
ncclRedOp_t nccl_op(const ExchangeCall& call, DType dtype) {
  switch (call.op) {
    case ReduceOp::kSum:
      require(dtype != DType::kBool && !is_only_moved(dtype), ErrorCode::kInternal,
              "NCCL sums no flags and nothing of 8 bits");
      return ncclSum;
    case ReduceOp::kMax:
    case ReduceOp::kMin:
      require(!is_floating(dtype), ErrorCode::kInternal, "NCCL loses NaN in {} of {}",
              to_string(call.op), to_string(dtype));
      return call.op == ReduceOp::kMax ? ncclMax : ncclMin;
  }
  return ncclSum;
}

template <typename T>
void append(HostBytes& bytes, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto parts = std::as_bytes(std::span(&value, 1));
  bytes.insert(bytes.end(), parts.begin(), parts.end());
}

template <typename T>
T take(std::span<const std::byte>& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  bytes = bytes.subspan(sizeof(value));
  return value;
}

// What a rank brings of a communicator: the id where it is the first of its ranks, and how many
// bytes it would move slowly and fast.
struct Offer {
  std::optional<ncclUniqueId> id;
  double slow = 0, fast = 0;

  void add(const Offer& other) {
    if (other.id) id = other.id;
    slow += other.slow;
    fast += other.fast;
  }
  int blocks(const CommunicatorKey& key, int most) const {
    return blocks_of(key, slow > fast, most);
  }
};
using Offers = std::map<CommunicatorKey, Offer>;

HostBytes offers_to_bytes(const Offers& offers) {
  HostBytes bytes;
  for (const auto& [key, offer] : offers) {
    append(bytes, static_cast<std::int32_t>(key.ranks.size()));
    for (const Rank rank : key.ranks) append(bytes, rank.value);
    append(bytes, key.transfers.value);
    append(bytes, offer.slow);
    append(bytes, offer.fast);
    append(bytes, offer.id.has_value());
    if (offer.id) append(bytes, *offer.id);
  }
  return bytes;
}

void take_offers(std::span<const std::byte> bytes, Offers& offers) {
  while (!bytes.empty()) {
    CommunicatorKey key;
    key.ranks.resize(static_cast<std::size_t>(take<std::int32_t>(bytes)));
    for (Rank& rank : key.ranks) rank.value = take<std::int32_t>(bytes);
    key.transfers.value = take<std::int32_t>(bytes);
    Offer offer;
    offer.slow = take<double>(bytes);
    offer.fast = take<double>(bytes);
    if (take<bool>(bytes)) offer.id = take<ncclUniqueId>(bytes);
    offers[key].add(offer);
  }
}

// What each communicator of these communications is used for.
std::map<CommunicatorKey, CommunicatorUse> communicator_uses(
    const PhysicalGraph& graph, std::span<const CudaCommunication* const> own) {
  std::map<CommunicatorKey, CommunicatorUse> uses;
  for (const CudaCommunication* communication : own) {
    if (communication->num_members() == 1) continue;
    CommunicatorUse& use = uses[communicator_key(graph, communication->group,
                                                 communication->communication().primitive)];
    for (const ExchangeCall& call : communication->script().exchange) {
      use.rings |= is_ring(call.kind);
      use.receives |= call.kind == ExchangeCall::Kind::kReceive;
    }
  }
  return uses;
}

// Without ids.
Offers own_offers(const PhysicalGraph& graph, std::span<const CudaCommunication* const> own) {
  Offers offers;
  for (const CudaCommunication* communication : own) {
    if (communication->num_members() == 1) continue;
    Offer& offer = offers[communicator_key(graph, communication->group,
                                           communication->communication().primitive)];
    double& bytes = communication->goes_slowly ? offer.slow : offer.fast;
    for (const ExchangeCall& call : communication->script().exchange)
      bytes += static_cast<double>((size_of(communication->script().dtype) * call.elements).value);
  }
  return offers;
}

void enqueue_call(const CudaCommunication& communication, const ExchangeCall& call, ncclComm_t with,
                  cudaStream_t stream) {
  const DType dtype = communication.script().dtype;
  const ScriptBuffers& buffers = communication.buffers();
  const ncclDataType_t type = nccl_type(dtype);
  const auto elements = static_cast<std::size_t>(call.elements);
  switch (call.kind) {
    case ExchangeCall::Kind::kAllReduce:
      SEXTANT_NCCL(ncclAllReduce(buffers.at(call.from), buffers.at(call.to), elements, type,
                                 nccl_op(call, dtype), with, stream));
      break;
    case ExchangeCall::Kind::kAllGather:
      SEXTANT_NCCL(
          ncclAllGather(buffers.at(call.from), buffers.at(call.to), elements, type, with, stream));
      break;
    case ExchangeCall::Kind::kReduceScatter:
      SEXTANT_NCCL(ncclReduceScatter(buffers.at(call.from), buffers.at(call.to), elements, type,
                                     nccl_op(call, dtype), with, stream));
      break;
    case ExchangeCall::Kind::kSend:
      SEXTANT_NCCL(ncclSend(buffers.at(call.from), elements, type, call.peer, with, stream));
      break;
    case ExchangeCall::Kind::kReceive:
      SEXTANT_NCCL(ncclRecv(buffers.at(call.to), elements, type, call.peer, with, stream));
      break;
  }
}

// A group of one rank has all its parts already.
void enqueue_alone(const CudaCommunication& communication, const ExchangeCall& call,
                   cudaStream_t stream) {
  const std::byte* from = communication.buffers().at(call.from);
  std::byte* to = communication.buffers().at(call.to);
  if (from == to) return;
  const Bytes bytes = size_of(communication.script().dtype) * call.elements;
  SEXTANT_CUDA(
      cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes.value), cudaMemcpyDefault, stream));
}

}  // namespace

// `mutex` is held while NCCL is called for the rank, so that `abort` frees no communicator in use.
struct NcclExchange::Member {
  std::timed_mutex mutex;
  std::vector<ncclComm_t> communicators;
  std::vector<CudaCommunication*> communications;
  std::vector<std::atomic<std::int64_t>> enqueued;  // by group
};

NcclExchange::NcclExchange(const PhysicalGraph& graph, bool deterministic,
                           std::optional<RanksElsewhere> elsewhere)
    : graph_(graph), deterministic_(deterministic), elsewhere_(std::move(elsewhere)) {
  require_one_nccl();
  set_nccl_defaults(deterministic);
  for (std::size_t member = 0; member < graph.ranks.size(); ++member) {
    members_.push_back(std::make_unique<Member>());
    members_.back()->enqueued = std::vector<std::atomic<std::int64_t>>(graph.groups.size());
  }
}

NcclExchange::~NcclExchange() = default;

Bytes NcclExchange::communicator_bytes(std::span<const CudaCommunication* const> own) const {
  const Offers offers = own_offers(graph_, own);
  Bytes bytes;
  for (const auto& [key, use] : communicator_uses(graph_, own))
    bytes += sextant::communicator_bytes(use, offers.at(key).blocks(key, blocks_of_card()));
  return bytes;
}

int NcclExchange::processors_of_slow() const {
  return std::min(kBlocksInCompany, blocks_of_card());
}

// The first rank of a communicator makes its id; ids, and how ranks use it, are exchanged at once.
// Then every rank makes its communicators in the order of keys, which is one for all ranks: whoever
// waits for a peer waits for one that is at an earlier key.
void NcclExchange::connect(std::span<CudaCommunication* const> own, HostAgreement& group) {
  const Rank rank = group.rank();
  Member& member = *members_[rank.index()];
  member.communications.assign(own.begin(), own.end());
  Offers brought =
      own_offers(graph_, std::vector<const CudaCommunication*>(own.begin(), own.end()));
  for (auto& [key, offer] : brought)
    if (key.ranks.front() == rank) SEXTANT_NCCL(ncclGetUniqueId(&offer.id.emplace()));
  Offers offers;
  for (const HostBytes& bytes : group.all_gather(offers_to_bytes(brought)))
    take_offers(bytes, offers);
  const int most = blocks_of_card();
  std::map<CommunicatorKey, std::size_t> numbers;
  for (const auto& [key, mine] : brought) {
    const Offer& offer = offers.at(key);
    const int blocks = offer.blocks(key, most);
    check_not_aborted();
    const auto position = std::find(key.ranks.begin(), key.ranks.end(), rank) - key.ranks.begin();
    ncclConfig_t config = nccl_config(blocks);
    if (deterministic_) config.minCTAs = blocks;
    ncclComm_t made = nullptr;
    SEXTANT_NCCL(ncclCommInitRankConfig(&made, static_cast<int>(key.ranks.size()), *offer.id,
                                        static_cast<int>(position), &config));
    const std::lock_guard lock(member.mutex);
    numbers[key] = member.communicators.size();
    member.communicators.push_back(made);
  }
  for (CudaCommunication* communication : own)
    if (communication->num_members() > 1)
      communication->communicator = numbers.at(
          communicator_key(graph_, communication->group, communication->communication().primitive));
}

void NcclExchange::check_not_aborted() const {
  if (!is_aborted_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  fail(ErrorCode::kRankFailed, "stopped: {}", *abort_reason_);
}

void NcclExchange::enqueue_exchange(Member& member, std::span<const Part> parts) {
  SEXTANT_NCCL(ncclGroupStart());
  try {
    for (const Part& part : parts) {
      const CudaCommunication& communication = *part.communication;
      for (const ExchangeCall& call : communication.script().exchange)
        if (communication.num_members() > 1)
          enqueue_call(communication, call, member.communicators[communication.communicator],
                       part.stream);
    }
  } catch (...) {
    ncclGroupEnd();
    throw;
  }
  SEXTANT_NCCL(ncclGroupEnd());
}

void NcclExchange::enqueue(std::span<const Part> given) {
  std::vector<Part> parts(given.begin(), given.end());
  const auto order = [](const Part& part) {
    return PartOrder{part.communication->group, part.communication->occurrence(part.step)};
  };
  std::sort(parts.begin(), parts.end(),
            [&](const Part& a, const Part& b) { return order(a) < order(b); });
  Member& member = *members_[parts.front().communication->rank.index()];
  const std::lock_guard lock(member.mutex);
  check_not_aborted();
  for (const Part& part : parts) {
    part.communication->enqueue_before(part.stream);
    for (const ExchangeCall& call : part.communication->script().exchange)
      if (part.communication->num_members() == 1)
        enqueue_alone(*part.communication, call, part.stream);
  }
  enqueue_exchange(member, parts);
  for (const Part& part : parts) {
    part.communication->enqueue_after(part.stream);
    member.enqueued[part.communication->group.index()].store(
        part.communication->occurrence(part.step) + 1, std::memory_order_relaxed);
  }
}

void NcclExchange::note_replay(Rank rank, std::int64_t step) {
  Member& member = *members_[rank.index()];
  for (const CudaCommunication* communication : member.communications)
    member.enqueued[communication->group.index()].store((step + 1) * communication->per_step,
                                                        std::memory_order_relaxed);
}

std::optional<std::string> NcclExchange::fault(Rank rank) {
  Member& member = *members_[rank.index()];
  const std::unique_lock lock(member.mutex, std::try_to_lock);
  if (!lock) return std::nullopt;
  for (const ncclComm_t communicator : member.communicators) {
    ncclResult_t state = ncclSuccess;
    if (ncclCommGetAsyncError(communicator, &state) != ncclSuccess || state == ncclSuccess ||
        state == ncclInProgress)
      continue;
    return std::string("NCCL: ") + ncclGetErrorString(state) + " (" +
           ncclGetLastError(communicator) + ")";
  }
  return std::nullopt;
}

std::vector<std::int64_t> NcclExchange::enqueued(Rank rank) const {
  std::vector<std::int64_t> by_group;
  for (const auto& count : members_[rank.index()]->enqueued)
    by_group.push_back(count.load(std::memory_order_relaxed));
  return by_group;
}

std::optional<std::int64_t> NcclExchange::enqueued_by(Rank rank, GroupId group) const {
  if (is_here(rank))
    return members_[rank.index()]->enqueued[group.index()].load(std::memory_order_relaxed);
  const std::optional<std::vector<std::int64_t>> by_group = elsewhere_->enqueued(rank);
  if (!by_group || group.index() >= by_group->size()) return std::nullopt;
  return (*by_group)[group.index()];
}

std::string NcclExchange::arrivals(const CudaCommunication& communication,
                                   std::int64_t step) const {
  const std::int64_t occurrence = communication.occurrence(step);
  std::vector<bool> has_arrived;
  std::string silent;
  for (const Rank rank : graph_.groups[communication.group].ranks) {
    const std::optional<std::int64_t> enqueued = enqueued_by(rank, communication.group);
    if (!enqueued) silent += fmt::format("; the process of rank {} does not answer", rank.value);
    has_arrived.push_back(enqueued && *enqueued > occurrence);
  }
  return arrivals_text(graph_, communication.group, occurrence, has_arrived) + silent;
}

bool NcclExchange::have_all_arrived(const CudaCommunication& communication,
                                    std::int64_t step) const {
  const std::vector<Rank>& ranks = graph_.groups[communication.group].ranks;
  return std::all_of(ranks.begin(), ranks.end(), [&](Rank rank) {
    const std::optional<std::int64_t> enqueued = enqueued_by(rank, communication.group);
    return enqueued && *enqueued > communication.occurrence(step);
  });
}

void NcclExchange::announce_abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!abort_reason_) abort_reason_ = reason;
  is_aborted_.store(true, std::memory_order_release);
}

// Kernels that wait for a peer end; what they have written by then is of no use. A rank whose
// thread stays inside NCCL keeps its communicators: freeing them under it would be worse, and
// whoever owns the ranks must end the process.
void NcclExchange::abort(const std::string& reason, Rank rank) {
  announce_abort(reason);
  Member& member = *members_[rank.index()];
  const std::unique_lock lock(member.mutex, kPatience);
  if (!lock) return;
  for (const ncclComm_t communicator : member.communicators) ncclCommAbort(communicator);
  member.communicators.clear();
}

std::optional<std::string> NcclExchange::abort_reason() const {
  const std::lock_guard lock(mutex_);
  return abort_reason_;
}

void NcclExchange::close(Rank rank) {
  Member& member = *members_[rank.index()];
  const std::lock_guard lock(member.mutex);
  for (const ncclComm_t communicator : member.communicators)
    SEXTANT_NCCL(ncclCommDestroy(communicator));
  member.communicators.clear();
}

Traffic NcclExchange::traffic() const {
  Traffic all;
  std::map<std::pair<GroupId, std::int64_t>, Meeting> meetings;
  for (const auto& member : members_)
    for (const CudaCommunication* communication : member->communications) {
      auto& meeting = meetings[{communication->group, communication->index_in_step}];
      meeting.resize(communication->num_members());
      meeting[communication->member()] = communication;
    }
  for (const auto& [key, meeting] : meetings) count(meeting, all);
  return all;
}

// What members in other processes send is theirs to count.
void NcclExchange::count(const Meeting& meeting, Traffic& all) const {
  const CudaCommunication& one = **std::find_if(meeting.begin(), meeting.end(),
                                                [](const auto* own) { return own != nullptr; });
  const std::vector<Rank>& ranks = graph_.groups[one.group].ranks;
  std::vector<CollectiveScript> scripts;
  for (std::size_t member = 0; member < meeting.size(); ++member)
    scripts.push_back(meeting[member] != nullptr
                          ? meeting[member]->script()
                          : make_script(graph_, one.communication(), ranks, member, false));
  Traffic once;
  add_traffic(scripts, ranks, once);
  // Of all steps, those in which this one of the group was enqueued.
  const std::int64_t enqueued = this->enqueued(one.rank)[one.group.index()];
  const std::int64_t times = (enqueued + one.per_step - 1 - one.index_in_step) / one.per_step;
  for (const auto& [pair, bytes] : once)
    if (is_here(pair.first)) all[pair] += bytes * times;
}

#endif

}  // namespace sextant
