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
  // A stack or a mapping; a later one hides an earlier.
  void map(std::string_view kind, std::string_view name, std::uint64_t address,
           std::uint64_t size) {
    place(mappings_, kind, name, "", address, size);
  }
  void unmap(std::uint64_t address, std::uint64_t size);
  // A variable, or a range that the program named: lies above mappings.
  void name(std::string_view kind, std::string_view name, std::string_view type,
            std::uint64_t address, std::uint64_t size) {
    place(variables_, kind, name, type, address, size);
  }

  // Never kNoBucket: what lies nowhere is in the bucket `unknown`. Names that the program gave and
  // variables lie above heap blocks, and those above the mappings that hold them.
  BucketId find(std::uint64_t address) {
    BucketId found = variables_.find(address);
    if (found == kNoBucket) found = heap_.find(address);
    if (found == kNoBucket) found = mappings_.find(address);
    return found == kNoBucket ? kUnknown : found;
  }
  // Of a whole line: what most of it holds.
  BucketId find_line(std::uint64_t line, std::uint32_t size) {
    BucketId found = heap_.find_most(line, size);
    if (found == kNoBucket) found = variables_.find_most(line, size);
    if (found == kNoBucket) found = mappings_.find_most(line, size);
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
  void place(ObjectMap& where, std::string_view kind, std::string_view name, std::string_view type,
             std::uint64_t address, std::uint64_t size);
  BucketId named(std::string_view kind, std::string_view name, std::string_view type);

  std::vector<Bucket> buckets_;
  std::vector<BucketId> by_site_;
  std::unordered_map<std::string, BucketId> by_name_;  // kind, zero, name
  std::unordered_map<std::uint64_t, Live> live_;       // heap blocks by address
  ObjectMap heap_;
  ObjectMap variables_;
  ObjectMap mappings_;
};

}  // namespace stallscope::probes
