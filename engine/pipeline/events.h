// SPDX-License-Identifier: Apache-2.0
// What can be counted in a core. The only list: names, meanings and what each belongs to; on which
// physical counters an event may sit follows from its place (see docs/counters.md).
#pragma once

#include <cstdint>

namespace stallscope::pipeline {

// X(name, area, meaning)
#define STALLSCOPE_EVENTS(X)                                                                \
  X(cycles, any, "cycles")                                                                  \
  X(instructions, any, "instructions retired")                                              \
  X(micro_operations, completion, "micro-operations retired")                               \
  X(completion_cycles, completion, "cycles in which a bundle retired")                      \
  X(stall_cycles, completion, "cycles in which nothing retired")                            \
  X(stall_data_cache, stall, "stall cycles charged to the data cache")                      \
  X(stall_translation, stall, "stall cycles charged to address translation")                \
  X(stall_rejection, stall, "stall cycles charged to rejections")                           \
  X(stall_load_store, stall, "stall cycles charged to the latency of loads and stores")     \
  X(stall_fpu, stall, "stall cycles charged to the floating-point units")                   \
  X(stall_iu, stall, "stall cycles charged to the integer units")                           \
  X(stall_other, stall, "stall cycles charged to nothing else")                             \
  X(stall_branch_mispredict, stall, "stall cycles charged to mispredicted branches")        \
  X(stall_inst_cache, stall, "stall cycles charged to the instruction cache")               \
  X(empty_cycles, stall, "stall cycles in which the reorder buffer was empty")              \
  X(iu_operations, issue, "micro-operations issued to integer units")                       \
  X(fpu_operations, issue, "micro-operations issued to floating-point units")               \
  X(lsu_operations, issue, "micro-operations issued to load/store units")                   \
  X(bu_operations, issue, "micro-operations issued to branch units")                        \
  X(divides, issue, "divisions and square roots")                                           \
  X(dispatch_rob, dispatch, "cycles that dispatch waited for a reorder-buffer entry")       \
  X(dispatch_rename, dispatch, "cycles that dispatch waited for rename registers")          \
  X(dispatch_buffers, dispatch, "cycles that dispatch waited for load or store entries")    \
  X(dispatch_queues, dispatch, "cycles that dispatch waited for an issue queue")            \
  X(loads, lsu, "loads")                                                                    \
  X(stores, lsu, "stores")                                                                  \
  X(store_forwards, lsu, "loads that got their data from a store not yet written")          \
  X(rejections, lsu, "operations that were rejected")                                       \
  X(reissues, lsu, "times that rejected operations were issued again")                      \
  X(l1d_load_misses, lsu, "loads that missed the first data cache")                         \
  X(l1d_store_misses, lsu, "stores that missed the first data cache")                       \
  X(late_hits, lsu, "loads of lines that were on their way already")                        \
  X(from_l2, memory, "loads that the second cache served")                                  \
  X(from_l3, memory, "loads that the third cache served")                                   \
  X(from_memory, memory, "loads that memory served")                                        \
  X(l2_misses, memory, "accesses to data that missed the second cache")                     \
  X(miss_cycles, memory, "cycles times outstanding misses of loads and stores")             \
  X(miss_full, memory, "cycles that misses waited for a place among the outstanding ones")  \
  X(bus_transfers, bus, "lines that came from memory")                                      \
  X(bus_writebacks, bus, "lines that went to memory")                                       \
  X(bus_busy, bus, "cycles in which the memory bus was taken")                              \
  X(bus_waits, bus, "cycles that misses waited for the memory bus")                         \
  X(prefetches, bus, "lines that prefetches brought, the hardware's and the program's own") \
  X(erat_misses, mmu, "data accesses that missed the first TLB")                            \
  X(tlb_misses, mmu, "data accesses that missed every TLB")                                 \
  X(translation_cycles, mmu, "cycles that data accesses waited for translation")            \
  X(ierat_misses, fetch, "fetches that missed the first TLB")                               \
  X(icache_lines, fetch, "lines of code fetched")                                           \
  X(icache_misses, fetch, "lines of code that missed the instruction cache")                \
  X(icache_cycles, fetch, "cycles that fetch waited for the instruction cache")             \
  X(branches, branch, "branches of all kinds")                                              \
  X(conditional_branches, branch, "conditional branches")                                   \
  X(taken_branches, branch, "branches that were taken")                                     \
  X(indirect_branches, branch, "indirect jumps and calls")                                  \
  X(calls, branch, "calls")                                                                 \
  X(returns, branch, "returns")                                                             \
  X(mispredicts, branch, "mispredicted branches")                                           \
  X(direction_mispredicts, branch, "conditional branches whose direction was mispredicted") \
  X(target_mispredicts, branch, "branches whose target was mispredicted")

enum class Event : std::uint8_t {
#define STALLSCOPE_EVENT(name, area, meaning) name,
  STALLSCOPE_EVENTS(STALLSCOPE_EVENT)
#undef STALLSCOPE_EVENT
};

struct EventEntry {
  const char* name;
  const char* area;
  const char* meaning;
};
inline constexpr EventEntry kEventList[] = {
#define STALLSCOPE_EVENT(name, area, meaning) {#name, #area, meaning},
    STALLSCOPE_EVENTS(STALLSCOPE_EVENT)
#undef STALLSCOPE_EVENT
};
inline constexpr unsigned kEvents = sizeof kEventList / sizeof kEventList[0];

struct EventCounts {
  std::uint64_t values[kEvents]{};

  std::uint64_t& operator[](Event event) { return values[static_cast<unsigned>(event)]; }
  std::uint64_t operator[](Event event) const { return values[static_cast<unsigned>(event)]; }
};

}  // namespace stallscope::pipeline
