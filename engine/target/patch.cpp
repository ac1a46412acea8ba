// SPDX-License-Identifier: Apache-2.0
#include "target/patch.h"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

namespace stallscope::target {
namespace {

constexpr int kMostSteps = 64;  // that a thread takes out of a patch

// The stopped threads of a process; goes on when it is destroyed.
class Stopped {
 public:
  explicit Stopped(int pid) : pid_(pid) {}
  ~Stopped() {
    for (const auto& [thread, signal] : signals_)
      ptrace(PTRACE_DETACH, thread, nullptr, reinterpret_cast<void*>(std::intptr_t{signal}));
  }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;

  // Threads may start while others are being stopped, so it looks until there are no more.
  Status stop_all() {
    for (bool more = true; more;) {
      more = false;
      std::error_code error;
      const std::filesystem::path tasks = "/proc/" + std::to_string(pid_) + "/task";
      for (const auto& entry : std::filesystem::directory_iterator(tasks, error)) {
        const int thread = std::stoi(entry.path().filename());
        if (signals_.contains(thread) || gone_.contains(thread)) continue;
        more = true;
        if (Status stopped = stop(thread); !stopped) return stopped;
        if (out.ended) return Done{};
      }
      if (error && signals_.empty()) return Error{"the process is gone", error.message(), ""};
    }
    return Done{};
  }

  Status stop(int thread) {
    if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
      gone_[thread] = true;
      if (errno == ESRCH) return Done{};
      return Error{"cannot stop the program to change its code", std::strerror(errno),
                   "a debugger may be at it"};
    }
    ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
    return wait(thread);
  }

  // Until the thread stands; what it would have got then is kept for it.
  Status wait(int thread) {
    int status = 0;
    while (waitpid(thread, &status, __WALL) < 0)
      if (errno != EINTR) {
        gone_[thread] = true;
        return Done{};
      }
    if (!WIFSTOPPED(status)) {
      signals_.erase(thread);
      gone_[thread] = true;
      out.ended = out.ended || thread == pid_;
      if (thread == pid_) out.status = status;
      return Done{};
    }
    const bool ours = status >> 16 == PTRACE_EVENT_STOP || WSTOPSIG(status) == SIGTRAP;
    int& kept = signals_[thread];
    if (!ours) kept = WSTOPSIG(status);
    return Done{};
  }

  Status leave(const std::vector<Patch>& patches) {
    std::map<int, int> threads = signals_;
    for (const auto& [thread, signal] : threads)
      for (int i = 0; signals_.contains(thread) && inside(thread, patches); ++i) {
        if (i == kMostSteps) return Error{"a thread stays in the code to be changed", "", ""};
        ptrace(PTRACE_SINGLESTEP, thread, nullptr, nullptr);
        if (Status stepped = wait(thread); !stepped) return stepped;
      }
    return Done{};
  }

  Patched out;

 private:
  static bool inside(int thread, const std::vector<Patch>& patches) {
    user_regs_struct registers{};
    if (ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0) return false;
    for (const Patch& patch : patches)
      if (registers.rip > patch.address && registers.rip < patch.address + patch.bytes.size())
        return true;
    return false;
  }

  int pid_;
  std::map<int, int> signals_;  // of stopped threads: the signal that each still has to get
  std::map<int, bool> gone_;
};

bool write(int memory, const Patch& patch) {
  std::string now(patch.expected.size(), '\0');
  const auto place = static_cast<off_t>(patch.address);
  if (pread(memory, now.data(), now.size(), place) != static_cast<ssize_t>(now.size()))
    return false;
  if (now != patch.expected) return false;
  return pwrite(memory, patch.bytes.data(), patch.bytes.size(), place) ==
         static_cast<ssize_t>(patch.bytes.size());
}

}  // namespace

Result<Patched> patch_process(int pid, const std::vector<Patch>& patches) {
  Stopped stopped(pid);
  if (Status status = stopped.stop_all(); !status) return status.error();
  if (!stopped.out.ended)
    if (Status status = stopped.leave(patches); !status) return status.error();
  stopped.out.done.assign(patches.size(), false);
  if (stopped.out.ended) return stopped.out;
  const int memory = open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDWR | O_CLOEXEC);
  if (memory < 0) return Error{"cannot write the program's memory", std::strerror(errno), ""};
  for (std::size_t i = 0; i < patches.size(); ++i) stopped.out.done[i] = write(memory, patches[i]);
  close(memory);
  return stopped.out;
}

}  // namespace stallscope::target
