// SPDX-License-Identifier: Apache-2.0
// How small and how fast the codec makes streams: bytes an access, words a second on one core.
// stream_bench [WORDS_FILE...] also measures streams given as raw words.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include "stream/reader.h"
#include "stream/writer.h"
#include "synthetic.h"

namespace {

using namespace stallscope;
using Clock = std::chrono::steady_clock;

class MemoryOutput : public stream::Output {
 public:
  explicit MemoryOutput(stream::Bytes& bytes) : bytes_(bytes) {}
  Status append(std::span<const std::byte> more) override {
    bytes_.insert(bytes_.end(), more.begin(), more.end());
    return Done{};
  }
  void truncate(std::uint64_t size) override { bytes_.resize(size); }

 private:
  stream::Bytes& bytes_;
};

// Looks at every address, as the cheapest consumer there can be.
struct Sum {
  std::uint64_t sum = 0;
  std::uint64_t accesses = 0;
  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    sum += exit;
    for (std::uint32_t i = 0; i < info.operations; ++i) sum += addresses[i];
    accesses += info.operations;
  }
  Status on_record(unsigned, const std::uint64_t* words, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) sum += words[i];
    return Done{};
  }
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Status encode(std::span<const std::uint64_t> words, stream::Bytes& bytes) {
  stream::TraceWriter writer(std::make_unique<MemoryOutput>(bytes));
  if (Status appended = writer.append(words); !appended) return appended;
  return writer.close();
}

Result<Sum> decode(const stream::Bytes& bytes) {
  auto reader = stream::TraceReader::open(stream::from_memory(bytes), "memory");
  if (!reader) return reader.error();
  Sum sum;
  if (Status read = reader->for_each(sum); !read) return read.error();
  return sum;
}

int fail(const Error& error) {
  std::fprintf(stderr, "error: %s: %s\n", error.what.c_str(), error.why.c_str());
  return 1;
}

int measure(const char* name, std::span<const std::uint64_t> words) {
  double encoding = 1e9, decoding = 1e9;
  stream::Bytes bytes;
  std::uint64_t accesses = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    bytes.clear();
    auto start = Clock::now();
    if (Status encoded = encode(words, bytes); !encoded) return fail(encoded.error());
    encoding = std::min(encoding, seconds_since(start));
    start = Clock::now();
    auto sum = decode(bytes);
    if (!sum) return fail(sum.error());
    decoding = std::min(decoding, seconds_since(start));
    accesses = sum->accesses;
  }
  const double millions = static_cast<double>(words.size()) / 1e6;
  std::printf("%-12s %8.1f M words  %7.4f bytes/access  encode %6.0f  decode %6.0f M words/s\n",
              name, millions, static_cast<double>(bytes.size()) / static_cast<double>(accesses),
              millions / encoding, millions / decoding);
  return 0;
}

std::vector<std::uint64_t> read_words(const char* path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<std::uint64_t> words(static_cast<std::size_t>(file.tellg()) / 8);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(words.data()), static_cast<std::streamsize>(words.size() * 8));
  return words;
}

}  // namespace

int main(int argc, char** argv) {
  int status = 0;
  status |= measure("matmul", bench::matmul(128).words);
  status |= measure("list 50k", bench::list_walk(50000, 60, 1).words);
  status |= measure("list 1M", bench::list_walk(1000000, 5, 1).words);
  status |= measure("gzip-like", bench::gzip_like(600000, 1).words);
  for (int i = 1; i < argc; ++i) status |= measure(argv[i], read_words(argv[i]));
  return status;
}
