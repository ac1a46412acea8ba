// SPDX-License-Identifier: Apache-2.0
// mutate_stream STREAM.SS [MUTATIONS [SEED]]: damages a trace in memory again and again. Each time
// the reader must give an error, or say that the trace is cut off and give what stood in front of
// the cut, or give the same as before. Exits with 1 when a reading is silently different, 2 when
// the trace cannot be read at all.
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "mutate.h"

namespace {

using namespace stallscope;

constexpr std::uint64_t kMutations = 1'000'000;

stream::Bytes read_file(const char* path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  stream::Bytes bytes(static_cast<std::size_t>(file.tellg()));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

int run(const stream::Bytes& bytes, std::uint64_t mutations, std::uint64_t seed) {
  const fuzz::Truth truth(bytes);
  if (!truth.readable()) {
    std::fprintf(stderr, "error: the trace cannot be read even as it is\n");
    return 2;
  }
  fuzz::Mutator mutator(bytes, seed);
  std::uint64_t outcomes[3] = {};
  std::uint64_t different = 0;
  for (std::uint64_t i = 0; i < mutations; ++i) {
    const fuzz::Judgement judgement = fuzz::judge(mutator.next());
    ++outcomes[static_cast<int>(judgement.outcome)];
    if (truth.allows(judgement)) continue;
    if (different++ == 0)
      std::fprintf(stderr, "mutation %llu of seed %llu is silently different\n",
                   static_cast<unsigned long long>(i), static_cast<unsigned long long>(seed));
  }
  std::printf(
      "errors %llu  truncated %llu  same %llu  different %llu\n",
      static_cast<unsigned long long>(outcomes[0]), static_cast<unsigned long long>(outcomes[1]),
      static_cast<unsigned long long>(outcomes[2]), static_cast<unsigned long long>(different));
  return different == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: mutate_stream STREAM.SS [MUTATIONS [SEED]]\n");
    return 2;
  }
  const std::uint64_t mutations = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : kMutations;
  const std::uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  return run(read_file(argv[1]), mutations, seed);
}
