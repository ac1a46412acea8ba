// SPDX-License-Identifier: Apache-2.0
// Names for addresses of one ELF file, from DWARF, else from its symbol tables. Addresses are the
// file's own (as in its program headers): the caller subtracts the load bias.
// Damaged input never fails a look-up: it gives fewer names. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "symbols/image.h"
#include "symbols/limits.h"
#include "symbols/locals.h"
#include "symbols/string_table.h"
#include "symbols/types.h"

namespace stallscope::symbols {

struct Frame {
  StringId function = kNoString;
  StringId file = kNoString;
  std::uint32_t line = 0;  // 0: unknown
  bool inlined = false;    // into the next frame
};

struct Variable {
  StringId name = kNoString;
  StringId type = kNoString;  // kNoString: known from a symbol table only
  StringId file = kNoString;  // where it is declared
  std::uint32_t line = 0;
  std::uint64_t address = 0;
  std::uint64_t size = 0;  // 0: unknown
  TypeId type_id = kNoType;
};

// Index of a chain of frames; addresses with equal frames share one.
using LocationId = std::uint32_t;
inline constexpr LocationId kUnknownLocation = 0;  // no frames: print module+offset

struct OpenOptions {
  std::string build_id;                    // bytes; when given, the file must have this one
  std::vector<std::string> debug_folders;  // searched before the system's
  Limits limits;
};

class Symbols {
 public:
  // `strings` may be shared by many files, so that ids are the same across them. When the file is
  // gone or has another build id than asked for, its separate debug file will do.
  static Result<std::unique_ptr<Symbols>> open(const std::string& path, OpenOptions options,
                                               std::shared_ptr<StringTable> strings);
  static Result<std::unique_ptr<Symbols>> from_bytes(std::span<const std::uint8_t> bytes,
                                                     OpenOptions options,
                                                     std::shared_ptr<StringTable> strings);
  ~Symbols();
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  const Facts& facts() const;
  const std::string& path() const;
  std::string debug_path() const;  // the separate debug file in use, or empty
  bool has_dwarf() const;          // in the file or its debug file, and readable
  // Why some names may be missing although the file has them; empty when none are.
  std::string shortfall() const;

  // One location for each address, in the order given. Only units that an address falls into are
  // read; what was read is kept for the next call.
  std::vector<LocationId> resolve(std::span<const std::uint64_t> addresses);
  // Innermost first. Valid until the next call of resolve.
  std::span<const Frame> frames(LocationId location) const;
  std::size_t locations() const;
  std::vector<Frame> frames_at(std::uint64_t address);

  // Global and static variables, by address, each address once. Thread-local ones have no address
  // in the file and are left out. Read at the first call and kept.
  const std::vector<Variable>& variables();

  // The variable that holds the address, or null.
  const Variable* variable_at(std::uint64_t address);

  // The types of its debug information; null when it has none.
  TypeTable* types();
  // The function whose code lies at the address, with its variables; nothing when it has no debug
  // information. Read anew at each call.
  std::optional<Function> function_at(std::uint64_t address);
  // Where the function at the address begins, also where it has no name; nothing when not even that
  // is known.
  std::optional<std::uint64_t> function_start(std::uint64_t address);
  // Whether the code at the address is the allocator's own: malloc, free, and what they call.
  bool is_allocator(std::uint64_t address);
  // The file's bytes of loaded code from the address to the end of its segment.
  std::span<const std::uint8_t> code_from(std::uint64_t address) const;

  const StringTable& strings() const;
  std::string_view text(StringId id) const { return strings().text(id); }

 private:
  struct Parts;
  explicit Symbols(std::unique_ptr<Parts> parts);
  static Result<std::unique_ptr<Symbols>> make(std::unique_ptr<Image> image, OpenOptions options,
                                               std::shared_ptr<StringTable> strings);
  std::unique_ptr<Parts> parts_;
};

}  // namespace stallscope::symbols
