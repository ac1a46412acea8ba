// SPDX-License-Identifier: Apache-2.0
// What DynamoRIO's view tool prints: a line for each record, with its number, the number of
// instructions so far and a colon, the thread, and then "ifetch", "read" or "write" with
// "SIZE byte(s) @ 0xADDRESS"; behind an access "by PC 0xADDRESS". Other lines are left out.
#include "sources/trace_reader.h"
#include "stallscope_records.h"

namespace stallscope::sources {
namespace {

// The next word, which is taken off `text`.
std::string_view word(std::string_view& text) {
  const std::size_t start = text.find_first_not_of(' ');
  if (start == std::string_view::npos) return text = {};
  text.remove_prefix(start);
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view found = text.substr(0, end);
  text.remove_prefix(end);
  return found;
}

// "2765543", or "W0.T2765543" where several programs were traced.
bool read_thread(std::string_view text, std::uint64_t& thread) {
  const std::size_t at = text.rfind('T');
  return read_number(at == std::string_view::npos ? text : text.substr(at + 1), 10, thread);
}

class View : public LineReader {
 public:
  View(AccessStream& stream, std::string name, std::uint64_t most)
      : LineReader(stream, std::move(name), most), pending_(stream) {}

 protected:
  Status line(std::string_view text) override {
    std::uint64_t ignored = 0, thread = 0;
    const std::string_view record = word(text);
    std::string_view instruction = word(text);
    const bool numbered = instruction.size() > 1 && instruction.back() == ':';
    if (numbered) instruction.remove_suffix(1);
    if (!numbered || !read_number(record, 10, ignored) || !read_number(instruction, 10, ignored) ||
        !read_thread(word(text), thread))
      return skip();
    const std::string_view kind = word(text);
    if (kind != "ifetch" && kind != "read" && kind != "write") return skip();
    std::uint64_t size = 0, address = 0;
    if (!read_number(word(text), 10, size) || word(text) != "byte(s)" || word(text) != "@" ||
        !read_number(word(text), 16, address) || size > AccessStream::kLargest)
      return Error{"", "SIZE byte(s) @ ADDRESS is missing behind " + std::string(kind), ""};
    const auto bytes = static_cast<std::uint32_t>(size);
    if (kind == "ifetch") return pending_.begin(address, bytes, thread);
    std::uint64_t pc = 0;
    const bool has_pc = word(text) == "by" && word(text) == "PC" && read_number(word(text), 16, pc);
    if (!pending_.belongs(thread) || (has_pc && pc != pending_.ip()))
      if (Status done = pending_.begin(has_pc ? pc : 0, 1, thread); !done) return done;
    return pending_.add(
        {address, bytes,
         static_cast<std::uint8_t>(kind == "read" ? SS_OP_KIND_LOAD : SS_OP_KIND_STORE)});
  }
  Status end() override {
    if (Status done = pending_.flush(); !done) return done;
    if (stream_->totals().accesses == 0)
      return Error{name_ + " is nothing that DynamoRIO's view tool printed",
                   "no line of it is a read or a write",
                   "drrun -t drmemtrace -tool view -indir TRACE 2> FILE"};
    return Done{};
  }

 private:
  Status skip() {
    ++skipped_;
    return Done{};
  }
  Pending pending_;
};

}  // namespace

std::unique_ptr<TraceReader> make_drmemtrace(AccessStream& stream, std::string name,
                                             std::uint64_t most) {
  return std::make_unique<View>(stream, std::move(name), most);
}

}  // namespace stallscope::sources
