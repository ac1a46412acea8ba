// SPDX-License-Identifier: Apache-2.0
// The loops of a kept trace: how often they began and ran, how far apart their accesses are, which
// way their branches go.
//
// A loop is the code from the target of a backward jump up to that jump, calls left out; jumps to
// one target are one loop. It begins when its first instruction is reached from outside and ends
// when control leaves that stretch of code. What a compiler moved out of the stretch ends an entry.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "stallscope_tables.h"

namespace stallscope::session {

struct Loops {
  LoopTable loop;
  LoopBranchTable branch;
  LoopAccessTable access;
  std::uint64_t instructions = 0;  // of the whole trace
  bool truncated = false;
};

Result<Loops> loops(const std::string& path);

}  // namespace stallscope::session
