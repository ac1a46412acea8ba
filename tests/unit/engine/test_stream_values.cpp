// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>

#include <random>

#include "stream/values.h"
#include "stream_memory.h"
#include "stream_words.h"

using namespace stallscope;
using namespace stallscope::stream;
using words::Op;
using words::Stream;

namespace {

// A program with values: every access in order, and what should come back.
struct Valued {
  std::vector<std::uint64_t> words;     // as the capture tool writes them
  std::vector<std::uint64_t> expected;  // values, by access that happened
  std::vector<std::uint64_t> plain;     // the same words without values
};

Valued random_program(std::uint64_t seed, int executions) {
  std::mt19937_64 random(seed);
  Stream s;
  s.process_start();
  const std::vector<Op> ops = {{SS_OP_KIND_LOAD, 8},
                               {SS_OP_KIND_STORE, 4},
                               {SS_OP_KIND_MODIFY, 1},
                               {SS_OP_KIND_LOAD, 2, true},
                               {SS_OP_KIND_STORE, 32}};
  s.block(ops, {{1, 2}, {2, 5}});
  Valued made{s.words, {}, s.words};
  for (int i = 0; i < executions; ++i) {
    const unsigned exit = random() % 2;
    const std::uint32_t count = exit == 0 ? 2 : 5;
    made.words.push_back(SS_BLOCK_HEAD(exit, 5 + count));
    made.plain.push_back(SS_BLOCK_HEAD(exit, count));
    std::vector<std::uint64_t> values;
    for (std::uint32_t k = 0; k < 5; ++k) {
      const bool skipped = k == 3 && random() % 2;
      made.words.push_back(skipped ? SS_NO_ADDRESS : 0x1000 + 8 * (random() % 64));
      if (k < count) made.plain.push_back(made.words.back());
      std::uint64_t value = random() % 4 == 0 ? random() : std::uint64_t{1000} * i;
      const unsigned bytes = ops[k].size >= 8 ? 8 : ops[k].size;
      value &= ~0ULL >> (64 - 8 * bytes);
      values.push_back(value);
      if (k < count && !skipped) made.expected.push_back(value);
    }
    made.words.insert(made.words.end(), values.begin(), values.begin() + count);
  }
  return made;
}

// Of memory in odd lines nothing is kept, of the rest the first two bytes of every word and all of
// every eighth.
std::uint8_t kept_at(std::uint64_t address) {
  if (address >> 6 & 1) return 0;
  return address >> 3 & 7 ? 3 : 0xff;
}

struct Writing {
  ValueWriter& writer;
  bool some = false;
  std::vector<std::uint8_t> masks{};
  void on_block(std::uint32_t, const Exit&, const std::uint64_t*) {}
  void on_values(const Exit& info, const std::uint64_t* addresses, const std::uint64_t* values) {
    masks.clear();
    for (std::uint32_t i = 0; i < info.operations; ++i) masks.push_back(kept_at(addresses[i]));
    writer.on_values(info, addresses, values, some ? masks.data() : nullptr);
  }
  Status on_record(unsigned, const std::uint64_t*, std::uint32_t) { return Done{}; }
};

struct Back {
  ValueReader& reader;
  const CodeTable& code;
  std::vector<std::uint64_t> values{};
  std::vector<std::uint8_t> known{}, expected{};  // masks
  void on_block(std::uint32_t, const Exit& info, const std::uint64_t* addresses) {
    const std::uint64_t* found = reader.read(code, info, addresses);
    for (std::uint32_t i = 0; found != nullptr && i < info.operations; ++i) {
      if (addresses[i] == SS_NO_ADDRESS) continue;
      const std::uint32_t size = code.operations[info.first_operation + i].size;
      values.push_back(found[i]);
      known.push_back(reader.known()[i]);
      expected.push_back(kept_at(addresses[i]) & ValuePredictor::whole(size));
    }
  }
  Status on_record(unsigned, const std::uint64_t*, std::uint32_t) { return Done{}; }
};

using Extent = ValueWriter::Extent;

Bytes written(const Valued& program, std::uint32_t values_a_chunk = ValueWriter::kLimit,
              Extent extent = Extent::all) {
  Bytes bytes;
  CodeTable code;
  ValueWriter writer(std::make_unique<MemoryOutput>(bytes), code, extent, values_a_chunk);
  Writing sink{writer, extent == Extent::some};
  REQUIRE(parse(program.words, code, sink));
  REQUIRE(writer.close());
  return bytes;
}

struct Got {
  std::vector<std::uint64_t> values;
  std::string error;
  std::vector<std::uint8_t> known{}, expected{};
};

Got read_back(const Valued& program, const Bytes& bytes, ReadOptions options = {}) {
  auto reader = ValueReader::open(from_memory(bytes), "values.ss", options);
  if (!reader) return {{}, reader.error().what};
  CodeTable code;
  Back back{*reader, code};
  REQUIRE(parse(program.words, code, back));
  const Status ended = reader->end();
  return {std::move(back.values), ended ? "" : ended.error().what, std::move(back.known),
          std::move(back.expected)};
}

}  // namespace

