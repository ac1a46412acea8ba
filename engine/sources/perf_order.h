// SPDX-License-Identifier: Apache-2.0
// Puts records into the order of their times. perf reads the rings of all CPUs in rounds and marks
// where a round ends: whatever is older than the newest record of the round before cannot be
// overtaken any more and leaves.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace stallscope::sources {

class RecordQueue {
 public:
  void push(std::uint64_t time, std::uint64_t file_offset, std::span<const std::byte> record) {
    entries_.push_back({time, file_offset, bytes_.size(), record.size()});
    bytes_.insert(bytes_.end(), record.begin(), record.end());
    newest_ = std::max(newest_, time);
  }
  std::uint64_t newest() const { return newest_; }  // time
  std::size_t bytes() const { return bytes_.size() + entries_.size() * sizeof(Entry); }

  // deliver(file_offset, record) gives a Status, and the first that fails ends it.
  template <typename Deliver>
  Status end_round(Deliver&& deliver) {
    const std::uint64_t limit = until_;
    until_ = newest_;
    return leave(limit, deliver);
  }
  template <typename Deliver>
  Status leave_all(Deliver&& deliver) {
    return leave(~std::uint64_t{0}, deliver);
  }

 private:
  struct Entry {
    std::uint64_t time, file_offset;
    std::size_t start, size;
  };

  template <typename Deliver>
  Status leave(std::uint64_t limit, Deliver& deliver) {
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const Entry& a, const Entry& b) { return a.time < b.time; });
    const auto rest = std::partition_point(entries_.begin(), entries_.end(),
                                           [&](const Entry& e) { return e.time <= limit; });
    for (auto at = entries_.begin(); at != rest; ++at)
      if (Status done = deliver(at->file_offset, std::span(bytes_).subspan(at->start, at->size));
          !done)
        return done;
    keep(rest);
    return Done{};
  }
  void keep(std::vector<Entry>::iterator rest) {
    std::vector<std::byte> kept;
    for (auto at = rest; at != entries_.end(); ++at) {
      const auto record = std::span(bytes_).subspan(at->start, at->size);
      at->start = kept.size();
      kept.insert(kept.end(), record.begin(), record.end());
    }
    bytes_ = std::move(kept);
    entries_.erase(entries_.begin(), rest);
  }

  std::vector<std::byte> bytes_;
  std::vector<Entry> entries_;
  std::uint64_t newest_ = 0;
  std::uint64_t until_ = 0;  // the newest of the round before
};

}  // namespace stallscope::sources
