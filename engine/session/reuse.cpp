// SPDX-License-Identifier: Apache-2.0
#include "session/reuse.h"

#include <bit>

#include "base/flat_map.h"
#include "stack/lru_stack.h"
#include "stream/reader.h"

namespace stallscope::session {
namespace {

constexpr unsigned kStepBits = 4;  // sixteen steps from one power of two to the next

// Takes the touches of a trace.
class Touches {
 public:
  Touches(const ReuseOptions& options, const stream::CodeTable& code)
      : shift_(static_cast<unsigned>(std::countr_zero(options.granule))),
        all_(options.all),
        code_(code) {
    for (const std::uint64_t granule : options.followed) followed_.try_emplace(granule >> shift_);
  }

  void on_block(std::uint32_t, const stream::Exit& info, const std::uint64_t* addresses) {
    for (std::uint32_t i = 0; i < info.operations; ++i) {
      const stream::Operation& operation = code_.operations[info.first_operation + i];
      if (addresses[i] == SS_NO_ADDRESS || operation.is_prefetch()) continue;
      ++out.accesses;
      const std::uint32_t size = operation.size;
      const std::uint64_t last = (addresses[i] + (size ? size - 1 : 0)) >> shift_;
      for (std::uint64_t granule = addresses[i] >> shift_; granule <= last; ++granule)
        touch(granule, info.block, operation);
    }
  }
  Status on_record(unsigned, const std::uint64_t*, std::uint32_t) { return status_; }

  Result<Reuse> finish() {
    flush();
    if (!status_) return status_.error();
    out.granules = stack_.distinct();
    out.curve = stack_.counts().curve();
    return std::move(out);
  }

  Reuse out;

 private:
  static constexpr std::size_t kBatch = 1 << 14;

  void touch(std::uint64_t granule, std::uint32_t block, const stream::Operation& operation) {
    const std::uint64_t time = out.touches++;
    if (all_) count(granule, time);
    if (!followed_.empty() && followed_.contains(granule)) {
      const std::size_t at = code_.blocks[block].first_instruction + operation.instruction;
      out.followed.push_back({granule << shift_, time, code_.instructions[at].address});
    }
  }

  void count(std::uint64_t granule, std::uint64_t time) {
    const auto [last, fresh] = last_.try_emplace(granule);
    if (!fresh) {
      const std::size_t index = Reuse::index_of(time - *last);
      if (index >= out.times.size()) out.times.resize(index + 1);
      ++out.times[index];
    }
    *last = time;
    batch_.push_back(granule);
    if (batch_.size() >= kBatch) flush();
  }

  void flush() {
    if (status_) status_ = stack_.append(batch_);
    batch_.clear();
  }

  unsigned shift_;
  bool all_;
  const stream::CodeTable& code_;
  FlatMap<std::uint64_t> last_;
  FlatMap<bool> followed_;
  stack::LruStack stack_;
  std::vector<std::uint64_t> batch_;
  Status status_ = Done{};
};

}  // namespace

std::size_t Reuse::index_of(std::uint64_t time) {
  if (time < (1u << kStepBits)) return time;
  const unsigned octave = static_cast<unsigned>(std::bit_width(time)) - kStepBits - 1;
  return (static_cast<std::size_t>(octave) << kStepBits) + (time >> octave);
}

std::uint64_t Reuse::shortest_at(std::size_t index) {
  if (index < (1u << kStepBits)) return index;
  const std::size_t octave = (index >> kStepBits) - 1;
  return static_cast<std::uint64_t>(index - (octave << kStepBits)) << octave;
}

Result<Reuse> reuse_of(const std::string& trace, const ReuseOptions& options) {
  if (!std::has_single_bit(options.granule))
    return Error{"a granule of " + std::to_string(options.granule) + " bytes",
                 "it must be a power of two", ""};
  auto reader = stream::TraceReader::open(trace);
  if (!reader) return reader.error();
  Touches touches(options, reader->code());
  if (Status read = reader->for_each(touches); !read) return read.error();
  auto found = touches.finish();
  if (found) found->truncated = reader->truncated();
  return found;
}

}  // namespace stallscope::session
