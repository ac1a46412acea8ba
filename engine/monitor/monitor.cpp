// SPDX-License-Identifier: Apache-2.0
#include "monitor/monitor.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace stallscope::monitor {
namespace {

constexpr std::uint64_t kStartCycles = 2;    // look the handler up, fetch its first instruction
constexpr std::uint64_t kSuspendCycles = 2;  // of a write by a core
constexpr std::size_t kFaultsKept = 16;
constexpr std::uint64_t kWord = 8;
constexpr std::uint64_t kInstructionBytes = 4;

Error wrong(std::string what, std::string why) {
  return Error{std::move(what), std::move(why), ""};
}

Status check(const Config& config, const Image& image) {
  if (config.high_queue == 0 || config.low_queue == 0)
    return wrong("a task queue holds at least one task", "");
  if (config.scratch == 0 || config.scratch % kWord != 0 || config.scratch > kTableBase)
    return wrong("a scratch-pad has 8 to 65536 bytes, whole words", "");
  if (image.scratch.size() > config.scratch)
    return wrong("the monitor does not fit into the scratch-pad",
                 "it has " + std::to_string(image.scratch.size()) + " of " +
                     std::to_string(config.scratch) + " bytes");
  if (image.detectors.size() > kSignals)
    return wrong("the table of signals is full", "it has room for " + std::to_string(kSignals) +
                                                     ", the monitor has " +
                                                     std::to_string(image.detectors.size()));
  if (image.boot % kInstructionBytes != 0 || image.boot >= config.scratch)
    return wrong("the boot program begins where no instruction can be", "");
  for (const Detector& detector : image.detectors)
    if (detector.every == 0) return wrong("a detector lets every 0th event through", "");
  return Done{};
}

}  // namespace

Result<Monitor> Monitor::make(const Config& config, const Image& image, Machine& machine) {
  if (Status checked = check(config, image); !checked) return checked.error();
  return Monitor(config, image, machine);
}

Monitor::Monitor(const Config& config, const Image& image, Machine& machine)
    : config_(config),
      machine_(&machine),
      scratch_(config.scratch),
      decoded_(config.scratch / kInstructionBytes) {
  std::copy(image.scratch.begin(), image.scratch.end(), scratch_.begin());
  std::copy(image.detectors.begin(), image.detectors.end(), detectors_.begin());
  if (image.boot == 0) return;
  low_.push_back({kBoot, image.boot, {Event::software}, 0, ++numbers_, false});
}

std::uint64_t Monitor::notify(const Happening& what, std::uint64_t cycle, std::uint64_t count) {
  std::uint64_t resumed = cycle;
  for (std::uint64_t left = on_[static_cast<unsigned>(what.event)]; left; left &= left - 1) {
    const auto signal = static_cast<std::uint32_t>(std::countr_zero(left));
    const Detector& detector = detectors_[signal];
    if (detector.is_blind(what)) [[unlikely]]
      account_.unknown += detector.matches_place(what) ? count : 0;
    else if (detector.matches(what))
      resumed = std::max(resumed, notify_one(signal, what, cycle, count));
  }
  return resumed;
}

std::uint64_t Monitor::notify_one(std::uint32_t signal, const Happening& what, std::uint64_t cycle,
                                  std::uint64_t count) {
  Detector& detector = detectors_[signal];
  std::uint64_t through = detector.count(count);
  if (through == 0) return cycle;
  advance(cycle);
  account_.signals += through;
  std::uint64_t number = 0;
  for (; through > 0; --through) {
    number = queue(signal, what, detector.high);
    if (number == 0) break;
  }
  // The others of a row find the queue as full.
  (detector.high ? account_.dropped_high : account_.dropped_low) += through > 0 ? through - 1 : 0;
  if (!detector.stalls || number == 0) return cycle;
  const std::uint64_t patience = now_ + config_.task_limit;
  while (ended_ != number && now_ < patience && step()) {
  }
  return std::max(now_, cycle);
}

std::uint64_t Monitor::queue(std::uint32_t signal, const Happening& what, bool high) {
  std::deque<Task>& tasks = high ? high_ : low_;
  if (tasks.size() >= (high ? config_.high_queue : config_.low_queue)) {
    ++(high ? account_.dropped_high : account_.dropped_low);
    return 0;
  }
  tasks.push_back({signal, table_[signal], what, now_, ++numbers_, false});
  std::uint64_t& longest = high ? account_.longest_high : account_.longest_low;
  longest = std::max<std::uint64_t>(longest, tasks.size());
  return numbers_;
}

bool Monitor::receive(std::uint32_t signal, std::uint64_t value, std::uint64_t cycle) {
  advance(cycle);
  if (signal >= kSignals || table_[signal] == 0) return true;
  const bool high = detectors_[signal].high;
  if ((high ? high_ : low_).size() >= (high ? config_.high_queue : config_.low_queue)) return false;
  ++account_.signals;
  return queue(signal, {Event::message, 0, 0, value}, high) != 0;
}

