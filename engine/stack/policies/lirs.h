// SPDX-License-Identifier: Apache-2.0
// LIRS (Jiang and Zhang, SIGMETRICS 2002): pages whose last two references were close together
// (LIR) stay; one page in a hundred, at least one, is left for the others (HIR). Names as in the
// paper: the stack S orders pages by recency down to the oldest LIR page and remembers HIR pages
// that have left memory; the list Q holds the HIR pages in memory, its front is thrown out. S
// remembers as long as it has at most twice as many pages as memory has; then the oldest that is
// not in memory is forgotten (the paper lets S grow, and limits it the same way in a later
// section).
#pragma once

#include <algorithm>

#include "stack/growing.h"
#include "stack/lazy_list.h"
#include "stack/policy.h"

namespace stallscope::stack {

class Lirs {
 public:
  static constexpr PolicyFacts kFacts{"lirs", "pages with short distances between references stay",
                                      2};
  explicit Lirs(std::uint32_t memory)
      : memory_(memory), hirs_(std::max(1u, memory / 100)), lirs_(memory - hirs_) {}

  bool access(std::uint32_t page) {
    victim_ = kNone;
    switch (pages_[page].kind) {
      case kLir:
        push_stack(page);
        prune();
        return true;
      case kResident:
        hit_hir(page);
        limit_stack();
        return true;
      default:
        miss(page);
        limit_stack();
        return false;
    }
  }
  std::uint32_t victim() const { return victim_; }
  void reserve(std::uint32_t pages) { pages_.reserve(pages); }
  STALLSCOPE_INLINE void prefetch(std::uint32_t page) const { pages_.prefetch(page); }
  std::uint64_t bytes() const {
    return pages_.bytes() + stack_.bytes() + queue_.bytes() + gone_.bytes();
  }

 private:
  enum Kind : std::uint32_t { kUnknown, kLir, kResident, kGone };  // kGone: in S, not in memory
  struct Page {
    std::uint32_t in_stack;  // slot + 1; 0: not in S
    std::uint32_t kind : 2;
    std::uint32_t slot : 30;  // in Q for kResident, in the list of the gone for kGone
  };

  auto at_stack() const {
    return [this](auto page, auto slot) { return pages_[page].in_stack == slot + 1; };
  }
  auto at(Kind kind) const {
    return [this, kind](auto page, auto slot) {
      return pages_[page].kind == kind && pages_[page].slot == slot;
    };
  }
  auto moved() const {
    return [this](auto page, auto slot) { pages_[page].slot = slot; };
  }
  void push_stack(std::uint32_t page) {
    if (pages_[page].in_stack) stack_.left();
    const auto moved = [this](auto p, auto slot) { pages_[p].in_stack = slot + 1; };
    pages_[page].in_stack = stack_.push(page, at_stack(), moved) + 1;
  }
  void push_queue(std::uint32_t page) {
    pages_[page].slot = queue_.push(page, at(kResident), moved());
    pages_[page].kind = kResident;
  }

  void hit_hir(std::uint32_t page) {
    const bool in_stack = pages_[page].in_stack != 0;
    queue_.left();
    push_stack(page);
    if (in_stack)
      make_lir(page);
    else
      push_queue(page);
  }
  void miss(std::uint32_t page) {
    if (used_ < memory_) {
      ++used_;
    } else {
      evict();
    }
    const bool remembered = pages_[page].kind == kGone;
    if (remembered) gone_.left();
    push_stack(page);
    if (remembered) {
      make_lir(page);
    } else if (lir_count_ < lirs_) {
      pages_[page].kind = kLir;
      ++lir_count_;
    } else {
      push_queue(page);
    }
  }
  // The oldest LIR page makes room for it in the set, and goes to the end of Q.
  void make_lir(std::uint32_t page) {
    pages_[page].kind = kLir;
    if (lir_count_ < lirs_) {
      ++lir_count_;
      return;
    }
    const std::uint32_t oldest = stack_.pop(at_stack());
    pages_[oldest].in_stack = 0;
    push_queue(oldest);
    prune();
  }
  void evict() {
    victim_ = queue_.pop(at(kResident));
    Page& page = pages_[victim_];
    page.kind = kUnknown;
    if (!page.in_stack) return;
    page.slot = gone_.push(victim_, at(kGone), moved());
    page.kind = kGone;
  }
  void forget(std::uint32_t page) {
    if (pages_[page].kind != kGone) return;
    pages_[page].kind = kUnknown;
    gone_.left();
  }
  // The bottom of S is a LIR page.
  void prune() {
    for (;;) {
      const std::uint32_t page = stack_.oldest(at_stack());
      if (pages_[page].kind == kLir) return;
      pages_[page].in_stack = 0;
      forget(page);
      stack_.drop_oldest();
    }
  }
  void limit_stack() {
    while (stack_.size() > std::uint64_t{memory_} * 2 && gone_.size() > 0) {
      const std::uint32_t page = gone_.oldest(at(kGone));
      forget(page);
      pages_[page].in_stack = 0;
      stack_.left();
    }
  }

  Growing<Page> pages_;
  LazyList stack_, queue_, gone_;
  std::uint32_t memory_, hirs_, lirs_, lir_count_ = 0, used_ = 0, victim_ = kNone;
};

}  // namespace stallscope::stack
