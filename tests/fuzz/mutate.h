// SPDX-License-Identifier: Apache-2.0
// Damages a trace in every way that came to mind, and judges what the reader makes of it.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "stream/crc32c.h"
#include "stream/reader.h"

namespace stallscope::fuzz {

using stream::Bytes;
using stream::ChunkEntry;
using stream::ChunkHeader;

// Sums up everything that a reader delivers, order included.
struct Digest {
  std::uint64_t value = 0;
  void add(std::uint64_t word) {
    value = (value ^ word) * 0x9E3779B97F4A7C15;
    value ^= value >> 32;
  }
  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    add(exit);
    for (std::uint32_t i = 0; i < info.operations; ++i) add(addresses[i]);
  }
  Status on_record(unsigned, const std::uint64_t* words, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) add(words[i]);
    return Done{};
  }
};

enum class Outcome { error, truncated, whole };
struct Judgement {
  Outcome outcome;
  std::uint64_t digest;
};

inline Judgement judge(std::span<const std::byte> bytes) {
  auto reader = stream::TraceReader::open(stream::from_memory(bytes), "stream.ss");
  if (!reader) return {Outcome::error, 0};
  Digest digest;
  if (!reader->for_each(digest)) return {Outcome::error, 0};
  const auto counts = reader->counts();
  const auto totals = reader->totals();
  if (!counts || !totals) return {Outcome::error, 0};
  if (counts->has_value())
    for (std::uint64_t count : **counts) digest.add(count);
  if (totals->has_value()) digest.add((*totals)->words);
  return {reader->truncated() ? Outcome::truncated : Outcome::whole, digest.value};
}

// What readings of one trace may give: the whole, or what stands in front of some chunk.
class Truth {
 public:
  explicit Truth(const Bytes& whole) {
    for (const ChunkEntry& entry : stream::index_chunks(*stream::from_memory(whole), true).chunks)
      fronts_.insert(judge(std::span(whole).first(entry.offset)).digest);
    const Judgement all = judge(whole);
    readable_ = all.outcome != Outcome::error;
    truncated_ = all.outcome == Outcome::truncated;
    whole_ = all.digest;
    if (truncated_) fronts_.insert(whole_);
  }
  bool readable() const { return readable_; }
  // False for a reading that is silently different.
  bool allows(const Judgement& judgement) const {
    switch (judgement.outcome) {
      case Outcome::error:
        return true;
      case Outcome::truncated:
        return fronts_.contains(judgement.digest);
      default:
        return !truncated_ && judgement.digest == whole_;
    }
  }

 private:
  std::set<std::uint64_t> fronts_;
  std::uint64_t whole_ = 0;
  bool readable_ = false;
  bool truncated_ = false;
};

class Mutator {
 public:
  Mutator(const Bytes& whole, std::uint64_t seed)
      : whole_(whole),
        chunks_(stream::index_chunks(*stream::from_memory(whole), true).chunks),
        random_(seed) {}

  // One to three mutations, from one seed always the same. Valid until the next call.
  const Bytes& next() {
    bytes_ = whole_;
    for (std::uint64_t left = 1 + below(3); left > 0 && !bytes_.empty(); --left)
      (this->*kWays[below(kWays.size())])();
    return bytes_;
  }

 private:
  struct Range {
    std::size_t at, length;
  };
  std::uint64_t below(std::uint64_t limit) { return limit == 0 ? 0 : random_() % limit; }
  Range any_range() {
    const std::size_t at = below(bytes_.size());
    return {at, 1 + below(std::min<std::size_t>(bytes_.size() - at, 200))};
  }
  Range chunk(std::size_t i) const {
    return {chunks_[i].offset, sizeof(ChunkHeader) + chunks_[i].header.payload_bytes};
  }
  Bytes copy(const Bytes& from, Range range) const {
    const auto begin = from.begin() + static_cast<std::ptrdiff_t>(range.at);
    return Bytes(begin, begin + static_cast<std::ptrdiff_t>(range.length));
  }
  void insert(std::size_t at, const Bytes& what) {
    bytes_.insert(bytes_.begin() + static_cast<std::ptrdiff_t>(std::min(at, bytes_.size())),
                  what.begin(), what.end());
  }
  void erase(Range range) {
    const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(range.at);
    bytes_.erase(begin, begin + static_cast<std::ptrdiff_t>(range.length));
  }

  void flip_bit() { bytes_[below(bytes_.size())] ^= std::byte(1U << below(8)); }
  void set_byte() { bytes_[below(bytes_.size())] = std::byte(below(256)); }
  void truncate() { bytes_.resize(below(bytes_.size())); }
  void truncate_at_chunk() {
    if (!chunks_.empty()) bytes_.resize(std::min(bytes_.size(), chunk(below(chunks_.size())).at));
  }
  void duplicate() {
    const Range range = any_range();
    insert(below(bytes_.size() + 1), copy(bytes_, range));
  }
  void remove() { erase(any_range()); }
  void swap() {
    const Range a = any_range(), b = any_range();
    const std::size_t length = std::min(a.length, b.length);
    for (std::size_t i = 0; i < length; ++i) std::swap(bytes_[a.at + i], bytes_[b.at + i]);
  }
  void zero() {
    const Range range = any_range();
    std::memset(bytes_.data() + range.at, 0, range.length);
  }
  void insert_chunk() {
    if (chunks_.empty()) return;
    const Range from = chunk(below(chunks_.size()));
    insert(chunk(below(chunks_.size())).at, copy(whole_, from));
  }
  void remove_chunk() {
    if (chunks_.empty()) return;
    const Range range = chunk(below(chunks_.size()));
    if (range.at + range.length <= bytes_.size()) erase(range);
  }
  // Another number in a header, half of the time with the header's checksum made right again.
  void edit_header() {
    if (chunks_.empty()) return;
    const std::size_t at = chunk(below(chunks_.size())).at;
    if (at + sizeof(ChunkHeader) > bytes_.size()) return;
    ChunkHeader header;
    std::memcpy(&header, bytes_.data() + at, sizeof header);
    std::uint32_t* fields[] = {&header.payload_bytes, &header.raw_bytes, &header.words,
                               &header.sequence, &header.executions};
    std::uint32_t& field = *fields[below(std::size(fields))];
    field = below(2) == 0 ? static_cast<std::uint32_t>(random_() >> below(64))
                          : field + static_cast<std::uint32_t>(below(9)) - 4;
    if (below(2) == 0)
      header.header_crc = stream::crc32c(
          std::as_bytes(std::span(&header, 1)).first(offsetof(ChunkHeader, header_crc)));
    std::memcpy(bytes_.data() + at, &header, sizeof header);
  }

  static constexpr std::array<void (Mutator::*)(), 11> kWays = {
      &Mutator::flip_bit,     &Mutator::set_byte,
      &Mutator::truncate,     &Mutator::truncate_at_chunk,
      &Mutator::duplicate,    &Mutator::remove,
      &Mutator::swap,         &Mutator::zero,
      &Mutator::insert_chunk, &Mutator::remove_chunk,
      &Mutator::edit_header};

  const Bytes& whole_;
  std::vector<ChunkEntry> chunks_;
  std::mt19937_64 random_;
  Bytes bytes_;
};

}  // namespace stallscope::fuzz
