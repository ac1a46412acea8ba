// SPDX-License-Identifier: Apache-2.0
#include "stream/chunk_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace stallscope::stream {
namespace {

class FileOutput : public Output {
 public:
  FileOutput(int file, std::string path) : file_(file), path_(std::move(path)) {}
  ~FileOutput() override { ::close(file_); }

  Status append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        const int error = written < 0 ? errno : EIO;
        return Error{
            "cannot write to " + path_, std::strerror(error),
            error == ENOSPC || error == EDQUOT ? "free some space, or record to another disk" : ""};
      }
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return Done{};
  }

  void truncate(std::uint64_t size) override {
    // When this fails too, the reader finds a cut-off chunk at the end and says so.
    [[maybe_unused]] const int ignored = ::ftruncate(file_, static_cast<off_t>(size));
  }

 private:
  int file_;
  std::string path_;
};

}  // namespace

Result<std::unique_ptr<Output>> create_file(const std::string& path) {
  const int file =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return Error{"cannot create " + path, std::strerror(errno), ""};
  return std::unique_ptr<Output>(std::make_unique<FileOutput>(file, path));
}

Status ChunkAppender::append(ChunkHeader header, std::span<const std::byte> payload) {
  if (failed_) return Done{};
  header.sequence = sequence_;
  header.previous = previous_;
  seal(header, payload);
  // One write a chunk, so that a kill leaves either the whole chunk or a cut-off one.
  buffer_.resize(sizeof header + payload.size());
  std::memcpy(buffer_.data(), &header, sizeof header);
  if (!payload.empty()) std::memcpy(buffer_.data() + sizeof header, payload.data(), payload.size());
  if (Status written = output_->append(buffer_); !written) {
    failed_ = true;
    output_->truncate(bytes_);
    return written;
  }
  bytes_ += buffer_.size();
  ++sequence_;
  previous_ = header.header_crc;
  return Done{};
}

}  // namespace stallscope::stream
