// SPDX-License-Identifier: Apache-2.0
// What the stream says about memory, told to stat buckets and to machines.
#pragma once

#include <cstdint>

#include "machine/machine.h"
#include "probes/buckets.h"

namespace stallscope::session {

// One record of the stream; those about something else are passed over.
void tell_memory(probes::Buckets& buckets, unsigned tag, const std::uint64_t* words,
                 std::uint32_t count);
void tell_memory(machine::Machine& machine, unsigned tag, const std::uint64_t* words,
                 std::uint32_t count);

}  // namespace stallscope::session
