// SPDX-License-Identifier: Apache-2.0
// Which samples stand behind an access to data that cannot be far away. A thread that is found
// behind one instruction again and again, always with the same few lines, touches these so often
// that they are in its first caches, unless a thread on another processor takes them away. What it
// waits for there is the instruction itself: an atomic operation, or a value that it stored just
// before.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stallscope::sources {

struct Standing {
  std::uint32_t spot;  // place in the code
  std::uint32_t thread, cpu;
  std::uint64_t address;
};

// For each touch, whether its line is one of the few that its thread touches from there.
std::vector<bool> hot_lines(std::span<const Standing> touches);

}  // namespace stallscope::sources
