// SPDX-License-Identifier: Apache-2.0
#include "sources/clock.h"

#include <sys/ioctl.h>
#include <time.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "sources/tasks.h"

namespace stallscope::sources {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint16_t kDeepestChain = 24;
// The general registers and the instruction pointer of x86-64, by the kernel's numbering.
constexpr std::uint64_t kRegisters = 0xff01ff;

int number_in(std::string_view text) {
  int value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// "0-3,6" as the kernel writes lists of processors.
std::vector<int> processors_in(const std::string& text) {
  std::vector<int> found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view part = std::string_view(text).substr(at, end - at);
    const std::size_t dash = part.find('-');
    const int first = number_in(part.substr(0, dash));
    const int last = dash == part.npos ? first : number_in(part.substr(dash + 1));
    for (int cpu = first; cpu >= 0 && cpu <= last; ++cpu) found.push_back(cpu);
    at = end + 1;
  }
  return found.empty() ? std::vector<int>{0} : found;
}

std::string first_line(const std::string& file) {
  std::string text;
  std::getline(std::ifstream(file), text);
  return text;
}

// Which processor it is, as Arm's cores say it; 0 on others.
std::uint64_t midr_of(int cpu) {
  const std::string text = first_line("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                                      "/regs/identification/midr_el1");
  return std::strtoull(text.c_str(), nullptr, 16);
}

Layout layout_of(const perf_event_attr& a) {
  Layout layout;
  layout.sample_type = a.sample_type;
  layout.regs_user = a.sample_regs_user;
  layout.sample_id_all = a.sample_id_all;
  return layout;
}

bool is_refusal(int error) { return error == EACCES || error == EPERM; }

}  // namespace

Error explain(int error, pid_t process, const std::string& setting) {
  const std::string who = "process " + std::to_string(process);
  if (error == ESRCH)
    return {"there is no " + who, "it may have ended meanwhile", "ps, and give the number of one"};
  if (is_refusal(error)) {
    const std::string level = first_line(setting);
    if (number_in(level) > 2)
      return {"the kernel lets nobody sample " + who,
              "kernel.perf_event_paranoid is " + level + ", and 2 or less is needed",
              "sudo sysctl kernel.perf_event_paranoid=2"};
    return {"the kernel does not let us sample " + who,
            std::string(std::strerror(error)) +
                ": it belongs to another user, or this container may not use perf_event_open",
            "run as its user or as root; in a container --cap-add PERFMON and a seccomp profile "
            "that allows perf_event_open"};
  }
  if (error == EMFILE)
    return {"too many open files to sample " + who, "each thread needs one for each processor",
            "ulimit -n, with a larger number"};
  return {"the kernel has no clock that samples programs", std::strerror(error),
          "stallscope doctor"};
}

Result<Clock> Clock::described(const ClockOptions& options) {
  Clock clock;
  perf_event_attr& a = clock.attributes_;
  a.size = sizeof a;
  a.type = PERF_TYPE_SOFTWARE;
  a.config = PERF_COUNT_SW_CPU_CLOCK;
  a.sample_period = kSecond / options.rate;
  a.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |
                  PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER;
  a.sample_regs_user = kRegisters;
  a.sample_max_stack = kDeepestChain;
  a.exclude_callchain_kernel = 1;
  a.exclude_kernel = options.kernel ? 0 : 1;
  a.exclude_hv = 1;
  a.disabled = 1;
  a.inherit = 1;
  a.mmap = a.mmap2 = a.mmap_data = 1;
  a.comm = a.comm_exec = 1;
  a.task = 1;
  a.sample_id_all = 1;
  a.use_clockid = 1;
  a.clockid = CLOCK_MONOTONIC;
  a.inherit_thread = options.children ? 0 : 1;
  if (options.loads) {
    auto loads = find_precise_loads(options.min_latency);
    if (!loads) return loads.error();
    clock.loads_ = *loads;
    ask_for(*loads, options.rate, a);
  }
  clock.layout_ = layout_of(a);
  const std::string& those = clock.loads_.processors;
  clock.cpus_ = processors_in(those.empty() ? first_line("/sys/devices/system/cpu/online") : those);
  clock.ring_event_.assign(clock.cpus_.size(), -1);
  return clock;
}

// The event, behind the one that must lead its group where there is such a one.
int Clock::open_group(pid_t thread, int cpu) {
  if (!loads_.leader) return open_event(attributes_, thread, cpu);
  const int leader = open_event(leader_of(loads_, attributes_), thread, cpu);
  if (leader < 0) return leader;
  Descriptor held(leader);
  const int opened = open_event(attributes_, thread, cpu, leader);
  if (opened >= 0) events_.push_back(std::move(held));
  return opened;
}

int Clock::open_on(pid_t thread, int cpu) {
  const int opened = open_group(thread, cpu);
  if (!is_refusal(-opened) || !sees_kernel()) return opened;
  attributes_.exclude_kernel = 1;
  return open_group(thread, cpu);
}

Status Clock::map_ring(int event, int cpu) {
  constexpr std::size_t kFewPages = 16, kPacketPages = 64;  // together what a user may lock
  auto ring = Ring::map(event, loads_.packets ? kFewPages : Ring::kPages);
  if (!ring) return ring.error();
  if (loads_.packets) {
    auto area = AuxArea::map(event, ring->control(), kPacketPages);
    if (!area) return area.error();
    SpeOrigin origin;
    origin.cpu = static_cast<std::uint32_t>(cpu);
    origin.period = attributes_.sample_period;
    origin.midr = midr_of(cpu);
    takers_.emplace_back(std::move(*area), origin);
  }
  rings_.push_back(std::move(*ring));
  return Done{};
}

Status Clock::open_thread(pid_t thread) {
  for (std::size_t i = 0; i < cpus_.size(); ++i) {
    const int opened = open_on(thread, cpus_[i]);
    if (opened == -ENODEV) continue;  // the processor went away
    if (opened < 0) return explain(-opened, thread);
    events_.emplace_back(opened);
    if (ring_event_[i] < 0) {
      if (Status mapped = map_ring(opened, cpus_[i]); !mapped) return mapped;
      ring_event_[i] = opened;
    } else if (ioctl(opened, PERF_EVENT_IOC_SET_OUTPUT, ring_event_[i]) != 0) {
      return explain(errno, thread);
    }
  }
  if (rings_.empty()) return explain(ENODEV, thread);
  return Done{};
}

void Clock::take_packets(std::size_t ring, std::span<const std::byte> record,
                         const std::function<void(std::span<const std::byte>)>& visit) {
  auto event = parse(record, layout_);
  if (!event) return;
  const auto* aux = std::get_if<Other>(&*event);
  if (aux != nullptr && aux->type == PERF_RECORD_AUX) takers_[ring].take(*aux, visit);
}

std::uint64_t Clock::truncated() const {
  std::uint64_t all = 0;
  for (const SpeTaker& taker : takers_) all += taker.truncated();
  return all;
}

std::uint64_t Clock::damaged() const {
  std::uint64_t all = 0;
  for (const SpeTaker& taker : takers_) all += taker.damaged();
  return all;
}

Result<Clock> Clock::on_exec(pid_t process, const ClockOptions& options) {
  auto clock = described(options);
  if (!clock) return clock.error();
  clock->attributes_.enable_on_exec = 1;
  if (auto status = clock->open_thread(process); !status) return status.error();
  return clock;
}

// Threads that start meanwhile are inherited from those that are open already, or found the next
// time round.
Status Clock::attach_threads(pid_t process) {
  if (tasks_of(process).empty()) return explain(ESRCH, process);
  for (bool found = true; found;) {
    found = false;
    for (pid_t thread : tasks_of(process)) {
      if (!threads_.insert(thread).second) continue;
      auto status = open_thread(thread);
      if (!status) {
        const bool ended = tasks_of(process).empty();
        if (ended || thread == process) return ended ? explain(ESRCH, process) : status.error();
        if (std::filesystem::exists("/proc/" + std::to_string(process) + "/task/" +
                                    std::to_string(thread)))
          return status.error();
      }
      found = true;
    }
    if (!attributes_.inherit) break;
  }
  return Done{};
}

Result<Clock> Clock::attach(pid_t process, const ClockOptions& options) {
  auto clock = described(options);
  if (!clock) return clock.error();
  if (auto status = clock->attach_threads(process); !status) return status.error();
  for (const Descriptor& event : clock->events_) ioctl(event.get(), PERF_EVENT_IOC_ENABLE, 0);
  return clock;
}

void Clock::stop() {
  for (const Descriptor& event : events_) ioctl(event.get(), PERF_EVENT_IOC_DISABLE, 0);
}

}  // namespace stallscope::sources
