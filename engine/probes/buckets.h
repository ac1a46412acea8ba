// SPDX-License-Identifier: Apache-2.0
// Stat buckets and where they lie: a bucket for each allocation path, variable, stack, mapping and
// given name. Fed by what the stream says about memory; asked once for each miss.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/flat_map.h"
#include "probes/frames.h"
#include "probes/object_map.h"
#include "stallscope_tables.h"

namespace stallscope::probes {

// Told before and after what lies in a range of memory changes.
class Watcher {
 public:
  virtual void before_change(std::uint64_t start, std::uint64_t size) = 0;
  virtual void after_change(std::uint64_t start, std::uint64_t size) = 0;

 protected:
  ~Watcher() = default;
};

class Buckets {
 public:
  Buckets();

  // The bucket of an allocation path.
  BucketId of_site(std::uint32_t site);
  // What it has, where blocks are not told of one by one.
  void set_blocks(BucketId bucket, std::uint64_t blocks, std::uint64_t bytes) {
    buckets_[bucket].blocks = blocks;
    buckets_[bucket].bytes = bytes;
  }
  // Heap blocks, by allocation path.
  BucketId allocate(std::uint64_t address, std::uint64_t size, std::uint32_t site);
  // The names that the program gave to the block, or to parts of it, go with it.
  void release(std::uint64_t address);
  // The block released last lives on: realloc failed after it had been reported as freed.
  void revive(std::uint64_t address);
  // A stack or a mapping; a later one hides an earlier. A stack grows down to where find() is asked
  // for it, as the kernel lets the main thread's grow, unless something else is in the way.
  void map(std::string_view kind, std::string_view name, std::uint64_t address, std::uint64_t size);
  void unmap(std::uint64_t address, std::uint64_t size);
  // A variable: lies above mappings.
  void name(std::string_view kind, std::string_view name, std::string_view type,
            std::uint64_t address, std::uint64_t size) {
    place(variables_, kind, name, type, address, size);
  }
  // A range that the program named: lies above everything, until the heap block that holds it or
  // its mapping is gone.
  void give_name(std::string_view name, std::uint64_t address, std::uint64_t size);

  // Never kNoBucket: what lies nowhere is in the bucket `unknown`. Names that the program gave and
  // variables lie above heap blocks, and those above the mappings that hold them.
  BucketId find(std::uint64_t address) {
    BucketId found = given_.empty() ? kNoBucket : names_.find(address);
    if (found == kNoBucket) found = variables_.find(address);
    if (found == kNoBucket) found = heap_.find(address);
    if (found == kNoBucket) {
      found = mappings_.find(address);
      if (found == kNoBucket) found = grow_stack(address);
      if (frames_) found = find_frame(address, found);
    }
    return found == kNoBucket ? kUnknown : found;
  }
  // The same, with how far around the address the answer holds, and a stamp: the answer is still
  // the same as long as stamp(place.slot) is.
  struct Place {
    BucketId bucket;
    std::uint32_t slot;
    std::uint64_t start;
    std::uint64_t size;
  };
  Place locate(std::uint64_t address);
  std::uint32_t stamp(std::uint32_t slot) const { return changes_[slot] + changes_[kWideSlot]; }

  // Of a whole line: what most of it holds.
  BucketId find_line(std::uint64_t line, std::uint32_t size) {
    if (!given_.empty()) return find_line_under_names(line, size);
    BucketId found = heap_.find_most(line, size);
    if (found == kNoBucket) found = variables_.find_most(line, size);
    if (found == kNoBucket) found = mappings_.find_most(line, size);
    return found == kNoBucket ? kUnknown : found;
  }
  // Who lies in a range, as find() says for each byte: visit(bucket, bytes) for each piece.
  template <typename Visit>
  void split(std::uint64_t start, std::uint64_t size, Visit&& visit) {
    split_layer(0, start, size, visit);
  }

  // Ranges of memory that are known now: heap blocks, and everything that was ever placed.
  std::uint64_t ranges() const { return live_.size() + placed_; }
  // The block, variable or mapping that the address is in, whose bucket find() gives. Nothing when
  // starts were not kept from the beginning.
  const Start* start_of(std::uint64_t address);
  void keep_starts();
  std::string_view kind_of(BucketId bucket) const { return buckets_[bucket].kind; }
  std::string_view name_of(BucketId bucket) const { return buckets_[bucket].name; }
  std::uint32_t site_of(BucketId bucket) const { return buckets_[bucket].site; }

