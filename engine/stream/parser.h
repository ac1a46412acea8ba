// SPDX-License-Identifier: Apache-2.0
// Walks a stretch of the stream and hands out what is in it. The hot loop of recording and replay,
// so the sink is a template parameter.
//
// A sink has:
//   void on_block(std::uint32_t exit, const Exit& info, const std::uint64_t* addresses);
//   Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count);
// and may have
//   std::size_t on_blocks(std::span<const std::uint64_t> words);
// which takes the block executions in front of a stretch, as many as it wants; the words they take;
// and
//   void on_values(const Exit& info, const std::uint64_t* addresses, const std::uint64_t* values);
// which comes behind on_block where the writer kept values: they stand behind room for the
// addresses of all operations of the block. `addresses` holds info.operations words and is valid
// during the call. `block` records go into the code table first and then to on_record like every
// other.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "stallscope_records.h"
#include "stallscope_tables.h"
#include "stream/code_table.h"

namespace stallscope::stream {

// Parses whole records only; a record that crosses the end of `words` is an error.
template <typename Sink>
Status parse(std::span<const std::uint64_t> words, CodeTable& code, Sink& sink) {
  const std::uint64_t* at = words.data();
  const std::uint64_t* const end = at + words.size();
  while (at < end) {
    if constexpr (requires { sink.on_blocks(words); }) {
      at += sink.on_blocks({at, end});
      if (at == end) break;
    }
    const std::uint64_t head = *at;
    if (SS_HEAD_TAG(head) == SS_BLOCK_TAG) {
      const std::uint32_t exit = SS_HEAD_THREAD(head);
      if (exit >= code.exits.size())
        return Error{"the stream names a block it never defined", "", ""};
      const Exit& info = code.exits[exit];
      const std::uint32_t length = SS_HEAD_WORDS(head);
      const bool plain = length == 1 + info.operations;
      const std::uint32_t room = plain ? 0 : code.blocks[info.block].operations;
      if (length != 1 + room + info.operations)
        return Error{"the stream has a block execution of the wrong length", "", ""};
      if (static_cast<std::uint64_t>(end - at) < length)
        return Error{"the stream ends inside a block execution", "", ""};
      sink.on_block(exit, info, at + 1);
      if constexpr (requires { sink.on_values(info, at, at); })
        if (!plain) sink.on_values(info, at + 1, at + 1 + room);
      at += length;
      continue;
    }
    const unsigned tag = SS_HEAD_TAG(head);
    const std::uint32_t count = SS_HEAD_WORDS(head);
    if (record_shape(tag).words == 0)
      return Error{"the stream has a record of an unknown kind", "", ""};
    if (count < 2 || count > static_cast<std::uint64_t>(end - at))
      return Error{"the stream ends inside a record", "", ""};
    if (tag == SS_BLOCK) {
      if (Status added = code.add(at, count); !added) return added;
    }
    if (Status taken = sink.on_record(tag, at, count); !taken) return taken;
    at += count;
  }
  return Done{};
}

}  // namespace stallscope::stream
