// SPDX-License-Identifier: Apache-2.0
#include "sources/live.h"

#include <time.h>

#include "sources/skid.h"

namespace stallscope::sources {
namespace {

std::uint64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

}  // namespace

Live::Live(const ClockOptions& options, symbols::SymbolCache& symbols)
    : skid_(skid_of(count_skid())),
      started_(now()),
      tree_(symbols, skid_, started_, options.children, options.heap_logs) {}

Result<std::unique_ptr<Live>> Live::on_exec(pid_t process, const ClockOptions& options,
                                            symbols::SymbolCache& symbols) {
  std::unique_ptr<Live> live(new Live(options, symbols));
  auto clock = Clock::on_exec(process, options);
  if (!clock) return clock.error();
  live->clock_.emplace(std::move(*clock));
  return live;
}

Result<std::unique_ptr<Live>> Live::attach(pid_t process, const ClockOptions& options,
                                           symbols::SymbolCache& symbols) {
  std::unique_ptr<Live> live(new Live(options, symbols));
  auto clock = Clock::attach(process, options);
  if (!clock) return clock.error();
  live->clock_.emplace(std::move(*clock));
  // After the clock runs, so that nothing that is mapped in between goes unseen.
  if (auto status = live->tree_.adopt(static_cast<std::uint32_t>(process)); !status)
    return status.error();
  return live;
}

void Live::poll() {
  const std::uint64_t settled = now();
  clock_->drain([&](std::span<const std::byte> record) { tree_.add(record, clock_->layout()); });
  tree_.settle(settled);
}

void Live::stop() {
  clock_->stop();
  clock_->drain([&](std::span<const std::byte> record) { tree_.add(record, clock_->layout()); });
  tree_.settle(~std::uint64_t{0});
}

}  // namespace stallscope::sources
