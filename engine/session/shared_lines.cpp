// SPDX-License-Identifier: Apache-2.0
#include "session/shared_lines.h"

#include <bit>

namespace stallscope::session {

void SharedLines::note(std::uint64_t line, const LineAccess& access, bool remote,
                       std::uint64_t waited, probes::Buckets& buckets) {
  const auto [note, fresh] = notes_.try_emplace(line);
  if (fresh) {
    note->address = access.address;
    note->bucket = buckets.find(access.address);
    if (const probes::Start* start = buckets.start_of(access.address)) note->start = start->address;
  }
  note->remote += remote;
  ++note->fills;
  note->cycles += waited;
  note->threads |= std::uint64_t{1} << (access.thread & 63);
}

void SharedLines::fill(std::uint32_t line_bits, SharedLineTable& table) const {
  std::map<std::uint64_t, Note> ordered;
  notes_.for_each([&](std::uint64_t line, const Note& note) { ordered[line] = note; });
  for (const auto& [line, note] : ordered)
    table.append({line << line_bits, note.address, note.bucket, note.start,
                  static_cast<std::uint32_t>(std::popcount(note.threads)), note.remote, note.fills,
                  note.cycles});
}

FollowedLines::FollowedLines(const std::vector<std::uint64_t>& addresses, std::uint32_t line_bits)
    : line_bits_(line_bits), sieve_(kSieve) {
  for (const std::uint64_t address : addresses) {
    const std::uint64_t line = address >> line_bits;
    const auto [index, fresh] = index_.try_emplace(line);
    if (!fresh) continue;
    *index = static_cast<std::uint32_t>(lines_.size());
    sieve_[line & (kSieve - 1)] = 1;
    addresses_.push_back(line << line_bits);
    Followed made;
    made.written.resize(std::size_t{1} << line_bits);
    made.writer.resize(std::size_t{1} << line_bits);
    lines_.push_back(std::move(made));
  }
}

bool FollowedLines::is_false(const Followed& line, std::uint32_t offset,
                             const LineAccess& access) const {
  const auto seen = line.seen.find(access.thread);
  const std::uint64_t since = seen == line.seen.end() ? 0 : seen->second;
  for (std::uint32_t i = offset; i < offset + access.size; ++i)
    if (line.written[i] > since && line.writer[i] != access.thread) return false;
  return true;
}

void FollowedLines::access(std::uint64_t line, const LineAccess& access, bool coherent,
                           std::uint64_t waited) {
  const std::uint32_t* const index = index_.find(line);
  if (!index) return;
  Followed& followed = lines_[*index];
  const auto offset =
      static_cast<std::uint32_t>(access.address & ((std::uint64_t{1} << line_bits_) - 1));
  Count& count =
      counts_[{*index, access.thread, access.operation, offset, access.size, access.writes}];
  ++count.count;
  count.misses += coherent;
  count.cycles += waited;
  if (coherent) count.false_misses += is_false(followed, offset, access);
  followed.seen[access.thread] = ++now_;
  if (!access.writes) return;
  for (std::uint32_t i = offset; i < offset + access.size; ++i) {
    followed.written[i] = now_;
    followed.writer[i] = access.thread;
  }
}

void FollowedLines::fill(SharedAccessTable& table) const {
  for (const auto& [key, count] : counts_) {
    const auto& [line, thread, operation, offset, size, writes] = key;
    table.append({addresses_[line], thread, operation, offset, size,
                  static_cast<std::uint8_t>(writes), count.count, count.misses, count.false_misses,
                  count.cycles});
  }
}

}  // namespace stallscope::session
