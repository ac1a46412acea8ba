// SPDX-License-Identifier: Apache-2.0
// Streams like those of well-known programs, made without running any, so that the codec can be
// measured alone. What a real program does to it is measured by `make bench`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "stream_words.h"

namespace stallscope::bench {

using stream::words::load;
using stream::words::maybe_load;
using stream::words::store;
using stream::words::Stream;

// c += a * b for n-by-n matrices of doubles, the inner loop with its counters on the stack, as
// compiled without optimisation.
inline Stream matmul(std::uint32_t n) {
  Stream s;
  s.process_start();
  const std::uint32_t outer = s.block({store}, 3);
  const std::uint32_t middle = s.block({store, store}, 5);
  const std::uint32_t inner = s.block({load, load, load, load, load, store, load, store}, 18);
  const std::uint64_t a = 0x4a000000, b = 0x4b000000, c = 0x4c000000, stack = 0x1ffeff0000;
  for (std::uint64_t i = 0; i < n; ++i) {
    s.run(outer, {stack});
    for (std::uint64_t j = 0; j < n; ++j) {
      s.run(middle, {stack + 8, c + 8 * (i * n + j)});
      for (std::uint64_t k = 0; k < n; ++k) {
        const std::uint64_t sum = c + 8 * (i * n + j);
        s.run(inner, {stack, stack + 16, a + 8 * (i * n + k), b + 8 * (k * n + j), sum, sum,
                      stack + 16, stack + 16});
      }
    }
  }
  s.process_end();
  return s;
}

// A list whose nodes lie in memory in random order, walked `times` times: two loads a node.
inline Stream list_walk(std::uint32_t nodes, std::uint32_t times, std::uint64_t seed) {
  Stream s;
  s.process_start();
  const std::uint32_t step = s.block({load, load}, 5);
  std::vector<std::uint32_t> order(nodes);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  for (std::uint32_t t = 0; t < times; ++t)
    for (std::uint32_t node : order)
      s.run(step, {0x4a000010 + 64ULL * node, 0x4a000000 + 64ULL * node});
  s.process_end();
  return s;
}

// Compression of text by hash chains: a byte at a time, a table looked up at random, matches of
// random length compared backwards, literals and matches written out.
inline Stream gzip_like(std::uint32_t bytes, std::uint64_t seed) {
  Stream s;
  s.process_start();
  const std::uint64_t window = 0x4a000000, head = 0x4b000000, prev = 0x4c000000;
  const std::uint64_t out = 0x4d000000, freq = 0x4e000000, stack = 0x1ffeff0000;
  const std::uint32_t insert = s.block({load, load, store, store}, {{4, 2}, {9, 4}});
  const std::uint32_t chase = s.block({load, load, load}, {{5, 2}, {8, 3}});
  const std::uint32_t compare = s.block({load, load}, 6);
  const std::uint32_t emit = s.block({store, store, load, store}, 12);
  const std::uint32_t call = s.block({store, store, store}, 5);
  const std::uint32_t leave = s.block({load, load, load}, 4);
  std::mt19937_64 random(seed);
  std::uint64_t written = 0;
  for (std::uint64_t at = 0; at < bytes;) {
    const std::uint64_t hash = random() % 32768;
    s.run(insert + 1, {window + at, head + 2 * hash, prev + 2 * (at % 32768), head + 2 * hash});
    s.run(call, {stack - 8, stack - 16, stack - 24});
    std::uint64_t best = 1;
    for (std::uint64_t chain = random() % 4; chain > 0; --chain) {
      const std::uint64_t from = at > 32768 ? at - random() % 32768 : random() % (at + 1);
      if (random() % 3 != 0) {
        s.run(chase, {window + from, window + at});
        continue;
      }
      s.run(chase + 1, {window + from, window + at, prev + 2 * (from % 32768)});
      const std::uint64_t length = 3 + random() % 12;
      for (std::uint64_t k = 0; k < length; ++k)
        s.run(compare, {window + from + k, window + at + k});
      best = std::max(best, length);
    }
    s.run(leave, {stack - 24, stack - 16, stack - 8});
    const std::uint64_t symbol = freq + 4 * (random() % 60);
    s.run(emit, {out + written, out + 65536 + 2 * written, symbol, symbol});
    ++written;
    for (std::uint64_t k = 1; k < best; ++k) {
      const std::uint64_t inner = random() % 32768;
      s.run(insert + 1,
            {window + at + k, head + 2 * inner, prev + 2 * ((at + k) % 32768), head + 2 * inner});
    }
    at += best;
  }
  s.process_end();
  return s;
}

}  // namespace stallscope::bench
