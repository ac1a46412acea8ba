// SPDX-License-Identifier: Apache-2.0
// Valgrind's lackey with --trace-mem=yes: "I  ADDRESS,SIZE" for an instruction, and " L", " S" or
// " M" for the loads, stores and modifies that it then makes. Lines of Valgrind itself and of the
// program may stand between them.
#include "sources/trace_reader.h"
#include "stallscope_records.h"

namespace stallscope::sources {
namespace {

class Lackey : public LineReader {
 public:
  Lackey(AccessStream& stream, std::string name, std::uint64_t most)
      : LineReader(stream, std::move(name), most), pending_(stream) {}

 protected:
  Status line(std::string_view text) override {
    if (text.size() < 4 || !is_access(text)) {
      if (!text.empty()) ++skipped_;
      return Done{};
    }
    const char kind = text[0] == 'I' ? 'I' : text[1];
    text.remove_prefix(3);
    std::uint64_t address = 0, size = 0;
    const std::size_t comma = text.find(',');
    if (comma == std::string_view::npos || !read_number(text.substr(0, comma), 16, address) ||
        !read_number(text.substr(comma + 1), 10, size) || size > AccessStream::kLargest)
      return Error{"", "ADDRESS,SIZE is missing behind " + std::string(1, kind), ""};
    if (kind == 'I') return pending_.begin(address, static_cast<std::uint32_t>(size), 1);
    if (!pending_.open())
      if (Status done = pending_.begin(0, 1, 1); !done) return done;
    const std::uint8_t does = kind == 'L'   ? SS_OP_KIND_LOAD
                              : kind == 'S' ? SS_OP_KIND_STORE
                                            : SS_OP_KIND_MODIFY;
    return pending_.add({address, static_cast<std::uint32_t>(size), does});
  }
  Status end() override {
    if (Status done = pending_.flush(); !done) return done;
    if (stream_->totals().accesses == 0)
      return Error{name_ + " is no lackey trace", "no line of it is an access",
                   "valgrind --tool=lackey --trace-mem=yes --log-file=FILE PROGRAM"};
    return Done{};
  }

 private:
  static bool is_access(std::string_view text) {
    if (text[0] == 'I') return text[1] == ' ' && text[2] == ' ';
    return text[0] == ' ' && (text[1] == 'L' || text[1] == 'S' || text[1] == 'M') && text[2] == ' ';
  }
  Pending pending_;
};

}  // namespace

std::unique_ptr<TraceReader> make_lackey(AccessStream& stream, std::string name,
                                         std::uint64_t most) {
  return std::make_unique<Lackey>(stream, std::move(name), most);
}

}  // namespace stallscope::sources
