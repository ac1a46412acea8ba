// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "stream_memory.h"
#include "stream_words.h"

using namespace stallscope;
using namespace stallscope::stream;
using words::load;
using words::store;
using words::Stream;

namespace {

// Several chunks of every kind but COUNTS when cut at 40 words.
Stream small_stream() {
  Stream s;
  s.process_start();
  s.thread_start(1);
  const auto a = s.block({load, store}, 4);
  for (std::uint64_t i = 0; i < 30; ++i) s.run(a, {0x1000 + 8 * i, 0x2000});
  const auto b = s.block({load}, 2);
  s.switch_to(2);
  for (std::uint64_t i = 0; i < 30; ++i) s.run(a, {0x1000 + 8 * i, 0x3000 + i % 3});
  for (std::uint64_t i = 0; i < 30; ++i) s.run(b, {0x7000 - i * i});
  s.process_end();
  return s;
}
constexpr std::uint32_t kSmall = 40;

std::size_t prefix_length(const Collector& part, const Collector& whole) {
  REQUIRE(part.words.size() <= whole.words.size());
  CHECK(std::equal(part.words.begin(), part.words.end(), whole.words.begin()));
  CHECK(std::equal(part.blocks.begin(), part.blocks.end(), whole.blocks.begin()));
  return part.words.size();
}

ChunkIndex index_of(const Bytes& bytes) { return index_chunks(*from_memory(bytes), true); }

void put_header(Bytes& bytes, std::uint64_t offset, const ChunkHeader& header) {
  std::memcpy(bytes.data() + offset, &header, sizeof header);
}

// Puts a changed header back with its checksums made right again.
void reseal(Bytes& bytes, const ChunkEntry& entry, ChunkHeader header) {
  seal(header, std::span(bytes).subspan(entry.offset + sizeof header, entry.header.payload_bytes));
  put_header(bytes, entry.offset, header);
}

struct Folder {
  std::filesystem::path path;
  Folder() {
    char name[] = "/tmp/stallscope-test-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file() const { return path / "stream.ss"; }
};

}  // namespace

TEST_CASE("a trace on disk comes back") {
  const Folder folder;
  const Stream s = small_stream();
  auto output = create_file(folder.file());
  REQUIRE(output.ok());
  TraceWriter writer(std::move(*output), kSmall);
  CHECK(writer.append(s.words).ok());
  CHECK(writer.close().ok());
  CHECK(writer.bytes() == std::filesystem::file_size(folder.file()));
  auto reader = TraceReader::open(folder.file());
  REQUIRE(reader.ok());
  Collector all;
  CHECK(reader->for_each(all).ok());
  CHECK((all == collect(s.words)));
  CHECK(!reader->truncated());
  CHECK(reader->chunks().size() > 6);
}

TEST_CASE("a file that is there is not written over, and one that is not there cannot be opened") {
  const Folder folder;
  REQUIRE(create_file(folder.file()).ok());
  CHECK(!create_file(folder.file()).ok());
  CHECK(!TraceReader::open(folder.file() + ".other").ok());
  CHECK(!TraceReader::open(folder.path).ok());
}

TEST_CASE("every chunk can be read alone, in any order, and tells thread and time of its start") {
  const Stream s = small_stream();
  const Bytes bytes = trace_of(s.words, kSmall);
  auto reader = TraceReader::open(from_memory(bytes), "stream.ss");
  REQUIRE(reader.ok());
  REQUIRE(reader->load_code().ok());
  std::vector<std::uint64_t> backwards;
  const auto& chunks = reader->chunks();
  std::uint64_t instructions = s.when;
  for (std::size_t i = chunks.size(); i-- > 0;) {
    if (chunks[i].header.kind != static_cast<std::uint16_t>(ChunkKind::trace)) continue;
    Collector one;
    REQUIRE(reader->read_chunk(i, one).ok());
    CHECK(one.words.size() == chunks[i].header.words);
    backwards.insert(backwards.begin(), one.words.begin(), one.words.end());
    for (std::size_t at = 0; at < one.words.size();) {
      if (SS_HEAD_TAG(one.words[at]) != SS_BLOCK_TAG) {
        at += SS_HEAD_WORDS(one.words[at]);
        continue;
      }
      const Exit& exit = reader->code().exits[static_cast<std::uint32_t>(one.words[at])];
      instructions -= exit.instructions;
      at += 1 + exit.operations;
    }
    CHECK(chunks[i].header.instructions == instructions);
  }
  CHECK(backwards == collect(s.words).words);
  CHECK(chunks.front().header.thread == 0);
  CHECK(chunks.back().header.thread == 2);
}

TEST_CASE("a flush puts on disk what was appended, a second one nothing") {
  const Stream s = small_stream();
  Bytes bytes;
  TraceWriter writer(std::make_unique<MemoryOutput>(bytes));
  CHECK(writer.append(s.words).ok());
  CHECK(bytes.empty());
  CHECK(writer.flush().ok());
  const auto size = bytes.size();
  const Reading reading = read_trace(bytes);
  CHECK(reading.damage.kind == Damage::Kind::truncated);
  CHECK(reading.error == "");
  CHECK((reading.all == collect(s.words)));
  CHECK(writer.flush().ok());
  CHECK(bytes.size() == size);
}

TEST_CASE("a writer beside other sinks of one parse writes the same bytes") {
  const Stream s = small_stream();
  Bytes bytes;
  CodeTable code;
  TraceWriter writer(std::make_unique<MemoryOutput>(bytes), code, kSmall);
  CHECK(parse(std::span<const std::uint64_t>(s.words), code, writer).ok());
  CHECK(writer.close().ok());
  CHECK(bytes == trace_of(s.words, kSmall));
}

TEST_CASE("an empty trace and an empty file are read") {
  CHECK(read_trace(trace_of({})).damage.kind == Damage::Kind::none);
  CHECK(read_trace({}).damage.kind == Damage::Kind::truncated);
}

TEST_CASE("the newest counters hold") {
  Bytes bytes;
  TraceWriter writer(std::make_unique<MemoryOutput>(bytes));
  Stream s;
  s.block({load}, 1);
  s.block({}, 2);
  CHECK(writer.append(s.words).ok());
  CHECK(writer.counts(std::vector<std::uint64_t>{1, 2}).ok());
  CHECK(writer.counts(std::vector<std::uint64_t>{5, ~0ULL}).ok());
  CHECK(writer.close().ok());
  auto reader = TraceReader::open(from_memory(bytes), "stream.ss");
  REQUIRE(reader.ok());
  auto counts = reader->counts();
  REQUIRE((counts.ok() && counts->has_value()));
  CHECK(**counts == std::vector<std::uint64_t>{5, ~0ULL});
  Collector all;
  CHECK(reader->for_each(all).ok());
  const Bytes none = trace_of(s.words);
  auto without = TraceReader::open(from_memory(none), "stream.ss");
  REQUIRE(without.ok());
  CHECK(!without->counts()->has_value());
}

TEST_CASE("totals say what was written") {
  const Stream s = small_stream();
  const Bytes bytes = trace_of(s.words, kSmall);
  auto reader = TraceReader::open(from_memory(bytes), "stream.ss");
  REQUIRE(reader.ok());
  const auto totals = reader->totals();
  REQUIRE((totals.ok() && totals->has_value()));
  CHECK((*totals)->words == s.words.size());
  CHECK((*totals)->executions == 90);
  CHECK((*totals)->accesses == 150);
  CHECK((*totals)->instructions == s.when);
  CHECK((*totals)->records[SS_BLOCK] == 2);
  CHECK((*totals)->records[SS_PROCESS_END] == 1);
}

TEST_CASE("cut off at any byte, a trace gives every whole chunk in front and says truncated") {
  const Stream s = small_stream();
  const Bytes whole = trace_of(s.words, kSmall);
  const Collector expected = collect(s.words);
  const ChunkIndex index = index_of(whole);
  std::size_t last = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    const Reading reading = read_trace(Bytes(whole.begin(), whole.begin() + length));
    CHECK(reading.damage.kind == Damage::Kind::truncated);
    CHECK(reading.error == "");
    std::uint64_t words = 0;
    for (const ChunkEntry& entry : index.chunks) {
      if (entry.offset + sizeof(ChunkHeader) + entry.header.payload_bytes > length) break;
      if (entry.header.kind == static_cast<std::uint16_t>(ChunkKind::trace))
        words += entry.header.words;
    }
    CHECK(prefix_length(reading.all, expected) == words);
    CHECK(words >= last);
    last = words;
  }
}

