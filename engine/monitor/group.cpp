// SPDX-License-Identifier: Apache-2.0
#include "monitor/group.h"

#include <algorithm>

namespace stallscope::monitor {

Result<std::uint32_t> Group::add(const Config& config, const Image& image) {
  auto port = std::make_unique<Port>();
  port->group = this;
  port->number = static_cast<std::uint32_t>(ports_.size());
  auto made = Monitor::make(config, image, *port);
  if (!made) return made.error();
  port->monitor = std::make_unique<Monitor>(std::move(*made));
  ports_.push_back(std::move(port));
  return ports_.back()->number;
}

std::uint64_t Group::notify(const Happening& what, std::uint64_t cycle, std::uint64_t count) {
  std::uint64_t resumed = cycle;
  for (const auto& port : ports_)
    if (port->monitor->listens(what.event))
      resumed = std::max(resumed, port->monitor->notify(what, cycle, count));
  listen();
  return resumed;
}

void Group::advance(std::uint64_t cycle) {
  for (const auto& port : ports_) port->monitor->advance(cycle);
  listen();
}

void Group::listen_anew(std::uint64_t changes) {
  changes_ = changes;
  listening_ = 0;
  for (const auto& port : ports_)
    for (unsigned event = 0; event < kEvents; ++event)
      listening_ |= static_cast<std::uint32_t>(port->monitor->listens(static_cast<Event>(event)))
                    << event;
}

void Group::act(const Act& act) {
  ++act_count_;
  const bool is_state = act.feature == Feature::coherence || act.feature == Feature::prefetch ||
                        act.feature == Feature::replacement;
  if (is_state) set_feature(act.feature, act.a);
  if (acts_.size() < kActsKept) acts_.push_back(act);
  if (told_) told_(act);
}

}  // namespace stallscope::monitor
