// SPDX-License-Identifier: Apache-2.0
// Many addresses of many modules to source locations, in one go for each module.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/symbol_cache.h"
#include "target/mappings.h"
#include "target/perf_map.h"

namespace stallscope::target {

// What to subtract from an address in the module to get the file's own address.
std::uint64_t bias_of(const Module& module, const symbols::Facts& facts);

class Resolver {
 public:
  // Opens the modules' files and finds their biases. Both arguments outlive the resolver.
  Resolver(const std::vector<Module>& modules, symbols::SymbolCache& cache, PerfMap generated = {});

  struct Place {
    std::string_view function;  // never empty: module+offset of its start when it has no name
    std::string_view file;      // empty when unknown
    std::uint32_t line = 0;
    bool inlined = false;
  };

  // First every request, then resolve() once, then the places.
  std::size_t request(std::uint32_t module, std::uint64_t address);
  void resolve();
  Place innermost(std::size_t request);
  std::vector<Place> frames(std::size_t request);  // innermost first, at least one

  std::uint64_t bias(std::uint32_t module) const { return files_[module].bias; }
  symbols::Symbols* symbols(std::uint32_t module) const { return files_[module].symbols.get(); }

 private:
  struct File {
    std::shared_ptr<symbols::Symbols> symbols;  // null: cannot be read
    std::uint64_t bias = 0;
    std::string name;  // without folders
  };
  struct Request {
    std::uint32_t module;
    std::uint64_t address;
    symbols::LocationId location = symbols::kUnknownLocation;
  };
  std::string_view offset_name(const Request& request);

  PerfMap generated_;  // names of code that is in no module
  std::vector<File> files_;
  std::vector<Request> requests_;
  std::vector<std::vector<std::size_t>> by_module_;
  std::string name_;  // of the last unnamed place
};

}  // namespace stallscope::target
