// SPDX-License-Identifier: Apache-2.0
// Traces in memory for tests: an output that can fail, and a sink that writes down what it is
// given.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stream/reader.h"
#include "stream/writer.h"

namespace stallscope::stream {

// Fails at append number `fails_at` after writing half of it, and at every one behind.
class MemoryOutput : public Output {
 public:
  explicit MemoryOutput(Bytes& bytes, std::uint64_t fails_at = ~0ULL)
      : bytes_(bytes), fails_at_(fails_at) {}
  Status append(std::span<const std::byte> more) override {
    const bool fails = appends_++ >= fails_at_;
    const auto written = more.first(fails ? more.size() / 2 : more.size());
    bytes_.insert(bytes_.end(), written.begin(), written.end());
    if (fails) return Error{"cannot write", "No space left on device", ""};
    return Done{};
  }
  void truncate(std::uint64_t size) override { bytes_.resize(size); }

 private:
  Bytes& bytes_;
  std::uint64_t fails_at_;
  std::uint64_t appends_ = 0;
};

// Puts the stream together again: `block` records apart, since they come earlier than they did.
struct Collector {
  std::vector<std::uint64_t> words;
  std::vector<std::uint64_t> blocks;

  void on_block(std::uint32_t exit, const Exit& info, const std::uint64_t* addresses) {
    words.push_back(SS_BLOCK_HEAD(exit, info.operations));
    words.insert(words.end(), addresses, addresses + info.operations);
  }
  Status on_record(unsigned tag, const std::uint64_t* at, std::uint32_t count) {
    auto& into = tag == SS_BLOCK ? blocks : words;
    into.insert(into.end(), at, at + count);
    return Done{};
  }
  bool operator==(const Collector&) const = default;
};

inline Collector collect(std::span<const std::uint64_t> words) {
  CodeTable code;
  Collector all;
  if (Status parsed = parse(words, code, all); !parsed) all.words.assign(1, ~0ULL);
  return all;
}

inline Bytes trace_of(std::span<const std::uint64_t> words,
                      std::uint32_t words_a_chunk = Encoder::kLimit) {
  Bytes bytes;
  TraceWriter writer(std::make_unique<MemoryOutput>(bytes), words_a_chunk);
  if (!writer.append(words) || !writer.close()) bytes.clear();
  return bytes;
}

struct Reading {
  Collector all;
  Damage damage;  // none for success; truncated when the file is cut off
  std::string error;
};

inline Reading read_trace(const Bytes& bytes, ReadOptions options = {}) {
  Reading reading;
  auto reader = TraceReader::open(from_memory(bytes), "stream.ss", options, &reading.damage);
  if (!reader) {
    reading.error = reader.error().what;
    return reading;
  }
  if (Status read = reader->for_each(reading.all); !read) {
    reading.damage = reader->damage();
    reading.error = read.error().what;
  }
  return reading;
}

}  // namespace stallscope::stream
