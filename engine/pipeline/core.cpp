// SPDX-License-Identifier: Apache-2.0
#include "pipeline/core.h"

namespace stallscope::pipeline {
namespace {

struct Range {
  const char* name;
  std::uint32_t value, least, most;
};

Status in_range(const Range& range) {
  if (range.value >= range.least && range.value <= range.most) return Done{};
  return Error{
      "core." + std::string(range.name) + " = " + std::to_string(range.value) + " is wrong",
      "a number from " + std::to_string(range.least) + " to " + std::to_string(range.most) +
          " was expected",
      ""};
}

}  // namespace

const char* name_of(Cause cause) {
  constexpr const char* kNames[] = {"data_cache", "translation", "rejection", "load_store",
                                    "fpu",        "iu",          "other",     "branch_mispredict",
                                    "inst_cache"};
  return kNames[static_cast<unsigned>(cause)];
}

// Queues and buffers hold at least a whole bundle, or it could never be dispatched.
Status check_core(const CoreConfig& c) {
  const std::uint32_t whole = c.bundle;
  const Range ranges[] = {
      {"fetch", c.fetch, 1, 64},
      {"bundle", c.bundle, 1, kMostBundle},
      {"front_end", c.front_end, 1, 100},
      {"fetch_buffer", c.fetch_buffer, 1, 64},
      {"taken_bubble", c.taken_bubble, 0, 20},
      {"rob", c.rob, 1, 1000},
      {"rename", c.rename, 4 * whole, 10'000},
      {"loads", c.loads, whole, 1000},
      {"stores", c.stores, whole, 1000},
      {"store_buffer", c.store_buffer, whole, 1000},
      {"iu", c.units[0], 1, 16},
      {"fpu", c.units[1], 1, 16},
      {"lsu", c.units[2], 1, 16},
      {"bu", c.units[3], 1, 16},
      {"iu_queue", c.queues[0], whole, 250},
      {"fpu_queue", c.queues[1], whole, 250},
      {"lsu_queue", c.queues[2], whole, 250},
      {"bu_queue", c.queues[3], whole, 250},
      {"misses", c.misses, 1, 64},
      {"reject", c.reject, 0, 100},
      {"integer", c.integer, 1, 200},
      {"multiply", c.multiply, 1, 200},
      {"divide", c.divide, 1, 200},
      {"divide_wide", c.divide_wide, 1, 200},
      {"vector", c.vector, 1, 200},
      {"float_add", c.float_add, 1, 200},
      {"float_multiply", c.float_multiply, 1, 200},
      {"float_divide", c.float_divide, 1, 200},
      {"slow", c.slow, 1, 200},
      {"return_stack", c.return_stack, 1, 1024},
  };
  for (const Range& range : ranges)
    if (Status fine = in_range(range); !fine) return fine;
  if (c.predictor != "tage" && c.predictor != "tournament")
    return Error{"core.predictor = " + c.predictor + " is wrong", "tage or tournament was expected",
                 ""};
  return Done{};
}

}  // namespace stallscope::pipeline
