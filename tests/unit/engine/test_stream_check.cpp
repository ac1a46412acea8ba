// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>

#include "stream/check.h"
#include "stream_memory.h"
#include "stream_words.h"

using namespace stallscope;
using namespace stallscope::stream;
using words::load;
using words::maybe_load;
using words::Stream;

namespace {

// "rule" for an error, "(rule)" for a note, in their order.
std::string found(const Checker& checker) {
  std::string rules;
  for (const Violation& violation : checker.violations()) {
    const bool note = violation.severity == Severity::note;
    if (!rules.empty()) rules += ' ';
    if (note) rules += '(';
    rules += violation.rule;
    if (note) rules += ')';
  }
  return rules;
}

std::string check(const Stream& s, unsigned mode = SS_MODE_STREAM) {
  CodeTable code;
  Checker checker(code, mode);
  const Status parsed = parse(std::span<const std::uint64_t>(s.words), code, checker);
  if (!parsed.ok()) return parsed.error().what;
  checker.finish(std::nullopt, {});
  return found(checker);
}

Stream begun() {
  Stream s;
  s.process_start();
  s.thread_start(1);
  s.switch_to(1);
  return s;
}

}  // namespace

TEST_CASE("a stream as it should be has no violations, from the ring or from a file") {
  Stream s = begun();
  const auto a = s.block({load, maybe_load}, 3);
  s.site(1);
  s.alloc(0x1000, 16, 1);
  s.run(a, {0x1000, SS_NO_ADDRESS});
  s.alloc(0x1010, 0, 1);
  s.alloc(0x1008, 40, 1, 0x1000);
  CHECK(check(s) == "heap");  // it reaches into the block of no bytes
  s = begun();
  const auto b = s.block({load, maybe_load}, 3);
  s.site(1);
  s.alloc(0x1000, 16, 1);
  s.run(b, {0x1000, SS_NO_ADDRESS});
  s.free(0x1000);
  s.alloc(0x1008, 40, 1, 0x1000);
  s.record(SS_SIGNAL, {10, 1});
  s.record(SS_SIGNAL, {10, 0});
  s.mark(SS_MARK_KIND_REGION_BEGIN, "outer");
  s.mark(SS_MARK_KIND_REGION_BEGIN, "inner");
  s.mark(SS_MARK_KIND_REGION_END, "inner");
  s.mark(SS_MARK_KIND_REGION_END, "outer");
  s.free(0x1008);
  s.thread_start(2);
  s.switch_to(2);
  s.run(b, {0x1000, 0x2000});
  s.thread_exit();
  s.switch_to(1);
  s.process_end();
  s.thread_exit();
  CHECK(check(s) == "");
  const Bytes bytes = trace_of(s.words, 30);
  auto reader = TraceReader::open(from_memory(bytes), "stream.ss");
  REQUIRE(reader.ok());
  CHECK(found(check_trace(*reader, SS_MODE_STREAM)) == "");
}

TEST_CASE("time that goes back or leaves the executed instructions is a violation") {
  Stream s = begun();
  s.run(s.block({}, 5), {});
  s.when -= 1;
  s.record(SS_FORK, {1});
  CHECK(check(s) == "time");
  CHECK(check(s, 0) == "");
  s.when = 2;
  s.record(SS_FORK, {2});
  CHECK(check(s, 0) == "time");
}

TEST_CASE("a forked process begins with its parent's clock, another with none") {
  for (std::uint64_t token : {0, 7}) {
    Stream s;
    s.when = 1000;
    s.process_start(token);
    s.thread_start(1);
    s.run(s.block({}, 5), {});
    s.process_end();
    CHECK(check(s) == (token != 0 ? "" : "time time time time"));
  }
}

TEST_CASE("process_start comes first and once") {
  Stream s;
  s.thread_start(1);
  s.process_start();
  CHECK(check(s) == "start start");
  Stream executed;
  executed.run(executed.block({}, 1), {});
  CHECK(check(executed) == "start");
}

TEST_CASE("behind process_end only loose ends are tied up") {
  Stream s = begun();
  const auto a = s.block({}, 1);
  s.process_end();
  s.record(SS_UNMAP, {0x1000, 0x1000});
  s.record(SS_NOTE, {1}, "x: y");
  CHECK(check(s) == "");
  s.free(0x1000);
  CHECK(check(s) == "end (free)");
  s.run(a, {});
  CHECK(check(s) == "end (free) end");
}

TEST_CASE("threads start once, run between start and exit, and exit once") {
  Stream s = begun();
  s.switch_to(2);
  CHECK(check(s) == "thread");
  s = begun();
  s.thread_start(1);
  CHECK(check(s) == "thread");
  s = begun();
  s.thread_exit();
  s.switch_to(1);
  CHECK(check(s) == "thread");
  s = begun();
  s.thread_exit();
  s.thread_exit();
  CHECK(check(s) == "thread");
}

