// SPDX-License-Identifier: Apache-2.0
#include "sources/skid.h"

#include <linux/perf_event.h>

#include <algorithm>
#include <numeric>

#include "sources/monotonic.h"
#include "sources/perf_events.h"
#include "sources/perf_ring.h"

namespace stallscope::sources {
namespace {

constexpr std::uint64_t kPeriod = 250'000;       // nanoseconds
constexpr std::uint64_t kLongest = 100'000'000;  // to go on for
constexpr std::uint64_t kEnough = 40;            // samples

#if defined(__x86_64__)
// Square roots that wait for each other; `places` gets the addresses of the four instructions.
void slow_loop(std::uint64_t rounds, std::array<std::uint64_t, 4>& places) {
  double value = 1e300;
  std::uint64_t first = 0, second = 0, third = 0, fourth = 0;
  asm volatile(
      "lea 1f(%%rip), %[first]\n\t"
      "lea 2f(%%rip), %[second]\n\t"
      "lea 3f(%%rip), %[third]\n\t"
      "lea 4f(%%rip), %[fourth]\n\t"
      ".p2align 6\n"
      "1: sqrtsd %[value], %[value]\n"
      "2: mov %[first], %[first]\n"
      "3: mov %[second], %[second]\n"
      "4: dec %[rounds]\n\t"
      "jnz 1b\n\t"
      : [first] "=&r"(first), [second] "=&r"(second), [third] "=&r"(third), [fourth] "=&r"(fourth),
        [value] "+x"(value), [rounds] "+r"(rounds)
      :
      : "cc");
  places = {first, second, third, fourth};
}
#else
void slow_loop(std::uint64_t, std::array<std::uint64_t, 4>&) {}
#endif

void count(Ring& ring, const Layout& layout, const std::array<std::uint64_t, 4>& places,
           SkidCount& out) {
  ring.drain([&](std::span<const std::byte> record) {
    const auto event = parse(record, layout);
    if (!event || !std::holds_alternative<Sample>(*event)) return;
    const std::uint64_t ip = std::get<Sample>(*event).ip;
    const auto found = std::find(places.begin(), places.end(), ip);
    if (found == places.end())
      ++out.elsewhere;
    else
      ++out.at[static_cast<std::size_t>(found - places.begin())];
  });
}

}  // namespace

std::optional<SkidCount> count_skid() {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_CPU_CLOCK;
  attributes.sample_period = kPeriod;
  attributes.sample_type = kSampleIp;
  attributes.exclude_kernel = attributes.exclude_hv = 1;
  const Descriptor event(open_event(attributes, 0, -1));
  if (event.get() < 0) return std::nullopt;
  auto ring = Ring::map(event.get());
  if (!ring) return std::nullopt;
  Layout layout;
  layout.sample_type = kSampleIp;
  SkidCount counted;
  std::array<std::uint64_t, 4> places{};
  for (const std::uint64_t end = now() + kLongest; now() < end;) {
    slow_loop(50'000, places);
    count(*ring, layout, places, counted);
    if (std::accumulate(counted.at.begin(), counted.at.end(), std::uint64_t{0}) >= kEnough) break;
  }
  return counted;
}

unsigned skid_of(const std::optional<SkidCount>& counted) {
  constexpr unsigned kUsual = 1;
  if (!counted) return kUsual;
  const auto& at = counted->at;
  const auto most = std::max_element(at.begin(), at.end());
  const std::uint64_t all = std::accumulate(at.begin(), at.end(), std::uint64_t{0});
  if (all < 8 || *most * 2 < all) return kUsual;
  return static_cast<unsigned>(most - at.begin());
}

}  // namespace stallscope::sources
