// SPDX-License-Identifier: Apache-2.0
// Stat buckets and where they lie: a bucket for each allocation path, variable, stack, mapping and
// given name. Fed by what the stream says about memory; asked once for each miss.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "probes/object_map.h"
#include "stallscope_tables.h"

namespace stallscope::probes {

class Buckets {
 public:
  Buckets();

  // Heap blocks, by allocation path.
  void allocate(std::uint64_t address, std::uint64_t size, std::uint32_t site);
  void release(std::uint64_t address);
  // A variable, a stack, a mapping or a range that the program named; a later one hides an earlier.
  void place(std::string_view kind, std::string_view name, std::string_view type,
             std::uint64_t address, std::uint64_t size);
  void remove(std::uint64_t address, std::uint64_t size) { background_.erase(address, size); }

  // Never kNoBucket: what lies nowhere is in the bucket `unknown`. Heap blocks lie above the
  // mappings that hold them.
  BucketId find(std::uint64_t address) {
    BucketId found = heap_.find(address);
    if (found == kNoBucket) found = background_.find(address);
    return found == kNoBucket ? kUnknown : found;
  }

  void fill(BucketTable& table) const;
  static constexpr BucketId kUnknown = 0;

 private:
  struct Bucket {
    std::string kind;
    std::string name;
    std::string type;
    std::uint32_t site = kNone32;
    std::uint64_t blocks = 0;  // ever
    std::uint64_t bytes = 0;   // ever
  };
  struct Live {
    std::uint64_t size;
    BucketId bucket;
  };
  BucketId named(std::string_view kind, std::string_view name, std::string_view type);

  std::vector<Bucket> buckets_;
  std::vector<BucketId> by_site_;
  std::unordered_map<std::string, BucketId> by_name_;  // kind, zero, name
  std::unordered_map<std::uint64_t, Live> live_;       // heap blocks by address
  ObjectMap heap_;
  ObjectMap background_;
};

}  // namespace stallscope::probes
