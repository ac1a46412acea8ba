// SPDX-License-Identifier: Apache-2.0
#include "session/memory_events.h"

#include "stallscope_records.h"
#include "stream/record.h"

namespace stallscope::session {

void tell_memory(probes::Buckets& buckets, unsigned tag, const std::uint64_t* words,
                 std::uint32_t count) {
  if (tag == SS_ALLOC) {
    const auto& record = *reinterpret_cast<const ss_alloc*>(words);
    if (record.address)
      buckets.allocate(record.address, record.size, static_cast<std::uint32_t>(record.site));
    else
      buckets.revive(record.old_address);
  } else if (tag == SS_FREE) {
    buckets.release(reinterpret_cast<const ss_free*>(words)->address);
  } else if (tag == SS_UNMAP) {
    const auto& record = *reinterpret_cast<const ss_unmap*>(words);
    buckets.unmap(record.address, record.length);
  } else if (tag == SS_NAME_BLOCK) {
    if (auto record = stream::view<ss_name_block>(words, count); record)
      buckets.give_name(record->tail, record->fields->address, record->fields->size);
  }
}

void tell_memory(machine::Machine& machine, unsigned tag, const std::uint64_t* words,
                 std::uint32_t count) {
  if (tag == SS_MAP) {
    if (auto record = stream::view<ss_map>(words, count); record)
      machine.map(record->fields->address, record->fields->length, !record->tail.empty());
  } else if (tag == SS_UNMAP) {
    const auto& record = *reinterpret_cast<const ss_unmap*>(words);
    machine.map(record.address, record.length, false);
  } else if (tag == SS_BRK) {
    const auto& record = *reinterpret_cast<const ss_brk*>(words);
    if (record.new_end < record.old_end)
      machine.map(record.new_end, record.old_end - record.new_end, false);
  }
}

}  // namespace stallscope::session
