// SPDX-License-Identifier: Apache-2.0
// The instructions of the functions that samples fall into, decoded once and kept. Addresses are
// the file's own. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "code/decode.h"
#include "code/effect.h"
#include "code/elf_image.h"
#include "code/functions.h"
#include "code/work.h"

namespace stallscope::sources {

struct Step {
  std::uint64_t address = 0;
  code::Instruction instruction;
  code::Effect effect;
  code::WorkKind work = code::WorkKind::kInteger;
};

struct FunctionCode {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::vector<Step> steps;                          // by address, without gaps
  std::multimap<std::uint64_t, std::size_t> jumps;  // to each place, from which steps
  std::set<std::size_t> rounds;                     // steps whose jump begins a loop anew
  std::map<std::uint64_t, std::uint64_t> loops;     // farthest of those to a place, by that place

  static constexpr std::size_t kNowhere = ~std::size_t{0};
  std::size_t find(std::uint64_t address) const;  // kNowhere when no step begins there
};

class CodeFile {
 public:
  // Null when the file cannot be read.
  static std::unique_ptr<CodeFile> open(const std::string& path);
  // The function around an address; null when no code is there, or too much of it.
  const FunctionCode* at(std::uint64_t address);

 private:
  explicit CodeFile(code::ElfImage image) : image_(std::move(image)), functions_(image_) {}

  code::ElfImage image_;
  code::Functions functions_;
  std::unordered_map<std::size_t, std::unique_ptr<FunctionCode>> read_;
};

// Decodes from `start`; ends early where bytes are no instruction.
FunctionCode read_function(code::Bytes bytes, std::uint64_t start);

}  // namespace stallscope::sources
