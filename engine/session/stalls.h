// SPDX-License-Identifier: Apache-2.0
// A kept trace through a core: where its cycles went.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/pipeline.h"
#include "session/placer.h"
#include "session/replay.h"
#include "session/reshape.h"
#include "session/tiling.h"
#include "stallscope_tables.h"

namespace stallscope::session {

// A part of a trace, by instructions. What comes before `warm` goes through caches and TLBs alone;
// from there to `first` the core warms up and nothing is counted. So many instructions `after` the
// first and `behind` the last are timed, so that parts that follow each other can be compared
// there.
struct Piece {
  std::uint64_t warm = 0, first = 0, last = 0, after = 0, behind = 0;
};

struct StallOptions {
  pipeline::CoreConfig core;
  pipeline::PipelineOptions pipeline;
  bool objects = false;  // also by the data that was accessed
  // The layout of data is changed: by a policy of the near allocator (when its text is not empty),
  // or by shapes.
  Policy policy;
  std::vector<Shape> shapes;
  Tiling tiling;               // or a nest of loops is tiled, when there are any
  std::optional<Piece> piece;  // only that
  std::function<void(const pipeline::Slice&)> on_slice;  // when it ends; may be empty
};

struct Stalls {
  StallTable stall;
  StallObjectTable stall_object;
  StallSourceTable stall_source;
  CoreCountTable core_count;
  BucketTable bucket;
  std::uint64_t switch_cycles = 0;
  bool truncated = false;
  // Of a piece: cycles of the overlaps at its beginning and behind its end, where they are whole.
  std::optional<std::uint64_t> cycles_first, cycles_behind;
};

// `placed` as for replay(); looked at for `objects` alone.
Result<Stalls> stalls(const std::string& path, const machine::MachineConfig& config,
                      const StallOptions& options, const std::vector<Placed>& placed);

}  // namespace stallscope::session
