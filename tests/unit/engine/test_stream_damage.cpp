// SPDX-License-Identifier: Apache-2.0
// The fuzzer's corpus and a few thousand of the mutations of tests/fuzz, on every run.
#include <doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "../../fuzz/fuzz_stream.cpp"
#include "../../fuzz/mutate.h"
#include "stream_memory.h"
#include "stream_words.h"

using stallscope::stream::Bytes;
using stallscope::stream::MemoryOutput;
using stallscope::stream::TraceWriter;
using stallscope::stream::words::load;
using stallscope::stream::words::maybe_load;
using stallscope::stream::words::store;
using stallscope::stream::words::Stream;

namespace {

const std::filesystem::path kCorpus =
    std::filesystem::path(__FILE__).parent_path() / "../../fuzz/corpus/stream";

// A little of everything, in several chunks.
Bytes varied_trace() {
  Stream s;
  s.process_start();
  s.thread_start(1);
  s.switch_to(1);
  const auto a = s.block({load, maybe_load, store}, {{2, 1}, {5, 3}});
  s.site(1);
  Bytes bytes;
  TraceWriter writer(std::make_unique<MemoryOutput>(bytes), 64);
  for (std::uint64_t i = 0; i < 40; ++i) {
    s.run(a + 1, {0x1000 + 8 * i, i % 4 == 0 ? SS_NO_ADDRESS : 0x5000 + i * i, 0x1ff0});
    if (i % 7 == 0) s.run(a, {0xffff800000000000 + i});
    if (i % 10 == 0) s.alloc(0x7000 + 32 * i, 24, 1);
  }
  const auto b = s.block({}, 1);
  for (int i = 0; i < 50; ++i) s.run(b, {});
  s.free(0x7000);
  s.process_end();
  if (!writer.append(s.words) || !writer.counts(std::vector<std::uint64_t>{6, 40, 50}) ||
      !writer.close())
    bytes.clear();
  return bytes;
}

int feed(const Bytes& bytes) {
  return LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

TEST_CASE("a damaged trace is an error, or cut off, or the same: never silently different") {
  const Bytes whole = varied_trace();
  const stallscope::fuzz::Truth truth(whole);
  REQUIRE(truth.readable());
  stallscope::fuzz::Mutator mutator(whole, 7);
  int outcomes[3] = {};
  for (int i = 0; i < 20000; ++i) {
    const auto judgement = stallscope::fuzz::judge(mutator.next());
    ++outcomes[static_cast<int>(judgement.outcome)];
    REQUIRE_MESSAGE(truth.allows(judgement), "mutation ", i);
  }
  CHECK(outcomes[0] > 1000);
  CHECK(outcomes[1] > 1000);
  CHECK(outcomes[2] > 10);
}

TEST_CASE("the judge notices a trace that is whole but different") {
  const stallscope::fuzz::Truth truth(varied_trace());
  Stream other;
  other.process_start();
  CHECK(!truth.allows(stallscope::fuzz::judge(stallscope::stream::trace_of(other.words))));
}

TEST_CASE("behind the checksums nothing breaks either") {
  const Bytes whole = varied_trace();
  stallscope::fuzz::Mutator mutator(whole, 11);
  for (int i = 0; i < 5000; ++i) CHECK(feed(mutator.next()) == 0);
}

TEST_CASE("the fuzzer's corpus is read without harm") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kCorpus)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    CHECK(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()) ==
          0);
    ++files;
  }
  CHECK(files >= 3);
}
