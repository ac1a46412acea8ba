// SPDX-License-Identifier: Apache-2.0
// A hash table from numbers to small values that are cheap to copy, for keys that come and go by
// the million: one array, no allocation for an entry, no division. Linear probing, at most half
// full; what stands behind a hole moves up.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stallscope {

template <typename Value>
class FlatMap {
 public:
  std::size_t size() const { return size_ + has_spare_; }
  bool empty() const { return size() == 0; }

  // Pointers are valid until the next change.
  Value* find(std::uint64_t key) {
    return const_cast<Value*>(static_cast<const FlatMap&>(*this).find(key));
  }
  const Value* find(std::uint64_t key) const {
    if (key == kFree) [[unlikely]]
      return has_spare_ ? &spare_ : nullptr;
    for (std::size_t at = home(key);; at = next(at)) {
      if (entries_[at].key == key) return &entries_[at].value;
      if (entries_[at].key == kFree) return nullptr;
    }
  }
  bool contains(std::uint64_t key) const { return find(key) != nullptr; }

  // What the key has, and whether that is new: then the value is as Value{} is.
  std::pair<Value*, bool> try_emplace(std::uint64_t key) {
    if (key == kFree) [[unlikely]]
      return {&spare_, !std::exchange(has_spare_, true)};
    if (2 * size_ >= entries_.size()) [[unlikely]]
      grow();
    for (std::size_t at = home(key);; at = next(at)) {
      if (entries_[at].key == key) return {&entries_[at].value, false};
      if (entries_[at].key != kFree) continue;
      entries_[at].key = key;
      ++size_;
      return {&entries_[at].value, true};
    }
  }

  bool erase(std::uint64_t key) {
    if (key == kFree) [[unlikely]] {
      spare_ = Value{};
      return std::exchange(has_spare_, false);
    }
    std::size_t hole = home(key);
    for (; entries_[hole].key != key; hole = next(hole))
      if (entries_[hole].key == kFree) return false;
    // An entry moves up when the hole lies between its home and itself.
    for (std::size_t at = next(hole); entries_[at].key != kFree; at = next(at)) {
      const std::size_t away = (at - home(entries_[at].key)) & mask_;
      if (away < ((at - hole) & mask_)) continue;
      entries_[hole] = std::move(entries_[at]);
      hole = at;
    }
    entries_[hole] = Entry{};
    --size_;
    return true;
  }

  // visit(key, value), in no order that means anything.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const Entry& entry : entries_)
      if (entry.key != kFree) visit(entry.key, entry.value);
    if (has_spare_) visit(kFree, spare_);
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};  // as a key, it has a place for itself
  struct Entry {
    std::uint64_t key = kFree;
    Value value{};
  };

  std::size_t home(std::uint64_t key) const {
    return static_cast<std::size_t>(key * 0x9e3779b97f4a7c15ULL >> shift_);
  }
  std::size_t next(std::size_t at) const { return (at + 1) & mask_; }
  void grow() {
    std::vector<Entry> old(2 * entries_.size());
    old.swap(entries_);
    mask_ = entries_.size() - 1;
    shift_ = 64 - static_cast<unsigned>(std::countr_zero(entries_.size()));
    for (Entry& entry : old) {
      if (entry.key == kFree) continue;
      std::size_t at = home(entry.key);
      while (entries_[at].key != kFree) at = next(at);
      entries_[at] = std::move(entry);
    }
  }

  static constexpr std::size_t kFirst = 16;
  std::vector<Entry> entries_ = std::vector<Entry>(kFirst);
  std::size_t mask_ = kFirst - 1;
  unsigned shift_ = 60;
  std::size_t size_ = 0;  // without the spare one
  Value spare_{};
  bool has_spare_ = false;
};

}  // namespace stallscope