TEST_CASE("whichever write fails, it is reported once and everything in front stays readable") {
  const Stream s = small_stream();
  const Collector expected = collect(s.words);
  const std::size_t chunks = index_of(trace_of(s.words, kSmall)).chunks.size();
  std::size_t last = 0;
  for (std::size_t n = 0; n < chunks; ++n) {
    CAPTURE(n);
    Bytes bytes;
    TraceWriter writer(std::make_unique<MemoryOutput>(bytes, n), kSmall);
    int errors = 0;
    errors += writer.append(s.words).ok() ? 0 : 1;
    errors += writer.flush().ok() ? 0 : 1;
    errors += writer.append(std::span(s.words).last(4)).ok() ? 0 : 1;
    errors += writer.counts({}).ok() ? 0 : 1;
    errors += writer.close().ok() ? 0 : 1;
    errors += writer.close().ok() ? 0 : 1;
    CHECK(errors == 1);
    CHECK(writer.failed());
    CHECK(index_of(bytes).chunks.size() == n);
    const Reading reading = read_trace(bytes);
    CHECK(reading.damage.kind == Damage::Kind::truncated);
    CHECK(reading.error == "");
    const std::size_t got = prefix_length(reading.all, expected);
    CHECK(got >= last);
    last = got;
  }
  CHECK(last > 0);
}

