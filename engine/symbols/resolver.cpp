// SPDX-License-Identifier: Apache-2.0
#include "symbols/resolver.h"

#include <algorithm>
#include <numeric>

#include "symbols/demangle.h"

namespace stallscope::symbols {
namespace {

constexpr StringId kUnread = 0xFFFF'FFFF;
constexpr std::uint32_t kMaxFiles = 1'000'000;

}  // namespace

std::size_t Resolver::PlaceHash::operator()(const Place& place) const {
  std::uint64_t hash = place.unit;
  for (std::uint64_t part :
       {std::uint64_t{place.scope}, std::uint64_t{place.file}, std::uint64_t{place.line},
        static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(place.symbol))}) {
    hash = (hash ^ part) * 0x9E37'79B9'7F4A'7C15;
    hash ^= hash >> 32;
  }
  return hash;
}

Resolver::Resolver(DebugInfo* info, Names* names, std::function<const SymbolTable&()> symbols,
                   StringTable& strings, const Limits& limits)
    : info_(info),
      names_(names),
      symbols_(std::move(symbols)),
      strings_(strings),
      limits_(limits),
      allowance_{limits.scopes, limits.line_rows},
      first_frame_{0, 0} {}

std::string Resolver::shortfall() const {
  if (allowance_.line_rows == 0) return "too many lines in the debug information";
  if (allowance_.scopes == 0) return "too many functions in the debug information";
  return {};
}

std::vector<LocationId> Resolver::resolve(std::span<const std::uint64_t> addresses) {
  if (!units_indexed_) index_units();
  // In order of address, a unit is loaded once and its tables stay in the cache.
  std::vector<std::uint32_t> order(addresses.size());
  std::iota(order.begin(), order.end(), 0u);
  if (!std::is_sorted(addresses.begin(), addresses.end())) {
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return addresses[a] < addresses[b]; });
  }
  std::vector<LocationId> locations(addresses.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    bool is_repeated = i > 0 && addresses[order[i]] == addresses[order[i - 1]];
    locations[order[i]] = is_repeated ? locations[order[i - 1]] : locate(addresses[order[i]]);
  }
  return locations;
}

std::span<const Frame> Resolver::frames(LocationId location) const {
  if (location >= locations()) return {};
  std::uint32_t first = first_frame_[location];
  return std::span(frames_).subspan(first, first_frame_[location + 1] - first);
}

void Resolver::index_units() {
  units_indexed_ = true;
  if (info_ == nullptr) return;
  std::vector<Interval> intervals;
  const auto& units = info_->units();
  for (std::uint32_t i = 0; i < units.size(); ++i) {
    Dwarf_Die entry;
    if (!info_->entry_at(units[i].entry, entry)) continue;
    for (const AddressRange& range : info_->code_ranges(entry)) {
      if (intervals.size() >= limits_.scopes) break;
      intervals.push_back({range.low, range.high, 0, i});
    }
  }
  units_ = IntervalMap::build(std::move(intervals));
}

Resolver::LoadedUnit& Resolver::unit(std::uint32_t number) {
  auto& loaded = loaded_[number];
  if (!loaded) {
    loaded.reset(new LoadedUnit{UnitIndex(*info_, info_->units()[number], allowance_), {}});
  }
  return *loaded;
}

StringId Resolver::file(LoadedUnit& unit, std::uint32_t number) {
  if (number >= kMaxFiles) return kNoString;
  if (number >= unit.files.size()) unit.files.resize(number + 1, kUnread);
  StringId& id = unit.files[number];
  if (id == kUnread) id = strings_.id(unit.index.lines().file_path(number));
  return id;
}

StringId Resolver::function_of_scope(const Scope& scope) {
  Dwarf_Die entry;
  if (!info_->entry_at(scope.entry, entry)) return kNoString;
  Dwarf_Die declaration;
  const void* key = info_->origin(entry, declaration) ? declaration.addr : entry.addr;
  auto [known, is_new] = functions_.try_emplace(key, kNoString);
  if (is_new) known->second = strings_.id(names_->function(entry));
  return known->second;
}

StringId Resolver::function_of_symbol(const Symbol* symbol) {
  if (symbol == nullptr) return kNoString;
  auto [known, is_new] = symbol_names_.try_emplace(symbol, kNoString);
  if (is_new) {
    std::string plain = plain_name(*symbol);
    std::string demangled = demangle(plain.c_str());
    known->second = strings_.id(demangled.empty() ? plain : demangled);
  }
  return known->second;
}

Resolver::Place Resolver::place_of(std::uint64_t address) {
  Place place;
  place.unit = units_.find(address);
  if (place.unit != kNothing) {
    LoadedUnit& loaded = unit(place.unit);
    place.scope = loaded.index.scope_at(address);
    if (const LineRow* row = loaded.index.lines().find(address)) {
      place.file = file(loaded, row->file);
      place.line = row->line;
    }
  }
  if (place.scope == kNothing) {
    place.unit = kNothing;  // so that equal names in different units are one location
    place.symbol = symbols_().function_at(address);
  }
  return place;
}

std::optional<Dwarf_Off> Resolver::function_entry(std::uint64_t address) {
  if (!units_indexed_) index_units();
  const std::uint32_t number = units_.find(address);
  if (number == kNothing) return {};
  const UnitIndex& index = unit(number).index;
  std::uint32_t at = index.scope_at(address);
  if (at == kNothing) return {};
  for (std::uint32_t depth = 0; depth < limits_.inline_depth; ++depth) {
    const Scope& scope = index.scopes()[at];
    if (scope.parent == kNothing) return scope.entry;
    at = scope.parent;
  }
  return {};
}

LocationId Resolver::locate(std::uint64_t address) {
  Place place = place_of(address);
  if (place == Place{}) return kUnknownLocation;
  auto [known, is_new] = places_.try_emplace(place, kUnknownLocation);
  if (is_new) {
    known->second = static_cast<LocationId>(locations());
    add_frames(place, address);
  }
  return known->second;
}

void Resolver::add_frames(const Place& place, std::uint64_t address) {
  if (place.scope == kNothing) {
    frames_.push_back({function_of_symbol(place.symbol), place.file, place.line, false});
  } else {
    LoadedUnit& loaded = unit(place.unit);
    Frame frame{kNoString, place.file, place.line, false};
    std::uint32_t at = place.scope;
    for (std::uint32_t depth = 0; at != kNothing && depth < limits_.inline_depth; ++depth) {
      const Scope& scope = loaded.index.scopes()[at];
      frame.function = function_of_scope(scope);
      frame.inlined = scope.parent != kNothing;
      if (frame.function == kNoString && !frame.inlined) {
        frame.function = function_of_symbol(symbols_().function_at(address));
      }
      frames_.push_back(frame);
      frame.file = file(loaded, scope.call_file);
      frame.line = scope.call_line;
      at = scope.parent;
    }
  }
  first_frame_.push_back(static_cast<std::uint32_t>(frames_.size()));
}

}  // namespace stallscope::symbols
