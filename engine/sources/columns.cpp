// SPDX-License-Identifier: Apache-2.0
#include "sources/columns.h"

#include <algorithm>

#include "stallscope_records.h"

namespace stallscope::sources {
namespace {

struct Name {
  const char* name;
  AccessColumn column;
};
// The only list of columns; the first name of each is the one to show.
constexpr Name kColumns[] = {
    {"address", AccessColumn::address}, {"addr", AccessColumn::address},
    {"size", AccessColumn::size},       {"bytes", AccessColumn::size},
    {"kind", AccessColumn::kind},       {"type", AccessColumn::kind},
    {"op", AccessColumn::kind},         {"rw", AccessColumn::kind},
    {"ip", AccessColumn::ip},           {"pc", AccessColumn::ip},
    {"thread", AccessColumn::thread},   {"tid", AccessColumn::thread},
    {"time", AccessColumn::time},
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

}  // namespace

std::optional<AccessColumn> column_named(std::string_view name) {
  const std::string wanted = lower(name);
  for (const Name& known : kColumns)
    if (wanted == known.name) return known.column;
  return std::nullopt;
}

std::string column_names() {
  std::string names;
  for (std::size_t i = 0; i < std::size(kColumns); ++i) {
    if (i > 0 && kColumns[i].column == kColumns[i - 1].column) continue;
    names += (names.empty() ? "" : ", ") + std::string(kColumns[i].name);
  }
  return names;
}

Status check_columns(std::span<const AccessColumn> columns) {
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (std::count(columns.begin(), columns.begin() + static_cast<std::ptrdiff_t>(i), columns[i]))
      return Error{"", "two columns mean the same", ""};
  if (std::find(columns.begin(), columns.end(), AccessColumn::address) == columns.end())
    return Error{"", "there is no column address", ""};
  return Done{};
}

bool read_kind(std::string_view text, std::uint8_t& kind) {
  static constexpr std::pair<const char*, std::uint8_t> kKinds[] = {
      {"load", SS_OP_KIND_LOAD}, {"l", SS_OP_KIND_LOAD},        {"read", SS_OP_KIND_LOAD},
      {"r", SS_OP_KIND_LOAD},    {"0", SS_OP_KIND_LOAD},        {"store", SS_OP_KIND_STORE},
      {"s", SS_OP_KIND_STORE},   {"write", SS_OP_KIND_STORE},   {"w", SS_OP_KIND_STORE},
      {"1", SS_OP_KIND_STORE},   {"modify", SS_OP_KIND_MODIFY}, {"m", SS_OP_KIND_MODIFY},
      {"2", SS_OP_KIND_MODIFY}};
  const std::string word = lower(text);
  for (const auto& [name, value] : kKinds) {
    if (word != name) continue;
    kind = value;
    return true;
  }
  return false;
}

void AccessRow::set(AccessColumn column, std::uint64_t value) {
  switch (column) {
    case AccessColumn::address:
      address = value;
      return;
    case AccessColumn::size:
      size = value;
      return;
    case AccessColumn::ip:
      ip = value;
      return;
    case AccessColumn::thread:
      thread = value;
      return;
    case AccessColumn::time:
      time = value;
      return;
    case AccessColumn::kind:
      return;  // set by read_kind
  }
}

Status AccessRows::add(const AccessRow& row, AccessStream& stream) {
  if (row.size == 0 || row.size > AccessStream::kLargest)
    return Error{"", "an access of " + std::to_string(row.size) + " bytes is out of range", ""};
  if (row.address == ~std::uint64_t{0}) return Error{"", "an address is out of range", ""};
  if (row.time < time_)
    return Error{"", "its time lies before that of the row in front; sort the rows by time", ""};
  time_ = row.time;
  const TracedAccess access{row.address, static_cast<std::uint32_t>(row.size), row.kind};
  return stream.execute(row.ip, 1, row.thread, std::span(&access, 1));
}

}  // namespace stallscope::sources
