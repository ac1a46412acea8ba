// SPDX-License-Identifier: Apache-2.0
// Code of a running child is changed under it, again and again, also while it handles signals.
#include <doctest.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>

#include "target/patch.h"

using namespace stallscope;
using target::Patch;
using target::patch_process;

namespace {

constexpr std::size_t kPage = 4096;
// Counts in memory at rdi until the word behind is not 0. Five bytes from the start are changed:
// two instructions into one and back, so that the middle of them is no place to be.
const std::string kLoop =
    "\x48\xff\x07"            // inc qword [rdi]
    "\x66\x90"                // nop
    "\x48\x83\x7f\x08"        // cmp qword [rdi + 8],
    + std::string(1, '\0') +  //   0
    "\x74\xf4"                // je back
    "\xc3";                   // ret
const std::string kOne = kLoop.substr(0, 5);
const std::string kTwo = "\x48\x83\x47" + std::string(1, '\0') + "\x02";  // add qword [rdi + 0], 2

struct Shared {
  volatile std::uint64_t count, stop, handled;
};

volatile std::uint64_t* handled = nullptr;

void linger(int) {
  *handled = *handled + 1;
  for (volatile int i = 0; i < 20000; i = i + 1) continue;
}

class Child {
 public:
  explicit Child(bool signals) {
    const int flags = MAP_SHARED | MAP_ANONYMOUS;
    shared = static_cast<Shared*>(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, flags, -1, 0));
    code =
        static_cast<char*>(mmap(nullptr, kPage, PROT_READ | PROT_WRITE | PROT_EXEC, flags, -1, 0));
    std::memcpy(code, kLoop.data(), kLoop.size());
    pid = fork();
    if (pid == 0) live(signals);
  }
  ~Child() {
    if (pid > 0) end();
    munmap(shared, kPage);
    munmap(code, kPage);
  }

  int end() {
    shared->stop = 1;
    int status = 0;
    waitpid(pid, &status, 0);
    pid = 0;
    return status;
  }

  void wait_for(std::uint64_t more) const {
    for (const std::uint64_t from = shared->count; shared->count - from < more;) usleep(100);
  }

  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(code); }

  Shared* shared;
  char* code;
  int pid;

 private:
  [[noreturn]] void live(bool signals) {
    if (signals) {
      handled = &shared->handled;
      std::signal(SIGALRM, linger);
      const itimerval often{{0, 300}, {0, 300}};
      setitimer(ITIMER_REAL, &often, nullptr);
    }
    reinterpret_cast<void (*)(Shared*)>(code)(shared);
    _exit(23);
  }
};

}  // namespace

TEST_CASE("what is expected is replaced, and nothing else") {
  Child child(false);
  child.wait_for(1000);
  auto done = patch_process(child.pid, {{child.address(), kOne, kTwo}});
  REQUIRE(done);
  CHECK(done->done == std::vector<bool>{true});
  CHECK_FALSE(done->ended);
  CHECK(std::memcmp(child.code, kTwo.data(), kTwo.size()) == 0);
  child.wait_for(1000);
  done = patch_process(child.pid, {{child.address(), kOne, kOne}, {child.address(), kTwo, kOne}});
  REQUIRE(done);
  CHECK(done->done == std::vector<bool>{false, true});
  CHECK(WEXITSTATUS(child.end()) == 23);
}

TEST_CASE("a program that handles signals meanwhile never comes back into the middle") {
  Child child(true);
  child.wait_for(1000);
  int changed = 0;
  for (int turn = 0; turn < 300; ++turn) {
    const bool on = changed % 2 == 0;
    auto done = patch_process(child.pid, {{child.address(), on ? kOne : kTwo, on ? kTwo : kOne}});
    REQUIRE((!done || !done->ended));
    changed += done && done->done[0];
    usleep(50);
  }
  CHECK(changed > 100);
  CHECK(child.shared->handled > 0);
  const int status = child.end();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 23);
}

TEST_CASE("a program that is gone is an error or its end, never a hang") {
  Child child(false);
  kill(child.pid, SIGKILL);
  const int pid = child.pid;
  auto done = patch_process(pid, {{child.address(), kOne, kTwo}});
  if (done && done->ended) {
    CHECK(WIFSIGNALED(done->status));
    child.pid = 0;
  }
  if (child.pid) child.end();
  CHECK_FALSE(patch_process(pid, {{child.address(), kOne, kTwo}}));
}
