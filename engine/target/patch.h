// SPDX-License-Identifier: Apache-2.0
// Changes the code of a running process: all of its threads are stopped for a moment, none of them
// inside of what changes. The caller must be allowed to trace the process; one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace stallscope::target {

struct Patch {
  std::uint64_t address = 0;
  std::string expected;  // what must be there now; else nothing is changed
  std::string bytes;     // as many
};

struct Patched {
  std::vector<bool> done;  // of each patch; false: something else was there
  bool ended = false;      // the process ended meanwhile, and was waited for
  int status = 0;          // then: as waitpid gives it
};

Result<Patched> patch_process(int pid, const std::vector<Patch>& patches);

}  // namespace stallscope::target
