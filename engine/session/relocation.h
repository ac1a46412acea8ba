// SPDX-License-Identifier: Apache-2.0
// A recorded program as if its heap blocks lay where a policy of the near allocator puts them: for
// the life of a block, accesses to it go to its new place. Stands between a stream and a
// simulation.
//
// Small blocks that are placed leave malloc's heap. What malloc itself did to their memory
// (headers, lists of free blocks) does not happen then; when a block is freed, what the near
// allocator knows of it is touched instead, which lies elsewhere. What is left in the heap moves
// together over memory that only such blocks ever had.
//
// Not modelled: the near allocator's accesses when it makes a block, which touch what it touched
// for the one before; that malloc would reuse memory otherwise when fewer blocks come and go.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "probes/object_map.h"
#include "session/placer.h"
#include "session/simulation.h"
#include "stallscope_records.h"

namespace stallscope::session {

// Memory of the heap that is not there any more.
class Gaps {
 public:
  // A chunk of malloc's that held a block; any order. What a block that stays had is never a gap.
  void had(std::uint64_t start, std::uint64_t size, bool stays);
  void close();  // after the last had()

  bool contains(std::uint64_t address) const;
  // Bytes of gaps below an address.
  std::uint64_t below(std::uint64_t address) const;

 private:
  struct Range {
    std::uint64_t start, end;
    std::uint64_t before;  // bytes of gaps below it
  };
  using Chunks = std::unordered_map<std::uint64_t, std::uint64_t>;  // start -> largest size
  static std::vector<Range> merged(Chunks& chunks);
  const Range* last_from(std::uint64_t address) const;

  Chunks left_, gone_;
  std::vector<Range> gaps_;  // sorted
};

// Memory that malloc may have its heaps in: what brk gave, and mappings without a file. Neighbours
// are one.
class Heaps {
 public:
  void add(std::uint64_t start, std::uint64_t end);
  void close();  // after the last add()
  // The first byte of the heap around an address; 0 when there is none.
  std::uint64_t start_of(std::uint64_t address) const;
  std::uint64_t lowest() const { return ranges_.empty() ? 0 : ranges_.begin()->first; }
  std::uint64_t end() const { return ranges_.empty() ? 0 : ranges_.rbegin()->second; }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // start -> end; sorted, apart once closed
};

class Relocation {
 public:
  static Result<std::unique_ptr<Relocation>> make(const Policy& policy);

  // First all records of the stream, then ready(), then everything in its order.
  void foresee(unsigned tag, const std::uint64_t* words, std::uint32_t count);
  void ready();

  // A record with the addresses that it has now.
  void on_record(unsigned tag, std::vector<std::uint64_t>& words);
  // SS_NO_ADDRESS for an access that does not happen.
  std::uint64_t moved(std::uint64_t address) {
    if (address - lowest_ >= extent_) return address;  // the stack, variables: most
    return look_up(address);
  }
  std::uint64_t blocks() const { return blocks_; }

 private:
  struct Block {
    std::uint64_t to;
    std::uint64_t size;
    std::uint32_t move;
    bool placed;  // else only moved on
  };
  // A small placed block that was freed last, while malloc's free still looks at its memory.
  struct Freed {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    Knowledge known{};
  };
  explicit Relocation(std::unique_ptr<Placer> placer) : placer_(std::move(placer)) {}
  // Where an address of what is left lies, once heaps have closed their gaps.
  std::uint64_t moved_on(std::uint64_t address) const;
  std::uint64_t look_up(std::uint64_t address);
  std::uint64_t in_gap(std::uint64_t address) const;
  // Where the block lies from now on, and where it lay.
  std::uint64_t allocate(const ss_alloc& record);
  std::uint64_t release(std::uint64_t address, std::uint32_t thread);
  bool may_place(const ss_alloc& record, std::uint64_t freed) const;
  void keep(const ss_alloc& record, std::uint64_t to, bool placed);
  void forget(std::uint64_t address);
  void widen(std::uint64_t start, std::uint64_t end);

  std::unique_ptr<Placer> placer_;
  Gaps gaps_;
  Heaps heaps_;
  std::unordered_map<std::uint64_t, Block> blocks_of_;      // by recorded address
  std::unordered_map<std::uint32_t, std::uint64_t> freed_;  // by thread: a placed block, just freed
  probes::ObjectMap live_;                                  // recorded address -> moves_
  std::vector<std::uint64_t> moves_;                        // what to add, modulo 2^64
  std::vector<std::uint32_t> unused_;                       // of moves_
  std::uint64_t lowest_ = 0, extent_ = 0;                   // of all that moves
  Freed just_freed_;
  std::uint64_t blocks_ = 0;  // placed
};

// The first pass over a stream.
struct Foresight {
  Relocation& relocation;

  void on_block(std::uint32_t, const stream::Exit&, const std::uint64_t*) {}
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
    relocation.foresee(tag, words, count);
    return Done{};
  }
};

// A sink that moves what it passes on.
template <typename Sink>
struct Relocated {
  Relocation& relocation;
  Sink& sink;
  std::vector<std::uint64_t> words;

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    if (words.size() < info.operations) words.resize(info.operations);
    for (std::uint32_t i = 0; i < info.operations; ++i) words[i] = relocation.moved(addresses[i]);
    sink.on_block(exit, info, words.data());
  }
  Status on_record(unsigned tag, const std::uint64_t* record, std::uint32_t count) {
    words.assign(record, record + count);
    relocation.on_record(tag, words);
    return sink.on_record(tag, words.data(), count);
  }
};

}  // namespace stallscope::session
