// SPDX-License-Identifier: Apache-2.0
// What the handler of a sampling interrupt does to memory, so that it can disturb the caches that
// it measures: it saves registers, looks the address up in an interval tree of all objects and the
// instruction in a sorted list of functions, finds the function among those of the object's stat
// bucket, counts, and appends what it saw to a buffer.
//
// Not modelled: the handler's code and the kernel's own structures. A look-up takes the way that a
// balanced tree of that many objects would have, its leaf chosen by the address.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "probes/random.h"
#include "probes/sampler.h"

namespace stallscope::probes {

class Handler {
 public:
  static constexpr std::uint64_t kBase = 0x6400'0000'0000ULL;  // where no program has memory

  // One interrupt, with `objects` known ranges of memory and `functions` known functions.
  // `touch(address, bytes, writes)` is called for each access in order.
  template <typename Touch>
  void run(const Sample& sample, std::uint64_t objects, std::uint64_t functions, Touch&& touch) {
    for (std::uint64_t i = 0; i < kSavedLines; ++i) touch(kStack + i * kLine, 8, true);
    const std::uint64_t leaf = mixed(sample.address / kLine);
    for (unsigned depth = 0; depth < std::min<unsigned>(std::bit_width(objects), kMaxDepth);
         ++depth)
      touch(kTree + tree_index(leaf, depth) * kNode, kNode / 2, false);
    const std::uint64_t function = mixed(sample.operation) % functions;
    search(functions, function, kFunctions, kFunction, touch);
    const std::uint64_t bucket = sample.bucket % kMaxBuckets;
    touch(kBuckets + bucket * kBucket, 32, false);
    const std::uint64_t counts = kCounts + bucket * kPlaces * kCount;
    search(kPlaces, function % kPlaces, counts, kCount, touch);
    touch(counts + function % kPlaces * kCount, kCount, true);
    touch(kBuckets + bucket * kBucket, 32, true);
    touch(kBuffer + taken_++ * kEntry % kBufferBytes, kEntry, true);
  }

 private:
  static constexpr std::uint64_t kLine = 64;
  static constexpr std::uint64_t kSavedLines = 8;
  static constexpr std::uint64_t kNode = 64, kFunction = 16, kBucket = 64, kCount = 32, kEntry = 32;
  static constexpr std::uint64_t kPlaces = 16;  // functions that a bucket has counts for
  static constexpr std::uint64_t kMaxBuckets = 1 << 14, kMaxFunctions = 1 << 16;
  static constexpr unsigned kMaxDepth = 20;
  static constexpr std::uint64_t kBufferBytes = 1 << 16;
  static constexpr std::uint64_t kStack = kBase;
  static constexpr std::uint64_t kBuffer = kStack + 0x1000;
  static constexpr std::uint64_t kFunctions = kBuffer + kBufferBytes;
  static constexpr std::uint64_t kBuckets = kFunctions + kMaxFunctions * kFunction;
  static constexpr std::uint64_t kCounts = kBuckets + kMaxBuckets * kBucket;
  static constexpr std::uint64_t kTree = kCounts + kMaxBuckets * kPlaces * kCount;

 public:
  static constexpr std::uint64_t kBytes = kTree + (kNode << kMaxDepth) - kBase;

 private:
  // Nodes by depth, the root first: those near it are shared by all ways.
  static std::uint64_t tree_index(std::uint64_t leaf, unsigned depth) {
    return depth == 0 ? 0 : (std::uint64_t{1} << depth) - 1 + (leaf >> (64 - depth));
  }
  template <typename Touch>
  static void search(std::uint64_t count, std::uint64_t wanted, std::uint64_t base,
                     std::uint64_t bytes, Touch& touch) {
    for (std::uint64_t low = 0, high = count; low < high;) {
      const std::uint64_t middle = (low + high) / 2;
      touch(base + middle % kMaxFunctions * bytes, 8, false);
      if (middle == wanted) return;
      (middle < wanted ? low : high) = middle < wanted ? middle + 1 : middle;
    }
  }

  std::uint64_t taken_ = 0;
};

}  // namespace stallscope::probes
