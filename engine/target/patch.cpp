// SPDX-License-Identifier: Apache-2.0
#include "target/patch.h"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

namespace stallscope::target {
namespace {

constexpr int kMostSteps = 64;             // that a thread takes out of a patch
constexpr int kMostTries = 50;             // until no signal handler returns into one
constexpr useconds_t kBetweenTries = 200;  // microseconds
constexpr std::size_t kStack = 64 << 10;   // bytes of each stack that are looked at

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
    if (ours) return Done{};
    if (kept != 0 && kept != WSTOPSIG(status)) syscall(SYS_tgkill, pid_, thread, kept);
    kept = WSTOPSIG(status);
    return Done{};
  }

  Status leave(const std::vector<Patch>& patches) {
    std::map<int, int> threads = signals_;
    for (const auto& [thread, signal] : threads)
      for (int i = 0; signals_.contains(thread) && stands_inside(thread, patches); ++i) {
        if (i == kMostSteps) return Error{"a thread stays in the code to be changed", "", ""};
        ptrace(PTRACE_SINGLESTEP, thread, nullptr, nullptr);
        if (Status stepped = wait(thread); !stepped) return stepped;
      }
    return Done{};
  }

  // Whether a thread seems to come back into a patch: a signal handler that runs now returns to
  // where it interrupted the thread, which its stack says. What only looks like such an address
  // counts as well.
  bool comes_back(const std::vector<Patch>& patches) const {
    std::vector<std::uint64_t> words(kStack / sizeof(std::uint64_t));
    for (const auto& [thread, signal] : signals_) {
      user_regs_struct registers{};
      if (ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0) continue;
      const iovec here{words.data(), kStack};
      const iovec there{reinterpret_cast<void*>(registers.rsp & ~7ULL), kStack};
      const ssize_t got = process_vm_readv(pid_, &here, 1, &there, 1, 0);
      for (ssize_t i = 0; i < got / static_cast<ssize_t>(sizeof(std::uint64_t)); ++i)
        if (inside(words[static_cast<std::size_t>(i)], patches)) return true;
    }
    return false;
  }

  Patched out;

 private:
  static bool inside(std::uint64_t place, const std::vector<Patch>& patches) {
    for (const Patch& patch : patches)
      if (place > patch.address && place < patch.address + patch.bytes.size()) return true;
    return false;
  }

  static bool stands_inside(int thread, const std::vector<Patch>& patches) {
    user_regs_struct registers{};
    if (ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0) return false;
    return inside(registers.rip, patches);
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

// Nothing when a thread would come back into a patch.
Result<std::optional<Patched>> try_patch(int pid, const std::vector<Patch>& patches) {
  Stopped stopped(pid);
  if (Status status = stopped.stop_all(); !status) return status.error();
  if (!stopped.out.ended)
    if (Status status = stopped.leave(patches); !status) return status.error();
  stopped.out.done.assign(patches.size(), false);
  if (stopped.out.ended) return std::optional(stopped.out);
  if (stopped.comes_back(patches)) return std::optional<Patched>();
  const int memory = open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDWR | O_CLOEXEC);
  if (memory < 0) return Error{"cannot write the program's memory", std::strerror(errno), ""};
  for (std::size_t i = 0; i < patches.size(); ++i) stopped.out.done[i] = write(memory, patches[i]);
  close(memory);
  return std::optional(stopped.out);
}

}  // namespace

Result<Patched> patch_process(int pid, const std::vector<Patch>& patches) {
  for (int i = 0; i < kMostTries; ++i) {
    Result<std::optional<Patched>> tried = try_patch(pid, patches);
    if (!tried) return tried.error();
    if (*tried) return **tried;
    usleep(kBetweenTries);
  }
  return Error{"a signal handler stays above the code to be changed", "", ""};
}

}  // namespace stallscope::target
