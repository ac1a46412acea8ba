// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>
#include <zstd.h>

#include "perf_file.h"
#include "sources/perf_samples.h"

namespace stallscope::sources {
namespace {

constexpr std::uint64_t kType = kSampleIdentifier | kSampleIp | kSampleTid | kSampleTime;
constexpr std::uint32_t kRoundEnd = 68, kCompressed = 81;

Bytes sample(std::uint64_t id, std::uint64_t ip, std::uint64_t time) {
  Bytes payload;
  return perf_record(9, 2, payload.u64(id).u64(ip).u32(1).u32(1).u64(time));
}
Bytes round_end() { return perf_record(kRoundEnd, 0, Bytes()); }

struct Read {
  Status status;
  PerfSamples samples;
  std::vector<PerfNote> notes;
  PerfFacts facts;
};

Read read(const std::vector<std::byte>& bytes) {
  auto file = PerfData::open(stream::from_memory(bytes), "x.data");
  if (!file) return {file.error(), {}, {}, {}};
  SampleCollector collector;
  Status status = file->read(collector);
  return {status, collector.samples, file->notes(), file->facts()};
}

PerfFile two_events() {
  PerfFile file;
  file.events = {{perf_attribute(kType, 0), {11, 12}}, {perf_attribute(kType, 2), {21}}};
  return file;
}

bool has_note(const Read& found, const char* kind) {
  for (const PerfNote& note : found.notes)
    if (note.kind == kind) return true;
  return false;
}

TEST_CASE("samples come in the order of their times, each with its event") {
  PerfFile file = two_events();
  file.data.append(sample(11, 0xa, 300)).append(sample(21, 0xb, 100)).append(round_end());
  file.data.append(sample(12, 0xc, 200)).append(sample(12, 0xd, 100)).append(round_end());
  file.data.append(sample(99, 0xe, 400));
  const Read found = read(file.bytes());
  REQUIRE(found.status.ok());
  CHECK(found.samples.ip == std::vector<std::uint64_t>{0xb, 0xd, 0xc, 0xa, 0xe});
  CHECK(found.samples.event[0] == "page-faults");
  CHECK(found.samples.event[1] == "cpu-clock");
  CHECK(found.samples.event[4].empty());
  CHECK(has_note(found, "unknown_event"));
}

TEST_CASE("names, hosts and build ids come from the features") {
  PerfFile file = two_events();
  file.data.append(sample(21, 1, 1));
  Bytes build_id, names, command;
  build_id.u32(67).u16(2).u16(8 + 4 + 24 + 16).u32(7);
  for (std::uint8_t i = 0; i < 24; ++i) build_id.u8(i);
  build_id.text("/bin/something");
  build_id.bytes.resize(52);
  names.u32(2).u32(kAttributeBytes);
  names.append(perf_attribute(kType, 0)).u32(0).append(perf_text("first"));
  names.append(perf_attribute(kType, 2)).u32(0).append(perf_text("second"));
  command.u32(2).append(perf_text("perf")).append(perf_text("record"));
  file.features = {{2, build_id}, {3, perf_text("here")}, {11, command}, {12, names}};
  const Read found = read(file.bytes());
  REQUIRE(found.status.ok());
  CHECK(found.samples.event[0] == "second");
  CHECK(found.facts.hostname == "here");
  CHECK(found.facts.command == std::vector<std::string>{"perf", "record"});
  REQUIRE(found.facts.build_ids.size() == 1);
  CHECK(found.facts.build_ids[0].path == "/bin/something");
  CHECK(found.facts.build_ids[0].build_id.size() == 20);
  CHECK(found.notes.empty());
}

TEST_CASE("compressed records are unpacked, also where one ends inside a record") {
  Bytes plain;
  for (std::uint64_t i = 0; i < 100; ++i) plain.append(sample(11, 0x1000 + i, 5 + i));
  ZSTD_CCtx* context = ZSTD_createCCtx();
  PerfFile file = two_events();
  for (std::size_t at = 0; at < plain.bytes.size(); at += 1001) {
    const std::size_t size = std::min<std::size_t>(1001, plain.bytes.size() - at);
    std::vector<std::byte> packed(ZSTD_compressBound(size) + 64);
    ZSTD_inBuffer in{plain.bytes.data() + at, size, 0};
    ZSTD_outBuffer out{packed.data(), packed.size(), 0};
    REQUIRE(ZSTD_compressStream2(context, &out, &in, ZSTD_e_flush) == 0);
    packed.resize(out.pos);
    Bytes payload;
    payload.bytes = packed;
    file.data.append(perf_record(kCompressed, 0, payload));
  }
  ZSTD_freeCCtx(context);
  const Read found = read(file.bytes());
  REQUIRE_MESSAGE(found.status.ok(), (found.status.ok() ? "" : found.status.error().why));
  REQUIRE(found.samples.ip.size() == 100);
  CHECK(found.samples.ip[99] == 0x1000 + 99);
  Bytes limit;
  limit.u32(0).u32(1).u32(1).u32(1).u32(64);  // no record unpacks to more than 64 bytes
  file.features = {{27, limit}};
  const Read bomb = read(file.bytes());
  REQUIRE_FALSE(bomb.status.ok());
  CHECK(bomb.status.error().why == "a compressed record: it unpacks to more than it may");
}

TEST_CASE("a file that went through a pipe brings its events along") {
  Bytes file;
  file.u64(0x32454c4946524550).u64(16);
  file.append(perf_record(64, 0, perf_attribute(kType, 0).u64(5)));
  file.append(perf_record(64, 0, perf_attribute(kType, 2).u64(6)));
  Bytes name;
  file.append(perf_record(78, 0, name.u64(2).u64(6).text("faults")));
  Bytes host;
  file.append(perf_record(80, 0, host.u64(3).append(perf_text("there"))));
  file.append(sample(6, 0x42, 9));
  const Read found = read(file.bytes);
  REQUIRE(found.status.ok());
  CHECK(found.facts.piped);
  CHECK(found.facts.hostname == "there");
  CHECK(found.samples.event[0] == "faults");
}

TEST_CASE("what a tracer wrote is stepped over, and told") {
  PerfFile file = two_events();
  Bytes payload;
  payload.u64(24).u64s({0, 0, 0, 0});
  file.data.append(perf_record(71, 0, payload)).u64s({~0UL, ~0UL, ~0UL}).append(sample(11, 3, 3));
  const Read found = read(file.bytes());
  REQUIRE(found.status.ok());
  CHECK(found.samples.ip.size() == 1);
  CHECK(has_note(found, "tracer"));
}

TEST_CASE("a newer perf: what is not known is left out and told") {
  PerfFile file = two_events();
  Bytes nothing;
  file.data.append(perf_record(200, 0, nothing)).append(perf_record(60, 0, nothing));
  file.data.append(sample(11, 3, 3));
  file.features = {{250, perf_text("what")}};
  const Read found = read(file.bytes());
  REQUIRE(found.status.ok());
  CHECK(found.samples.ip.size() == 1);
  CHECK(has_note(found, "newer_records"));
  CHECK(has_note(found, "newer_perf"));
}

TEST_CASE("of a file that is cut off anywhere, the whole records in front are read") {
  PerfFile file = two_events();
  for (std::uint64_t i = 0; i < 5; ++i) file.data.append(sample(11, i, i + 1));
  file.features = {{3, perf_text("here")}};
  const std::vector<std::byte> whole = file.bytes();
  const std::size_t data = 104 + 24 + 2 * 144;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::byte> part(whole.begin(),
                                      whole.begin() + static_cast<std::ptrdiff_t>(size));
    const Read found = read(part);
    if (size < data) {
      CHECK_FALSE(found.status.ok());
      continue;
    }
    REQUIRE(found.status.ok());
    CHECK(found.samples.ip.size() == std::min<std::size_t>((size - data) / 40, 5));
    CHECK(has_note(found, "truncated"));
  }
}

TEST_CASE("perf was killed before it could write the length") {
  PerfFile file = two_events();
  file.data.append(sample(11, 1, 1));
  std::vector<std::byte> bytes = file.bytes();
  std::memset(bytes.data() + 48, 0, 8);
  const Read found = read(bytes);
  REQUIRE(found.status.ok());
  CHECK(found.samples.ip.size() == 1);
  CHECK(has_note(found, "truncated"));
}

std::string why(const std::vector<std::byte>& bytes) {
  const Read found = read(bytes);
  return found.status.ok() ? "" : found.status.error().what + ": " + found.status.error().why;
}

TEST_CASE("what is no perf.data is refused with a sentence") {
  std::vector<std::byte> bytes = two_events().bytes();
  CHECK(why({}) == "x.data is no perf.data file: it is empty");
  std::vector<std::byte> text(64, std::byte{'x'});
  CHECK(why(text) == "x.data is no perf.data file: it does not begin with PERFILE2");
  std::memcpy(text.data(), "2ELIFREP", 8);
  CHECK(why(text) ==
        "x.data was recorded on a big-endian machine: only files of little-endian machines are "
        "read");
}

TEST_CASE("damage is told with its place") {
  PerfFile file = two_events();
  file.data.append(sample(11, 1, 1));
  const std::size_t at = 104 + 24 + 2 * 144 + file.data.bytes.size();
  file.data.u64(9);  // a sample of no bytes
  CHECK(why(file.bytes()) ==
        "x.data is damaged at byte " + std::to_string(at) + ": a record has no length");
  file = two_events();
  Bytes payload;
  file.data.append(perf_record(9, 2, payload.u64(11)));
  CHECK(why(file.bytes()).find("ends inside its identity") != std::string::npos);
}

TEST_CASE("sizes that reach beyond the file are refused") {
  PerfFile file = two_events();
  file.data.append(sample(11, 1, 1));
  const std::vector<std::byte> whole = file.bytes();
  for (std::size_t at = 8; at < 104 + 24 + 2 * 144; at += 8) {
    for (const std::uint64_t value : {0UL, 1UL, 1UL << 32, 1UL << 63, ~0UL - 7, ~0UL}) {
      std::vector<std::byte> bytes = whole;
      std::memcpy(bytes.data() + at, &value, 8);
      (void)read(bytes);
    }
  }
}

TEST_CASE("data sources become words") {
  // As an Intel machine gave it: a load that hit the first level and the TLB.
  DataSource source = decode_data_source(0x68100142);
  CHECK(source.operation == DataSource::Operation::load);
  CHECK(source.served() == "L1 hit");
  CHECK(source.snoop == DataSource::Snoop::none);
  CHECK(source.tlb_text() == "L1 or L2 hit");
  CHECK_FALSE(source.locked);
  CHECK(decode_data_source(0x6a100142).locked);
  CHECK(decode_data_source(2 | (0x12ULL << 5)).served() == "LFB hit");
  CHECK(decode_data_source(2 | (0x82ULL << 5)).served() == "RAM");
  CHECK(decode_data_source(2 | (0x102ULL << 5)).served() == "remote RAM");
  // Another core's modified line.
  CHECK(decode_data_source(2 | (0x42ULL << 5) | (0x10ULL << 19)).served() == "L3 hit, modified");
  CHECK(decode_data_source(2 | (0x402ULL << 5) | (0x10ULL << 19)).served() ==
        "remote cache hit, modified");
  // The newer numbers: level, remote and hops.
  source = decode_data_source(4 | (0xdULL << 33) | (1ULL << 37) | (3ULL << 43));
  CHECK(source.operation == DataSource::Operation::store);
  CHECK(source.served() == "remote RAM");
  CHECK(source.hops == 3);
  CHECK(decode_data_source(0).served().empty());
  CHECK(decode_data_source(2 | (0x14ULL << 26) | (0x20ULL << 26)).tlb_text() == "L2 miss, walked");
}

}  // namespace
}  // namespace stallscope::sources
