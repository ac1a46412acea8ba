// SPDX-License-Identifier: Apache-2.0
#include "session/relocation.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "stallscope_near.h"
#include "stream/record.h"

namespace stallscope::session {
namespace {

constexpr std::uint64_t kHeader = 8;  // malloc's word before a block

// Bytes that malloc takes for a block, from its header on.
std::uint64_t chunk_of(std::uint64_t size) {
  return std::max<std::uint64_t>(32, (size + kHeader + 15) / 16 * 16);
}

bool from_malloc(std::uint64_t kind) {
  return kind == SS_ALLOC_KIND_MALLOC || kind == SS_ALLOC_KIND_CALLOC ||
         kind == SS_ALLOC_KIND_REALLOC;
}

std::uint64_t at_least_one(std::uint64_t size) { return std::max<std::uint64_t>(size, 1); }

// Large blocks have a mapping to themselves, and keep their place in its first page.
bool has_mapping(const ss_alloc& record) {
  return record.size >= (128 << 10) && record.address % 4096 == 16;
}

bool wraps(const ss_alloc& record) { return record.address + record.size < record.address; }

}  // namespace

void Gaps::had(std::uint64_t start, std::uint64_t size, bool stays) {
  std::uint64_t& known = (stays ? left_ : gone_)[start];
  known = std::max(known, size);
}

std::vector<Gaps::Range> Gaps::merged(Chunks& chunks) {
  std::vector<Range> sorted, ranges;
  for (const auto& [start, size] : chunks) sorted.push_back({start, start + size, 0});
  chunks.clear();
  std::sort(sorted.begin(), sorted.end(),
            [](const Range& a, const Range& b) { return a.start < b.start; });
  for (const Range& range : sorted)
    if (ranges.empty() || range.start > ranges.back().end)
      ranges.push_back(range);
    else
      ranges.back().end = std::max(ranges.back().end, range.end);
  return ranges;
}

void Gaps::close() {
  const std::vector<Range> left = merged(left_);
  auto stays = left.begin();
  std::uint64_t bytes = 0;
  const auto add = [&](std::uint64_t start, std::uint64_t end) {
    if (start >= end) return;
    gaps_.push_back({start, end, bytes});
    bytes += end - start;
  };
  for (const Range& gone : merged(gone_)) {
    std::uint64_t from = gone.start;
    while (stays != left.end() && stays->end <= from) ++stays;
    for (auto at = stays; at != left.end() && at->start < gone.end; ++at) {
      add(from, at->start);
      from = std::max(from, at->end);
    }
    add(from, gone.end);
  }
}

const Gaps::Range* Gaps::last_from(std::uint64_t address) const {
  const auto after =
      std::upper_bound(gaps_.begin(), gaps_.end(), address,
                       [](std::uint64_t a, const Range& range) { return a < range.start; });
  return after == gaps_.begin() ? nullptr : &after[-1];
}

bool Gaps::contains(std::uint64_t address) const {
  const Range* range = last_from(address);
  return range && address < range->end;
}

std::uint64_t Gaps::below(std::uint64_t address) const {
  const Range* range = last_from(address);
  return range ? range->before + std::min(address, range->end) - range->start : 0;
}

void Heaps::add(std::uint64_t start, std::uint64_t end) {
  std::uint64_t& known = ranges_[start];
  known = std::max(known, end);
}

void Heaps::close() {
  for (auto range = ranges_.begin(); range != ranges_.end();) {
    const auto next = std::next(range);
    if (next == ranges_.end() || next->first > range->second) {
      range = next;
      continue;
    }
    range->second = std::max(range->second, next->second);
    ranges_.erase(next);
  }
}

std::uint64_t Heaps::start_of(std::uint64_t address) const {
  const auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return 0;
  const auto range = std::prev(after);
  return address < range->second ? range->first : 0;
}

Result<std::unique_ptr<Relocation>> Relocation::make(const Policy& policy) {
  auto placer = Placer::make(policy);
  if (!placer) return placer.error();
  return std::unique_ptr<Relocation>(new Relocation(std::move(*placer)));
}

void Relocation::widen(std::uint64_t start, std::uint64_t end) {
  const std::uint64_t last = extent_ ? std::max(lowest_ + extent_, end) : end;
  lowest_ = extent_ ? std::min(lowest_, start) : start;
  extent_ = last - lowest_;
}

// Large blocks that are placed still come from malloc, a page longer: they leave no gap.
void Relocation::foresee(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  if (count < record_shape(tag).words) return;
  if (tag == SS_BRK) {
    const auto& record = *reinterpret_cast<const ss_brk*>(words);
    heaps_.add(record.old_end, record.new_end);
  } else if (tag == SS_MAP) {
    const auto map = stream::view<ss_map>(words, count);
    if (map && map->tail.empty() && map->fields->length)
      heaps_.add(map->fields->address, map->fields->address + map->fields->length);
  } else if (tag == SS_ALLOC) {
    const auto& record = *reinterpret_cast<const ss_alloc*>(words);
    if (record.address < kHeader || wraps(record) || has_mapping(record)) return;
    const bool small = record.size <= SS_NEAR_LARGEST && from_malloc(record.kind) &&
                       placer_->places(record.site, record.size);
    gaps_.had(record.address - kHeader, chunk_of(record.size), !small);
  }
}

void Relocation::ready() {
  gaps_.close();
  heaps_.close();
  if (heaps_.end() > heaps_.lowest()) widen(heaps_.lowest(), heaps_.end());
}

std::uint64_t Relocation::moved_on(std::uint64_t address) const {
  const std::uint64_t start = heaps_.start_of(address);
  return start ? address - (gaps_.below(address) - gaps_.below(start)) : address;
}

std::uint64_t Relocation::look_up(std::uint64_t address) {
  const probes::BucketId move = live_.find(address);
  if (move != probes::kNoBucket) return address + moves_[move];
  return gaps_.contains(address) ? in_gap(address) : moved_on(address);
}

// malloc's free reads the header and writes a link into the block; the near allocator's looks at
// two words for it.
std::uint64_t Relocation::in_gap(std::uint64_t address) const {
  if (address + kHeader - just_freed_.address >= just_freed_.bytes) return SS_NO_ADDRESS;
  if (address < just_freed_.address) return just_freed_.known.last;
  return address - just_freed_.address < 8 ? just_freed_.known.taken : just_freed_.known.page;
}

void Relocation::forget(std::uint64_t address) {
  const auto found = blocks_of_.find(address);
  if (found == blocks_of_.end()) return;
  live_.erase(address, at_least_one(found->second.size));
  unused_.push_back(found->second.move);
  if (found->second.placed) placer_->give_back(found->second.to);
  blocks_of_.erase(found);
}

std::uint64_t Relocation::release(std::uint64_t address, std::uint32_t thread) {
  const auto found = blocks_of_.find(address);
  if (found == blocks_of_.end()) {
    freed_[thread] = 0;
    return address;
  }
  const Block block = found->second;
  freed_[thread] = block.placed ? address : 0;
  if (block.placed)
    if (const auto known = placer_->knowledge(block.to))
      just_freed_ = {address, chunk_of(block.size), *known};
  forget(address);
  return block.to;
}

void Relocation::keep(const ss_alloc& record, std::uint64_t to, bool placed) {
  auto move = static_cast<std::uint32_t>(moves_.size());
  if (unused_.empty()) {
    moves_.push_back(0);
  } else {
    move = unused_.back();
    unused_.pop_back();
  }
  moves_[move] = to - record.address;
  live_.insert(record.address, at_least_one(record.size), move);
  widen(record.address, record.address + at_least_one(record.size));
  blocks_of_[record.address] = {to, record.size, move, placed};
  blocks_ += placed;
}

// realloc of a block that malloc gave stays with malloc.
bool Relocation::may_place(const ss_alloc& record, std::uint64_t freed) const {
  return from_malloc(record.kind) && (record.old_address == 0 || record.old_address == freed);
}

std::uint64_t Relocation::allocate(const ss_alloc& record) {
  const std::uint32_t thread = SS_HEAD_THREAD(record.head);
  const std::uint64_t freed = std::exchange(freed_[thread], 0);
  if (record.address == 0 || wraps(record)) return record.address;
  forget(record.address);  // its free may have gone unseen
  if (may_place(record, freed))
    if (const auto to = placer_->place(record.site, record.size, thread)) {
      keep(record, *to, true);
      return *to;
    }
  const std::uint64_t to = has_mapping(record) ? record.address : moved_on(record.address);
  keep(record, to, false);
  return to;
}

void Relocation::on_record(unsigned tag, std::vector<std::uint64_t>& words) {
  if (words.size() < record_shape(tag).words) return;
  if (tag == SS_ALLOC) {
    const auto record = *reinterpret_cast<const ss_alloc*>(words.data());
    words[offsetof(ss_alloc, address) / 8] = allocate(record);
  } else if (tag == SS_FREE) {
    const auto record = *reinterpret_cast<const ss_free*>(words.data());
    words[offsetof(ss_free, address) / 8] = release(record.address, SS_HEAD_THREAD(record.head));
  } else if (tag == SS_NAME_BLOCK) {
    std::uint64_t& address = words[offsetof(ss_name_block, address) / 8];
    const probes::BucketId move = live_.find(address);
    if (move != probes::kNoBucket) address += moves_[move];
  }
}

}  // namespace stallscope::session
