// SPDX-License-Identifier: Apache-2.0
#include "target/mappings.h"

#include <algorithm>

namespace stallscope::target {
namespace {

constexpr std::uint32_t kExecute = 4;
// The parts of one file lie this near each other when they belong to one load of it.
constexpr std::uint64_t kModuleGap = 4 << 20;

}  // namespace

void Mappings::bury(const Mapping& m, std::uint64_t when, ObjectTable& gone) {
  gone.append(
      {"mapping", m.path, "", m.start, m.end - m.start, m.born, when, m.thread, kNone32, ""});
}

std::uint32_t Mappings::join_module(const Mapping& m) {
  if (m.path.empty()) return kNone32;
  for (std::size_t i = modules_.size(); i-- > 0;) {
    Module& module = modules_[i];
    if (module.unloaded != kNever || module.path != m.path) continue;
    if (m.start > module.end + kModuleGap || m.end + kModuleGap < module.start) continue;
    module.start = std::min(module.start, m.start);
    module.end = std::max(module.end, m.end);
    return static_cast<std::uint32_t>(i);
  }
  modules_.push_back({m.path, m.start, m.end, 0, 0, false, m.born, kNever});
  return static_cast<std::uint32_t>(modules_.size() - 1);
}

void Mappings::map(Mapping mapping, ObjectTable& gone) {
  if (mapping.end <= mapping.start) return;
  mapping.module = join_module(mapping);
  unmap(mapping.start, mapping.end - mapping.start, mapping.born, gone);
  if (mapping.module != kNone32) {
    Module& module = modules_[mapping.module];
    module.unloaded = kNever;  // the unmap above may have taken its last part
    if ((mapping.access & kExecute) && !module.has_code) {
      module.has_code = true;
      module.code_start = mapping.start;
      module.code_offset = mapping.offset;
    }
  }
  const std::uint64_t start = mapping.start;
  live_.insert_or_assign(start, std::move(mapping));
}

void Mappings::unmap(std::uint64_t start, std::uint64_t length, std::uint64_t when,
                     ObjectTable& gone) {
  const std::uint64_t end = start + length;
  if (end < start) return;
  auto at = live_.upper_bound(start);
  if (at != live_.begin() && std::prev(at)->second.end > start) --at;
  std::vector<std::uint32_t> touched;
  while (at != live_.end() && at->second.start < end) {
    Mapping old = std::move(at->second);
    at = live_.erase(at);
    if (old.module != kNone32) touched.push_back(old.module);
    if (old.start < start) {
      Mapping left = old;
      left.end = start;
      live_.emplace(left.start, std::move(left));
    }
    if (old.end > end) {
      Mapping right = old;
      right.offset += end - old.start;
      right.start = end;
      at = live_.emplace(right.start, std::move(right)).first;
      ++at;
    }
    old.start = std::max(old.start, start);
    old.end = std::min(old.end, end);
    bury(old, when, gone);
  }
  for (std::uint32_t module : touched) {
    const bool lives = std::any_of(live_.begin(), live_.end(), [&](const auto& entry) {
      return entry.second.module == module;
    });
    if (!lives) modules_[module].unloaded = std::min(modules_[module].unloaded, when);
  }
}

void Mappings::remap(std::uint64_t from, std::uint64_t to, std::uint64_t length, std::uint64_t when,
                     ObjectTable& gone) {
  Mapping moved;
  if (const Mapping* old = find(from)) moved = *old;
  moved.start = to;
  moved.end = to + length;
  moved.born = when;
  map(std::move(moved), gone);
}

void Mappings::move_break(std::uint64_t old_end, std::uint64_t new_end, std::uint64_t when,
                          ObjectTable& gone) {
  if (new_end < old_end) {
    unmap(new_end, old_end - new_end, when, gone);
    return;
  }
  if (old_end != 0) {
    auto at = live_.upper_bound(old_end - 1);
    if (at != live_.begin() && std::prev(at)->second.end == old_end &&
        std::prev(at)->second.path == "[heap]") {
      std::prev(at)->second.end = new_end;
      return;
    }
  }
  Mapping heap;
  heap.start = old_end;
  heap.end = new_end;
  heap.born = when;
  heap.access = 3;
  if (heap.start >= heap.end) return;
  unmap(heap.start, heap.end - heap.start, when, gone);
  heap.path = "[heap]";
  live_.insert_or_assign(heap.start, std::move(heap));
}

const Mapping* Mappings::find(std::uint64_t address) const {
  auto at = live_.upper_bound(address);
  if (at == live_.begin()) return nullptr;
  const Mapping& mapping = std::prev(at)->second;
  return address < mapping.end ? &mapping : nullptr;
}

std::uint32_t Mappings::module_of(std::uint64_t address) const {
  const Mapping* mapping = find(address);
  return mapping ? mapping->module : kNone32;
}

std::uint32_t Mappings::module_ever(std::uint64_t address) const {
  for (std::size_t i = modules_.size(); i-- > 0;)
    if (modules_[i].has_code && modules_[i].start <= address && address < modules_[i].end)
      return static_cast<std::uint32_t>(i);
  return kNone32;
}

}  // namespace stallscope::target
