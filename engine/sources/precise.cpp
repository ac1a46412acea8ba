// SPDX-License-Identifier: Apache-2.0
#include "sources/precise.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

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

std::optional<PreciseLoads> intel(const std::filesystem::path& device, std::uint64_t min_latency) {
  const auto words = first_line(device / "events/mem-loads");
  const auto type = first_line(device / "type");
  if (!words || !type || !number(*type)) return std::nullopt;
  const auto event = field(*words, "event");
  if (!event) return std::nullopt;
  PreciseLoads found;
  found.name = device.filename().native() + "/mem-loads/";
  found.type = static_cast<std::uint32_t>(*number(*type));
  found.config = *event | field(*words, "umask").value_or(0) << 8;
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

}  // namespace

Result<PreciseLoads> find_precise_loads(std::uint64_t min_latency, const std::string& devices) {
  const std::filesystem::path folder(devices);
  for (const char* name : {"cpu_core", "cpu"})
    if (auto found = intel(folder / name, min_latency)) return *found;
  if (auto found = amd(folder / "ibs_op")) return *found;
  std::error_code none;
  const bool arm = std::filesystem::exists(folder / "arm_spe_0", none);
  return Error{"this machine shows no unit that samples loads",
               arm ? "it has Arm's SPE, whose buffers this version does not read"
                   : "neither mem-loads (Intel) nor ibs_op (AMD) is below " + devices +
                         "; virtual machines hide them",
               "stallscope record --source clock"};
}

void ask_for(const PreciseLoads& loads, unsigned rate, perf_event_attr& a) {
  a.type = loads.type;
  a.config = loads.config;
  a.config1 = loads.config1;
  a.freq = 1;
  a.sample_freq = rate;
  a.precise_ip = loads.precise & 3;
  a.sample_type |= PERF_SAMPLE_ADDR | PERF_SAMPLE_WEIGHT | PERF_SAMPLE_DATA_SRC;
  if (!loads.leaves_out_kernel) a.exclude_kernel = a.exclude_hv = 0;
}

}  // namespace stallscope::sources
