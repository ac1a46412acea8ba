// SPDX-License-Identifier: Apache-2.0
// A recorded program as if its heap blocks lay where a policy of the near allocator puts them: for
// the life of a block, accesses to it go to its new place. Stands between a stream and a
// simulation.
//
// What malloc itself did to the memory of placed blocks (headers, lists of free blocks) is left
// out, because the near allocator keeps what it knows elsewhere. What is not put in its place: the
// near allocator's own accesses, about one line for every few pages of blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "probes/object_map.h"
#include "session/placer.h"
#include "session/simulation.h"
#include "stallscope_records.h"

namespace stallscope::session {

class Relocation {
 public:
  static Result<std::unique_ptr<Relocation>> make(const Policy& policy);

  // First all records of the stream, to know which memory was malloc's for placed blocks only.
  void foresee(unsigned tag, const std::uint64_t* words, std::uint32_t count);

  // Then everything in its order.
  void on_record(unsigned tag, std::vector<std::uint64_t>& words);
  // SS_NO_ADDRESS for an access that does not happen.
  std::uint64_t moved(std::uint64_t address) {
    if (address - lowest_ >= extent_) return address;  // the stack, variables: most
    return look_up(address);
  }
  std::uint64_t blocks() const { return blocks_; }

 private:
  struct Moved {
    std::uint64_t to;
    std::uint64_t size;
    std::uint32_t move;
  };
  explicit Relocation(std::unique_ptr<Placer> placer) : placer_(std::move(placer)) {}
  std::uint64_t look_up(std::uint64_t address);
  // Where the block lies from now on, and where it lay.
  std::uint64_t allocate(const ss_alloc& record);
  std::uint64_t release(std::uint64_t address, std::uint32_t thread);
  void forget(std::uint64_t address);
  void widen(std::uint64_t start, std::uint64_t end);

  std::unique_ptr<Placer> placer_;
  std::unordered_map<std::uint64_t, Moved> blocks_of_;      // by recorded address
  std::unordered_map<std::uint32_t, std::uint64_t> freed_;  // by thread: a placed block, last freed
  probes::ObjectMap live_;                 // recorded addresses -> index into moves_
  std::vector<std::uint64_t> moves_;       // what to add, modulo 2^64
  std::vector<std::uint32_t> unused_;      // of moves_
  probes::ObjectMap mallocs_;              // memory around blocks -> kPlaced or kLeft
  std::uint64_t lowest_ = 0, extent_ = 0;  // of everything in these maps
  std::uint64_t blocks_ = 0;
};

// A sink that moves what it passes on.
struct RelocatedSimulation {
  Relocation& relocation;
  Simulation& simulation;
  std::vector<std::uint64_t> words;

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    if (words.size() < info.operations) words.resize(info.operations);
    for (std::uint32_t i = 0; i < info.operations; ++i) words[i] = relocation.moved(addresses[i]);
    simulation.on_block(exit, info, words.data());
  }
  Status on_record(unsigned tag, const std::uint64_t* record, std::uint32_t count) {
    words.assign(record, record + count);
    relocation.on_record(tag, words);
    return simulation.on_record(tag, words.data(), count);
  }
};

}  // namespace stallscope::session