TEST_CASE("values come back as they were, whatever they are and however long chunks are") {
  for (const std::uint32_t a_chunk : {1U, 7U, 1000U, ValueWriter::kLimit}) {
    const Valued program = random_program(a_chunk, 500);
    const Got got = read_back(program, written(program, a_chunk));
    CHECK(got.error == "");
    CHECK(got.values == program.expected);
  }
}

TEST_CASE("of values that are kept in part, the other bytes are unknown, and 0 in the file") {
  for (const std::uint32_t a_chunk : {1U, 7U, 1000U, ValueWriter::kLimit}) {
    const Valued program = random_program(a_chunk, 500);
    const Got got = read_back(program, written(program, a_chunk, Extent::some));
    CHECK(got.error == "");
    CHECK(got.known == got.expected);
    REQUIRE(got.values.size() == program.expected.size());
    for (std::size_t i = 0; i < got.values.size(); ++i) {
      std::uint64_t bits = 0;
      for (unsigned k = 0; k < 8; ++k)
        if (got.known[i] >> k & 1) bits |= std::uint64_t{0xff} << 8 * k;
      REQUIRE(got.values[i] == (program.expected[i] & bits));
    }
  }
}

TEST_CASE("what is not kept changes no byte of the file") {
  const Valued program = random_program(9, 300);
  Valued other = program;
  std::mt19937_64 random(2);
  CodeTable code;
  struct Scramble {
    std::mt19937_64& random;
    void on_block(std::uint32_t, const Exit&, const std::uint64_t*) {}
    void on_values(const Exit& info, const std::uint64_t* addresses, const std::uint64_t* values) {
      for (std::uint32_t i = 0; i < info.operations; ++i)
        if (kept_at(addresses[i]) == 0) const_cast<std::uint64_t*>(values)[i] = random();
    }
    Status on_record(unsigned, const std::uint64_t*, std::uint32_t) { return Done{}; }
  } scramble{random};
  REQUIRE(parse(other.words, code, scramble));
  CHECK(other.words != program.words);
  CHECK(written(other, 100, Extent::some) == written(program, 100, Extent::some));
}

TEST_CASE("a trace is the same with values and without") {
  const Valued program = random_program(3, 200);
  CHECK(trace_of(program.words) == trace_of(program.plain));
}

TEST_CASE("a block without accesses has values too: none") {
  CodeTable code;
  Bytes bytes;
  ValueWriter writer(std::make_unique<MemoryOutput>(bytes), code);
  REQUIRE(writer.close());
  auto reader = ValueReader::open(from_memory(bytes), "values.ss");
  REQUIRE(reader);
  CHECK(reader->read(code, Exit{}, nullptr) != nullptr);
  CHECK(reader->end());
}

TEST_CASE("what repeats, counts, or was stored there costs almost nothing") {
  Stream s;
  s.process_start();
  s.block({{SS_OP_KIND_STORE, 8}, {SS_OP_KIND_LOAD, 8}}, 2);
  Valued program{s.words, {}, s.words};
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    program.words.push_back(SS_BLOCK_HEAD(0, 4));
    program.words.insert(program.words.end(),
                         {0x1000 + 8 * i, 0x1000 + 8 * (i / 2), 3 * i, 3 * (i / 2)});
  }
  CHECK(written(program).size() < 2000);
}

TEST_CASE("values that are cut off are read up to there; damage and another trace are errors") {
  const Valued program = random_program(5, 300);
  Bytes bytes = written(program, 100);
  Bytes cut(bytes.begin(), bytes.begin() + static_cast<long>(bytes.size() / 2));
  const Got half = read_back(program, cut);
  CHECK(half.error == "");
  CHECK(half.values.size() < program.expected.size());
  CHECK(std::equal(half.values.begin(), half.values.end(), program.expected.begin()));
  CHECK(read_back(random_program(5, 200), bytes).error == "there are more values than accesses");
  bytes[bytes.size() / 2] ^= std::byte{1};
  CHECK(read_back(program, bytes).error.starts_with("values.ss is corrupt at byte"));
}

TEST_CASE("no damage of the columns reads or writes beside them") {
  const Valued program = random_program(6, 100);
  std::mt19937_64 random(1);
  for (const Extent extent : {Extent::all, Extent::some}) {
    const Bytes bytes = written(program, 200, extent);
    for (int i = 0; i < 3000; ++i) {
      Bytes changed = bytes;
      changed[random() % changed.size()] ^= static_cast<std::byte>(1 + random() % 255);
      read_back(program, changed, {.checksums = false});
    }
  }
}
