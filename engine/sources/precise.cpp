// SPDX-License-Identifier: Apache-2.0
#include "sources/precise.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "sources/spe_records.h"

namespace stallscope::sources {
namespace {

std::optional<std::string> first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string text;
  if (!std::getline(in, text)) return std::nullopt;
  return text;
}

std::optional<std::uint64_t> number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    base = 16;
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// One word of "event=0xcd,umask=0x1,ldlat=3".
std::optional<std::uint64_t> field(std::string_view words, std::string_view name) {
  while (!words.empty()) {
    const std::size_t comma = words.find(',');
    const std::string_view word = words.substr(0, comma);
    const std::size_t equals = word.find('=');
    if (equals != word.npos && word.substr(0, equals) == name)
      return number(word.substr(equals + 1));
    if (comma == words.npos) break;
    words.remove_prefix(comma + 1);
  }
  return std::nullopt;
}

// The config of "event=0xcd,umask=0x1".
std::optional<std::uint64_t> config_of(std::string_view words) {
  const auto event = field(words, "event");
  if (!event) return std::nullopt;
  return *event | field(words, "umask").value_or(0) << 8;
}

std::optional<PreciseLoads> intel(const std::filesystem::path& device, std::uint64_t min_latency) {
  const auto words = first_line(device / "events/mem-loads");
  const auto type = first_line(device / "type");
  if (!words || !type || !number(*type)) return std::nullopt;
  const auto config = config_of(*words);
  if (!config) return std::nullopt;
  PreciseLoads found;
  found.name = device.filename().native() + "/mem-loads/";
  found.type = static_cast<std::uint32_t>(*number(*type));
  found.config = *config;
  if (const auto leader = first_line(device / "events/mem-loads-aux"))
    found.leader = config_of(*leader);
  found.config1 = min_latency ? min_latency : field(*words, "ldlat").value_or(3);
  found.precise = 2;
  return found;
}

std::optional<PreciseLoads> amd(const std::filesystem::path& device) {
  const auto type = first_line(device / "type");
  if (!type || !number(*type)) return std::nullopt;
  PreciseLoads found;
  found.name = "ibs_op//";
  found.type = static_cast<std::uint32_t>(*number(*type));
  found.leaves_out_kernel = false;
  return found;
}

// Which bits of which config a setting has, from its file below format/: "config2:0-11".
struct Bits {
  std::string config;
  unsigned first = 0, count = 1;
};

std::optional<Bits> bits_of(const std::filesystem::path& device, const char* setting) {
  const auto text = first_line(device / "format" / setting);
  if (!text) return std::nullopt;
  const std::string_view all = *text;
  const std::size_t colon = all.find(':');
  if (colon == all.npos) return std::nullopt;
  const std::string_view range = all.substr(colon + 1);
  const std::size_t dash = range.find('-');
  const auto first = number(range.substr(0, dash));
  const auto last = dash == range.npos ? first : number(range.substr(dash + 1));
  if (!first || !last || *last < *first || *last > 63) return std::nullopt;
  return Bits{std::string(all.substr(0, colon)), static_cast<unsigned>(*first),
              static_cast<unsigned>(*last - *first + 1)};
}

// A setting that this kernel does not have is left as it is.
void set(const std::filesystem::path& device, const char* setting, std::uint64_t value,
         PreciseLoads& loads) {
  const auto bits = bits_of(device, setting);
  if (!bits) return;
  const std::uint64_t most =
      bits->count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits->count) - 1;
  const std::uint64_t placed = std::min(value, most) << bits->first;
  if (bits->config == "config") loads.config |= placed;
  if (bits->config == "config1") loads.config1 |= placed;
  if (bits->config == "config2") loads.config2 |= placed;
}

std::optional<PreciseLoads> arm(const std::filesystem::path& device, std::uint64_t min_latency) {
  const auto type = first_line(device / "type");
  if (!type || !number(*type)) return std::nullopt;
  PreciseLoads found;
  found.name = device.filename().native() + "//";
  found.type = static_cast<std::uint32_t>(*number(*type));
  found.packets = true;
  set(device, "ts_enable", 1, found);
  set(device, "load_filter", 1, found);
  set(device, "jitter", 1, found);
  set(device, "min_latency", min_latency, found);
  if (const auto least = first_line(device / "caps/min_interval"))
    found.least_interval = number(*least).value_or(1);
  found.processors = first_line(device / "cpumask").value_or("");
  return found;
}

}  // namespace

Result<PreciseLoads> find_precise_loads(std::uint64_t min_latency, const std::string& devices) {
  const std::filesystem::path folder(devices);
  for (const char* name : {"cpu_core", "cpu"})
    if (auto found = intel(folder / name, min_latency)) return *found;
  if (auto found = amd(folder / "ibs_op")) return *found;
  if (auto found = arm(folder / "arm_spe_0", min_latency)) return *found;
  return Error{"this machine shows no unit that samples loads",
               "neither mem-loads (Intel) nor ibs_op (AMD) nor arm_spe_0 (Arm) is below " +
                   devices + "; virtual machines hide them",
               "stallscope record --source clock"};
}

namespace {

// It counts operations of every kind: as many as a processor usually does in a second, and the
// share of them that are loads, make the interval.
void ask_for_packets(const PreciseLoads& loads, unsigned rate, perf_event_attr& a) {
  constexpr std::uint64_t kLoadsEachSecond = 500'000'000;
  constexpr std::uint64_t kLongest = 0xffffff00;  // what the processor's register holds
  constexpr std::uint32_t kWatermark = 16 << 10;  // bytes: some 250 records
  a.freq = 0;
  a.sample_period = std::clamp<std::uint64_t>(kLoadsEachSecond / std::max(rate, 1U),
                                              loads.least_interval, kLongest);
  a.sample_type = kSpeSampleType;
  a.sample_regs_user = 0;
  a.sample_max_stack = 0;
  a.exclude_callchain_kernel = 0;
  a.aux_watermark = kWatermark;
}

}  // namespace

void ask_for(const PreciseLoads& loads, unsigned rate, perf_event_attr& a) {
  a.type = loads.type;
  a.config = loads.config;
  a.config1 = loads.config1;
  a.config2 = loads.config2;
  if (loads.packets) return ask_for_packets(loads, rate, a);
  a.freq = 1;
  a.sample_freq = rate;
  a.precise_ip = loads.precise & 3;
  a.sample_type |= PERF_SAMPLE_ADDR | PERF_SAMPLE_WEIGHT | PERF_SAMPLE_DATA_SRC;
  if (!loads.leaves_out_kernel) a.exclude_kernel = a.exclude_hv = 0;
}

perf_event_attr leader_of(const PreciseLoads& loads, const perf_event_attr& attributes) {
  perf_event_attr a = attributes;
  a.config = loads.leader.value_or(0);
  a.config1 = 0;
  a.freq = 0;
  a.sample_freq = 0;
  a.precise_ip = 0;
  a.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
  a.sample_regs_user = 0;
  a.sample_max_stack = 0;
  a.mmap = a.mmap2 = a.mmap_data = a.comm = a.comm_exec = a.task = 0;
  return a;
}

}  // namespace stallscope::sources
