// SPDX-License-Identifier: Apache-2.0
// Reading one record of the stream out of words that may be damaged.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "stallscope_records.h"
#include "stallscope_tables.h"

namespace stallscope::stream {

// A record's fields and its tail, pointing into the words it was read from.
template <typename Record>
struct View {
  const Record* fields;
  std::string_view tail;
};

// The tail of a record, empty when its kind has none. `words` is the record, `count` its length as
// the head says; the caller has checked that `count` words are there. Checks that the length fits
// the declared shape of the record's kind.
inline Result<std::string_view> tail_of(const std::uint64_t* words, std::uint32_t count) {
  const RecordShape shape = record_shape(SS_HEAD_TAG(words[0]));
  if (!shape.tail) {
    if (count != shape.words) return Error{"the stream has a record of a wrong length", "", ""};
    return std::string_view();
  }
  if (count < shape.words + 1) return Error{"the stream has a record without its tail", "", ""};
  const std::uint64_t bytes = words[shape.words];
  if (bytes > (count - shape.words - 1) * 8ULL || count != shape.words + 1 + (bytes + 7) / 8)
    return Error{"the stream has a record whose tail does not fit", "", ""};
  return std::string_view(reinterpret_cast<const char*>(words + shape.words + 1), bytes);
}

template <typename Record>
Result<View<Record>> view(const std::uint64_t* words, std::uint32_t count) {
  if (record_shape(SS_HEAD_TAG(words[0])).words != sizeof(Record) / 8)
    return Error{"the stream has a record of another kind", "", ""};
  auto tail = tail_of(words, count);
  if (!tail) return tail.error();
  return View<Record>{reinterpret_cast<const Record*>(words), *tail};
}

// Appends one record; a tail only where the record's shape has one.
void append_record(std::vector<std::uint64_t>& words, unsigned tag, std::uint32_t thread,
                   std::uint64_t when, std::initializer_list<std::uint64_t> fields,
                   std::string_view tail = {});

}  // namespace stallscope::stream
