// SPDX-License-Identifier: Apache-2.0
// ChampSim's trace: records of 64 bytes, one for each instruction. Its address, two bytes about
// branches, six register numbers, then the addresses of two stores and four loads, 0 for none.
// There are no sizes: an access is to one byte, so to one line, as ChampSim takes it.
#include "sources/cursor.h"
#include "sources/trace_reader.h"
#include "stallscope_records.h"

namespace stallscope::sources {
namespace {

constexpr std::size_t kRecordBytes = 64;
constexpr std::size_t kRegisters = 6;
constexpr unsigned kStores = 2, kLoads = 4;

class ChampSim : public TraceReader {
 public:
  ChampSim(AccessStream& stream, std::string name, std::uint64_t most)
      : TraceReader(stream, std::move(name), most) {}

  Status feed(std::span<const std::byte> bytes) override {
    if (!rest_.empty()) {
      const std::size_t missing = std::min(kRecordBytes - rest_.size(), bytes.size());
      rest_.insert(rest_.end(), bytes.begin(),
                   bytes.begin() + static_cast<std::ptrdiff_t>(missing));
      bytes = bytes.subspan(missing);
      if (rest_.size() < kRecordBytes) return Done{};
      if (Status done = take(rest_); !done) return done;
      rest_.clear();
    }
    for (; bytes.size() >= kRecordBytes && !full(); bytes = bytes.subspan(kRecordBytes))
      if (Status done = take(bytes.first(kRecordBytes)); !done) return done;
    if (!full()) rest_.assign(bytes.begin(), bytes.end());
    return Done{};
  }

  Status finish() override {
    if (!rest_.empty()) cut_off_ = true;
    if (stream_->totals().accesses == 0)
      return Error{name_ + " is no ChampSim trace", "no record of it has an access", ""};
    return Done{};
  }

 private:
  Status take(std::span<const std::byte> record) {
    Cursor in(record);
    const std::uint64_t ip = in.u64();
    const std::uint8_t is_branch = in.u8();
    const std::uint8_t taken = in.u8();
    in.bytes(kRegisters);
    if (is_branch > 1 || taken > 1)
      return wrong("a record says neither that it is a branch nor that it is none");
    TracedAccess accesses[kStores + kLoads];
    unsigned stores = 0, count = 0;
    std::uint64_t stored[kStores];
    for (std::uint64_t& address : stored) address = in.u64();
    // An instruction reads before it writes.
    for (unsigned i = 0; i < kLoads; ++i) count += put(in.u64(), SS_OP_KIND_LOAD, accesses + count);
    for (; stores < kStores; ++stores)
      count += put(stored[stores], SS_OP_KIND_STORE, accesses + count);
    Status done = stream_->execute(ip, 1, 1, std::span(accesses, count));
    offset_ += kRecordBytes;
    return !done && done.error().what.empty() ? Status(wrong(done.error().why)) : done;
  }
  static unsigned put(std::uint64_t address, std::uint8_t kind, TracedAccess* access) {
    if (address == 0 || address == ~std::uint64_t{0}) return 0;
    *access = {address, 1, kind};
    return 1;
  }
  Error wrong(std::string why) const {
    return Error{name_ + " cannot be read at byte " + std::to_string(offset_), std::move(why),
                 "give the format with --format"};
  }

  std::vector<std::byte> rest_;  // of a record whose end has not come
  std::uint64_t offset_ = 0;     // in the unpacked file
};

}  // namespace

std::unique_ptr<TraceReader> make_champsim(AccessStream& stream, std::string name,
                                           std::uint64_t most) {
  return std::make_unique<ChampSim>(stream, std::move(name), most);
}

}  // namespace stallscope::sources
