// SPDX-License-Identifier: Apache-2.0
// The monitors of one machine, connected to each other and to what they can change.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "monitor/monitor.h"

namespace stallscope::monitor {

// What a monitor did to the machine.
struct Act {
  std::uint32_t monitor;
  Feature feature;
  std::uint64_t a, b, cycle;
};

class Group {
 public:
  Group() = default;
  Group(const Group&) = delete;  // its monitors point into it
  Group& operator=(const Group&) = delete;

  // Its number; monitors send to each other by it.
  Result<std::uint32_t> add(const Config& config, const Image& image);

  bool listens(Event event) const { return listening_ >> static_cast<unsigned>(event) & 1; }
  // To all; see Monitor::notify.
  std::uint64_t notify(const Happening& what, std::uint64_t cycle, std::uint64_t count = 1);
  void advance(std::uint64_t cycle);

  // Told of every act, after the features were changed.
  void on_act(std::function<void(const Act&)> told) { told_ = std::move(told); }
  std::uint64_t feature(Feature feature) const { return features_[static_cast<unsigned>(feature)]; }
  void set_feature(Feature feature, std::uint64_t value) {
    features_[static_cast<unsigned>(feature)] = value;
  }
  const std::vector<Act>& acts() const { return acts_; }  // the first kActsKept
  std::uint64_t act_count() const { return act_count_; }

  std::size_t size() const { return ports_.size(); }
  Monitor& at(std::size_t number) { return *ports_[number]->monitor; }
  const Monitor& at(std::size_t number) const { return *ports_[number]->monitor; }

  static constexpr std::size_t kActsKept = 100'000;

 private:
  struct Port : Machine {
    Group* group;
    std::uint32_t number;
    std::unique_ptr<Monitor> monitor;

    std::uint64_t check(Feature feature) override { return group->feature(feature); }
    void signal(Feature feature, std::uint64_t a, std::uint64_t b, std::uint64_t cycle) override {
      group->act({number, feature, a, b, cycle});
    }
    bool deliver(std::uint32_t monitor, std::uint32_t signal, std::uint64_t value,
                 std::uint64_t cycle) override {
      // To nowhere: gone, as what a detector that is off would have sent.
      if (monitor >= group->ports_.size()) return true;
      return group->at(monitor).receive(signal, value, cycle);
    }
  };
  void act(const Act& act);
  // What the monitors listen to may have changed.
  void listen() {
    std::uint64_t changes = 0;
    for (const auto& port : ports_) changes += port->monitor->changes();
    if (changes != changes_) [[unlikely]]
      listen_anew(changes);
  }
  void listen_anew(std::uint64_t changes);

  std::vector<std::unique_ptr<Port>> ports_;
  std::array<std::uint64_t, kFeatures> features_{};
  std::vector<Act> acts_;
  std::uint64_t act_count_ = 0;
  std::uint64_t changes_ = 0;
  std::uint32_t listening_ = 0;  // a bit for each event
  std::function<void(const Act&)> told_;
};

}  // namespace stallscope::monitor
