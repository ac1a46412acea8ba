// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>

#include <cstring>
#include <random>
#include <string>

#include "stream/codec_columns.h"
#include "stream/crc32c.h"
#include "stream_memory.h"
#include "stream_words.h"

using namespace stallscope;
using namespace stallscope::stream;
using words::load;
using words::maybe_load;
using words::store;
using words::Stream;

namespace {

void check_round_trip(const Stream& s, std::uint32_t words_a_chunk = Encoder::kLimit) {
  const Bytes bytes = trace_of(s.words, words_a_chunk);
  REQUIRE(!bytes.empty());
  const Reading reading = read_trace(bytes);
  CHECK(reading.error == "");
  CHECK(reading.damage.kind == Damage::Kind::none);
  CHECK((reading.all == collect(s.words)));
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Addresses of every kind that a program, or a broken capture, could give.
std::uint64_t any_address(std::mt19937_64& random, std::vector<std::uint64_t>& used) {
  switch (random() % 8) {
    case 0:
      return SS_NO_ADDRESS;
    case 1:
      return random();
    case 2:
      return 0xffff800000000000 + random() % 4096;
    case 3:
      return random() % 3;
    case 4:
      return SS_NO_ADDRESS - random() % 3;
    default:
      break;
  }
  if (used.empty() || random() % 4 == 0) used.push_back(0x4a000000 + random() % (1 << 24));
  return used[random() % used.size()] += random() % 2 * 8;
}

void add_block(Stream& s, std::mt19937_64& random) {
  std::vector<words::Op> operations(random() % 20);
  for (auto& operation : operations) operation = random() % 3 == 0 ? maybe_load : store;
  std::vector<words::Way> ways;
  for (std::uint64_t n = 1 + random() % 3; n > 0; --n)
    ways.push_back({static_cast<std::uint32_t>(random() % 30),
                    static_cast<std::uint32_t>(random() % (operations.size() + 1))});
  s.block(operations, ways);
}

void add_record(Stream& s, std::mt19937_64& random) {
  s.thread = static_cast<std::uint32_t>(random());
  std::string tail(random() % 40, 'x');
  switch (random() % 4) {
    case 0:
      s.alloc(random(), random() % 100, random() % 9);
      break;
    case 1:
      s.mark(SS_MARK_KIND_REGION_BEGIN, tail);
      break;
    case 2:
      s.record(SS_THREAD_EXIT, {});
      break;
    default:
      s.when = random();                                  // a clock that jumps, also backwards
      s.record(SS_FREE, {random(), random(), random()});  // longer than its shape
  }
}

Stream random_stream(std::uint64_t seed, int length) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> used;
  Stream s;
  add_block(s, random);
  for (int i = 0; i < length; ++i) {
    const std::uint64_t choice = random() % 100;
    if (choice < 3) add_block(s, random);
    if (choice > 95) add_record(s, random);
    const auto exit = static_cast<std::uint32_t>(random() % s.ways().size());
    std::vector<std::uint64_t> addresses(s.ways()[exit].operations);
    for (int repeat = static_cast<int>(random() % 4); repeat >= 0; --repeat) {
      for (auto& address : addresses) address = any_address(random, used);
      s.run(exit, addresses);
    }
  }
  return s;
}

}  // namespace

TEST_CASE("crc32c gives the published value, in parts and without the instruction too") {
  const std::string digits = "123456789";
  CHECK(crc32c(bytes_of(digits)) == 0xE3069283);
  CHECK(crc32c_portable(bytes_of(digits)) == 0xE3069283);
  CHECK(crc32c(bytes_of("56789"), crc32c(bytes_of("1234"))) == 0xE3069283);
  for (std::size_t length = 0; length < 40; ++length) {
    const std::string text(length, static_cast<char>('a' + length));
    CHECK(crc32c(bytes_of(text)) == crc32c_portable(bytes_of(text)));
  }
}

TEST_CASE("numbers survive as varints and zigzags") {
  for (std::uint64_t value : {0ULL, 1ULL, 127ULL, 128ULL, 0x7fffffffffffffffULL,
                              0x8000000000000000ULL, 0xffffffffffffffffULL}) {
    std::uint8_t room[10];
    Cursor in(Column(room, put_varint(room, value)));
    CHECK(in.varint() == value);
    CHECK(in.done());
    CHECK(unzigzag(zigzag(value)) == value);
  }
}

TEST_CASE("a varint that never ends is noticed") {
  const std::vector<std::uint8_t> endless(20, 0xff);
  Cursor in{Column(endless)};
  in.varint();
  CHECK(in.bad);
}

