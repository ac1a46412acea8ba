// SPDX-License-Identifier: Apache-2.0
#include "sources/tasks.h"

#include <charconv>
#include <filesystem>
#include <string>

namespace stallscope::sources {

std::vector<pid_t> tasks_of(pid_t process) {
  std::vector<pid_t> found;
  std::error_code gone;
  const auto folder = std::filesystem::path("/proc") / std::to_string(process) / "task";
  std::filesystem::directory_iterator at(folder, gone);
  for (; !gone && at != std::filesystem::directory_iterator(); at.increment(gone)) {
    const std::string name = at->path().filename();
    pid_t thread = 0;
    std::from_chars(name.data(), name.data() + name.size(), thread);
    if (thread > 0) found.push_back(thread);
  }
  return found;
}

}  // namespace stallscope::sources
