// SPDX-License-Identifier: Apache-2.0
#include "symbols/symbols.h"

#include <algorithm>
#include <optional>

#include "symbols/debug_files.h"
#include "symbols/resolver.h"
#include "symbols/unwind_index.h"
#include "symbols/variables.h"

namespace stallscope::symbols {
namespace {

Error changed_file(const std::string& path, const std::string& now, const std::string& then) {
  std::string is = now.empty() ? "it has no build id now" : "its build id is " + hexadecimal(now);
  return {"cannot name addresses of " + path, is + " and was " + hexadecimal(then),
          "record again, or give the folder with its debug file"};
}

}  // namespace

// Order matters: later members borrow from earlier ones.
struct Symbols::Parts {
  Limits limits;
  std::shared_ptr<StringTable> strings;
  std::unique_ptr<Image> image;
  std::unique_ptr<Image> debug;      // separate debug file, or null
  std::unique_ptr<Image> alternate;  // supplementary file of dwz, or null
  std::unique_ptr<DebugInfo> info;   // or null
  std::unique_ptr<Names> names;      // with info
  std::unique_ptr<TypeTable> types;  // with info
  std::unique_ptr<SymbolTable> symbols;
  std::unique_ptr<Resolver> resolver;
  std::optional<std::vector<Variable>> variables;
  std::unique_ptr<UnwindIndex> unwinding;
  std::optional<CodeRange> allocator;

