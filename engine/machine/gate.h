// SPDX-License-Identifier: Apache-2.0
// What the first levels of a machine look like to its filter (sieve/sieve.h), and its memory.
#pragma once

#include <cstdint>
#include <vector>

#include "sieve/sieve.h"

namespace stallscope::machine {

// Where one kind of accesses enters a machine.
struct GateShape {
  std::uint64_t lines = 1, pages = 1;  // sets of the first cache and TLB, powers of two
  std::uint32_t line_bits = 0;         // where there is no cache
  std::uint32_t page_bits = 63;        // where there is no TLB
};
struct Gates {
  GateShape data, code;
};

class Gate {
 public:
  explicit Gate(const GateShape& shape)
      : lines_(shape.lines), pages_(shape.pages), gate_{lines_.data(),   pages_.data(),
                                                        shape.lines - 1, shape.pages - 1,
                                                        shape.line_bits, shape.page_bits} {
    forget();
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  const ss_gate& get() const { return gate_; }
  void forget() { ss_gate_forget(&gate_); }

 private:
  std::vector<std::uint64_t> lines_, pages_;
  ss_gate gate_;
};

}  // namespace stallscope::machine
