// SPDX-License-Identifier: Apache-2.0
#include "sources/generated_code.h"

#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "sources/monotonic.h"

namespace stallscope::sources {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kEvery = kSecond / 10;
constexpr std::uint64_t kMostBytes = 1 << 20;  // of one function: more is no function

// When a process began, on the monotonic clock: the kernel counts ticks since the machine did. Of
// one that is not there any more only what was written just now is believed.
std::uint64_t started_at(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(in, line);
  const std::size_t behind_name = line.rfind(')');
  if (behind_name == line.npos) return now();
  std::istringstream fields(line.substr(behind_name + 1));
  constexpr int kBefore = 19;  // fields between the name and the start
  std::string skipped;
  for (int i = 0; i < kBefore; ++i) fields >> skipped;
  std::uint64_t ticks = 0;
  if (!(fields >> ticks)) return now();
  timespec booted{};
  clock_gettime(CLOCK_BOOTTIME, &booted);
  const auto each = kSecond / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  const std::uint64_t since_boot = static_cast<std::uint64_t>(booted.tv_sec) * kSecond +
                                   static_cast<std::uint64_t>(booted.tv_nsec);
  const std::uint64_t age = since_boot - std::min(since_boot, ticks * each);
  const std::uint64_t here = now();
  return here - std::min(here, age);
}

}  // namespace

std::vector<std::uint8_t> read_process(pid_t process, std::uint64_t address, std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  const iovec here{bytes.data(), size};
  const iovec there{reinterpret_cast<void*>(address), size};
  if (process_vm_readv(process, &here, 1, &there, 1, 0) != static_cast<ssize_t>(size)) return {};
  return bytes;
}

GeneratedCode::GeneratedCode(pid_t process, std::string folder, ReadBytes read)
    : process_(process),
      folder_(std::move(folder)),
      read_(std::move(read)),
      started_(started_at(process)) {}

target::PerfMap GeneratedCode::names() const {
  return target::PerfMap::of_process(static_cast<std::uint64_t>(process_), started_, 0, folder_);
}

void GeneratedCode::refresh(std::uint64_t time) {
  if (tried_ && time < looked_ + kEvery) return;
  tried_ = true;
  looked_ = time;
  map_ = names();
}

const FunctionCode* GeneratedCode::known(std::uint64_t address) const {
  auto after = functions_.upper_bound(address);
  if (after == functions_.begin()) return nullptr;
  const FunctionCode* code = (--after)->second.get();
  return code != nullptr && address < code->end ? code : nullptr;
}

const FunctionCode* GeneratedCode::at(std::uint64_t address, std::uint64_t time) {
  if (const FunctionCode* code = known(address)) return code;
  auto range = map_.range(address);
  if (!range) {
    refresh(time);
    range = map_.range(address);
  }
  if (!range || range->second - range->first > kMostBytes) return nullptr;
  const auto [start, end] = *range;
  const auto [found, fresh] = functions_.try_emplace(start);
  if (fresh) {
    const auto bytes = read_(process_, start, static_cast<std::size_t>(end - start));
    if (!bytes.empty()) found->second = std::make_unique<FunctionCode>(read_function(bytes, start));
  }
  return found->second.get();
}

}  // namespace stallscope::sources
