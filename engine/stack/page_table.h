// SPDX-License-Identifier: Apache-2.0
// A page's number to a value of 32 bits: open addressing, linear probing, 16 bytes an entry, at
// most three quarters full. Entries stand in the order of their hashes, so that growing is one walk
// over both tables. Any page number is allowed; the value 0 is not, it marks a free entry.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

// For what hot loops are made of. Hints must have it: a function that does nothing but prefetch has
// no effect that the compiler knows of, and a call of it is dropped.
#define STALLSCOPE_INLINE [[gnu::always_inline]] inline

namespace stallscope::stack {

// Zeroed memory in large pages where the system has them: random accesses to many megabytes
// otherwise lose more time in the TLB than in the caches.
template <typename T>
class LargeArray {
 public:
  LargeArray() = default;
  explicit LargeArray(std::size_t size) : size_(size) {
    const std::size_t bytes = (size * sizeof(T) + kAlign - 1) / kAlign * kAlign;
    const std::size_t align = bytes >= kHuge ? kHuge : kAlign;
    data_.reset(static_cast<T*>(std::aligned_alloc(align, (bytes + align - 1) / align * align)));
    if (!data_) throw std::bad_alloc();
    if (bytes >= kHuge) ::madvise(data_.get(), bytes, MADV_HUGEPAGE);
    std::uninitialized_value_construct_n(data_.get(), size);
  }
  LargeArray(const LargeArray& other) : LargeArray(other.size_) {
    std::copy(other.begin(), other.end(), begin());
  }
  LargeArray(LargeArray&&) = default;
  LargeArray& operator=(LargeArray&&) = default;
  T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) const { return data_.get()[i]; }
  T* begin() const { return data(); }
  T* end() const { return data() + size_; }

 private:
  static constexpr std::size_t kAlign = 64, kHuge = std::size_t{2} << 20;
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t size_ = 0;
};

class PageTable {
 public:
  struct Entry {
    std::uint64_t page;
    std::uint32_t value;  // 0: free
    std::uint32_t unused;
  };

  // Where entries are, by value: for hot loops, as long as nothing is added or removed.
  struct Places {
    Entry* entries;
    std::uint64_t mask;
    unsigned shift;

    STALLSCOPE_INLINE Entry* home(std::uint64_t page) const {
      return entries + (hash(page) >> shift);
    }
    // The page's entry, or the free one where it would be.
    STALLSCOPE_INLINE Entry* probe(std::uint64_t page) const {
      for (std::uint64_t i = hash(page) >> shift;; i = (i + 1) & mask)
        if (entries[i].page == page || entries[i].value == 0) return entries + i;
    }
    STALLSCOPE_INLINE void prefetch(std::uint64_t page) const { __builtin_prefetch(home(page), 1); }
    // The value of `page` if it is where one looks first, else 0. For hints.
    STALLSCOPE_INLINE std::uint32_t peek(std::uint64_t page) const {
      const Entry* const entry = home(page);
      return entry->page == page ? entry->value : 0;
    }
  };

  PageTable() { allocate(kSmallest); }
  Places places() const { return {entries_.data(), mask_, shift_}; }

  std::uint64_t size() const { return used_; }
  std::uint64_t bytes() const { return entries_.size() * sizeof(Entry); }
  const LargeArray<Entry>& entries() const { return entries_; }

  // The entry of `page`, made when there is none: then its value is 0, and the caller sets it
  // before the next call. The pointer holds until the next call of find_or_add or remove.
  Entry* find_or_add(std::uint64_t page) {
    Entry* entry = probe(page);
    if (entry->value != 0) [[likely]]
      return entry;
    if (used_ >= limit_) [[unlikely]] {
      grow();
      entry = probe(page);
    }
    entry->page = page;
    ++used_;
    return entry;
  }
  Entry* find(std::uint64_t page) const {
    Entry* entry = probe(page);
    return entry->value != 0 ? entry : nullptr;
  }
  // Later entries move up into the gap, so that no probe ever meets a grave.
  void remove(Entry* entry);
  STALLSCOPE_INLINE void prefetch(std::uint64_t page) const { places().prefetch(page); }

 private:
  static constexpr std::uint64_t kSmallest = 1024;

  // A bijection, so that unlike pages have unlike hashes; regular page numbers spread evenly.
  static std::uint64_t hash(std::uint64_t page) {
    page ^= page >> 29;
    return page * 0x9e3779b97f4a7c15u;
  }
  std::uint64_t home(std::uint64_t page) const { return hash(page) >> shift_; }
  Entry* probe(std::uint64_t page) const { return places().probe(page); }
  void allocate(std::uint64_t entries);
  void grow();

  LargeArray<Entry> entries_;
  unsigned shift_ = 0;
  std::uint64_t mask_ = 0;
  std::uint64_t used_ = 0;
  std::uint64_t limit_ = 0;
};

}  // namespace stallscope::stack
