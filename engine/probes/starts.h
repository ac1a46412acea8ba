// SPDX-License-Identifier: Apache-2.0
// Where blocks, variables and mappings begin: from an address to the whole that it lies in. Kept
// beside an object map, which only knows whose an address is, and only when somebody asks for it.
#pragma once

#include <cstdint>
#include <map>

namespace stallscope::probes {

struct Start {
  std::uint64_t address;
  std::uint64_t size;
};

class Starts {
 public:
  void insert(std::uint64_t start, std::uint64_t size) { starts_[start] = {start, size}; }
  // Forgets the wholes that lie in [start, start+size); one that reaches out of it stays.
  void erase(std::uint64_t start, std::uint64_t size);
  // The whole that the address is in, the one on top where several lie over each other. Valid until
  // the next insert or erase.
  const Start* find(std::uint64_t address) const;

 private:
  std::map<std::uint64_t, Start> starts_;
};

}  // namespace stallscope::probes
