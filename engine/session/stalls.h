// SPDX-License-Identifier: Apache-2.0
// A kept trace through a core: where its cycles went.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/pipeline.h"
#include "session/placer.h"
#include "session/replay.h"
#include "session/reshape.h"
#include "stallscope_tables.h"

namespace stallscope::session {

struct StallOptions {
  pipeline::CoreConfig core;
  pipeline::PipelineOptions pipeline;
  bool objects = false;  // also by the data that was accessed
  // The layout of data is changed: by a policy of the near allocator (when its text is not empty),
  // or by shapes.
  Policy policy;
  std::vector<Shape> shapes;
};

struct Stalls {
  StallTable stall;
  StallObjectTable stall_object;
  StallSourceTable stall_source;
  CoreCountTable core_count;
  BucketTable bucket;
  std::uint64_t switch_cycles = 0;
  bool truncated = false;
};

// `placed` as for replay(); looked at for `objects` alone.
Result<Stalls> stalls(const std::string& path, const machine::MachineConfig& config,
                      const StallOptions& options, const std::vector<Placed>& placed);

}  // namespace stallscope::session
