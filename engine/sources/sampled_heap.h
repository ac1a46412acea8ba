// SPDX-License-Identifier: Apache-2.0
// The heap of a process at native speed, by its allocation log, and by that of the process which
// forked it: blocks from before the fork are there.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sources/heap_log.h"
#include "stallscope_tables.h"

namespace stallscope::sources {

class SampledHeap {
 public:
  // Where the logs of all images are, and this one's name. It may come later, or never.
  void expect(const std::string& folder, const std::string& name) { path_ = folder + "/" + name; }
  void inherit(SampledHeap& parent);

  // The site of the block that holds an address: a number of this image's own.
  std::optional<std::uint32_t> find(std::uint64_t address);

  // Takes births and deaths of large blocks. `started` is what times count from.
  void poll(std::uint64_t started);

  struct Site {
    std::uint32_t number;
    std::vector<Address> frames;  // return addresses, innermost first
    std::uint64_t blocks, bytes;
  };
  std::vector<Site> sites();
  // `threads` has the numbers of threads by the kernel's.
  void fill_large(const std::map<std::uint32_t, std::uint32_t>& threads, ObjectTable& table) const;
  bool is_there() { return open(); }
  HeapLost lost();

 private:
  struct Large {
    std::uint64_t address, size, born, died;
    std::uint32_t site, thread;
  };
  bool open();
  std::uint32_t number_of(std::size_t log, std::uint32_t site);

  std::string path_;                            // empty: there is none, or it is open
  std::vector<std::shared_ptr<HeapLog>> logs_;  // the image's own is the first, when it is there
  bool own_ = false;
  std::map<std::pair<const HeapLog*, std::uint32_t>, std::uint32_t> numbers_;
  std::map<std::uint64_t, Large> large_;  // live, by address
  std::vector<Large> gone_;
};

}  // namespace stallscope::sources
