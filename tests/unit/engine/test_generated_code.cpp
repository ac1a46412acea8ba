// SPDX-License-Identifier: Apache-2.0
// Code that no file has: its bounds from a map that grows, its bytes from a process's memory.
#include <doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "sources/generated_code.h"

namespace stallscope::sources {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/stallscope-generated-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(folder_); }
  void add(std::uint64_t start, std::size_t size, const char* name) {
    std::ofstream out(folder_ / ("perf-" + std::to_string(getpid()) + ".map"), std::ios::app);
    out << std::hex << start << " " << size << " " << name << "\n";
  }
  std::string path() const { return folder_.native(); }

 private:
  std::filesystem::path folder_;
};

// mov rdi, [rdi]; ret
constexpr std::uint8_t kCode[] = {0x48, 0x8b, 0x3f, 0xc3};

}  // namespace

TEST_CASE("generated code is read out of the process, within the bounds of its name") {
  Folder folder;
  const auto start = reinterpret_cast<std::uint64_t>(kCode);
  folder.add(start, sizeof kCode, "made");
  GeneratedCode code(getpid(), folder.path());
  const FunctionCode* found = code.at(start + 3, kSecond);
  REQUIRE(found != nullptr);
  CHECK(found->start == start);
  CHECK(found->steps.size() == 2);
  CHECK(code.known(start) == found);
  CHECK(code.at(start + sizeof kCode, kSecond) == nullptr);
  CHECK(code.names().name(start) == "made");
}

TEST_CASE("a name that comes later is found, but the map is not read for every sample") {
  Folder folder;
  const auto start = reinterpret_cast<std::uint64_t>(kCode);
  GeneratedCode code(getpid(), folder.path());
  CHECK(code.at(start, kSecond) == nullptr);
  folder.add(start, sizeof kCode, "made");
  CHECK(code.at(start, kSecond + 1) == nullptr);
  CHECK(code.at(start, 2 * kSecond) != nullptr);
}

TEST_CASE("what cannot be read, or is no function, is none, and is asked for once") {
  Folder folder;
  folder.add(0x1000, 64, "gone");
  folder.add(0x10000, 1 << 30, "everything");
  unsigned asked = 0;
  GeneratedCode code(getpid(), folder.path(), [&](pid_t, std::uint64_t, std::size_t) {
    ++asked;
    return std::vector<std::uint8_t>();
  });
  CHECK(code.at(0x1000, kSecond) == nullptr);
  CHECK(code.at(0x1010, 2 * kSecond) == nullptr);
  CHECK(asked == 1);
  CHECK(code.at(0x10000, 2 * kSecond) == nullptr);
  CHECK(asked == 1);
  CHECK(read_process(getpid(), 8, 16).empty());
}

TEST_CASE("a process that is not there has no map of the past") {
  Folder folder;
  GeneratedCode code(0, folder.path());
  CHECK(code.at(0x1000, kSecond) == nullptr);
  CHECK(code.names().empty());
}

}  // namespace stallscope::sources
