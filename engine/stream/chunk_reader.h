// SPDX-License-Identifier: Apache-2.0
// A file of chunks: its index, and the payload of each chunk once its checksum was right.
// Single thread; several readers may read one file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "stream/chunk.h"
#include "stream/chunk_source.h"
#include "stream/codec_columns.h"

namespace stallscope::stream {

struct ReadOptions {
  bool checksums = true;  // false for fuzzing only, to get at the code behind them
};

class ChunkReader {
 public:
  // Reads the headers. `damage`, when given, says which kind of damage an error is about.
  static Result<ChunkReader> open(const std::string& path, ReadOptions options = {},
                                  Damage* damage = nullptr);
  static Result<ChunkReader> open(std::unique_ptr<Source> source, std::string name,
                                  ReadOptions options = {}, Damage* damage = nullptr);

  const std::vector<ChunkEntry>& chunks() const { return index_.chunks; }
  bool truncated() const { return index_.damage.kind == Damage::Kind::truncated; }
  std::uint64_t truncated_at() const { return index_.damage.offset; }
  bool checksums() const { return options_.checksums; }
  // Of the last error.
  const Damage& damage() const { return damage_; }

  // Valid until the next call.
  Result<std::span<const std::byte>> payload(const ChunkEntry& entry);
  Status unpack(const ChunkEntry& entry, std::span<Column> columns);
  Result<Totals> totals(const ChunkEntry& entry);  // of END
  Error corrupt(const ChunkEntry& entry, std::string why);
  // What an error from inside a chunk means for the file.
  Status located(const ChunkEntry& entry, const Status& status);

 private:
  std::string name_;
  ReadOptions options_;
  std::unique_ptr<Source> source_;
  ChunkIndex index_;
  Damage damage_;
  Unpacker unpacker_;
  Bytes room_;
};

}  // namespace stallscope::stream