  const SymbolTable& symbol_table() {
    if (!symbols) symbols = std::make_unique<SymbolTable>(*image, debug.get(), limits);
    return *symbols;
  }
};

Symbols::Symbols(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Symbols::~Symbols() = default;

Result<std::unique_ptr<Symbols>> Symbols::open(const std::string& path, OpenOptions options,
                                               std::shared_ptr<StringTable> strings) {
  auto image = Image::open(path, options.limits);
  bool is_same =
      image && (options.build_id.empty() || (*image)->facts().build_id == options.build_id);
  if (is_same) return make(std::move(*image), std::move(options), std::move(strings));
  auto debug = DebugFiles(options.debug_folders, options.limits).for_build_id(options.build_id);
  if (debug != nullptr) return make(std::move(debug), std::move(options), std::move(strings));
  if (!image) return image.error();
  return changed_file(path, (*image)->facts().build_id, options.build_id);
}

Result<std::unique_ptr<Symbols>> Symbols::from_bytes(std::span<const std::uint8_t> bytes,
                                                     OpenOptions options,
                                                     std::shared_ptr<StringTable> strings) {
  auto image = Image::from_bytes(bytes, "(memory)", options.limits);
  if (!image) return image.error();
  return make(std::move(*image), std::move(options), std::move(strings));
}

Result<std::unique_ptr<Symbols>> Symbols::make(std::unique_ptr<Image> image, OpenOptions options,
                                               std::shared_ptr<StringTable> strings) {
  auto parts = std::make_unique<Parts>();
  parts->limits = options.limits;
  parts->strings = strings ? std::move(strings) : std::make_shared<StringTable>();
  parts->image = std::move(image);
  DebugFiles files(options.debug_folders, parts->limits);
  const Image* with_dwarf = parts->image.get();
  if (!with_dwarf->facts().has_dwarf) {
    parts->debug = files.for_image(*parts->image);
    if (parts->debug) with_dwarf = parts->debug.get();
  }
  parts->alternate = files.alternate_of(*with_dwarf);
  parts->info = DebugInfo::open(*with_dwarf, parts->alternate.get(), parts->limits);
  if (parts->info) {
    parts->names = std::make_unique<Names>(*parts->info);
    parts->types =
        std::make_unique<TypeTable>(*parts->info, *parts->names, *parts->strings, parts->limits);
  }
  auto* borrowed = parts.get();
  parts->resolver = std::make_unique<Resolver>(
      parts->info.get(), parts->names.get(),
      [borrowed]() -> const SymbolTable& { return borrowed->symbol_table(); }, *parts->strings,
      parts->limits);
  return std::unique_ptr<Symbols>(new Symbols(std::move(parts)));
}

const Facts& Symbols::facts() const { return parts_->image->facts(); }
const std::string& Symbols::path() const { return parts_->image->path(); }
std::string Symbols::debug_path() const { return parts_->debug ? parts_->debug->path() : ""; }
bool Symbols::has_dwarf() const { return parts_->info && !parts_->info->units().empty(); }
const StringTable& Symbols::strings() const { return *parts_->strings; }

std::string Symbols::shortfall() const {
  const Facts& facts = (parts_->debug ? parts_->debug : parts_->image)->facts();
  if (facts.has_dwarf && !has_dwarf()) return "the debug information cannot be read";
  if (parts_->info && parts_->info->budget().spent()) {
    return "the debug information takes more work than the limit";
  }
  if (parts_->symbols && parts_->symbols->cut_short()) return "too many symbols";
  return parts_->resolver->shortfall();
}

std::vector<LocationId> Symbols::resolve(std::span<const std::uint64_t> addresses) {
  return parts_->resolver->resolve(addresses);
}

std::span<const Frame> Symbols::frames(LocationId location) const {
  return parts_->resolver->frames(location);
}

std::size_t Symbols::locations() const { return parts_->resolver->locations(); }

std::vector<Frame> Symbols::frames_at(std::uint64_t address) {
  LocationId location = resolve(std::span(&address, 1)).front();
  auto found = frames(location);
  return {found.begin(), found.end()};
}

const std::vector<Variable>& Symbols::variables() {
  if (!parts_->variables) {
    parts_->variables = VariableReader(parts_->info.get(), parts_->names.get(), parts_->types.get(),
                                       parts_->symbol_table(), *parts_->strings, parts_->limits)
                            .read();
  }
  return *parts_->variables;
}

const Variable* Symbols::variable_at(std::uint64_t address) {
  const auto& all = variables();
  auto after = std::upper_bound(
      all.begin(), all.end(), address,
      [](std::uint64_t wanted, const Variable& one) { return wanted < one.address; });
  if (after == all.begin()) return nullptr;
  const Variable& found = *(after - 1);
  return address - found.address < std::max<std::uint64_t>(found.size, 1) ? &found : nullptr;
}

TypeTable* Symbols::types() { return parts_->types.get(); }

std::optional<Function> Symbols::function_at(std::uint64_t address) {
  if (!parts_->info) return {};
  auto entry = parts_->resolver->function_entry(address);
  Dwarf_Die found;
  if (!entry || !parts_->info->entry_at(*entry, found)) return {};
  return LocalReader(*parts_->info, *parts_->types, parts_->limits).read(found);
}

std::optional<std::uint64_t> Symbols::function_start(std::uint64_t address) {
  if (!parts_->unwinding)
    parts_->unwinding = std::make_unique<UnwindIndex>(*parts_->image, parts_->limits);
  return parts_->unwinding->start_of(address);
}

bool Symbols::is_allocator(std::uint64_t address) {
  if (!parts_->allocator) parts_->allocator = parts_->symbol_table().allocator();
  return parts_->allocator->contains(address);
}

std::span<const std::uint8_t> Symbols::code_from(std::uint64_t address) const {
  const auto bytes = parts_->image->bytes();
  // A debug file that stands in for the program has the headers but not the contents.
  if (parts_->image->section(".text").empty()) return {};
  for (const Segment& s : parts_->image->facts().segments) {
    if (!s.executable || address < s.address || address - s.address >= s.file_size) continue;
    const std::uint64_t inside = address - s.address;
    if (s.offset > bytes.size() || inside >= bytes.size() - s.offset) return {};
    const std::uint64_t left = std::min(s.file_size - inside, bytes.size() - s.offset - inside);
    return bytes.subspan(s.offset + inside, left);
  }
  return {};
}

}  // namespace stallscope::symbols
