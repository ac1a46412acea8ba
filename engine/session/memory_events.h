// SPDX-License-Identifier: Apache-2.0
// What the stream says about memory, told to stat buckets.
#pragma once

#include <cstdint>

#include "probes/buckets.h"

namespace stallscope::session {

// One record of the stream; those about something else are passed over.
void tell_memory(probes::Buckets& buckets, unsigned tag, const std::uint64_t* words,
                 std::uint32_t count);

}  // namespace stallscope::session
