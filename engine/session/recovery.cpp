// SPDX-License-Identifier: Apache-2.0
#include "session/recovery.h"

#include "stream/reader.h"

namespace stallscope::session {
namespace {

// The reader grows its own code table; the target wants to own one.
struct Collecting {
  target::Target& target;

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    target.on_block(exit, info, addresses);
  }
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
    if (tag == SS_BLOCK)
      if (Status added = target.code.add(words, count); !added) return added;
    return target.on_record(tag, words, count);
  }
};

}  // namespace

Result<Recovered> recover(const std::string& path) {
  auto reader = stream::TraceReader::open(path);
  if (!reader) return reader.error();
  Recovered result{std::make_unique<target::Target>(), reader->truncated(), reader->truncated_at()};
  Collecting sink{*result.target};
  if (Status read = reader->for_each(sink); !read) return read.error();
  auto counts = reader->counts();
  if (!counts) return counts.error();
  target::Target& target = *result.target;
  if (*counts) target.set_taken(std::move(**counts));
  target.close(std::max(target.last_when(), target.first_when() + target.executed()));
  return result;
}

}  // namespace stallscope::session
