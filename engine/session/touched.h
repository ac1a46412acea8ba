// SPDX-License-Identifier: Apache-2.0
// What of memory a kept trace touches: lines and bytes of every stat bucket, and how often each
// word of the elements of some.
//
// Lines are 64 bytes. Memory that blocks of one bucket had one after the other counts once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "session/replay.h"
#include "stallscope_tables.h"

namespace stallscope::session {

// Whose words are counted.
struct Followable {
  std::optional<std::uint32_t> site;  // of heap blocks; none: the variable at `address`
  std::uint64_t address = 0;
  std::uint64_t element = 0;
};

struct Touched {
  TouchTable touch;
  TouchOffsetTable touch_offset;
  BucketTable bucket;
  bool truncated = false;
};

Result<Touched> touched_by(const std::string& path, const std::vector<Placed>& placed,
                           const std::vector<Followable>& followed);

}  // namespace stallscope::session
