// SPDX-License-Identifier: Apache-2.0
// The type of heap blocks, which nobody declares: every instruction that accesses them votes for
// the type that its pointer has there, as often as it ran; instructions whose pointer is not known
// vote for the type of the variable that the allocator's result was put into, if that is known.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "symbols/symbol_cache.h"
#include "types/flow.h"

namespace stallscope::types {

struct Module {
  std::string path;
  std::string build_id;  // bytes; empty when it is not known
  std::uint64_t bias;    // to subtract from an address to get the file's own
  std::uint64_t start;
  std::uint64_t end;
};

struct Use {              // one memory operation that accesses the blocks
  std::uint64_t address;  // of its instruction, in the process
  bool writes;
  std::uint32_t size;
  std::uint64_t times;
};

struct Blocks {
  std::vector<Use> uses;
  std::vector<std::uint64_t> calls;  // that led to the allocator, innermost first: behind each
  std::uint64_t largest = 0;         // bytes of a block; 0: unknown
};

struct Guess {
  symbols::Symbols* symbols = nullptr;  // null: nothing is known; else what `type` belongs to
  symbols::TypeId type = symbols::kNoType;
  double confidence = 0;      // share of the votes that it got
  double voted = 0;           // share of the accesses whose pointer is known
  bool is_allocated = false;  // no access is known, only the allocation
};

// Bytes after which the parts of blocks of such a type repeat: the size of a struct or union, also
// of one in an array; 0 for what has no parts, or ends in an array without an end.
std::uint64_t element_size(const Guess& guess);

// Not thread-safe. Where a process still records, its caller holds the cache's mutex.
class Inference {
 public:
  Inference(std::vector<Module> modules, symbols::SymbolCache& cache);

  Guess infer(const Blocks& blocks);
  // The variable at an address of the process.
  Guess variable(std::uint64_t address);

 private:
  struct File {
    Module module;
    std::shared_ptr<symbols::Symbols> symbols;
    bool is_open = false;
    std::map<std::uint64_t, std::shared_ptr<Followed>> functions;  // by where a range begins
    std::map<std::uint64_t, std::uint64_t> ends;                   // of those ranges
  };
  struct Candidate {
    symbols::Symbols* symbols;
    symbols::TypeId type;
    std::string_view name;
    std::uint64_t size;
    std::uint64_t votes = 0;

    bool contains(const Candidate& part) const {
      return symbols->types()->contains(type, part.name, part.size);
    }
  };
  struct Tally;

  File* file_of(std::uint64_t address);
  const Followed* followed(File& file, std::uint64_t address);
  void vote(const Use& use, Tally& tally);
  void vote_allocation(const Blocks& blocks, std::uint64_t votes, Tally& tally);
  static bool fits(symbols::Symbols& symbols, symbols::TypeId type, const Access& access);

  std::vector<File> files_;
  symbols::SymbolCache& cache_;
  std::uint64_t steps_left_;
};

}  // namespace stallscope::types
