// SPDX-License-Identifier: Apache-2.0
#include "stack/policies/belady.h"

#include "stack/growing.h"
#include "stack/moment_set.h"

namespace stallscope::stack {

Status Belady::append(std::span<const std::uint64_t> pages, std::span<const std::uint8_t> writes) {
  const std::size_t before = numbers_.size();
  if (before + pages.size() >= kNone)
    return Error{
        "too many references for Belady's optimum",
        "it looks at all of them at once, and there are more than " + std::to_string(kNone - 1),
        "run it on a part"};
  numbers_.resize(before + pages.size());
  numbering_.number(pages, 0, pages.size(), numbers_.data() + before);
  if (writes.empty() && writes_.empty()) return Done{};
  writes_.resize(before);  // references without word did not write
  writes_.insert(writes_.end(), writes.begin(), writes.end());
  writes_.resize(numbers_.size());
  return Done{};
}

std::vector<std::uint32_t> Belady::next_references() const {
  constexpr std::size_t kAhead = 32;
  const LargeArray<std::uint32_t> seen(numbering_.size());  // moment + 1; 0: not yet
  std::vector<std::uint32_t> next(numbers_.size());
  for (std::size_t t = numbers_.size(); t-- > 0;) {
    if (t >= kAhead) __builtin_prefetch(&seen[numbers_[t - kAhead]], 1);
    std::uint32_t& last = seen[numbers_[t]];
    next[t] = last - 1;  // kNone when there is none
    last = static_cast<std::uint32_t>(t + 1);
  }
  return next;
}

namespace {

// Memory as the moments at which its pages are referenced next.
class Frames {
 public:
  explicit Frames(std::size_t moments) : next_(moments) {}

  bool hit(std::size_t now) {
    if (!next_.has(now)) return false;
    next_.remove(now);
    return true;
  }
  void keep(std::uint32_t page, std::uint32_t next) {
    if (next == kNone)
      done_.push_back(page);
    else
      next_.add(next);
  }
  // The page at the latest moment, or one that is never referenced again.
  std::uint32_t evict(const std::vector<std::uint32_t>& pages) {
    if (!done_.empty()) {
      const std::uint32_t page = done_.back();
      done_.pop_back();
      return page;
    }
    const std::uint64_t latest = next_.largest();
    next_.remove(latest);
    return pages[latest];
  }
  std::uint64_t bytes() const { return next_.bytes() + done_.capacity() * 4; }

 private:
  MomentSet next_;
  std::vector<std::uint32_t> done_;
};

}  // namespace

Misses Belady::misses() {
  Misses result{.references = numbers_.size()};
  const std::vector<std::uint32_t> next = next_references();
  Frames frames(numbers_.size());
  std::vector<bool> dirty(writes_.empty() ? 0 : numbering_.size());
  std::uint32_t used = 0;
  for (std::size_t t = 0; t < next.size(); ++t) {
    const bool writes = !writes_.empty() && writes_[t];
    if (!frames.hit(t)) {
      ++result.misses;
      result.write_misses += writes;
      if (used < memory_) {
        ++used;
      } else {
        const std::uint32_t victim = frames.evict(numbers_);
        ++result.evictions;
        if (!dirty.empty()) {
          result.writebacks += dirty[victim];
          dirty[victim] = false;
        }
      }
    }
    frames.keep(numbers_[t], next[t]);
    if (writes) dirty[numbers_[t]] = true;
  }
  result.bytes =
      numbering_.bytes() + frames.bytes() + (numbers_.size() + next.size()) * 4 + writes_.size();
  return result;
}

}  // namespace stallscope::stack