TEST_CASE("columns that do not add up to the declared size are refused") {
  Packer packer;
  const std::vector<std::uint8_t> text(1000, 'a');
  const Column columns[] = {text, {}};
  const auto payload = packer.pack(columns);
  REQUIRE(payload.ok());
  Unpacker unpacker;
  Column back[2];
  CHECK(unpacker.unpack(*payload, 1000, back).ok());
  CHECK(std::equal(back[0].begin(), back[0].end(), text.begin(), text.end()));
  CHECK(!unpacker.unpack(*payload, 999, back).ok());
  CHECK(!unpacker.unpack(*payload, 1001, back).ok());
  CHECK(!unpacker.unpack(payload->first(payload->size() - 1), 1000, back).ok());
}

TEST_CASE("a loop over an array comes back as it was and costs next to nothing") {
  Stream s;
  const auto body = s.block({load, store}, 5);
  for (std::uint64_t i = 0; i < 100000; ++i) s.run(body, {0x1000 + 8 * i, 0x900000 - 16 * i});
  check_round_trip(s);
  CHECK(trace_of(s.words).size() < 600);
}

TEST_CASE("nested loops come back, and only the turn to the next row costs anything") {
  Stream s;
  const auto row = s.block({load}, 3);
  const auto body = s.block({load, load}, 4);
  for (std::uint64_t i = 0; i < 300; ++i) {
    s.run(row, {0x500000});
    for (std::uint64_t k = 0; k < 100; ++k)
      s.run(body, {0x1000 + 8 * k, 0x900000 + 8 * (i + 300 * k)});
  }
  check_round_trip(s);
  CHECK(trace_of(s.words).size() < 1500);
}

TEST_CASE("blocks without memory operations come back") {
  Stream s;
  const auto a = s.block({}, 3);
  const auto b = s.block({}, 1);
  for (int i = 0; i < 50; ++i) s.run(i % 7 == 0 ? a : b, {});
  check_round_trip(s);
}

TEST_CASE("an operation that did not happen comes back, and the next one's address is unharmed") {
  Stream s;
  const auto body = s.block({maybe_load, load, maybe_load}, 3);
  for (std::uint64_t i = 0; i < 100; ++i)
    s.run(body, {i % 3 == 0 ? SS_NO_ADDRESS : 0x1000 + 8 * i, 0x2000 + 8 * i,
                 i % 5 != 0 ? SS_NO_ADDRESS : 0x3000});
  check_round_trip(s);
}

TEST_CASE("addresses of the kernel's half and the last ones come back") {
  Stream s;
  const auto body = s.block({load, load, load}, 3);
  for (std::uint64_t i = 0; i < 20; ++i)
    s.run(body, {0xffff888000000000 + 64 * i, SS_NO_ADDRESS - i, 0 - i * 0x1000000000});
  check_round_trip(s);
}

TEST_CASE("every kind of record comes back, whatever its clock and length") {
  Stream s;
  s.process_start();
  s.thread_start(1);
  s.record(SS_MAP, {0x1000, 0x2000, 5, 0, 0}, "/lib/libc.so.6");
  s.record(SS_NOTE, {3}, "");
  s.record(SS_EXEC, {}, "/bin/sh");
  s.when = 1000;
  s.alloc(0x5000, 16, 2);
  s.when = 10;
  s.free(0x5000);
  s.thread = 0xffffffff;
  s.record(SS_SIGNAL, {11, 1});
  s.words.push_back(SS_HEAD(SS_ALLOC, 2, 1));  // shorter than its shape; the parser lets it pass
  s.words.push_back(~0ULL);
  s.process_end();
  check_round_trip(s);
}

TEST_CASE("a block with the largest number of operations comes back") {
  Stream s;
  const auto body = s.block(std::vector<words::Op>(4096, load), 4096);
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> addresses(4096);
  for (int i = 0; i < 3; ++i) {
    for (auto& address : addresses) address = random();
    s.run(body, addresses);
  }
  check_round_trip(s, 1);
}

TEST_CASE("a full chunk in which nothing goes as expected fits") {
  Stream s;
  const auto a = s.block({load}, 1);
  for (int i = 0; i < 70000; ++i) s.block({}, 1);  // so that exits lie far apart
  const auto b = s.block({load}, 1);
  const auto last = s.block(std::vector<words::Op>(4096, load), 4096);
  std::mt19937_64 random(1);
  while (s.words.size() < 2 * Encoder::kLimit)
    s.run(random() % 2 == 0 ? a : b, {random() | 1ULL << 63});
  s.run(last, std::vector<std::uint64_t>(4096, random()));
  check_round_trip(s);
}

TEST_CASE("random streams come back, whatever the size of the chunks") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    const Stream s = random_stream(seed, 200);
    check_round_trip(s, static_cast<std::uint32_t>(1 + seed * seed % 700));
  }
}

TEST_CASE("a block head with bits that mean nothing is damage") {
  Stream s;
  const auto body = s.block({}, 1);
  s.run(body, {});
  s.words.back() |= 1ULL << 40;
  Bytes bytes;
  TraceWriter writer(std::make_unique<MemoryOutput>(bytes));
  CHECK(!writer.append(s.words).ok());
}
