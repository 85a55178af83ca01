// Descriptions are lists of integers, found again by their hash.
#include "simulator/modes/recurring/block_catalogue.h"

#include "core/base/at.h"

#include <algorithm>

namespace sextant {
namespace {

std::uint64_t hash_of(std::span<const std::int32_t> key, std::uint64_t seed) {
  std::uint64_t hash = seed + 0x9e3779b97f4a7c15U;
  for (const std::int32_t value : key) {
    hash = (hash ^ static_cast<std::uint32_t>(value)) * 0xff51afd7ed558ccdU;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

// ---------------------------------------------------------------- durations

BlockDurations::BlockDurations(const Tape& tape, std::span<const std::int32_t> colour_of_place,
                               BlockTape& into)
    : tape_(tape),
      colour_of_place_(colour_of_place),
      into_(into),
      of_cost_(tape.costs.size(), -1) {}

std::int32_t BlockDurations::of(const TapeEntry& entry) {
  const std::int64_t key =
      (std::int64_t{colour_of_place_[at(entry.place)]} << 32) + std::int64_t{entry.piece.value};
  const auto [found, is_new] = of_piece_.emplace(key, size_of(into_.timed));
  if (is_new) into_.timed.push_back({.piece = entry.piece, .rank = entry.rank, .cost = {}});
  return found->second;
}

std::int32_t BlockDurations::of_cost(TapeCostId cost) {
  std::int32_t& number = of_cost_[cost];
  if (number < 0) {
    number = size_of(into_.timed);
    into_.timed.push_back({.piece = {}, .rank = {}, .cost = cost});
  }
  return number;
}

std::int32_t BlockDurations::of_meeting(MeetingId m) {
  const TapeMeeting& meeting = tape_.meetings[m];
  const std::int32_t first = of_cost(tape_.calls[meeting.first_call].cost);
  for (const TapeCallId call : meeting.calls()) {
    const std::pair pair(first, of_cost(tape_.calls[call].cost));
    if (pair.first != pair.second && (into_.alike.empty() || into_.alike.back() != pair))
      into_.alike.push_back(pair);
  }
  return first;
}

// ---------------------------------------------------------------- blocks

std::int32_t BlockCatalogue::Numbering::of(std::int32_t global) {
  std::int32_t& number = number_of[at(global)];
  if (number < 0) {
    number = size_of(used);
    used.push_back(global);
  }
  return number;
}

void BlockCatalogue::Numbering::forget() {
  for (const std::int32_t global : used) number_of[at(global)] = -1;
  used.clear();
}

BlockCatalogue::BlockCatalogue(const FlatTape& flat, const BlockOrder& order,
                               const std::vector<bool>& is_seen, BlockDurations& durations,
                               BlockTape& into)
    : flat_(flat), order_(order), is_seen_(is_seen), durations_(durations), into_(into) {
  const std::size_t entries = flat.tape->entries.size();
  places_.number_of.assign(flat.tape->ranks.size(), -1);
  queues_.number_of.assign(flat.place_of_queue.size(), -1);
  fences_.number_of.assign(entries + flat.saved.size(), -1);
  positions_.number_of.assign(entries, -1);
}

BlockInstance BlockCatalogue::instance_of(const BlockPiece& piece) {
  describe(piece);
  const std::int32_t structure = structure_of_description(piece.count);
  for (const std::int32_t launch : seen_) is_exported_[at(structure)][at(launch)] = true;
  BlockInstance instance;
  instance.block = template_of_description(structure);
  instance.first_binding = size_of(into_.bindings);
  add_bindings();
  return instance;
}

void BlockCatalogue::describe(const BlockPiece& piece) {
  for (Numbering* numbering : {&places_, &queues_, &fences_, &positions_}) numbering->forget();
  for (std::vector<std::int32_t>& launches : on_queue_) launches.clear();
  seen_.clear();
  structure_key_.clear();
  timed_.clear();
  for (std::int32_t i = 0; i < piece.count; ++i) describe_launch(piece, i);
}

// Place, queue, members, the launch in the window, the number of waits and the waits.
void BlockCatalogue::describe_launch(const BlockPiece& piece, std::int32_t position) {
  const std::int32_t e = order_.entries[at(piece.first + position)];
  const TapeEntry& entry = flat_.tape->entries[at(e)];
  std::int32_t members = 1;
  if (entry.meeting.is_valid()) {
    const TapeMeeting& meeting = flat_.tape->meetings[entry.meeting];
    members = flat_.tape->meeting_entries[at(meeting.first_entry)] == e ? meeting.num_entries : 0;
  }
  timed_.push_back(entry.meeting.is_valid() ? durations_.of_meeting(entry.meeting)
                                            : durations_.of(entry));
  positions_.of(e);
  const std::int32_t queue = queues_.of(flat_.queue_of[at(e)]);
  if (at(queue) >= on_queue_.size()) on_queue_.resize(at(queue) + 1);
  std::vector<std::int32_t>& before = on_queue_[at(queue)];
  const std::int64_t far = std::int64_t{size_of(before)} - into_.window;
  if (is_seen_[at(e)]) seen_.push_back(position);
  const std::int32_t first_wait = e == 0 ? 0 : flat_.waits_end[at(e - 1)];
  structure_key_.insert(structure_key_.end(), {places_.of(entry.place), queue, members,
                                               far < 0 ? -1 : before[static_cast<std::size_t>(far)],
                                               flat_.waits_end[at(e)] - first_wait});
  before.push_back(position);
  for (std::int32_t w = first_wait; w < flat_.waits_end[at(e)]; ++w) {
    const std::int32_t whose = flat_.waits[at(w)];
    const bool inside = at(whose) < positions_.number_of.size() && whose < e &&
                        positions_.number_of[at(whose)] >= 0;
    structure_key_.push_back(inside ? positions_.number_of[at(whose)] : ~fences_.of(whose));
  }
}

std::int32_t BlockCatalogue::structure_of_description(std::int32_t num_launches) {
  const std::uint64_t hash = hash_of(structure_key_, 0);
  const auto [first, last] = structures_.equal_range(hash);
  for (auto known = first; known != last; ++known)
    if (structure_keys_[at(known->second)] == structure_key_) return known->second;
  const std::int32_t structure = add_structure(num_launches);
  structure_keys_.push_back(structure_key_);
  is_exported_.emplace_back(at(num_launches));
  structures_.emplace(hash, structure);
  return structure;
}

std::int32_t BlockCatalogue::add_structure(std::int32_t num_launches) {
  BlockStructure structure;
  structure.first_launch = size_of(into_.launches);
  structure.num_launches = num_launches;
  structure.first_wait = size_of(into_.waits);
  structure.first_queue = size_of(into_.queue_places);
  structure.num_places = size_of(places_.used);
  structure.num_queues = size_of(queues_.used);
  structure.num_fences = size_of(fences_.used);
  into_.queue_places.resize(into_.queue_places.size() + queues_.used.size());
  const std::int32_t* key = structure_key_.data();
  for (std::int32_t i = 0; i < num_launches; ++i) {
    BlockLaunch launch{key[0], key[1], key[2], 0, key[3]};
    into_.queue_places[at(structure.first_queue + launch.queue)] = launch.place;
    into_.waits.insert(into_.waits.end(), key + 5, key + 5 + key[4]);
    launch.waits_end = size_of(into_.waits);
    into_.launches.push_back(launch);
    key += 5 + key[4];
  }
  into_.structures.push_back(structure);
  return size_of(into_.structures) - 1;
}

std::int32_t BlockCatalogue::template_of_description(std::int32_t structure) {
  const std::uint64_t hash = hash_of(timed_, static_cast<std::uint64_t>(structure) + 1);
  const auto [first, last] = templates_.equal_range(hash);
  for (auto known = first; known != last; ++known) {
    const BlockTemplate& block = into_.templates[at(known->second)];
    if (block.structure == structure &&
        std::equal(timed_.begin(), timed_.end(), into_.timed_of_launch.begin() + block.first_timed))
      return known->second;
  }
  const std::int32_t number = size_of(into_.templates);
  into_.templates.push_back({structure, size_of(into_.timed_of_launch)});
  into_.timed_of_launch.insert(into_.timed_of_launch.end(), timed_.begin(), timed_.end());
  templates_.emplace(hash, number);
  return number;
}

void BlockCatalogue::add_bindings() {
  std::vector<std::int32_t>& bindings = into_.bindings;
  bindings.insert(bindings.end(), places_.used.begin(), places_.used.end());
  bindings.insert(bindings.end(), queues_.used.begin(), queues_.used.end());
  bindings.insert(bindings.end(), fences_.used.begin(), fences_.used.end());
  bindings.insert(bindings.end(), 2 * queues_.used.size(), 0);
}

void BlockCatalogue::add_exports() {
  for (std::size_t s = 0; s < is_exported_.size(); ++s) {
    BlockStructure& structure = into_.structures[s];
    structure.first_export = size_of(into_.exports);
    for (std::int32_t launch = 0; launch < structure.num_launches; ++launch)
      if (is_exported_[s][at(launch)]) into_.exports.push_back(launch);
    structure.num_exports = size_of(into_.exports) - structure.first_export;
  }
}

}  // namespace sextant
