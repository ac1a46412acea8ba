// SPDX-License-Identifier: Apache-2.0
// The way of most accesses through most machines: caches that all allocate on writes and write
// back, none exclusive, no prefetchers, identity mapping, and an access within one line. What
// happens to it needs no bookkeeping, and the first cache's set is worked on without a call.
// Included by machine.h only.
#pragma once

#include "machine/machine.h"
#include "machine/policies/lru_x86.h"

namespace stallscope::machine {

// How the first cache's set is worked on. Bits of 0 are read at run time; known ones save
// registers.
constexpr std::uint32_t kUsualLineBits = 6, kUsualPageBits = 12;
struct ByPointer {
  static constexpr std::uint32_t kLineBits = 0, kPageBits = 0;
  static Touched touch(Level& level, std::uint64_t set, std::uint64_t key, std::uint64_t flags) {
    return level.touch(set, key, flags);
  }
};
#if defined(__x86_64__)
template <typename Lru, std::uint32_t PageBits>
struct Usual {
  static constexpr std::uint32_t kLineBits = kUsualLineBits, kPageBits = PageBits;
  static Touched touch(Level& level, std::uint64_t set, std::uint64_t key, std::uint64_t flags) {
    return Lru::touch(level.sets(), set, key, flags);
  }
};
#endif

template <typename Way, typename Probe>
void Machine::run_plainly(const Step* steps, const std::uint64_t* addresses, std::uint32_t count,
                          Probe& probe) {
  Front front = data_.front;
  if constexpr (Way::kLineBits != 0) {
    front.line_bits = Way::kLineBits;
    front.page_bits = Way::kPageBits;
    front.offset_mask = (1u << Way::kLineBits) - 1;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const Step step = steps[i];
    if (front.differs(addresses[i], step.size_less_one, step.reads)) [[unlikely]] {
      probe.at(i);
      access_plainly<Way>(addresses[i], step, probe);
    }
  }
}

// Apart, so that the loop around it keeps what it needs in registers.
template <typename Way, typename Probe>
[[gnu::noinline]] void Machine::access_plainly(std::uint64_t address, Step step, Probe& probe) {
  const Front& front = data_.front;
  if (((address & front.offset_mask) + step.size_less_one) >> front.line_bits ||
      address == kNoAddress) [[unlikely]] {
    if (address == kNoAddress) return probe.on_absent(step.kind);
    return access_slowly(data_, address, step.size_less_one + 1, step.kind, probe);
  }
  std::uint32_t translation = 0, depth = 0;
  if (front.page_differs(address, address)) [[unlikely]]
    translation = translate(data_, address, address, step.kind, probe);
  if (front.line_differs(address, 0, step.reads)) {
    Level& level = *data_.caches.levels[0];
    const std::uint64_t flags = step.reads ^ 1;
    static_assert(kDirty == 1);
    const std::uint64_t line = address >> front.line_bits;
    const std::uint64_t set = line & front.lines_mask;
    const Touched touched = Way::touch(level, set, key_of(line), flags);
    level.settled[set] = (touched.hit ? touched.tag : key_of(line)) | flags;
    if (!touched.hit) depth = miss_plainly(data_.caches, address, step.kind, touched.tag, probe);
  }
  if ((depth | translation) != 0)
    report_served(data_, depth, translation, address, step.kind, probe);
}

template <typename Probe>
void Machine::run_slowly(const Step* steps, const std::uint64_t* addresses, std::uint32_t count,
                         Probe& probe) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const Step& step = steps[i];
    if (!data_.front.differs(addresses[i], step.size_less_one, step.reads)) continue;
    if (addresses[i] == kNoAddress) {
      probe.on_absent(step.kind);
      continue;
    }
    probe.at(i);
    access_slowly(data_, addresses[i], step.size_less_one + 1, step.kind, probe);
  }
}

template <typename Probe>
void Machine::data_run(const Step* steps, const std::uint64_t* addresses, std::uint32_t count,
                       Probe& probe) {
  switch (data_.kernel) {
#if defined(__x86_64__)
    case Kernel::avx512:
      return data_.tlbs.depth
                 ? run_plainly<Usual<LruAvx512<1>, kUsualPageBits>>(steps, addresses, count, probe)
                 : run_plainly<Usual<LruAvx512<1>, kOnePageBits>>(steps, addresses, count, probe);
    case Kernel::avx2:
      return data_.tlbs.depth
                 ? run_plainly<Usual<LruAvx2<2>, kUsualPageBits>>(steps, addresses, count, probe)
                 : run_plainly<Usual<LruAvx2<2>, kOnePageBits>>(steps, addresses, count, probe);
#endif
    case Kernel::by_pointer:
      return run_plainly<ByPointer>(steps, addresses, count, probe);
    default:
      return run_slowly(steps, addresses, count, probe);
  }
}

}  // namespace stallscope::machine
