// SPDX-License-Identifier: Apache-2.0
#include "sources/trace_reader.h"

#include <charconv>

namespace stallscope::sources {
namespace {

constexpr TraceFormat kFormats[] = {
    {"lackey", "valgrind --tool=lackey --trace-mem=yes", make_lackey},
    {"champsim", "ChampSim's instruction records of 64 bytes", make_champsim},
    {"drmemtrace", "what DynamoRIO's view tool prints", make_drmemtrace},
    {"csv", "a header and a line for each access", make_csv},
};

}  // namespace

std::span<const TraceFormat> trace_formats() { return kFormats; }

Result<std::unique_ptr<TraceReader>> make_reader(std::string_view format, AccessStream& stream,
                                                 std::string name, std::uint64_t most) {
  for (const TraceFormat& known : kFormats)
    if (format == known.name) return known.make(stream, std::move(name), most);
  return Error{"there is no format " + std::string(format), "", ""};
}

bool read_number(std::string_view text, int base, std::uint64_t& value) {
  const bool prefixed = text.size() > 2 && text[0] == '0' && (text[1] | 0x20) == 'x';
  if (prefixed && base != 10) {
    text.remove_prefix(2);
    base = 16;
  }
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value, base == 0 ? 10 : base);
  return read.ec == std::errc() && read.ptr == end && !text.empty();
}

Error LineReader::wrong(std::string why) const {
  return Error{name_ + " cannot be read at line " + std::to_string(number_), std::move(why),
               "stallscope import --help"};
}

Status LineReader::take(std::string_view text) {
  ++number_;
  if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  if (text.size() > kLongestLine) return wrong("the line is longer than a trace's can be");
  Status done = line(text);
  if (!done && done.error().what.empty()) return wrong(done.error().why);
  return done;
}

Status LineReader::feed(std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (!text.empty() && !full()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      rest_.append(text);
      if (rest_.size() > 2 * kLongestLine) return take(rest_);
      return Done{};
    }
    std::string_view one = text.substr(0, end);
    if (!rest_.empty()) {
      rest_.append(one);
      one = rest_;
    }
    Status done = take(one);
    rest_.clear();
    if (!done) return done;
    text.remove_prefix(end + 1);
  }
  return Done{};
}

Status LineReader::finish() {
  if (!rest_.empty() && !full())
    if (Status done = take(rest_); !done) return done;
  Status done = end();
  return !done && done.error().what.empty() ? Status(wrong(done.error().why)) : done;
}

Status Pending::begin(std::uint64_t ip, std::uint32_t length, std::uint64_t thread) {
  if (Status done = flush(); !done) return done;
  ip_ = ip;
  length_ = length;
  thread_ = thread;
  open_ = true;
  return Done{};
}

Status Pending::add(const TracedAccess& access) {
  if (access.size == 0 || access.size > AccessStream::kLargest)
    return Error{"", "an access of " + std::to_string(access.size) + " bytes is out of range", ""};
  if (access.address == ~std::uint64_t{0}) return Error{"", "an address is out of range", ""};
  if (accesses_.size() >= AccessStream::kMostAtOnce)
    return Error{"", "an instruction makes too many accesses", ""};
  accesses_.push_back(access);
  return Done{};
}

Status Pending::flush() {
  if (!open_) return Done{};
  open_ = false;
  Status done = stream_.execute(ip_, length_, thread_, accesses_);
  accesses_.clear();
  return done;
}

}  // namespace stallscope::sources
