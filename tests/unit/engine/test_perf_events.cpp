// SPDX-License-Identifier: Apache-2.0
// Records built byte by byte to the layout that linux/perf_event.h documents: what machines with
// hardware events deliver cannot be made here.
#include <doctest.h>

#include "perf_words.h"

namespace stallscope::sources {
namespace {

constexpr std::uint32_t kMmap = 1, kLost = 2, kComm = 3, kExit = 4, kThrottle = 5, kFork = 7,
                        kSample = 9, kMmap2 = 10, kLostSamples = 13, kSwitch = 14, kSwitchWide = 15;
constexpr std::uint16_t kUser = 2, kExact = 1U << 14;

template <typename Kind>
Kind read(const Bytes& record, const Layout& layout) {
  auto event = parse(record.bytes, layout);
  REQUIRE_MESSAGE(event.ok(), (event.ok() ? "" : event.error().why));
  REQUIRE(std::holds_alternative<Kind>(*event));
  return std::get<Kind>(*event);
}

Layout with(std::uint64_t sample_type, bool sample_id_all = false) {
  Layout layout;
  layout.sample_type = sample_type;
  layout.sample_id_all = sample_id_all;
  return layout;
}

// Every beginning of a record must be refused or read, with each length that a header can claim.
void cut_everywhere(const Bytes& record, const Layout& layout) {
  for (std::size_t size = 0; size < record.bytes.size(); ++size) {
    // A copy of its own, so that a sanitizer sees a step past the end.
    std::vector<std::byte> part(record.bytes.begin(),
                                record.bytes.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK_FALSE(parse(part, layout).ok());  // the header claims more than there is
    if (size < kHeaderBytes) continue;
    const auto claimed = static_cast<std::uint16_t>(size);
    std::memcpy(part.data() + 6, &claimed, 2);
    (void)parse(part, layout);
  }
}

TEST_CASE("a precise load as Intel PEBS gives it") {
  // perf mem record on Ice Lake and newer: WEIGHT_STRUCT and PHYS_ADDR.
  const Layout layout =
      with(kSampleIdentifier | kSampleIp | kSampleTid | kSampleTime | kSampleAddress | kSampleCpu |
           kSamplePeriod | kSampleWeightParts | kSampleDataSource | kSamplePhysical);
  const std::uint64_t source = 0x2 | (0x102ULL << 5) | (0x2ULL << 19) | (0x12ULL << 26);
  Bytes payload;
  payload.u64(77).u64(0x401136).u32(4242).u32(4243).u64(123'456'789'012).u64(0x7f0012345678);
  payload.u32(3).u32(0).u64(10007).u32(212).u16(219).u16(5).u64(source).u64(0x1234567000);
  const Bytes record = perf_record(kSample, kUser | kExact, payload);
  const auto sample = read<Sample>(record, layout);
  CHECK(sample.mode == Mode::user);
  CHECK(sample.exact_ip);
  CHECK(sample.source.id == 77);
  CHECK(sample.source.pid == 4242);
  CHECK(sample.source.tid == 4243);
  CHECK(sample.source.time == 123'456'789'012);
  CHECK(sample.source.cpu == 3);
  CHECK(sample.ip == 0x401136);
  CHECK(sample.address == 0x7f0012345678);
  CHECK(sample.period == 10007);
  CHECK(sample.latency == 212);
  CHECK(sample.weight == 212);
  CHECK(sample.weight_var2 == 219);
  CHECK(sample.weight_var3 == 5);
  CHECK(sample.data_source == source);
  CHECK(sample.physical == 0x1234567000);
  CHECK_FALSE(sample.has(kSampleCallchain));
  cut_everywhere(record, layout);
}

TEST_CASE("a tagged operation as AMD IBS gives it, with its raw registers") {
  const Layout layout =
      with(kSampleIp | kSampleTid | kSampleTime | kSampleAddress | kSampleId | kSampleCpu |
           kSamplePeriod | kSampleRaw | kSampleWeight | kSampleDataSource | kSamplePhysical);
  Bytes payload;
  payload.u64(0xffffffff81000010).u32(9).u32(9).u64(5).u64(0xffff888000000040).u64(8).u32(1).u32(0);
  payload.u64(262144);
  payload.u32(4 + 8 * 8);  // the raw part and its size fill whole words together
  payload.u32(0x1b);       // IBS capabilities, then its registers
  for (std::uint64_t i = 0; i < 8; ++i) payload.u64(0x1000 + i);
  payload.u64(173).u64(0x42).u64(0xabc040);
  const Bytes record = perf_record(kSample, 1, payload);
  const auto sample = read<Sample>(record, layout);
  CHECK(sample.mode == Mode::kernel);
  CHECK_FALSE(sample.exact_ip);
  CHECK(sample.source.id == 8);
  CHECK(sample.raw.size() == 68);
  CHECK(sample.weight == 173);
  CHECK(sample.latency == 173);
  CHECK(sample.weight_var2 == 0);
  CHECK(sample.data_source == 0x42);
  CHECK(sample.physical == 0xabc040);
  cut_everywhere(record, layout);
}

TEST_CASE("a load as perf makes it from Arm SPE") {
  const Layout layout = with(kSampleIp | kSampleTid | kSampleTime | kSampleAddress | kSampleCpu |
                             kSamplePeriod | kSampleWeight | kSampleDataSource | kSamplePhysical);
  Bytes payload;
  payload.u64(0xaaaaaaaa0754).u32(11).u32(12).u64(99).u64(0xffff8c000010).u32(63).u32(0).u64(1);
  payload.u64(31).u64(0x42).u64(0);
  const auto sample = read<Sample>(perf_record(kSample, kUser, payload), layout);
  CHECK(sample.source.cpu == 63);
  CHECK(sample.address == 0xffff8c000010);
  CHECK(sample.latency == 31);
  CHECK(sample.physical == 0);
}

TEST_CASE("a timer sample with call chain and user registers") {
  Layout layout = with(kSampleIp | kSampleTid | kSampleTime | kSampleCpu | kSamplePeriod |
                       kSampleCallchain | kSampleRegsUser);
  layout.regs_user = 0b1000'0000'0101;  // registers 0, 2 and 11
  Bytes payload;
  payload.u64(0x401000).u32(1).u32(2).u64(3).u32(0).u32(0).u64(1'000'000);
  payload.u64(3).u64s({static_cast<std::uint64_t>(-512), 0x401000, 0x402000});
  payload.u64(2).u64s({10, 20, 30});
  const Bytes record = perf_record(kSample, kUser, payload);
  const auto sample = read<Sample>(record, layout);
  REQUIRE(sample.callchain.size() == 3);
  CHECK(sample.callchain[2] == 0x402000);
  CHECK(sample.regs_user.abi == static_cast<std::uint64_t>(RegisterAbi::bits64));
  std::uint64_t value = 0;
  CHECK(sample.regs_user.get(2, value));
  CHECK(value == 20);
  CHECK(sample.regs_user.get(11, value));
  CHECK(value == 30);
  CHECK_FALSE(sample.regs_user.get(1, value));
  CHECK_FALSE(sample.regs_user.get(64, value));
  cut_everywhere(record, layout);
}

TEST_CASE("a kernel thread has no user registers") {
  Layout layout = with(kSampleIp | kSampleRegsUser | kSampleAddress);
  layout.regs_user = 0xff;
  Bytes payload;
  payload.u64(1).u64(7).u64(0);
  const auto sample = read<Sample>(perf_record(kSample, 1, payload), layout);
  CHECK(sample.regs_user.values.empty());
  std::uint64_t value = 0;
  CHECK_FALSE(sample.regs_user.get(0, value));
}

TEST_CASE("every part at once stands where the kernel puts it") {
  Layout layout = with(0x1ffffff & ~static_cast<std::uint64_t>(kSampleWeight | kSampleAux));
  layout.read_format = kReadEnabled | kReadRunning | kReadId | kReadGroup | kReadLost;
  layout.branch_sample_type = kBranchIndex | kBranchCounters;
  layout.regs_user = 1;
  layout.regs_intr = 3;
  Bytes payload;
  payload.u64(1).u64(2).u32(3).u32(4).u64(5).u64(6).u64(1).u64(7).u32(8).u32(0).u64(9);
  payload.u64(2).u64s({100, 90}).u64s({1, 11, 0}).u64s({2, 12, 0});  // two counters of a group
  payload.u64(1).u64(0x55);                                          // call chain
  payload.u32(4).u32(0xdeadbeef);                                    // raw
  payload.u64(1).u64(0).u64s({0x10, 0x20, 0x30}).u64(0x99);          // one branch
  payload.u64(2).u64(0x66);                                          // user registers
  payload.u64(16).u64s({0x77, 0x78}).u64(8);                         // user stack
  payload.u32(40).u16(41).u16(42).u64(0x88).u64(0x89);               // weight, source, transaction
  payload.u64(2).u64s({0x90, 0x91});                                 // registers at the interrupt
  payload.u64(0xa0).u64(0xa1).u64(4096).u64(2 << 20);
  const Bytes record = perf_record(kSample, kUser, payload);
  const auto sample = read<Sample>(record, layout);
  CHECK(sample.source.stream_id == 7);
  CHECK(sample.callchain[0] == 0x55);
  CHECK(sample.raw.size() == 4);
  CHECK(sample.branch(0).to == 0x20);
  CHECK(sample.regs_user.values[0] == 0x66);
  CHECK(sample.stack_user.size() == 8);
  CHECK(sample.latency == 40);
  CHECK(sample.data_source == 0x88);
  CHECK(sample.transaction == 0x89);
  CHECK(sample.regs_intr.values[1] == 0x91);
  CHECK(sample.physical == 0xa0);
  CHECK(sample.cgroup == 0xa1);
  CHECK(sample.data_page_size == 4096);
  CHECK(sample.code_page_size == 2 << 20);
  cut_everywhere(record, layout);
}

TEST_CASE("counts that cannot be are refused, also where a product would wrap") {
  for (const std::uint64_t count : {2UL, 1UL << 61, 0x5555555555555556UL, ~0UL}) {
    Bytes payload;
    payload.u64(count).u64s({1});
    for (const std::uint64_t part : {kSampleCallchain, kSampleBranches, kSampleStackUser})
      CHECK_FALSE(parse(perf_record(kSample, kUser, payload).bytes, with(part)).ok());
    Layout group = with(kSampleRead);
    group.read_format = kReadGroup | kReadId | kReadLost;
    CHECK_FALSE(parse(perf_record(kSample, kUser, payload).bytes, group).ok());
  }
}

TEST_CASE("what a newer kernel puts behind a sample is left out") {
  Bytes payload;
  payload.u64(0x1000).u64(0xfeed);
  const auto sample =
      read<Sample>(perf_record(kSample, kUser, payload), with(kSampleIp | 1U << 30));
  CHECK(sample.ip == 0x1000);
}

Bytes source_of(std::uint32_t pid, std::uint64_t time, std::uint32_t cpu) {
  Bytes source;
  return source.u32(pid).u32(pid + 1).u64(time).u32(cpu).u32(0).u64(0xabc);
}
const Layout kAll = with(kSampleTid | kSampleTime | kSampleCpu | kSampleIdentifier, true);

TEST_CASE("a mapping says where, what and of which process") {
  Bytes payload;
  payload.u32(7).u32(8).u64(0x400000).u64(0x2000).u64(0x1000).text("/usr/bin/true");
  const Bytes record = perf_record(kMmap, kUser, Bytes(payload).append(source_of(7, 99, 1)));
  const auto mapped = read<Mapped>(record, kAll);
  CHECK(mapped.pid == 7);
  CHECK(mapped.start == 0x400000);
  CHECK(mapped.length == 0x2000);
  CHECK(mapped.page_offset == 0x1000);
  CHECK(mapped.path == "/usr/bin/true");
  CHECK_FALSE(mapped.data);
  CHECK_FALSE(mapped.has_detail);
  CHECK(mapped.source.time == 99);
  CHECK(mapped.source.cpu == 1);
  CHECK(mapped.source.tid == 8);
  CHECK(mapped.source.id == 0xabc);
  cut_everywhere(record, kAll);
  CHECK(read<Mapped>(perf_record(kMmap, kUser | 1U << 13, payload), with(kSampleIp)).data);
}

TEST_CASE("a newer mapping has an inode or a build id") {
  Bytes start, inode, build_id;
  start.u32(7).u32(8).u64(0x400000).u64(0x2000).u64(0);
  inode.append(start).u32(8).u32(1).u64(1234).u64(5).u32(5).u32(2).text("//anon");
  const auto by_inode = read<Mapped>(perf_record(kMmap2, kUser, inode), with(0));
  CHECK(by_inode.inode == 1234);
  CHECK(by_inode.major == 8);
  CHECK(by_inode.protection == 5);
  CHECK(by_inode.flags == 2);
  CHECK(by_inode.build_id.empty());
  build_id.append(start).u8(20).u8(0).u16(0);
  for (std::uint8_t i = 0; i < 20; ++i) build_id.u8(i);
  build_id.u32(5).u32(2).text("/lib/x.so");
  const Bytes record = perf_record(kMmap2, kUser | 1U << 14, build_id);
  const auto by_build_id = read<Mapped>(record, with(0));
  REQUIRE(by_build_id.build_id.size() == 20);
  CHECK(by_build_id.build_id[19] == std::byte{19});
  CHECK(by_build_id.inode == 0);
  CHECK(by_build_id.protection == 5);
  CHECK(by_build_id.path == "/lib/x.so");
  cut_everywhere(record, with(0));
}

TEST_CASE("a name without its zero ends with the record") {
  Bytes payload;
  payload.u32(1).u32(2).u64(0x4141414141414141);
  CHECK(read<Named>(perf_record(kComm, 1U << 13, payload), with(0)).name == "AAAAAAAA");
  CHECK(read<Named>(perf_record(kComm, 1U << 13, payload), with(0)).exec);
  Bytes none;
  none.u32(1).u32(2);
  CHECK(read<Named>(perf_record(kComm, 0, none), with(0)).name.empty());
}

TEST_CASE("threads begin and end, samples get lost, the kernel throttles and switches") {
  Bytes life;
  life.u32(10).u32(1).u32(11).u32(1).u64(500);
  const auto forked = read<Forked>(perf_record(kFork, 0, life), with(0));
  CHECK(forked.pid == 10);
  CHECK(forked.parent_pid == 1);
  CHECK(forked.tid == 11);
  CHECK(forked.time == 500);
  CHECK(read<Exited>(perf_record(kExit, 0, life), with(0)).tid == 11);

  Bytes lost, few;
  lost.u64(5).u64(1000);
  CHECK(read<Lost>(perf_record(kLost, 0, lost), with(0)).count == 1000);
  few.u64(3).append(source_of(1, 2, 0));
  const auto samples = read<Lost>(perf_record(kLostSamples, 0, few), kAll);
  CHECK(samples.count == 3);
  CHECK(samples.samples);
  CHECK(samples.id == 0xabc);

  Bytes throttle;
  throttle.u64(1).u64(2).u64(3);
  CHECK(read<Throttled>(perf_record(kThrottle, 0, throttle), with(0)).begins);
  CHECK_FALSE(read<Throttled>(perf_record(kThrottle + 1, 0, throttle), with(0)).begins);

  CHECK(read<Switched>(perf_record(kSwitch, 1U << 13, Bytes()), with(0)).out);
  Bytes wide;
  wide.u32(3).u32(4);
  const auto switched = read<Switched>(perf_record(kSwitchWide, 0, wide), with(0));
  CHECK_FALSE(switched.out);
  CHECK(switched.other_tid == 4);
}

TEST_CASE("a record of an unknown type is handed on whole") {
  Bytes payload;
  payload.u64(1).append(source_of(1, 44, 0));
  const auto other = read<Other>(perf_record(40, 0, payload), kAll);
  CHECK(other.type == 40);
  CHECK(other.payload.size() == payload.bytes.size());
  CHECK(other.source.time == 44);
  Bytes round;  // written by perf, without a source
  CHECK(read<Other>(perf_record(68, 0, round), kAll).source.time == 0);
}

TEST_CASE("an error says which record ends where") {
  Bytes payload;
  payload.u64(0x1000);
  const auto event =
      parse(perf_record(kSample, kUser, payload).bytes, with(kSampleIp | kSampleTid));
  REQUIRE_FALSE(event.ok());
  CHECK(event.error().why == "a record of type sample has 16 bytes and ends inside its identity");
}

}  // namespace
}  // namespace stallscope::sources