void Monitor::advance(std::uint64_t cycle) {
  while (now_ < cycle) {
    if (step()) continue;
    asleep_ = true;
    spend(cycle - now_, account_.low_power);
  }
}

bool Monitor::step() {
  if (!sends_.empty()) flush_sends();
  if (task_.running) {
    execute(next_word());
    if (task_.running && now_ - started_ > config_.task_limit) {
      ++account_.runaways;
      fault("the task was longer than " + std::to_string(config_.task_limit) + " cycles");
    }
    return true;
  }
  std::deque<Task>& tasks = high_.empty() ? low_ : high_;
  if (tasks.empty()) return false;
  const Task next = tasks.front();
  tasks.pop_front();
  start(next);
  return true;
}

void Monitor::start(Task task) {
  if (asleep_) spend(config_.wake, account_.waking);
  asleep_ = false;
  spend(kStartCycles, account_.starting);
  ++account_.tasks;
  task_ = task;
  task_.running = true;
  started_ = now_;
  pc_ = task.handler;
  registers_ = {0, task.what.address, task.what.data, task.what.core, task.cycle, task.signal};
}

std::uint32_t Monitor::next_word() const {
  if (pc_ % kInstructionBytes != 0 || pc_ > scratch_.size() - kInstructionBytes) return 0;
  std::uint32_t word;
  std::memcpy(&word, scratch_.data() + pc_, sizeof word);
  return word;
}

void Monitor::end_task() {
  task_.running = false;
  ended_ = task_.number;
}

void Monitor::fault(std::string what) {
  ++account_.faults;
  if (faults_.size() < kFaultsKept) faults_.push_back({std::move(what), now_, pc_, task_.signal});
  if (task_.signal < kSignals) set_handler(task_.signal, 0);
  end_task();
}

void Monitor::set_handler(std::uint64_t signal, std::uint64_t address) {
  table_[signal] = address;
  ++changes_;
  std::uint64_t& on = on_[static_cast<unsigned>(detectors_[signal].event)];
  const std::uint64_t bit = std::uint64_t{1} << signal;
  on = address ? on | bit : on & ~bit;
}

void Monitor::clear() {
  high_.clear();
  low_.clear();
  for (std::uint64_t signal = 0; signal < kSignals; ++signal) set_handler(signal, 0);
}

void Monitor::flush_sends() {
  while (!sends_.empty()) {
    const Sent& first = sends_.front();
    if (!machine_->deliver(first.monitor, first.signal, first.value, now_)) return;
    sends_.pop_front();
  }
}

const std::uint64_t* Monitor::detector_word(std::uint64_t address) const {
  const std::uint64_t at = address - kDetectorBase;
  if (at >= kSignals * kDetectorBytes) return nullptr;
  const Detector& of = detectors_[at / kDetectorBytes];
  const std::uint64_t* const words[] = {&of.match,     &of.care,  &of.data_match,
                                        &of.data_care, &of.cores, &of.every};
  const std::uint64_t word = at % kDetectorBytes / kWord;
  return word < std::size(words) ? words[word] : nullptr;
}

bool Monitor::load(std::uint64_t address, std::uint64_t& value) const {
  if (address % kWord != 0) return false;
  if (address <= scratch_.size() - kWord) {
    std::memcpy(&value, scratch_.data() + address, sizeof value);
    return true;
  }
  if (address - kTableBase < kSignals * kWord) {
    value = table_[(address - kTableBase) / kWord];
    return true;
  }
  const std::uint64_t* word = detector_word(address);
  if (word) value = *word;
  return word != nullptr;
}

bool Monitor::store(std::uint64_t address, std::uint64_t value) {
  if (address % kWord != 0) return false;
  if (address <= scratch_.size() - kWord) {
    std::memcpy(scratch_.data() + address, &value, sizeof value);
    return true;
  }
  if (address - kTableBase < kSignals * kWord) {
    set_handler((address - kTableBase) / kWord, value);
    return true;
  }
  const std::uint64_t* word = detector_word(address);
  if (!word) return false;
  Detector& detector = detectors_[(address - kDetectorBase) / kDetectorBytes];
  if (word == &detector.every && value == 0) return false;
  *const_cast<std::uint64_t*>(word) = value;  // of a member that is ours to change
  return true;
}

bool Monitor::write(std::uint64_t address, std::uint64_t value, std::uint64_t cycle) {
  advance(cycle);
  if (address == kDoorbell) {
    notify({Event::software, 0, address, value}, now_);
    return true;
  }
  spend(kSuspendCycles, account_.suspended);
  return store(address, value);
}

bool Monitor::read(std::uint64_t address, std::uint64_t& value) const {
  return load(address, value);
}

}  // namespace stallscope::monitor
