// SPDX-License-Identifier: Apache-2.0
// Unpacks a zstd stream that is spread over the COMPRESSED records of a perf.data file. What comes
// out is bounded by the caller, whatever the packed bytes say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"

struct ZSTD_DCtx_s;

namespace stallscope::sources {

class Unpacker {
 public:
  Unpacker();
  ~Unpacker();
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  // Appends what `packed` holds to `out`, at most `most` bytes; more is an error.
  Status append(std::span<const std::byte> packed, std::size_t most, std::vector<std::byte>& out);

 private:
  ZSTD_DCtx_s* context_;
};

}  // namespace stallscope::sources
