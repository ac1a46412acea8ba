// SPDX-License-Identifier: Apache-2.0
#include "session/relocation.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "stallscope_records.h"

namespace stallscope::session {
namespace {

constexpr probes::BucketId kPlaced = 0, kLeft = 1;
constexpr std::uint64_t kHeader = 8;  // malloc's word before a block
constexpr std::uint64_t kLeast = 24;  // bytes that the smallest block has

bool from_malloc(std::uint64_t kind) {
  return kind == SS_ALLOC_KIND_MALLOC || kind == SS_ALLOC_KIND_CALLOC ||
         kind == SS_ALLOC_KIND_REALLOC;
}

std::uint64_t at_least_one(std::uint64_t size) { return std::max<std::uint64_t>(size, 1); }

}  // namespace

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

// Memory that had blocks of both kinds counts as what it had last.
void Relocation::foresee(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  if (tag != SS_ALLOC || count < sizeof(ss_alloc) / sizeof *words) return;
  const auto& record = *reinterpret_cast<const ss_alloc*>(words);
  if (record.address < kHeader || record.address + record.size < record.address) return;
  const bool placed = from_malloc(record.kind) && placer_->places(record.site, record.size);
  const std::uint64_t start = record.address - kHeader;
  const std::uint64_t bytes = kHeader + std::max<std::uint64_t>(record.size, kLeast);
  // Blocks that are left matter only where a placed one was.
  if (!placed && start - lowest_ >= extent_ && start + bytes - lowest_ >= extent_) return;
  mallocs_.insert(start, bytes, placed ? kPlaced : kLeft);
  if (placed) widen(start, start + bytes);
}

std::uint64_t Relocation::look_up(std::uint64_t address) {
  const probes::BucketId move = live_.find(address);
  if (move != probes::kNoBucket) return address + moves_[move];
  return mallocs_.find(address) == kPlaced ? SS_NO_ADDRESS : address;
}

void Relocation::forget(std::uint64_t address) {
  const auto found = blocks_of_.find(address);
  if (found == blocks_of_.end()) return;
  live_.erase(address, at_least_one(found->second.size));
  unused_.push_back(found->second.move);
  placer_->give_back(found->second.to);
  blocks_of_.erase(found);
}

std::uint64_t Relocation::release(std::uint64_t address, std::uint32_t thread) {
  const auto found = blocks_of_.find(address);
  freed_[thread] = found == blocks_of_.end() ? 0 : address;
  if (found == blocks_of_.end()) return address;
  const std::uint64_t to = found->second.to;
  forget(address);
  return to;
}

// realloc of a block that malloc gave stays with malloc.
std::uint64_t Relocation::allocate(const ss_alloc& record) {
  const std::uint32_t thread = SS_HEAD_THREAD(record.head);
  const std::uint64_t freed = std::exchange(freed_[thread], 0);
  if (record.address == 0) return 0;
  forget(record.address);  // its free may have gone unseen
  if (!from_malloc(record.kind) || record.address + record.size < record.address)
    return record.address;
  if (record.old_address != 0 && freed != record.old_address) return record.address;
  const auto to = placer_->place(record.site, record.size, thread);
  if (!to) return record.address;
  std::uint32_t move = static_cast<std::uint32_t>(moves_.size());
  if (unused_.empty()) {
    moves_.push_back(0);
  } else {
    move = unused_.back();
    unused_.pop_back();
  }
  moves_[move] = *to - record.address;
  live_.insert(record.address, at_least_one(record.size), move);
  widen(record.address, record.address + at_least_one(record.size));
  blocks_of_[record.address] = {*to, record.size, move};
  ++blocks_;
  return *to;
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
