// SPDX-License-Identifier: Apache-2.0
#include "session/kept_values.h"

#include <algorithm>
#include <mutex>

#include "stallscope_records.h"
#include "target/resolver.h"

namespace stallscope::session {
namespace {

using probes::RangeSet;

constexpr std::uint64_t kExecute = 4;
constexpr unsigned kValueBytes = 8;

std::vector<HeapWatch> watches_of(const ValueTargets& targets) {
  std::vector<HeapWatch> watches;
  for (const ValueTargets::Blocks& blocks : targets.blocks) {
    watches.push_back(blocks.bytes);
    if (!blocks.path.empty()) watches.back().sites.emplace();  // none is known yet
  }
  return watches;
}

// The bytes of a value that lie in a range.
std::uint8_t mask_of(std::uint64_t address, const RangeSet::Range& range) {
  std::uint8_t mask = 0;
  for (unsigned i = 0; i < kValueBytes; ++i)
    if (address + i >= range.start && address + i < range.end)
      mask |= static_cast<std::uint8_t>(1u << i);
  return mask;
}

// As stallscope.analyses.sites writes it.
std::string described(const target::Resolver::Place& place) {
  std::string text(place.function);
  if (place.line == 0) return text;
  const std::string_view file = place.file.substr(place.file.rfind('/') + 1);
  return text.append(" (").append(file).append(":").append(std::to_string(place.line)).append(")");
}

}  // namespace

KeptValues::KeptValues(std::shared_ptr<const ValueTargets> targets, symbols::SymbolCache& symbols)
    : targets_(std::move(targets)),
      symbols_(symbols),
      heap_(watches_of(*targets_)),
      found_(targets_->count) {
  for (const RangeSet::Range& range : targets_->ranges) add(range);
}

void KeptValues::add(const RangeSet::Range& range) {
  ranges_.add(range);
  found_[range.watch] = true;
}

void KeptValues::on_record(unsigned tag, const std::uint64_t* words, const target::Target& target) {
  if (tag == SS_MAP && !targets_->variables.empty()) {
    const auto& record = *reinterpret_cast<const ss_map*>(words);
    const std::uint32_t module = target.mappings.module_of(record.address);
    if ((record.access & kExecute) && module != kNone32)
      place_variables(target.mappings.modules()[module]);
  } else if (heap_.empty()) {
    return;
  } else if (tag == SS_SITE) {
    learn_site(static_cast<std::uint32_t>(reinterpret_cast<const ss_site*>(words)->site), target);
  } else {
    heap_.on_record(tag, words, [&](const RangeSet::Range& range, bool comes) {
      if (comes)
        add(range);
      else
        ranges_.remove(range);
    });
  }
}

void KeptValues::place_variables(const target::Module& module) {
  if (module.path != targets_->program) return;
  const std::lock_guard lock(symbols_.mutex());
  auto opened = symbols_.open(module.path);
  if (!opened) return;
  const std::uint64_t bias = target::bias_of(module, (*opened)->facts());
  if (std::find(placed_.begin(), placed_.end(), bias) != placed_.end()) return;
  placed_.push_back(bias);
  for (const RangeSet::Range& range : targets_->variables)
    add({range.start + bias, range.end + bias, range.watch});
}

std::vector<std::string> KeptValues::path(std::span<const std::uint64_t> frames,
                                          const target::Target& target) {
  const std::lock_guard lock(symbols_.mutex());
  target::Resolver resolver(target.mappings.modules(), symbols_);
  std::vector<std::size_t> requests;
  for (const std::uint64_t address : frames)
    requests.push_back(resolver.request(target.mappings.module_ever(address), address));
  resolver.resolve();
  std::vector<std::string> names;
  for (const std::size_t request : requests)
    for (const target::Resolver::Place& place : resolver.frames(request))
      names.push_back(described(place));
  return names;
}

void KeptValues::learn_site(std::uint32_t site, const target::Target& target) {
  const auto known = target.sites.find(site);
  if (known == target.sites.end()) return;
  const std::vector<std::string> names = path(known->second, target);
  for (std::size_t i = 0; i < targets_->blocks.size(); ++i) {
    const std::string& wanted = targets_->blocks[i].path;
    const auto has = [&](const std::string& name) { return name.find(wanted) != name.npos; };
    if (wanted.empty() || std::none_of(names.begin(), names.end(), has)) continue;
    std::vector<std::uint32_t>& sites = *heap_.watches()[i].sites;
    sites.insert(std::upper_bound(sites.begin(), sites.end(), site), site);
  }
}

const std::uint8_t* KeptValues::masks(const stream::CodeTable& code, const stream::Exit& info,
                                      const std::uint64_t* addresses) {
  masks_.assign(std::max<std::size_t>(info.operations, 1), 0);
  const stream::Operation* operation = code.operations.data() + info.first_operation;
  for (std::uint32_t i = 0; i < info.operations; ++i) {
    const std::uint64_t address = addresses[i];
    const std::uint32_t size = std::max<std::uint32_t>(operation[i].size, 1);
    if (address == SS_NO_ADDRESS || operation[i].is_prefetch()) continue;
    if (!ranges_.may_touch(address, size)) [[likely]]
      continue;
    ranges_.touched(address, size,
                    [&](const RangeSet::Range& range) { masks_[i] |= mask_of(address, range); });
  }
  return masks_.data();
}

}  // namespace stallscope::session
