// SPDX-License-Identifier: Apache-2.0
// Readers of other tools' traces. They are given the file piece by piece, so that it may be packed
// or larger than memory, and pass on what they read to an AccessStream. An error says in which line
// or at which byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sources/access_stream.h"

namespace stallscope::sources {

class TraceReader {
 public:
  virtual ~TraceReader() = default;
  virtual Status feed(std::span<const std::byte> bytes) = 0;
  // Behind the last piece.
  virtual Status finish() = 0;
  // Whole pieces of the file that said nothing about accesses; lines of text.
  std::uint64_t skipped() const { return skipped_; }
  // The trace ends inside something: whatever stood in front was read.
  bool cut_off() const { return cut_off_; }
  // As many accesses as were asked for have been read; what is fed from now on is ignored.
  bool full() const { return most_ != 0 && stream_->totals().accesses >= most_; }

 protected:
  TraceReader(AccessStream& stream, std::string name, std::uint64_t most)
      : stream_(&stream), name_(std::move(name)), most_(most) {}
  AccessStream* stream_;
  std::string name_;
  std::uint64_t most_;
  std::uint64_t skipped_ = 0;
  bool cut_off_ = false;
};

// The only list of formats that come as bytes.
struct TraceFormat {
  const char* name;
  const char* explanation;
  std::unique_ptr<TraceReader> (*make)(AccessStream&, std::string name, std::uint64_t most);
};
std::span<const TraceFormat> trace_formats();

// `name` is the file, for messages; `most` accesses are read at most, 0 for all.
Result<std::unique_ptr<TraceReader>> make_reader(std::string_view format, AccessStream& stream,
                                                 std::string name, std::uint64_t most);

std::unique_ptr<TraceReader> make_lackey(AccessStream&, std::string, std::uint64_t);
std::unique_ptr<TraceReader> make_champsim(AccessStream&, std::string, std::uint64_t);
std::unique_ptr<TraceReader> make_drmemtrace(AccessStream&, std::string, std::uint64_t);
std::unique_ptr<TraceReader> make_csv(AccessStream&, std::string, std::uint64_t);

// Cuts text into lines.
class LineReader : public TraceReader {
 public:
  Status feed(std::span<const std::byte> bytes) override;
  Status finish() override;

 protected:
  using TraceReader::TraceReader;
  static constexpr std::size_t kLongestLine = 4096;

  // Without its end.
  virtual Status line(std::string_view text) = 0;
  virtual Status end() { return Done{}; }
  Error wrong(std::string why) const;
  std::uint64_t number() const { return number_; }

 private:
  Status take(std::string_view text);
  std::string rest_;  // of a line whose end has not come
  std::uint64_t number_ = 0;
};

// Collects the accesses of one instruction until the next begins.
class Pending {
 public:
  explicit Pending(AccessStream& stream) : stream_(stream) {}
  Status begin(std::uint64_t ip, std::uint32_t length, std::uint64_t thread);
  bool open() const { return open_; }
  bool belongs(std::uint64_t thread) const { return open_ && thread_ == thread; }
  std::uint64_t ip() const { return ip_; }
  Status add(const TracedAccess& access);
  Status flush();

 private:
  AccessStream& stream_;
  std::vector<TracedAccess> accesses_;
  std::uint64_t ip_ = 0, thread_ = 0;
  std::uint32_t length_ = 1;
  bool open_ = false;
};

// "0x1f", "1f" when `base` is 16, "31" when it is 10; 0 takes either by its beginning. False for
// anything else, and for what does not fit.
bool read_number(std::string_view text, int base, std::uint64_t& value);

}  // namespace stallscope::sources
