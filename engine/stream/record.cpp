// SPDX-License-Identifier: Apache-2.0
#include "stream/record.h"

#include <cstring>

namespace stallscope::stream {

void append_record(std::vector<std::uint64_t>& words, unsigned tag, std::uint32_t thread,
                   std::uint64_t when, std::initializer_list<std::uint64_t> fields,
                   std::string_view tail) {
  const RecordShape shape = record_shape(tag);
  const std::size_t tail_words = shape.tail ? 1 + (tail.size() + 7) / 8 : 0;
  const std::size_t start = words.size();
  words.resize(start + shape.words + tail_words);
  words[start] = SS_HEAD(tag, shape.words + tail_words, thread);
  words[start + 1] = when;
  std::size_t at = start + 2;
  for (std::uint64_t field : fields) words[at++] = field;
  if (!shape.tail) return;
  words[at] = tail.size();
  std::memcpy(words.data() + at + 1, tail.data(), tail.size());
}

}  // namespace stallscope::stream
