// SPDX-License-Identifier: Apache-2.0
#include "target/resolver.h"

#include <cinttypes>
#include <cstdio>

namespace stallscope::target {
namespace {

constexpr std::uint64_t kPage = 4096;

// The file's own address of the byte at `offset`, by the executable segment that holds it.
std::uint64_t file_address(const symbols::Facts& facts, std::uint64_t offset) {
  for (const symbols::Segment& segment : facts.segments) {
    const std::uint64_t start = segment.offset & ~(kPage - 1);
    if (segment.executable && offset >= start && offset < segment.offset + segment.file_size)
      return segment.address - segment.offset + offset;
  }
  return offset;
}

}  // namespace

std::uint64_t bias_of(const Module& module, const symbols::Facts& facts) {
  return module.code_start - file_address(facts, module.code_offset);
}

Resolver::Resolver(const std::vector<Module>& modules, symbols::SymbolCache& cache,
                   PerfMap generated)
    : generated_(std::move(generated)) {
  by_module_.resize(modules.size());
  for (const Module& module : modules) {
    File file;
    file.name = module.path.substr(module.path.rfind('/') + 1);
    file.bias = module.code_start - module.code_offset;
    if (module.has_code) {
      if (auto opened = cache.open(module.path); opened) {
        file.symbols = *opened;
        file.bias = bias_of(module, file.symbols->facts());
      }
    }
    files_.push_back(std::move(file));
  }
}

std::size_t Resolver::request(std::uint32_t module, std::uint64_t address) {
  requests_.push_back({module, address});
  if (module < files_.size() && files_[module].symbols)
    by_module_[module].push_back(requests_.size() - 1);
  return requests_.size() - 1;
}

void Resolver::resolve() {
  for (std::size_t module = 0; module < files_.size(); ++module) {
    if (by_module_[module].empty()) continue;
    std::vector<std::uint64_t> addresses;
    for (std::size_t i : by_module_[module])
      addresses.push_back(requests_[i].address - files_[module].bias);
    const auto locations = files_[module].symbols->resolve(addresses);
    for (std::size_t i = 0; i < locations.size(); ++i)
      requests_[by_module_[module][i]].location = locations[i];
  }
}

std::string_view Resolver::offset_name(const Request& request) {
  char text[32];
  if (request.module >= files_.size()) {
    if (const auto name = generated_.name(request.address); !name.empty()) return name;
    std::snprintf(text, sizeof text, "[generated]+0x%" PRIx64, request.address);
    return name_ = text;
  }
  const File& file = files_[request.module];
  const std::uint64_t address = request.address - file.bias;
  // All of a function is one name.
  const auto start = file.symbols ? file.symbols->function_start(address) : std::nullopt;
  std::snprintf(text, sizeof text, "+0x%" PRIx64, start.value_or(address));
  return name_ = file.name + text;
}

std::vector<Resolver::Place> Resolver::frames(std::size_t index) {
  const Request& request = requests_[index];
  std::vector<Place> places;
  if (request.location != symbols::kUnknownLocation) {
    symbols::Symbols& symbols = *files_[request.module].symbols;
    for (const symbols::Frame& frame : symbols.frames(request.location))
      places.push_back(
          {symbols.text(frame.function), symbols.text(frame.file), frame.line, frame.inlined});
  }
  if (places.empty()) places.push_back({});
  for (Place& place : places)
    if (place.function.empty()) place.function = offset_name(request);
  return places;
}

Resolver::Place Resolver::innermost(std::size_t index) {
  const Request& request = requests_[index];
  if (request.location == symbols::kUnknownLocation) return {offset_name(request), {}, 0, false};
  symbols::Symbols& symbols = *files_[request.module].symbols;
  const symbols::Frame& frame = symbols.frames(request.location).front();
  std::string_view function = symbols.text(frame.function);
  if (function.empty()) function = offset_name(request);
  return {function, symbols.text(frame.file), frame.line, frame.inlined};
}

}  // namespace stallscope::target
