// SPDX-License-Identifier: Apache-2.0
// What a simulated core is made of: [core] of a machine file. check_core checks every value.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace stallscope::pipeline {

enum class Mode : std::uint8_t {
  real,    // bundles of several instructions, issued out of order
  single,  // one instruction a bundle
  inorder  // and none is issued before the bundle in front of it has retired
};

// Why a cycle retired nothing. The order is also that of ties: of the units that finished last in
// one cycle, the first in this list is charged.
enum class Cause : std::uint8_t {
  data_cache,
  translation,
  rejection,
  load_store,
  fpu,
  iu,
  other,
  branch_mispredict,
  inst_cache
};
constexpr unsigned kCauses = 9;
const char* name_of(Cause cause);

enum class Unit : std::uint8_t { iu, fpu, lsu, bu };
constexpr unsigned kUnits = 4;

// What is made ideal: a bit for each Cause.
using Ideal = std::uint32_t;
constexpr bool is_ideal(Ideal ideal, Cause cause) {
  return ideal >> static_cast<unsigned>(cause) & 1;
}

struct CoreConfig {
  std::uint32_t fetch = 8;         // instructions a cycle
  std::uint32_t bundle = 5;        // micro-operations
  std::uint32_t front_end = 18;    // cycles from fetch to dispatch
  std::uint32_t fetch_buffer = 8;  // bundles between them
  std::uint32_t taken_bubble = 1;  // cycles without fetch after a taken branch
  std::uint32_t rob = 20;          // bundles
  bool loose_rob = false;          // as many operations as these have, in whatever bundles
  std::uint32_t rename = 80;
  std::uint32_t loads = 32;         // entries of the load buffer
  std::uint32_t stores = 32;        // entries of the store buffer, until retirement
  std::uint32_t store_buffer = 16;  // retired stores that wait for the data cache
  std::uint32_t units[kUnits] = {2, 2, 2, 1};
  std::uint32_t queues[kUnits] = {36, 20, 36, 12};  // entries of issue queues, by kind of unit
  std::uint32_t misses = 8;                         // outstanding ones
  std::uint32_t reject = 0;          // cycles after which a rejected operation is issued again; 0:
                                     // it waits in the unit instead
  bool translation_rejects = false;  // a miss of the first TLB does; else it delays
  std::uint32_t integer = 1;         // latencies, in cycles
  std::uint32_t multiply = 4;
  std::uint32_t divide = 20;
  std::uint32_t divide_wide = 36;  // of 64 bits
  std::uint32_t vector = 2;
  std::uint32_t float_add = 4;
  std::uint32_t float_multiply = 4;
  std::uint32_t float_divide = 20;
  std::uint32_t slow = 40;
  std::string predictor = "tage";   // or tournament
  std::uint32_t return_stack = 16;  // entries
  bool follow_chain = true;  // what waited for another operation of its own bundle hands it the
                             // cycles of that wait
  bool wrong_paths = false;  // loads behind mispredicted branches are executed early: wrong_paths.h
};

constexpr std::uint32_t kMostBundle = 16;

// The first wrong value as an error that names it.
Status check_core(const CoreConfig& config);

}  // namespace stallscope::pipeline
