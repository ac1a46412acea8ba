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
  // Where the logs of all images are, and this one's name. It may come later, or never. `started`
  // is what times count from.
  void expect(const std::string& folder, const std::string& name, std::uint64_t started) {
    path_ = folder + "/" + name;
    started_ = started;
  }
  void inherit(SampledHeap& parent);

  // The site of the block that holds an address: a number of this image's own. Of a large block,
  // that held it at that time; of a small one, that holds it now.
  struct Named {
    std::uint32_t site;
    double confidence;  // 1 unless it is named by the blocks beside it
  };
  std::optional<Named> find(std::uint64_t address, std::uint64_t time);

  // Takes births and deaths of large blocks.
  void poll();

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
  std::uint64_t passed();  // small blocks that are not in the log

 private:
  struct Large {
    std::uint64_t address, size, born, died;
    std::uint32_t site, thread;
  };
  bool open();
  const Large* large_at(std::uint64_t address, std::uint64_t time) const;
  std::uint32_t number_of(std::size_t log, std::uint32_t site);

  std::string path_;                            // empty: there is none, or it is open
  std::vector<std::shared_ptr<HeapLog>> logs_;  // the image's own is the first, when it is there
  bool own_ = false;
  std::uint64_t started_ = 0;
  std::map<std::pair<const HeapLog*, std::uint32_t>, std::uint32_t> numbers_;
  std::map<std::uint64_t, Large> large_;  // live, by address
  std::vector<Large> gone_;               // in the order in which they died
};

}  // namespace stallscope::sources
