// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "target/perf_map.h"

namespace stallscope::target {
namespace {

std::uint64_t monotonic() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

struct Folder {
  std::filesystem::path path;
  Folder() {
    char name[] = "/tmp/perf-map-test-XXXXXX";
    path = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path map() const { return path / "perf-7.map"; }
  PerfMap read(std::uint64_t started, std::uint64_t ended = 0) const {
    return PerfMap::of_process(7, started, ended, path.string());
  }
};

TEST_CASE("a perf map names the code between start and end") {
  const PerfMap map("1000 10 first function\n0x2000 0x8 second\n");
  CHECK(map.name(0xfff).empty());
  CHECK(map.name(0x1000) == "first function");
  CHECK(map.name(0x100f) == "first function");
  CHECK(map.name(0x1010).empty());
  CHECK(map.name(0x2007) == "second");
}

TEST_CASE("of two entries with one start the later counts") {
  const PerfMap map("1000 10 old\n1000 20 new\n");
  CHECK(map.name(0x1018) == "new");
}

TEST_CASE("what is no entry is left out") {
  for (const char* text : {"", "\n\n", "1000", "1000 10", "1000 10 ", "xyz 10 a", "1000 zz a",
                           "ffffffffffffffff 10 wraps", "11112222333344445 1 too long", " 1 1 a"})
    CHECK_MESSAGE(PerfMap(text).empty(), text);
  CHECK(PerfMap("nonsense\n1000 10 good").name(0x1001) == "good");
}

TEST_CASE("only a file of the process's own time and user is believed") {
  const Folder folder;
  const std::uint64_t hour = 3'600'000'000'000;
  CHECK(folder.read(monotonic()).empty());  // there is none
  std::ofstream(folder.map()) << "1000 10 mine\n";
  CHECK(folder.read(monotonic()).name(0x1000) == "mine");
  CHECK(folder.read(monotonic() + hour).empty());                          // before it began
  CHECK(folder.read(monotonic() - 2 * hour, monotonic() - hour).empty());  // after it ended
}

TEST_CASE("links, folders and pipes are not followed") {
  const Folder folder;
  std::ofstream(folder.path / "other") << "1000 10 other\n";
  std::filesystem::create_symlink(folder.path / "other", folder.map());
  CHECK(folder.read(monotonic()).empty());
  std::filesystem::remove(folder.map());
  REQUIRE(mkfifo(folder.map().c_str(), 0600) == 0);
  CHECK(folder.read(monotonic()).empty());  // and does not wait for a writer
  std::filesystem::remove(folder.map());
  std::filesystem::create_directory(folder.map());
  CHECK(folder.read(monotonic()).empty());
}

}  // namespace
}  // namespace stallscope::target
