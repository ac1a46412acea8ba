// SPDX-License-Identifier: Apache-2.0
// How many instructions behind the one that it waited for a thread is found, when a timer stops
// it: a matter of the processor (and of a virtual machine's host), so it is measured.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace stallscope::sources {

// Samples of a loop of one slow instruction and three quick ones behind it, by where they fell.
struct SkidCount {
  std::array<std::uint64_t, 4> at{};  // on the slow one, and 1, 2, 3 behind it
  std::uint64_t elsewhere = 0;
};

// Takes a few hundredths of a second; nothing when the kernel gives no samples.
std::optional<SkidCount> count_skid();

// 0 or more; 1, as most processors have it, when it could not be measured or is not clear.
unsigned skid_of(const std::optional<SkidCount>& counted);

}  // namespace stallscope::sources