TEST_CASE("a disk that is full is reported with its reason and leaves whole chunks") {
  const Folder folder;
  const Stream s = small_stream();
  auto output = create_file(folder.file());
  REQUIRE(output.ok());
  // A limit on the size of files behaves like a full disk: a short write, then an error.
  rlimit before;
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 700;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  TraceWriter writer(std::move(*output), kSmall);
  const Status appended = writer.append(s.words);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  REQUIRE(!appended.ok());
  CHECK(appended.error().what.find("stream.ss") != std::string::npos);
  CHECK(appended.error().why == std::strerror(EFBIG));
  CHECK(std::filesystem::file_size(folder.file()) == writer.bytes());
  auto reader = TraceReader::open(folder.file());
  REQUIRE(reader.ok());
  CHECK(reader->truncated());
  CHECK(reader->truncated_at() == writer.bytes());
}

TEST_CASE("a trace of a newer version is refused as such") {
  Bytes bytes = trace_of(small_stream().words, kSmall);
  ChunkHeader header = index_of(bytes).chunks[0].header;
  header.version = kChunkVersion + 1;
  put_header(bytes, 0, header);
  const Reading reading = read_trace(bytes);
  CHECK(reading.damage.kind == Damage::Kind::newer);
  CHECK(reading.error == "stream.ss was written by a newer Stallscope");
}

TEST_CASE("any flipped bit is an error that names the chunk's first byte") {
  const Bytes whole = trace_of(small_stream().words, kSmall);
  const ChunkIndex index = index_of(whole);
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    CAPTURE(bit);
    Bytes bytes = whole;
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
    const Reading reading = read_trace(bytes);
    CHECK(reading.error != "");
    CHECK((reading.damage.kind == Damage::Kind::corrupt ||
           reading.damage.kind == Damage::Kind::newer));
    std::uint64_t start = 0;
    for (const ChunkEntry& entry : index.chunks)
      if (entry.offset <= bit / 8) start = entry.offset;
    CHECK(reading.damage.offset == start);
  }
}

