// SPDX-License-Identifier: Apache-2.0
// Builds perf.data files in memory.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "perf_words.h"

namespace stallscope::sources {

inline constexpr std::size_t kAttributeBytes = 128;

inline Bytes perf_attribute(std::uint64_t sample_type, std::uint64_t config = 0) {
  constexpr std::uint64_t kSampleIdAll = 1U << 18;
  Bytes attribute;
  attribute.u32(1).u32(kAttributeBytes).u64(config).u64(1000).u64(sample_type).u64(0);
  attribute.u64(kSampleIdAll);
  attribute.bytes.resize(kAttributeBytes);
  return attribute;
}

struct PerfFile {
  std::vector<std::pair<Bytes, std::vector<std::uint64_t>>> events;  // attribute, ids
  Bytes data;
  std::vector<std::pair<unsigned, Bytes>> features;  // by number, ascending

  std::vector<std::byte> bytes() const {
    Bytes file;
    const std::uint64_t ids_at = 104;
    std::uint64_t ids = 0;
    for (const auto& [attribute, list] : events) ids += list.size() * 8;
    const std::uint64_t events_at = ids_at + ids;
    const std::uint64_t each = kAttributeBytes + 16;
    const std::uint64_t data_at = events_at + events.size() * each;
    std::uint64_t flags[4] = {};
    for (const auto& [feature, content] : features)
      flags[feature / 64] |= std::uint64_t{1} << (feature % 64);
    file.u64(0x32454c4946524550).u64(104).u64(each);
    file.u64(events_at).u64(events.size() * each);
    file.u64(data_at).u64(data.bytes.size()).u64(0).u64(0);
    for (const std::uint64_t word : flags) file.u64(word);
    for (const auto& [attribute, list] : events)
      for (const std::uint64_t id : list) file.u64(id);
    std::uint64_t at = ids_at;
    for (const auto& [attribute, list] : events) {
      file.append(attribute).u64(at).u64(list.size() * 8);
      at += list.size() * 8;
    }
    file.append(data);
    at = file.bytes.size() + features.size() * 16;
    for (const auto& [feature, content] : features) {
      file.u64(at).u64(content.bytes.size());
      at += content.bytes.size();
    }
    for (const auto& [feature, content] : features) file.append(content);
    return file.bytes;
  }
};

// As the features hold text: its length, then the text with zeros up to whole words.
inline Bytes perf_text(std::string_view text) {
  Bytes content, padded;
  padded.text(text);
  content.u32(static_cast<std::uint32_t>(padded.bytes.size()));
  return content.append(padded);
}

}  // namespace stallscope::sources
