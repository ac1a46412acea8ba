// SPDX-License-Identifier: Apache-2.0
// A process read back from its stream on disk: when the recorder died before it could write tables,
// or to compare the two.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "target/target.h"

namespace stallscope::session {

struct Recovered {
  std::unique_ptr<target::Target> target;
  bool truncated = false;
  std::uint64_t truncated_at = 0;  // byte of the file
};

Result<Recovered> recover(const std::string& path);

}  // namespace stallscope::session
