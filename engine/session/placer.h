// SPDX-License-Identifier: Apache-2.0
// Where the near allocator would put the heap blocks of a program under a policy: its own code for
// rules, pools and pages (runtime/near), over addresses that no program has.
//
// Not modelled: what the C library's malloc does with the rest. Blocks that are not placed stay
// where they were recorded, and large ones that are placed follow each other in memory of their
// own, each a page longer than asked for, as malloc would give them from the end of its heap.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace stallscope::session {

// The innermost return address of an allocation path.
struct ReturnAddress {
  std::uint32_t site;
  std::string module;  // build id in hexadecimal
  std::uint64_t offset;
};

// A policy file's text, and what its return addresses are in a recording.
struct Policy {
  std::string text;
  std::vector<ReturnAddress> sites;
};

// Where the near allocator keeps what it knows of a small block: three words.
struct Knowledge {
  std::uint64_t page;   // what the page is for
  std::uint64_t taken;  // whose granules are taken
  std::uint64_t last;   // which end a block
};

// Addresses of all that it knows.
inline constexpr std::uint64_t kKnowledge = (std::uint64_t{1} << 46) + (std::uint64_t{1} << 44);
inline constexpr std::uint64_t kKnowledgeBytes = 16 << 20;  // enough for 450 MB of blocks

class Placer {
 public:
  static Result<std::unique_ptr<Placer>> make(const Policy& policy);
  ~Placer();

  // Whether a block of this site and size is one that is placed.
  bool places(std::uint64_t site, std::uint64_t size) const;
  // Nothing when the policy leaves it to malloc. Call once for each block, in their order.
  std::optional<std::uint64_t> place(std::uint64_t site, std::uint64_t size, std::uint32_t thread);
  // Of a small block that place() gave; nothing for a large one.
  std::optional<Knowledge> knowledge(std::uint64_t address) const;
  // Of a block that place() gave.
  void give_back(std::uint64_t address);

 private:
  struct Near;
  explicit Placer(std::unique_ptr<Near> near);
  std::unique_ptr<Near> near_;
};

}  // namespace stallscope::session
