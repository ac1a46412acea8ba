// SPDX-License-Identifier: Apache-2.0
// Which event samples loads, from folders laid out as the kernel's: no machine here has one.
#include <doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "sources/precise.h"

namespace stallscope::sources {
namespace {

class Devices {
 public:
  Devices() {
    char name[] = "/tmp/stallscope-devices-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~Devices() { std::filesystem::remove_all(folder_); }
  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text << "\n";
  }
  std::string path() const { return folder_.native(); }

 private:
  std::filesystem::path folder_;
};

}  // namespace

TEST_CASE("Intel's loads are asked for with their latency") {
  Devices devices;
  devices.write("cpu/type", "4");
  devices.write("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3");
  auto found = find_precise_loads(0, devices.path());
  REQUIRE(found.ok());
  CHECK(found->name == "cpu/mem-loads/");
  CHECK(found->config == 0x1cd);
  CHECK(found->config1 == 3);
  CHECK(find_precise_loads(50, devices.path())->config1 == 50);
  perf_event_attr attributes{};
  attributes.exclude_kernel = 1;
  ask_for(*found, 1000, attributes);
  CHECK(attributes.type == 4);
  CHECK(+attributes.freq == 1);
  CHECK(attributes.sample_freq == 1000);
  CHECK(+attributes.precise_ip == 2);
  CHECK(+attributes.exclude_kernel == 1);
  CHECK((attributes.sample_type & PERF_SAMPLE_DATA_SRC) != 0);
}

TEST_CASE("of two kinds of cores the large ones are sampled") {
  Devices devices;
  devices.write("cpu_core/type", "4");
  devices.write("cpu_core/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3");
  devices.write("cpu_atom/type", "10");
  CHECK(find_precise_loads(0, devices.path())->name == "cpu_core/mem-loads/");
}

TEST_CASE("AMD's IBS has no latency to ask for and samples the kernel too") {
  Devices devices;
  devices.write("ibs_op/type", "11");
  auto found = find_precise_loads(50, devices.path());
  REQUIRE(found.ok());
  CHECK(found->type == 11);
  CHECK(found->config == 0);
  perf_event_attr attributes{};
  attributes.exclude_kernel = 1;
  ask_for(*found, 1000, attributes);
  CHECK(+attributes.exclude_kernel == 0);
  CHECK(+attributes.precise_ip == 0);
}

TEST_CASE("without such a unit there is a sentence that says what works instead") {
  Devices devices;
  auto none = find_precise_loads(0, devices.path());
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().now.find("--source clock") != std::string::npos);
  devices.write("arm_spe_0/type", "9");
  CHECK(find_precise_loads(0, devices.path()).error().why.find("SPE") != std::string::npos);
  devices.write("cpu/type", "4");  // and what makes no sense is no event
  devices.write("cpu/events/mem-loads", "event=zz");
  CHECK_FALSE(find_precise_loads(0, devices.path()).ok());
}

}  // namespace stallscope::sources