TEST_CASE("heap blocks do not overlap, and what is freed was alive") {
  for (const auto& [address, size, rules] : {std::tuple{0x2000, 16, ""},
                                             {0x1ff0, 16, ""},
                                             {0x1ff0, 17, "heap"},
                                             {0x1000, 9000, "heap"},
                                             {0x2010, 16, ""},
                                             {0x200f, 1, "heap"},
                                             {0x2000, 0, "heap"}}) {
    Stream s = begun();
    s.site(3);
    s.alloc(0x2000, 16, 3);
    if (std::string(rules).empty() && address == 0x2000) s.free(0x2000);
    s.alloc(static_cast<std::uint64_t>(address), static_cast<std::uint64_t>(size), 3);
    CAPTURE(address);
    CAPTURE(size);
    CHECK(check(s) == rules);
  }
  Stream s = begun();
  s.site(3);
  s.free(0x2000);
  CHECK(check(s) == "(free)");
}

TEST_CASE("a realloc that fails gives its block back") {
  Stream s = begun();
  s.site(3);
  s.alloc(0x2000, 16, 3);
  s.free(0x2000);
  s.alloc(0, 1 << 30, 3, 0x2000);
  s.free(0x2000);
  CHECK(check(s) == "");
  s.alloc(0, 1 << 30, 3, 0x3000);
  CHECK(check(s) == "heap");
}

TEST_CASE("a site is defined once and before it is used") {
  Stream s = begun();
  s.alloc(0x1000, 8, 3);
  s.site(3);
  s.site(3);
  CHECK(check(s) == "site site");
}

TEST_CASE("a signal handler is left only after it was entered") {
  Stream s = begun();
  s.record(SS_SIGNAL, {10, 0});
  CHECK(check(s) == "signal");
}

TEST_CASE("regions that do not nest are noted") {
  Stream s = begun();
  s.mark(SS_MARK_KIND_REGION_BEGIN, "a");
  s.mark(SS_MARK_KIND_REGION_BEGIN, "b");
  s.mark(SS_MARK_KIND_REGION_END, "a");
  s.mark(SS_MARK_KIND_REGION_END, "b");
  CHECK(check(s) == "(region) (region)");
}

TEST_CASE("an operation that always happens has an address") {
  Stream s = begun();
  s.run(s.block({maybe_load, load}, 2), {SS_NO_ADDRESS, SS_NO_ADDRESS});
  CHECK(check(s) == "address");
}

TEST_CASE("a record that does not have the shape of its kind is a violation") {
  Stream s = begun();
  s.record(SS_FREE, {1, 2});
  CHECK(check(s) == "shape");
}

TEST_CASE("a block never defined, and a block whose bytes do not fit, cannot be read at all") {
  Stream s = begun();
  s.words.push_back(SS_BLOCK_HEAD(0, 0));
  CHECK(check(s) == "the stream names a block it never defined");
  s = begun();
  const std::size_t at = s.words.size();
  s.block({load}, 2);
  s.words[at + 4] += 1;  // one more instruction than there are lengths and bytes for
  CHECK(check(s) == "the stream has a damaged block record");
}

TEST_CASE("counters give as many instructions as the last record says") {
  Stream s = begun();
  s.block({load}, {{2, 0}, {5, 1}});
  s.when = 3 * 2 + 4 * 5;
  s.process_end();
  for (std::uint64_t last : {4, 5}) {
    Bytes bytes;
    TraceWriter writer(std::make_unique<MemoryOutput>(bytes));
    CHECK(writer.append(s.words).ok());
    CHECK(writer.counts(std::vector<std::uint64_t>{3, last}).ok());
    CHECK(writer.close().ok());
    auto reader = TraceReader::open(from_memory(bytes), "stream.ss");
    REQUIRE(reader.ok());
    CHECK(found(check_trace(*reader, SS_MODE_COUNT)) == (last == 4 ? "" : "counts"));
  }
}

TEST_CASE("totals that differ from what was seen are a violation") {
  CodeTable code;
  Checker checker(code, SS_MODE_STREAM);
  const Stream s = begun();
  REQUIRE(parse(std::span<const std::uint64_t>(s.words), code, checker).ok());
  Totals told = checker.seen();
  checker.finish(told, {});
  CHECK(found(checker) == "");
  told.accesses += 1;
  checker.finish(told, {});
  CHECK(found(checker) == "totals");
}

TEST_CASE("a trace that is cut off is noted, one that is corrupt is a violation") {
  Bytes bytes = trace_of(begun().words);
  bytes.resize(bytes.size() - 1);
  auto cut = TraceReader::open(from_memory(bytes), "stream.ss");
  REQUIRE(cut.ok());
  CHECK(found(check_trace(*cut, SS_MODE_STREAM)) == "(file)");
  bytes[sizeof(ChunkHeader)] ^= std::byte{1};
  auto bad = TraceReader::open(from_memory(bytes), "stream.ss");
  REQUIRE(bad.ok());
  CHECK(found(check_trace(*bad, SS_MODE_STREAM)) == "file");
}

TEST_CASE("violations are counted without end and kept up to a limit, with their place") {
  Stream s = begun();
  const auto a = s.block({load}, 7);
  for (int i = 0; i < 300; ++i) s.run(a, {SS_NO_ADDRESS});
  CodeTable code;
  Checker checker(code, SS_MODE_STREAM);
  REQUIRE(parse(std::span<const std::uint64_t>(s.words), code, checker).ok());
  CHECK(checker.errors() == 300);
  REQUIRE(checker.violations().size() == Checker::kMaxKept);
  CHECK(checker.violations()[2].item == 4 + 2);
  CHECK(checker.violations()[2].instructions == 14);
}
