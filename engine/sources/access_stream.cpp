// SPDX-License-Identifier: Apache-2.0
#include "sources/access_stream.h"

#include <algorithm>

#include "stallscope_records.h"
#include "stream/record.h"

namespace stallscope::sources {
namespace {

constexpr std::uint64_t kLastAddress = (std::uint64_t{1} << 47) - 1;  // that a block can have
constexpr std::uint32_t kLongest = 15;
constexpr std::size_t kRecent = 1U << 14;

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15;
  return hash ^ (hash >> 29);
}

std::uint64_t hash_of(std::uint64_t ip, std::uint32_t length,
                      std::span<const TracedAccess> accesses) {
  std::uint64_t hash = mix(ip, length);
  for (const TracedAccess& access : accesses)
    hash = mix(hash, std::uint64_t{access.size} << 8 | access.kind);
  return hash;
}

}  // namespace

AccessStream::AccessStream(std::unique_ptr<stream::Output> output)
    : writer_(std::move(output), code_), recent_(kRecent, 0) {}

Result<std::unique_ptr<AccessStream>> AccessStream::create(
    const std::string& path, const std::vector<std::string>& command,
    const std::vector<TracedMapping>& mappings) {
  auto output = stream::create_file(path);
  if (!output) return output.error();
  return create(std::move(*output), command, mappings);
}

Result<std::unique_ptr<AccessStream>> AccessStream::create(
    std::unique_ptr<stream::Output> output, const std::vector<std::string>& command,
    const std::vector<TracedMapping>& mappings) {
  std::unique_ptr<AccessStream> made(new AccessStream(std::move(output)));
  std::string tail;
  for (const std::string& word : command) tail.append(word).push_back('\0');
  if (Status done = made->record(SS_PROCESS_START, 0, {0, 0, 0, 0}, tail); !done)
    return done.error();
  for (const TracedMapping& m : mappings) {
    if (Status done =
            made->record(SS_MAP, 0, {m.start, m.end - m.start, m.access, m.offset}, m.path);
        !done)
      return done.error();
    made->areas_.leave_out(m.start, m.end);
  }
  return made;
}

Status AccessStream::record(unsigned tag, std::uint32_t thread,
                            std::initializer_list<std::uint64_t> fields, std::string_view tail) {
  words_.clear();
  stream::append_record(words_, tag, thread, totals_.instructions, fields, tail);
  return writer_.on_record(tag, words_.data(), static_cast<std::uint32_t>(words_.size()));
}

Status AccessStream::run_thread(std::uint64_t thread) {
  if (thread_ != 0 && thread == running_) return Done{};
  const auto [found, is_new] =
      threads_.try_emplace(thread, static_cast<std::uint32_t>(threads_.size() + 1));
  if (is_new && threads_.size() > kMostThreads)
    return Error{"", "it has more than " + std::to_string(kMostThreads) + " threads", ""};
  running_ = thread;
  const std::uint32_t parent = thread_ == 0 ? 0 : 1;
  thread_ = found->second;
  totals_.threads = threads_.size();
  if (is_new)
    if (Status done = record(SS_THREAD_START, thread_, {parent, thread & 0xffffffff, 0}); !done)
      return done;
  return record(SS_THREAD_SWITCH, thread_, {0});
}

bool AccessStream::is(std::uint32_t exit, std::uint64_t ip, std::uint32_t length,
                      std::span<const TracedAccess> accesses) const {
  const stream::Block& block = code_.blocks[exit];  // one exit a block
  if (block.address != ip || block.size != length || block.operations != accesses.size())
    return false;
  const stream::Operation* operation = code_.operations.data() + block.first_operation;
  for (const TracedAccess& access : accesses) {
    if (operation->size != access.size || operation->kind != access.kind) return false;
    ++operation;
  }
  return true;
}

Result<std::uint32_t> AccessStream::add_block(std::uint64_t ip, std::uint32_t length,
                                              std::span<const TracedAccess> accesses) {
  const auto exit = static_cast<std::uint32_t>(code_.exits.size());
  const auto operations = static_cast<std::uint32_t>(accesses.size());
  std::string tail;
  const auto put = [&](auto value) {
    tail.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  put(ip | std::uint64_t{length} << 48);
  for (const TracedAccess& access : accesses) {
    put(std::uint16_t{0});
    put(access.kind);
    put(std::uint8_t{0});
    put(access.size);
  }
  put(std::uint32_t{1});
  put(operations);
  tail.append(length, '\0');  // what the instruction is, nobody told
  words_.clear();
  stream::append_record(words_, SS_BLOCK, thread_, totals_.instructions,
                        {exit, ip, 1, operations, 1}, tail);
  const auto count = static_cast<std::uint32_t>(words_.size());
  if (Status added = code_.add(words_.data(), count); !added) return added.error();
  if (Status told = writer_.on_record(SS_BLOCK, words_.data(), count); !told) return told.error();
  return exit;
}

Result<std::uint32_t> AccessStream::exit_of(std::uint64_t ip, std::uint32_t length,
                                            std::span<const TracedAccess> accesses) {
  std::uint32_t& recent = recent_[ip % kRecent];
  if (recent < code_.blocks.size() && is(recent, ip, length, accesses)) return recent;
  const std::uint64_t hash = hash_of(ip, length, accesses);
  const auto [first, last] = exits_.equal_range(hash);
  for (auto at = first; at != last; ++at)
    if (is(at->second, ip, length, accesses)) return recent = at->second;
  if (code_.blocks.size() >= kMostBlocks && ip != 0) {
    ++totals_.unplaced;
    return exit_of(0, 1, accesses);
  }
  // Without an address there is a block for each shape; a few thousand shapes are enough.
  if (code_.blocks.size() >= 2 * kMostBlocks)
    return Error{"", "its accesses have too many different sizes", ""};
  auto made = add_block(ip, length, accesses);
  if (!made) return made;
  exits_.emplace(hash, *made);
  return recent = *made;
}

Status AccessStream::execute(std::uint64_t ip, std::uint32_t length, std::uint64_t thread,
                             std::span<const TracedAccess> accesses) {
  if (Status done = run_thread(thread); !done) return done;
  if (ip > kLastAddress) {
    ++totals_.unplaced;
    ip = 0;
  }
  auto exit = exit_of(ip, ip == 0 ? 1 : std::clamp(length, 1U, kLongest), accesses);
  if (!exit) return exit.error();
  addresses_.clear();
  for (const TracedAccess& access : accesses) {
    addresses_.push_back(access.address);
    areas_.touch(access.address);
  }
  writer_.on_block(*exit, code_.exits[*exit], addresses_.data());
  ++totals_.instructions;
  totals_.accesses += accesses.size();
  return writer_.failed() ? writer_.take_error() : Status(Done{});
}

Status AccessStream::close() {
  if (thread_ == 0)
    if (Status done = run_thread(0); !done) return done;
  return writer_.close();
}

}  // namespace stallscope::sources
