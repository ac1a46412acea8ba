// SPDX-License-Identifier: Apache-2.0
#include "sources/live.h"

#include "sources/monotonic.h"
#include "sources/skid.h"

namespace stallscope::sources {

Live::Live(const ClockOptions& options, const WatchOptions& watch, symbols::SymbolCache& symbols)
    : skid_(skid_of(count_skid())),
      watch_(watch),
      touch_cost_(watch.bytes ? sources::touch_cost() : 0),
      started_(now()),
      tree_(symbols, skid_, started_, options.children, options.heap_logs) {
  if (touch_cost_) tree_.offer_to(offered_);
}

Result<std::unique_ptr<Live>> Live::make(const ClockOptions& options, const WatchOptions& watch,
                                         symbols::SymbolCache& symbols) {
  std::unique_ptr<Live> live(new Live(options, watch, symbols));
  if (watch.bytes && live->touch_cost_ == 0)
    return Error{"this machine lets nobody watch memory",
                 "the kernel refuses hardware breakpoints, or a debugger has them all",
                 "record without --watch"};
  return live;
}

Result<std::unique_ptr<Live>> Live::on_exec(pid_t process, const ClockOptions& options,
                                            const WatchOptions& watch,
                                            symbols::SymbolCache& symbols) {
  auto live = make(options, watch, symbols);
  if (!live) return live.error();
  auto clock = Clock::on_exec(process, options);
  if (!clock) return clock.error();
  (*live)->clock_.emplace(std::move(*clock));
  return live;
}

Result<std::unique_ptr<Live>> Live::attach(pid_t process, const ClockOptions& options,
                                           const WatchOptions& watch,
                                           symbols::SymbolCache& symbols) {
  auto live = make(options, watch, symbols);
  if (!live) return live.error();
  auto clock = Clock::attach(process, options);
  if (!clock) return clock.error();
  (*live)->clock_.emplace(std::move(*clock));
  // After the clock runs, so that nothing that is mapped in between goes unseen.
  if (auto status = (*live)->tree_.adopt(static_cast<std::uint32_t>(process)); !status)
    return status.error();
  return live;
}

void Live::watch() {
  for (const Offered& o : offered_)
    watchpoints_.try_emplace(o.image, static_cast<pid_t>(o.image->pid()), watch_)
        .first->second.offer(o.accessed);
  offered_.clear();
  std::vector<Watched> over;
  for (auto& [image, watchpoints] : watchpoints_) {
    over.clear();
    watchpoints.poll(now(), over);
    for (Watched& w : over) image->watched(std::move(w));
  }
}

void Live::poll() {
  const std::uint64_t settled = now();
  clock_->drain([&](std::span<const std::byte> record) { tree_.add(record, clock_->layout()); });
  tree_.settle(settled);
  watch();
}

void Live::stop() {
  clock_->stop();
  clock_->drain([&](std::span<const std::byte> record) { tree_.add(record, clock_->layout()); });
  tree_.settle(~std::uint64_t{0});
  std::vector<Watched> over;
  for (auto& [image, watchpoints] : watchpoints_) {
    over.clear();
    watchpoints.stop(now(), over);
    for (Watched& w : over) image->watched(std::move(w));
  }
}

std::uint64_t Live::refused() const {
  std::uint64_t all = 0;
  for (const auto& [image, watchpoints] : watchpoints_) all += watchpoints.refused();
  return all;
}

}  // namespace stallscope::sources