  void fill(BucketTable& table) const;
  std::size_t count() const { return buckets_.size(); }
  // At most one, which outlives the changes.
  void watch(Watcher* watcher) { watcher_ = watcher; }
  // From now on find() tells stacks apart by the function whose frame an address lies in.
  void follow(const Frames* frames) { frames_ = frames; }
  static constexpr BucketId kUnknown = 0;

 private:
  struct Bucket {
    std::string kind;
    std::string name;
    std::string type;
    std::uint32_t site = kNone32;
    std::uint64_t blocks = 0;  // ever
    std::uint64_t bytes = 0;   // ever
    std::uint32_t operation = kNone32;
  };
  struct Live {
    std::uint64_t size = 0;
    BucketId bucket = kNoBucket;
  };
  using Names = std::map<std::uint64_t, Live>;  // by address
  void place(ObjectMap& where, std::string_view kind, std::string_view name, std::string_view type,
             std::uint64_t address, std::uint64_t size);
  BucketId named(std::string_view kind, std::string_view name, std::string_view type);
  BucketId grow_stack(std::uint64_t address);
  BucketId find_frame(std::uint64_t address, BucketId mapping);
  BucketId find_line_under_names(std::uint64_t line, std::uint32_t size);
  // Takes away the names that lie whole in a range, and gives them back.
  std::vector<Names::value_type> drop_names(std::uint64_t start, std::uint64_t size);
  // change() says whether it touched a wide range.
  template <typename Change>
  void change(std::uint64_t start, std::uint64_t size, Change&& change) {
    if (watcher_) watcher_->before_change(start, size);
    stamp_changed(start, size, change());
    if (watcher_) watcher_->after_change(start, size);
  }
  bool has_wide(std::uint64_t start, std::uint64_t size) const {
    return heap_.has_wide(start, size) || variables_.has_wide(start, size) ||
           names_.has_wide(start, size);
  }
  template <typename Visit>
  void split_layer(unsigned layer, std::uint64_t start, std::uint64_t size, Visit& visit) {
    ObjectMap* const layers[] = {&names_, &variables_, &heap_, &mappings_};
    if (layer == std::size(layers)) return visit(kUnknown, size);
    if (layers[layer]->empty()) return split_layer(layer + 1, start, size, visit);
    layers[layer]->split(start, size,
                         [&](BucketId bucket, std::uint64_t from, std::uint64_t piece) {
                           if (bucket == kNoBucket)
                             split_layer(layer + 1, from, piece, visit);
                           else
                             visit(bucket, piece);
                         });
  }

  // Changes are counted by page, many pages a slot, and by mapping; large ones in one slot.
  static constexpr unsigned kPageBits = 12;
  static constexpr std::uint32_t kSlots = 4096;
  static constexpr std::uint32_t kWideSlot = kSlots;
  static constexpr std::uint32_t kMappingSlots = 256;  // behind
  static std::uint32_t mapping_slot_of(const Stretch& mapping) {
    return kWideSlot + 1 +
           static_cast<std::uint32_t>(mapping.start >> kPageBits & (kMappingSlots - 1));
  }
  static std::uint32_t slot_of(std::uint64_t address) {
    return static_cast<std::uint32_t>(address >> kPageBits & (kSlots - 1));
  }
  std::uint32_t wide_changes() const { return changes_[kWideSlot]; }
  void stamp_changed(std::uint64_t start, std::uint64_t size, bool wide);

  std::vector<Bucket> buckets_;
  Stretch mapping_{kNoBucket, 0, 0};  // that a change was in last, at this stamp
  std::uint32_t mapping_stamp_ = 0;
  std::vector<std::uint32_t> changes_ = std::vector<std::uint32_t>(kSlots + 1 + kMappingSlots);
  std::vector<BucketId> by_site_;
  std::unordered_map<std::string, BucketId> by_name_;  // kind, zero, name
  FlatMap<Live> live_;                                 // heap blocks by address
  std::uint64_t placed_ = 0;
  Names given_;
  std::uint64_t released_address_ = 0;
  Live released_{};                                // the block released last
  std::vector<Names::value_type> released_names_;  // that it had
  ObjectMap names_;
  ObjectMap variables_;
  ObjectMap heap_;
  ObjectMap mappings_;
  std::map<std::uint64_t, BucketId> stacks_;  // by their lowest address
  Watcher* watcher_ = nullptr;
  const Frames* frames_ = nullptr;
  std::unordered_map<std::uint32_t, BucketId> by_frame_;  // by operation
};

}  // namespace stallscope::probes
