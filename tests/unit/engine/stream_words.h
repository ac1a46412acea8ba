// SPDX-License-Identifier: Apache-2.0
// A small vocabulary for writing down streams in tests: define blocks, execute them, add records.
// Keeps `when` right by itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "stallscope_records.h"

namespace stallscope::stream::words {

struct Op {
  unsigned kind = SS_OP_KIND_LOAD;
  unsigned size = 8;
  bool guarded = false;
};
inline constexpr Op load{SS_OP_KIND_LOAD};
inline constexpr Op store{SS_OP_KIND_STORE};
inline constexpr Op maybe_load{SS_OP_KIND_LOAD, 8, true};

struct Way {  // an exit: what was done up to it
  std::uint32_t instructions;
  std::uint32_t operations;
};

class Stream {
 public:
  std::vector<std::uint64_t> words;
  std::uint64_t when = 0;
  std::uint32_t thread = 1;

  // A block of as many one-byte instructions as its last exit has; operation i belongs to
  // instruction i, or to the last. Returns the number of its first exit.
  std::uint32_t block(const std::vector<Op>& operations, const std::vector<Way>& exits) {
    std::uint32_t instructions = 1;
    for (const Way& way : exits) instructions = std::max(instructions, way.instructions);
    const auto first = static_cast<std::uint32_t>(ways_.size());
    const std::uint64_t address = 0x400000 + 64ULL * first;
    std::vector<char> tail;
    for (std::uint32_t i = 0; i < instructions; ++i) put(tail, (address + i) | 1ULL << 48);
    for (std::uint32_t i = 0; i < operations.size(); ++i) {
      const auto instruction = static_cast<std::uint16_t>(std::min(i, instructions - 1));
      put(tail, instruction);
      put(tail, static_cast<std::uint8_t>(operations[i].kind));
      put(tail, static_cast<std::uint8_t>(operations[i].guarded));
      put(tail, static_cast<std::uint32_t>(operations[i].size));
    }
    for (const Way& way : exits) {
      put(tail, way.instructions);
      put(tail, way.operations);
      ways_.push_back(way);
    }
    tail.insert(tail.end(), instructions, '\x90');
    record(SS_BLOCK, {first, address, instructions, operations.size(), exits.size()},
           std::string_view(tail.data(), tail.size()));
    return first;
  }
  // A block with one way out.
  std::uint32_t block(const std::vector<Op>& operations, std::uint32_t instructions) {
    return block(operations, {{instructions, static_cast<std::uint32_t>(operations.size())}});
  }

  void run(std::uint32_t exit, std::initializer_list<std::uint64_t> addresses) {
    run(exit, std::vector<std::uint64_t>(addresses));
  }
  void run(std::uint32_t exit, const std::vector<std::uint64_t>& addresses) {
    words.push_back(SS_BLOCK_HEAD(exit, addresses.size()));
    words.insert(words.end(), addresses.begin(), addresses.end());
    when += ways_[exit].instructions;
  }

  void record(unsigned tag, const std::vector<std::uint64_t>& fields) {
    words.push_back(SS_HEAD(tag, 2 + fields.size(), thread));
    words.push_back(when);
    words.insert(words.end(), fields.begin(), fields.end());
  }
  void record(unsigned tag, const std::vector<std::uint64_t>& fields, std::string_view tail) {
    const std::size_t padded = (tail.size() + 7) / 8;
    words.push_back(SS_HEAD(tag, 3 + fields.size() + padded, thread));
    words.push_back(when);
    words.insert(words.end(), fields.begin(), fields.end());
    words.push_back(tail.size());
    words.resize(words.size() + padded);
    if (!tail.empty()) std::memcpy(&words[words.size() - padded], tail.data(), tail.size());
  }

  void process_start(std::uint64_t fork_token = 0) {
    record(SS_PROCESS_START, {100, 1, fork_token, 5}, std::string_view("/bin/true\0true\0", 15));
  }
  void process_end() { record(SS_PROCESS_END, {0, 9}); }
  void thread_start(std::uint32_t number) {
    const std::uint32_t before = thread;
    thread = number;
    record(SS_THREAD_START, {before, 1000 + number, 0x1ffeff0000});
    thread = before;
  }
  void thread_exit() { record(SS_THREAD_EXIT, {}); }
  void switch_to(std::uint32_t number) {
    thread = number;
    record(SS_THREAD_SWITCH, {7});
  }
  void site(std::uint64_t number) { record(SS_SITE, {number}, "01234567abcdefgh"); }
  void alloc(std::uint64_t address, std::uint64_t size, std::uint64_t site_number,
             std::uint64_t old = 0) {
    record(SS_ALLOC, {address, size, site_number, SS_ALLOC_KIND_MALLOC, old});
  }
  void free(std::uint64_t address) { record(SS_FREE, {address}); }
  void mark(unsigned kind, std::string_view name) { record(SS_MARK, {kind}, name); }

  const std::vector<Way>& ways() const { return ways_; }

 private:
  template <typename T>
  static void put(std::vector<char>& tail, T value) {
    const auto* bytes = reinterpret_cast<const char*>(&value);
    tail.insert(tail.end(), bytes, bytes + sizeof value);
  }

  std::vector<Way> ways_;
};

}  // namespace stallscope::stream::words
