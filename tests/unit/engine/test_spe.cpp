// SPDX-License-Identifier: Apache-2.0
// Arm's SPE: packets, records, samples, and the AUX area that they come through. No machine here
// has it; every byte is built to the documented layout.
#include <doctest.h>

#include <random>

#include "sources/aux_area.h"
#include "sources/data_source.h"
#include "spe_words.h"

namespace stallscope::sources {
namespace {

std::vector<SpeRecord> records_in(const Bytes& bytes, std::uint64_t* damaged = nullptr,
                                  std::size_t at_once = ~std::size_t{0}) {
  SpeReader reader;
  std::vector<SpeRecord> found;
  std::span<const std::byte> rest(bytes.bytes);
  while (!rest.empty()) {
    const std::size_t size = std::min(at_once, rest.size());
    reader.feed(rest.first(size), [&](const SpeRecord& record) { found.push_back(record); });
    rest = rest.subspan(size);
  }
  reader.end();
  if (damaged) *damaged = reader.damaged();
  return found;
}

SpePacket packet(const Bytes& bytes, std::uint64_t offset = 0) {
  const auto found = first_packet(bytes.bytes, offset);
  REQUIRE(found.has_value());
  return *found;
}

Sample sample_of(const SpeRecord& record, std::uint64_t midr) {
  SpeOrigin origin;
  origin.pid = 7;
  origin.tid = 8;
  origin.cpu = 3;
  origin.time = 1000;
  origin.period = 4096;
  origin.midr = midr;
  std::vector<std::byte> bytes;
  append_sample(record, origin, 9, bytes);
  auto parsed = parse(bytes, Layout{kSpeSampleType});
  REQUIRE(parsed.ok());
  return std::get<Sample>(*parsed);
}

std::string served(const SpeRecord& record, std::uint64_t midr) {
  return decode_data_source(data_source_of(record, midr)).served();
}

}  // namespace

TEST_CASE("SPE: every kind of packet, by its header") {
  CHECK(packet(SpeBytes().padding(1)).kind == SpeKind::padding);
  CHECK(packet(SpeBytes().end()).kind == SpeKind::end);
  const SpePacket time = packet(SpeBytes().timestamp(0x1122334455667788));
  CHECK(time.kind == SpeKind::timestamp);
  CHECK(time.payload == 0x1122334455667788);
  CHECK(time.bytes == 9);
  const SpePacket data = packet(SpeBytes().data(0x42));
  CHECK(data.kind == SpeKind::address);
  CHECK(data.index == static_cast<unsigned>(SpeAddress::data));
  const SpePacket latency = packet(SpeBytes().counter(2, 77));
  CHECK(latency.kind == SpeKind::counter);
  CHECK(latency.index == static_cast<unsigned>(SpeCounter::translation));
  CHECK(latency.payload == 77);
  CHECK(latency.bytes == 3);
  CHECK(packet(SpeBytes().operation(2, 1)).index == 2);
  CHECK(packet(SpeBytes().context(4711)).payload == 4711);
  CHECK(packet(SpeBytes().source(0xe)).payload == 0xe);
}

TEST_CASE("SPE: a payload has the size that its header says") {
  const std::size_t sizes[] = {1, 2, 4, 8};
  for (unsigned i = 0; i < 4; ++i) {
    Bytes events;
    events.u8(static_cast<std::uint8_t>(0x42 | i << 4)).u64(0x8877665544332211);
    const SpePacket found = packet(events);
    CHECK(found.kind == SpeKind::events);
    CHECK(found.bytes == 1 + sizes[i]);
    CHECK(found.payload == (0x8877665544332211 & (~0UL >> (64 - 8 * sizes[i]))));
  }
}

TEST_CASE("SPE: an extended header counts farther, and fills up to aligned places") {
  Bytes far;
  far.u8(0x21).u8(0x9a).u16(5);
  const SpePacket counter = packet(far);
  CHECK(counter.kind == SpeKind::counter);
  CHECK(counter.index == (1 << 3 | 2));
  CHECK(counter.bytes == 4);
  Bytes aligned;
  aligned.u8(0x22).u8(0).u64(0).u64(0);
  CHECK(packet(aligned, 3).bytes == 5);  // up to a multiple of 8
  CHECK(packet(aligned, 8).bytes == 8);
  CHECK(packet(aligned, 15).bytes == 9);  // its header alone goes beyond
  CHECK(packet(Bytes().u8(0x20).u8(0x42).u64(0)).kind == SpeKind::unknown);
}

TEST_CASE("SPE: a packet that is not all there is no packet yet") {
  const SpeBytes whole = SpeBytes().data(1);
  for (std::size_t size = 0; size < whole.bytes.size(); ++size)
    CHECK_FALSE(first_packet(std::span(whole.bytes).first(size), 0).has_value());
  CHECK(packet(Bytes().u8(0xff)).kind == SpeKind::unknown);
}

TEST_CASE("SPE: a load has its instruction, address, latencies, events, source and time") {
  const auto found = records_in(spe_load(0x400123, 0x7f0000001000, 0xe, 99, 555));
  REQUIRE(found.size() == 1);
  const SpeRecord& load = found[0];
  CHECK(load.operation == SpeRecord::Operation::load);
  CHECK(load.mode == Mode::user);
  CHECK(*load.instruction == 0x400123);
  CHECK(*load.address == 0x7f0000001000);
  CHECK(load.total == 180);
  CHECK(load.issue == 20);
  CHECK(load.translation == 3);
  CHECK((load.events & kSpeL1Access) != 0);
  CHECK(*load.source == 0xe);
  CHECK(*load.thread == 555);
  CHECK(*load.timer == 99);
}

TEST_CASE("SPE: addresses lose their tags and get back their high byte") {
  SpeBytes bytes;
  bytes.instruction(0x00ff800008001000, 1).operation(1, 1).data(0x2a00ffff12345678).end();
  bytes.instruction(0x00ff800008001000, 2).operation(1, 1).data(0x00ff000012345678).end();
  const auto found = records_in(bytes);
  REQUIRE(found.size() == 2);
  CHECK(found[0].mode == Mode::kernel);
  CHECK(*found[0].instruction == 0xffff800008001000);
  CHECK(*found[0].address == 0x0000ffff12345678);
  CHECK(found[0].operation == SpeRecord::Operation::store);
  CHECK(*found[1].address == 0xffff000012345678);
  CHECK_FALSE(found[1].timer.has_value());
}

TEST_CASE("SPE: what accesses no data is no access, and an atomic one is locked") {
  SpeBytes bytes;
  bytes.instruction(0x10).operation(2, 1).branch(0x20).end();
  bytes.instruction(0x10).operation(0, 0).counter(0, 4).end();
  bytes.instruction(0x10).operation(1, 0).end();                // its address was not sampled
  bytes.instruction(0x10).operation(1, 0x06).data(0x99).end();  // atomic
  bytes.instruction(0x10).operation(1, 0x12).data(0x99).end();  // acquire: nothing is locked
  bytes.instruction(0x10).operation(1, 0x04).data(0x99).end();  // of a vector register
  const auto found = records_in(bytes);
  REQUIRE(found.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) CHECK(is_access(found[i]) == (i >= 3));
  CHECK(found[3].locked);
  CHECK_FALSE(found[4].locked);
  CHECK_FALSE(found[5].locked);
}

TEST_CASE("SPE: what a source packet means is known of Arm's own cores") {
  const struct {
    std::uint8_t source;
    const char* text;
  } kAll[] = {{0x0, "L1 hit"}, {0x8, "L2 hit"}, {0xb, "L3 hit"}, {0xe, "RAM"}};
  for (const auto& [source, text] : kAll) {
    const auto found = records_in(spe_load(1, 2, source, 3));
    CHECK(served(found.at(0), kNeoverseN1).find(text) == 0);
    CHECK(served(found.at(0), 0xc00fac30).find("L1 hit") == 0);  // another maker: by its events
  }
  const DataSource remote =
      decode_data_source(data_source_of(records_in(spe_load(1, 2, 0xd, 3)).at(0), kNeoverseN1));
  CHECK(remote.remote);
  CHECK(remote.peer);
}

TEST_CASE("SPE: without a source the events tell the farthest level") {
  const auto with = [](std::uint32_t events) {
    SpeBytes bytes;
    bytes.instruction(1).operation(1, 0).data(2).events(events).end();
    return records_in(bytes).at(0);
  };
  CHECK(served(with(1U << 2), 0) == "L1 hit");
  CHECK(served(with(1U << 2 | 1U << 3), 0) == "L1 miss");
  CHECK(served(with(1U << 2 | 1U << 3 | 1U << 19), 0) == "L2 hit");
  CHECK(served(with(1U << 3 | 1U << 8), 0) == "L3 hit");
  CHECK(served(with(1U << 3 | 1U << 8 | 1U << 9), 0) == "L3 miss");
  CHECK(decode_data_source(data_source_of(with(1U << 10), 0)).remote);
  CHECK(served(with(0), 0).empty());
  const DataSource walked = decode_data_source(data_source_of(with(1U << 4 | 1U << 5), 0));
  CHECK(walked.tlb == DataSource::Found::miss);
  CHECK(walked.tlb_walked);
}

TEST_CASE("SPE: a record becomes a sample as the kernel makes them") {
  const Sample sample = sample_of(records_in(spe_load(0x400123, 0x1000, 8, 3)).at(0), kNeoverseN1);
  CHECK(sample.ip == 0x400123);
  CHECK(sample.mode == Mode::user);
  CHECK(sample.exact_ip);
  CHECK(sample.address == 0x1000);
  CHECK(sample.latency == 160);  // of the access itself: it waited 20 cycles to be issued
  CHECK(sample.source.pid == 7);
  CHECK(sample.source.tid == 8);
  CHECK(sample.source.cpu == 3);
  CHECK(sample.source.time == 1000);
  CHECK(sample.period == 4096);
  CHECK(decode_data_source(sample.data_source).operation == DataSource::Operation::load);
}

TEST_CASE("SPE: bytes may come in any pieces") {
  SpeBytes bytes;
  for (unsigned i = 0; i < 20; ++i) bytes.append(spe_load(i, i * 64, 8, i)).u8(0);
  for (std::size_t at_once : {1, 2, 3, 7, 64, 1000}) {
    std::uint64_t damaged = 1;
    CHECK(records_in(bytes, &damaged, at_once).size() == 20);
    CHECK(damaged == 0);
  }
}

TEST_CASE("SPE: what is no packet costs its record and the next, and nothing else") {
  SpeBytes bytes;
  bytes.append(spe_load(1, 1, 8, 1));
  bytes.instruction(2).u8(0xff).u8(0xee);  // no packets
  bytes.data(2).timestamp(2);
  for (unsigned i = 3; i < 10; ++i) bytes.append(spe_load(i, i, 8, i));
  std::uint64_t damaged = 0;
  const auto found = records_in(bytes, &damaged);
  CHECK(damaged == 2);
  REQUIRE(found.size() == 7);
  CHECK(*found[0].instruction == 1);
  CHECK(*found[1].instruction == 4);
}

TEST_CASE("SPE: a record that is cut off is left out") {
  SpeBytes bytes = spe_load(1, 1, 8, 1);
  bytes.append(spe_load(2, 2, 8, 2));
  bytes.bytes.resize(bytes.bytes.size() - 4);
  std::uint64_t damaged = 0;
  CHECK(records_in(bytes, &damaged).size() == 1);
  CHECK(damaged == 1);
}

TEST_CASE("SPE: whatever the bytes are, they are read to their end") {
  std::mt19937 random(7);
  for (unsigned round = 0; round < 200; ++round) {
    Bytes bytes;
    for (unsigned i = 0; i < 500; ++i) bytes.u8(static_cast<std::uint8_t>(random()));
    for (const SpeRecord& record : records_in(bytes, nullptr, 1 + round % 40))
      (void)sample_of(record, kNeoverseN1);
  }
}

namespace {

// A ring's first page, and an area behind it, in our own memory.
struct FakeArea {
  perf_event_mmap_page control{};
  std::vector<std::byte> data = std::vector<std::byte>(4096);