TEST_CASE("chunks left out, doubled, swapped or brought in from another trace are corrupt") {
  const Bytes whole = trace_of(small_stream().words, kSmall);
  const ChunkIndex index = index_of(whole);
  const auto chunk = [&](std::size_t i) {
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(index.chunks[i].offset);
    return Bytes(begin, begin + sizeof(ChunkHeader) + index.chunks[i].header.payload_bytes);
  };
  const auto joined = [&](std::initializer_list<std::size_t> order) {
    Bytes bytes;
    for (std::size_t i : order) {
      const Bytes one = chunk(i);
      bytes.insert(bytes.end(), one.begin(), one.end());
    }
    return read_trace(bytes).damage.kind;
  };
  CHECK(joined({0, 1, 2}) == Damage::Kind::truncated);
  CHECK(joined({0, 2, 3}) == Damage::Kind::corrupt);
  CHECK(joined({0, 1, 1, 2}) == Damage::Kind::corrupt);
  CHECK(joined({0, 2, 1, 3}) == Damage::Kind::corrupt);

  Stream other = small_stream();
  other.words[1] += 1;  // another clock: the first trace chunk differs, those behind need not
  Bytes spliced = trace_of(other.words, kSmall);
  const ChunkIndex second = index_of(spliced);
  REQUIRE(second.chunks.size() == index.chunks.size());
  const auto from = second.chunks[3].offset;
  spliced.resize(from);
  spliced.insert(spliced.end(), whole.begin() + static_cast<std::ptrdiff_t>(index.chunks[3].offset),
                 whole.end());
  CHECK(read_trace(spliced).damage.kind == Damage::Kind::corrupt);
}

TEST_CASE("bytes behind the last chunk are corrupt") {
  Bytes bytes = trace_of(small_stream().words, kSmall);
  const auto size = bytes.size();
  bytes.push_back(std::byte{0});
  const Reading reading = read_trace(bytes);
  CHECK(reading.damage.kind == Damage::Kind::corrupt);
  CHECK(reading.damage.offset == size);
}

TEST_CASE("lengths beyond the caps are refused even with a right checksum") {
  const Bytes whole = trace_of(small_stream().words, kSmall);
  const ChunkEntry last = index_of(whole).chunks.back();
  for (int field = 0; field < 3; ++field) {
    Bytes bytes = whole;
    ChunkHeader header = last.header;
    if (field == 0) header.raw_bytes = kMaxChunkBytes + 1;
    if (field == 1) header.words = kMaxChunkWords + 1;
    if (field == 2) header.executions = header.words + 1;
    reseal(bytes, last, header);
    CHECK(read_trace(bytes).damage.kind == Damage::Kind::corrupt);
  }
}

TEST_CASE("totals that differ from what the chunks hold are corrupt") {
  Bytes bytes = trace_of(small_stream().words, kSmall);
  const ChunkEntry last = index_of(bytes).chunks.back();
  bytes[last.offset + sizeof(ChunkHeader)] ^= std::byte{1};
  reseal(bytes, last, last.header);
  const Reading reading = read_trace(bytes);
  CHECK(reading.damage.kind == Damage::Kind::corrupt);
  CHECK(reading.error.find("corrupt at byte " + std::to_string(last.offset)) != std::string::npos);
}

TEST_CASE("what the sink refuses is the sink's error, not damage") {
  struct Refusing {
    void on_block(std::uint32_t, const Exit&, const std::uint64_t*) {}
    Status on_record(unsigned tag, const std::uint64_t*, std::uint32_t) {
      if (tag == SS_THREAD_SWITCH) return Error{"enough", "", ""};
      return Done{};
    }
  } sink;
  const Bytes bytes = trace_of(small_stream().words, kSmall);
  auto reader = TraceReader::open(from_memory(bytes), "stream.ss");
  REQUIRE(reader.ok());
  const Status read = reader->for_each(sink);
  REQUIRE(!read.ok());
  CHECK(read.error().what == "enough");
}
