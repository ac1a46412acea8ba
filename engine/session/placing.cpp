// SPDX-License-Identifier: Apache-2.0
#include "session/placing.h"

#include "stallscope_records.h"
#include "target/resolver.h"

namespace stallscope::session {
namespace {

constexpr std::uint64_t kExecute = 4;

}  // namespace

void Placing::place_variables(const target::Module& module, probes::Buckets& buckets) {
  const std::lock_guard lock(symbols_.mutex());
  auto opened = symbols_.open(module.path);
  if (!opened) return;
  symbols::Symbols& symbols = **opened;
  const std::uint64_t bias = target::bias_of(module, symbols.facts());
  for (const symbols::Variable& v : symbols.variables())
    buckets.name("global", symbols.text(v.name), symbols.text(v.type), v.address + bias, v.size);
}

// A part of a mapping: one that grows is told of part by part.
void Placing::place_mapping(std::uint64_t address, std::uint64_t size, const target::Target& target,
                            probes::Buckets& buckets) {
  if (const target::Mapping* mapping = target.mappings.find(address))
    buckets.map("mapping", mapping->path, address, size);
}

bool Placing::concerns(unsigned tag) {
  return tag == SS_MAP || tag == SS_BRK || tag == SS_REMAP || tag == SS_THREAD_START;
}

void Placing::on_record(unsigned tag, const std::uint64_t* words, const target::Target& target,
                        probes::Buckets& buckets) {
  if (tag == SS_MAP) {
    const auto& record = *reinterpret_cast<const ss_map*>(words);
    place_mapping(record.address, record.length, target, buckets);
    const std::uint32_t module = target.mappings.module_of(record.address);
    if ((record.access & kExecute) && module != kNone32)
      place_variables(target.mappings.modules()[module], buckets);
  } else if (tag == SS_BRK) {
    const auto& record = *reinterpret_cast<const ss_brk*>(words);
    if (record.new_end > record.old_end)
      place_mapping(record.old_end, record.new_end - record.old_end, target, buckets);
  } else if (tag == SS_REMAP) {
    const auto& record = *reinterpret_cast<const ss_remap*>(words);
    place_mapping(record.new_address, record.length, target, buckets);
  } else if (tag == SS_THREAD_START) {
    const auto& record = *reinterpret_cast<const ss_thread_start*>(words);
    if (const target::Mapping* stack = target.mappings.find(record.stack_pointer))
      buckets.map("stack", "", stack->start, stack->end - stack->start);
  }
}

}  // namespace stallscope::session
