// SPDX-License-Identifier: Apache-2.0
// Which event samples loads, from folders laid out as the kernel's: no machine here has one.
#include <doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "sources/precise.h"
#include "sources/spe_records.h"

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

TEST_CASE("newer processors of Intel want an event beside the loads, which leads their group") {
  Devices devices;
  devices.write("cpu/type", "4");
  devices.write("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3");
  CHECK_FALSE(find_precise_loads(0, devices.path())->leader.has_value());
  devices.write("cpu/events/mem-loads-aux", "event=0x03,umask=0x82");
  auto found = find_precise_loads(0, devices.path());
  REQUIRE(found.ok());
  REQUIRE(found->leader.has_value());
  CHECK(*found->leader == 0x8203);
  perf_event_attr attributes{};
  attributes.inherit = attributes.disabled = attributes.enable_on_exec = attributes.mmap2 = 1;
  attributes.exclude_kernel = 1;
  ask_for(*found, 1000, attributes);
  const perf_event_attr leader = leader_of(*found, attributes);
  CHECK(leader.type == 4);
  CHECK(leader.config == 0x8203);
  CHECK(leader.config1 == 0);
  CHECK(leader.sample_period == 0);  // it only counts
  CHECK(+leader.freq == 0);
  CHECK(+leader.precise_ip == 0);
  CHECK(+leader.mmap2 == 0);  // mappings are told once
  // What both must agree in.
  CHECK(+leader.inherit == 1);
  CHECK(+leader.enable_on_exec == 1);
  CHECK(+leader.exclude_kernel == 1);
}

TEST_CASE("Arm's SPE is asked for loads with their times, by operations and not by time") {
  Devices devices;
  devices.write("arm_spe_0/type", "9");
  devices.write("arm_spe_0/cpumask", "0-3");
  devices.write("arm_spe_0/caps/min_interval", "1024");
  devices.write("arm_spe_0/format/ts_enable", "config:0");
  devices.write("arm_spe_0/format/jitter", "config:16");
  devices.write("arm_spe_0/format/load_filter", "config:33");
  devices.write("arm_spe_0/format/min_latency", "config2:0-11");
  auto found = find_precise_loads(30, devices.path());
  REQUIRE(found.ok());
  CHECK(found->name == "arm_spe_0//");
  CHECK(found->packets);
  CHECK(found->processors == "0-3");
  CHECK(found->config == (1UL << 0 | 1UL << 16 | 1UL << 33));
  CHECK(found->config2 == 30);
  CHECK(find_precise_loads(70'000, devices.path())->config2 == 0xfff);  // as much as it holds
  perf_event_attr attributes{};
  attributes.exclude_kernel = 1;
  attributes.sample_regs_user = 7;
  ask_for(*found, 1000, attributes);
  CHECK(attributes.type == 9);
  CHECK(+attributes.freq == 0);
  CHECK(attributes.sample_period == 500'000);
  CHECK(attributes.config2 == 30);
  CHECK(attributes.sample_type == kSpeSampleType);
  CHECK(attributes.sample_regs_user == 0);  // there are no samples that could have them
  CHECK(attributes.aux_watermark > 0);
  CHECK(+attributes.exclude_kernel == 1);
  ask_for(*found, 10'000'000, attributes);
  CHECK(attributes.sample_period == 1024);  // no more often than the processor can
}

TEST_CASE("settings of SPE that make no sense are left alone") {
  Devices devices;
  devices.write("arm_spe_0/type", "9");
  devices.write("arm_spe_0/format/ts_enable", "config:99");
  devices.write("arm_spe_0/format/load_filter", "config");
  devices.write("arm_spe_0/format/min_latency", "config2:11-0");
  auto found = find_precise_loads(30, devices.path());
  REQUIRE(found.ok());
  CHECK(found->config == 0);
  CHECK(found->config2 == 0);
}

TEST_CASE("without such a unit there is a sentence that says what works instead") {
  Devices devices;
  auto none = find_precise_loads(0, devices.path());
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().now.find("--source clock") != std::string::npos);
  CHECK(none.error().why.find("arm_spe_0") != std::string::npos);
  devices.write("arm_spe_0/type", "none");
  CHECK_FALSE(find_precise_loads(0, devices.path()).ok());
  devices.write("cpu/type", "4");  // and what makes no sense is no event
  devices.write("cpu/events/mem-loads", "event=zz");
  CHECK_FALSE(find_precise_loads(0, devices.path()).ok());
}

}  // namespace stallscope::sources
