// SPDX-License-Identifier: Apache-2.0
#include "session/recovery.h"

#include <deque>
#include <utility>

#include "stream/reader.h"

namespace stallscope::session {
namespace {

// The reader grows its own code table; the target wants to own one. On disk a chunk's code lies in
// front of the records that it was found among, so the module of a block is looked up later, when
// the records up to its discovery have passed.
struct Collecting {
  target::Target& target;
  std::deque<std::pair<std::uint64_t, std::uint32_t>> undecided = {};  // when found, block

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    target.on_block(exit, info, addresses);
  }
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
    if (tag != SS_BLOCK) {
      decide_before(words[1]);
      return target.on_record(tag, words, count);
    }
    if (Status added = target.code.add(words, count); !added) return added;
    undecided.emplace_back(words[1], static_cast<std::uint32_t>(target.block_module.size()));
    target.block_module.push_back(kNone32);
    return Done{};
  }
  // A block is found after what was mapped at the same moment, and before what is unmapped later.
  void decide_before(std::uint64_t when) {
    for (; !undecided.empty() && undecided.front().first < when; undecided.pop_front()) {
      const std::uint32_t block = undecided.front().second;
      target.block_module[block] = target.mappings.module_of(target.code.blocks[block].address);
    }
  }
};

}  // namespace

Result<Recovered> recover(const std::string& path) {
  auto reader = stream::TraceReader::open(path);
  if (!reader) return reader.error();
  Recovered result{std::make_unique<target::Target>(), reader->truncated(), reader->truncated_at()};
  Collecting sink{*result.target};
  if (Status read = reader->for_each(sink); !read) return read.error();
  sink.decide_before(kNever);
  auto counts = reader->counts();
  if (!counts) return counts.error();
  target::Target& target = *result.target;
  if (*counts) target.set_taken(std::move(**counts));
  target.close(std::max(target.last_when(), target.first_when() + target.executed()));
  return result;
}

}  // namespace stallscope::session
