// SPDX-License-Identifier: Apache-2.0
// The probe that counts where inside of blocks and variables misses fall. Called once for each
// access that missed, and only where somebody asked for it.
//
// A large array has more offsets than anybody wants to see or keep. So where a bucket gets many,
// this asks what its elements are; if that is known, offsets are counted from the start of the
// element from there on, else bytes are put together into granules of a power of two.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "probes/buckets.h"
#include "stallscope_tables.h"

namespace stallscope::probes {

class Offsets {
 public:
  struct Question {  // about a bucket
    BucketId bucket;
    std::uint64_t address;                                      // of one of its blocks
    std::uint64_t largest;                                      // bytes of a block
    std::vector<std::pair<std::uint32_t, std::uint64_t>> uses;  // operation, misses
  };
  // Bytes after which the parts of its blocks repeat; 0 when that is not known. Asked a few times
  // for each bucket that has many offsets.
  using ElementSize = std::function<std::uint64_t(const Question&)>;

  // `buckets` keeps starts, and outlives this.
  explicit Offsets(Buckets& buckets) : buckets_(buckets) { buckets.keep_starts(); }
  void ask(ElementSize element_size) { element_size_ = std::move(element_size); }

  // An access to `address`, which lies in `bucket`: `counted` when it missed the level of interest.
  void miss(BucketId bucket, std::uint64_t address, std::uint32_t operation, bool counted,
            std::uint32_t cycles);
  void enter(std::uint32_t region) { region_ = region; }
  // Blocks of this bucket come from C++'s new [], which may keep a count in front of the elements.
  void is_new_array(BucketId bucket) { of(bucket).is_new_array = true; }

  void fill(OffsetTable& table) const;
  void fill(FoldTable& table) const;

 private:
  struct Key {
    std::uint64_t offset;
    std::uint32_t operation;
    std::uint32_t region;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& k) const {
      const std::uint64_t rest = std::uint64_t{k.region} << 32 | k.operation;
      return (k.offset * 0x9e3779b97f4a7c15ULL) ^ (rest * 0xff51afd7ed558ccdULL);
    }
  };
  struct Counts {
    std::uint64_t misses = 0;
    std::uint64_t latency = 0;
  };
  struct PerBucket {
    std::unordered_map<Key, Counts, Hash> counts;
    std::uint64_t period = 0;   // bytes of an element; 0: offsets are from the block's start
    std::uint64_t header = 0;   // bytes in front of the first element
    std::uint64_t granule = 1;  // bytes that are counted together
    std::uint64_t largest = 0;  // block
    std::uint64_t address = 0;  // of the block that missed last
    std::size_t most = kFirstQuestion;
    bool is_new_array = false;
    enum : std::uint8_t { kUnknown, kCounted, kLeftOut } kind = kUnknown;

    std::uint64_t place(std::uint64_t offset) const {
      if (period != 0) offset = offset < header ? 0 : (offset - header) % period;
      return offset & ~(granule - 1);
    }
  };
  static constexpr std::size_t kFirstQuestion = 4096;  // entries of a bucket
  static constexpr std::size_t kMostOfBucket = 65536;
  static constexpr std::size_t kMostOfAll = 2'000'000;

  PerBucket& of(BucketId bucket);
  bool is_counted(BucketId bucket, PerBucket& one) const;
  // Makes it have fewer entries, or lets it have more.
  void shrink(BucketId bucket, bool for_others);
  void fold(PerBucket& one);

  Buckets& buckets_;
  ElementSize element_size_;
  std::vector<PerBucket> by_bucket_;
  std::size_t entries_ = 0;
  std::uint32_t region_ = 0;
};

}  // namespace stallscope::probes
