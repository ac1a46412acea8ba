// SPDX-License-Identifier: Apache-2.0
// Accesses as rows of a table: which columns there are, and what they must hold. For text and for
// tables alike.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sources/access_stream.h"

namespace stallscope::sources {

enum class AccessColumn { address, size, kind, ip, thread, time };

// By any of its names, whatever their case.
std::optional<AccessColumn> column_named(std::string_view name);
std::string column_names();
// There must be an address, and no column twice.
Status check_columns(std::span<const AccessColumn> columns);

// "load", "store" or "modify", their first letters, "read", "write", "r", "w", or 0, 1, 2.
bool read_kind(std::string_view text, std::uint8_t& kind);

struct AccessRow {
  std::uint64_t address = 0;
  std::uint64_t size = 1;
  std::uint64_t ip = 0;
  std::uint64_t thread = 0;
  std::uint64_t time = 0;
  std::uint8_t kind = 0;

  void set(AccessColumn column, std::uint64_t value);
};

// Rows come in the order of their times; each becomes an instruction with one access.
class AccessRows {
 public:
  Status add(const AccessRow& row, AccessStream& stream);

 private:
  std::uint64_t time_ = 0;
};

}  // namespace stallscope::sources
