// SPDX-License-Identifier: Apache-2.0
#include "code/functions.h"

#include <elf.h>

#include <algorithm>

namespace stallscope::code {
namespace {

std::vector<Region> described_regions(const ElfImage& image) {
  std::vector<Region> out;
  constexpr std::uint64_t kCode = SHF_ALLOC | SHF_EXECINSTR;
  for (const Section& s : image.sections())
    if ((s.flags & kCode) == kCode) out.push_back({s.address, image.contents(s)});
  if (out.empty())
    for (const Segment& s : image.segments())
      if (s.type == PT_LOAD && (s.flags & PF_X)) out.push_back({s.address, image.contents(s)});
  return out;
}

std::vector<Function> known_functions(const ElfImage& image) {
  std::vector<Function> known = unwind_ranges(image);
  for (const Symbol& s : image.symbols()) {
    bool code = s.type == STT_FUNC || s.type == STT_GNU_IFUNC;
    if (code && s.defined && s.size > 0 && s.address + s.size > s.address)
      known.push_back({s.address, s.address + s.size, s.name, false});
  }
  std::sort(known.begin(), known.end(), [](const Function& a, const Function& b) {
    if (a.start != b.start) return a.start < b.start;
    if (a.end != b.end) return a.end > b.end;
    if (a.name.empty() != b.name.empty()) return !a.name.empty();
    return a.name < b.name;
  });
  return known;
}

}  // namespace

std::vector<Region> code_regions(const ElfImage& image) {
  std::vector<Region> all = described_regions(image), out;
  std::sort(all.begin(), all.end(),
            [](const Region& a, const Region& b) { return a.start < b.start; });
  for (Region& r : all) {
    if (r.start + r.bytes.size() < r.start) continue;
    std::uint64_t covered = out.empty() ? 0 : out.back().start + out.back().bytes.size();
    if (!out.empty() && r.start < covered) {
      std::uint64_t skip = std::min<std::uint64_t>(covered - r.start, r.bytes.size());
      r = {r.start + skip, r.bytes.subspan(skip)};
    }
    if (!r.bytes.empty()) out.push_back(r);
  }
  return out;
}

Functions::Functions(const ElfImage& image) : regions_(code_regions(image)) {
  std::vector<Function> known = known_functions(image);
  std::size_t next = 0;
  for (const Region& region : regions_) add_in_region(region, known, next);
}

void Functions::add_in_region(const Region& region, const std::vector<Function>& known,
                              std::size_t& next) {
  std::uint64_t at = region.start, end = region.start + region.bytes.size();
  for (; next < known.size() && known[next].start < end; ++next) {
    const Function& f = known[next];
    std::uint64_t stop = std::min(f.end, end);
    if (f.start < at) {
      // The same range from the other table: keep the name that it brings.
      if (!all_.empty() && all_.back().start == f.start && all_.back().name.empty())
        all_.back().name = f.name;
      continue;
    }
    if (f.start > at) all_.push_back({at, f.start, {}, true});
    all_.push_back({f.start, stop, f.name, false});
    at = stop;
  }
  if (at < end) all_.push_back({at, end, {}, true});
}

Bytes Functions::bytes(std::size_t i) const {
  const Function& f = all_[i];
  auto after =
      std::upper_bound(regions_.begin(), regions_.end(), f.start,
                       [](std::uint64_t address, const Region& r) { return address < r.start; });
  const Region& region = *std::prev(after);
  return region.bytes.subspan(f.start - region.start, f.end - f.start);
}

std::size_t Functions::find(std::uint64_t address) const {
  auto after = std::upper_bound(all_.begin(), all_.end(), address,
                                [](std::uint64_t a, const Function& f) { return a < f.start; });
  if (after == all_.begin()) return size();
  auto found = std::prev(after);
  return address < found->end ? static_cast<std::size_t>(found - all_.begin()) : size();
}

}  // namespace stallscope::code
