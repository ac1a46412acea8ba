// SPDX-License-Identifier: Apache-2.0
// Comma-separated accesses: a header that names the columns, then a line for each access. Also
// separated by semicolons or tabs, when the header is. Numbers are decimal, or hexadecimal with 0x.
#include <array>
#include <optional>

#include "sources/columns.h"
#include "sources/trace_reader.h"

namespace stallscope::sources {
namespace {

std::string_view bare(std::string_view field) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!field.empty() && is_blank(field.front())) field.remove_prefix(1);
  while (!field.empty() && is_blank(field.back())) field.remove_suffix(1);
  if (field.size() >= 2 && field.front() == '"' && field.back() == '"')
    field = field.substr(1, field.size() - 2);
  return field;
}

std::string quoted(std::string_view text) {
  return "'" + std::string(text.substr(0, 40)) + (text.size() > 40 ? "…'" : "'");
}

class Csv : public LineReader {
 public:
  Csv(AccessStream& stream, std::string name, std::uint64_t most)
      : LineReader(stream, std::move(name), most) {}

 protected:
  Status line(std::string_view text) override {
    if (bare(text).empty()) return Done{};
    if (columns_.empty()) return header(text);
    std::array<std::string_view, kMostFields> fields;
    const std::size_t count = split(text, fields);
    if (count != columns_.size())
      return Error{"",
                   "it has " + std::to_string(count) + " fields, the header " +
                       std::to_string(columns_.size()),
                   ""};
    AccessRow row;
    for (std::size_t i = 0; i < count; ++i)
      if (Status done = put(columns_[i], fields[i], row); !done) return done;
    return rows_.add(row, *stream_);
  }
  Status end() override {
    if (columns_.empty()) return Error{name_ + " has no header", "it is empty", ""};
    if (stream_->totals().accesses == 0) return Error{name_ + " has no accesses", "", ""};
    return Done{};
  }

 private:
  static constexpr std::size_t kMostFields = 64;

  std::size_t split(std::string_view text, std::span<std::string_view> fields) const {
    std::size_t count = 0;
    for (;;) {
      const std::size_t end = std::min(text.find(separator_), text.size());
      if (count < fields.size()) fields[count] = bare(text.substr(0, end));
      ++count;
      if (end == text.size()) return count;
      text.remove_prefix(end + 1);
    }
  }

  Status header(std::string_view text) {
    if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
    for (const char separator : {';', '\t'})
      if (text.find(',') == std::string_view::npos &&
          text.find(separator) != std::string_view::npos)
        separator_ = separator;
    std::array<std::string_view, kMostFields> fields;
    const std::size_t count = split(text, fields);
    if (count > kMostFields) return Error{"", "it has too many columns", ""};
    for (std::size_t i = 0; i < count; ++i) {
      const std::optional<AccessColumn> column = column_named(fields[i]);
      if (!column)
        return Error{
            "", "there is no column " + quoted(fields[i]) + "; known are " + column_names(), ""};
      columns_.push_back(*column);
    }
    return check_columns(columns_);
  }

  static Status put(AccessColumn column, std::string_view field, AccessRow& row) {
    if (column == AccessColumn::kind) {
      if (read_kind(field, row.kind)) return Done{};
      return Error{"", quoted(field) + " is no kind; known are load, store and modify", ""};
    }
    std::uint64_t value = 0;
    if (!read_number(field, 0, value)) return Error{"", quoted(field) + " is no number", ""};
    row.set(column, value);
    return Done{};
  }

  char separator_ = ',';
  std::vector<AccessColumn> columns_;
  AccessRows rows_;
};

}  // namespace

std::unique_ptr<TraceReader> make_csv(AccessStream& stream, std::string name, std::uint64_t most) {
  return std::make_unique<Csv>(stream, std::move(name), most);
}

}  // namespace stallscope::sources