  std::uint64_t write(const Bytes& bytes) {
    const std::uint64_t at = control.aux_head;
    for (const std::byte byte : bytes.bytes) data[control.aux_head++ % data.size()] = byte;
    return at;
  }
  SpeTaker taker() {
    SpeOrigin origin;
    origin.cpu = 2;
    origin.midr = kNeoverseN1;
    return SpeTaker(AuxArea(&control, data), origin);
  }
};

std::vector<Sample> take(SpeTaker& taker, std::uint64_t offset, std::uint64_t size,
                         std::uint64_t time, std::uint64_t flags = 0) {
  Bytes payload;
  payload.u64(offset).u64(size).u64(flags);
  Other aux;
  aux.type = PERF_RECORD_AUX;
  aux.source.pid = 70;
  aux.source.tid = 71;
  aux.source.time = time;
  aux.payload = payload.bytes;
  std::vector<Sample> found;
  taker.take(aux, [&](std::span<const std::byte> record) {
    auto parsed = parse(record, Layout{kSpeSampleType});
    REQUIRE(parsed.ok());
    found.push_back(std::get<Sample>(*parsed));
  });
  return found;
}

}  // namespace

TEST_CASE("SPE: an AUX record brings samples of its thread, timed back from its own time") {
  FakeArea area;
  area.control.cap_user_time = 1;
  area.control.time_shift = 4;
  area.control.time_mult = 40 << 4;  // a timer of 25 MHz: 40 ns a tick
  SpeTaker taker = area.taker();
  SpeBytes bytes = spe_load(0x10, 0x1000, 8, 500);
  bytes.append(spe_load(0x20, 0x2000, 0xe, 600));
  const std::uint64_t at = area.write(bytes);
  const auto found = take(taker, at, bytes.bytes.size(), 1'000'000);
  REQUIRE(found.size() == 2);
  CHECK(found[0].source.tid == 71);
  CHECK(found[0].source.cpu == 2);
  CHECK(found[0].source.time == 1'000'000 - 100 * 40);
  CHECK(found[1].source.time == 1'000'000);
  CHECK(area.control.aux_tail == bytes.bytes.size());
}

TEST_CASE("SPE: the AUX area wraps around, and what cannot be there is not read") {
  FakeArea area;
  SpeTaker taker = area.taker();
  const SpeBytes one = spe_load(0x10, 0x1000, 8, 500);
  std::uint64_t total = 0;
  for (unsigned i = 0; i < 300; ++i) {
    const std::uint64_t at = area.write(one);
    total += take(taker, at, one.bytes.size(), 9).size();
  }
  CHECK(total == 300);
  CHECK(taker.damaged() == 0);
  CHECK(area.control.aux_head > area.data.size());
  CHECK(take(taker, 0, one.bytes.size(), 9).empty());                    // overwritten long ago
  CHECK(take(taker, area.control.aux_head, 100, 9).empty());             // not written yet
  CHECK(take(taker, area.control.aux_head - 50, 1UL << 40, 9).empty());  // more than there is
  CHECK(take(taker, area.control.aux_head, 0, 9, 1).empty());
  CHECK(taker.truncated() == 1);
}

}  // namespace stallscope::sources
