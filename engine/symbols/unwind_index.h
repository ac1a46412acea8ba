// SPDX-License-Identifier: Apache-2.0
// Where functions begin, of a file that has lost their names: the index of its unwinding
// information (.eh_frame_hdr), which no strip takes away. Little-endian files only, and the one
// encoding of the index that linkers write.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "symbols/image.h"

namespace stallscope::symbols {

class UnwindIndex {
 public:
  UnwindIndex(const Image& image, const Limits& limits);
  // The start of the code that is unwound together with what lies at the address.
  std::optional<std::uint64_t> start_of(std::uint64_t address) const;

 private:
  struct Function {
    std::uint64_t start;
    std::uint64_t size;
  };
  void read(const Image& image, const Limits& limits);

  std::vector<Function> functions_;  // by start
};

}  // namespace stallscope::symbols
