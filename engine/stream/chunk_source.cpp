// SPDX-License-Identifier: Apache-2.0
#include "stream/chunk_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace stallscope::stream {
namespace {

class FileSource : public Source {
 public:
  FileSource(int file, std::uint64_t size) : file_(file), size_(size) {}
  ~FileSource() override { ::close(file_); }

  std::uint64_t size() const override { return size_; }

  Result<std::span<const std::byte>> read(std::uint64_t offset, std::size_t length,
                                          Bytes& room) const override {
    if (room.size() < length) room.resize(length);
    for (std::size_t done = 0; done < length;) {
      const ssize_t got =
          ::pread(file_, room.data() + done, length - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0)
        return Error{"", got < 0 ? std::strerror(errno) : "it became shorter meanwhile", ""};
      done += static_cast<std::size_t>(got);
    }
    return std::span<const std::byte>(room.data(), length);
  }

 private:
  int file_;
  std::uint64_t size_;
};

class MemorySource : public Source {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Result<std::span<const std::byte>> read(std::uint64_t offset, std::size_t length,
                                          Bytes&) const override {
    return bytes_.subspan(offset, length);
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace

Result<std::unique_ptr<Source>> open_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Error{"cannot open " + path, std::strerror(errno), ""};
  struct stat status;
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(file);
    return Error{"cannot open " + path, "it is not a file", ""};
  }
  return std::unique_ptr<Source>(
      std::make_unique<FileSource>(file, static_cast<std::uint64_t>(status.st_size)));
}

std::unique_ptr<Source> from_memory(std::span<const std::byte> bytes) {
  return std::make_unique<MemorySource>(bytes);
}

ChunkIndex index_chunks(const Source& source, bool checksums) {
  ChunkIndex index;
  ChunkPosition position;
  Bytes room;
  const auto stop = [&](Damage::Kind kind, std::string why) {
    index.damage = {kind, position.offset, std::move(why)};
    return index;
  };
  for (bool ended = false;;) {
    const std::uint64_t left = source.size() - position.offset;
    if (ended) {
      if (left != 0) return stop(Damage::Kind::corrupt, "something follows its last chunk");
      return index;
    }
    if (left < sizeof(ChunkHeader))
      return stop(Damage::Kind::truncated, "its last chunk is missing");
    auto bytes = source.read(position.offset, sizeof(ChunkHeader), room);
    if (!bytes) return stop(Damage::Kind::unreadable, bytes.error().why);
    ChunkHeader header;
    std::memcpy(&header, bytes->data(), sizeof header);
    if (Damage damage = check_header(header, position, checksums);
        damage.kind != Damage::Kind::none) {
      index.damage = damage;
      return index;
    }
    if (header.payload_bytes > left - sizeof header)
      return stop(Damage::Kind::truncated, "a chunk is cut off");
    index.chunks.push_back({header, position.offset});
    position = {position.offset + sizeof header + header.payload_bytes, position.sequence + 1,
                header.header_crc};
    ended = header.kind == static_cast<std::uint16_t>(ChunkKind::end);
  }
}

}  // namespace stallscope::stream
