// SPDX-License-Identifier: Apache-2.0
// The reader's end of the ring, with a writer that is played here step by step.
#include <doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "session/ring.h"

namespace stallscope::session {
namespace {

class Writer {
 public:
  Writer() {
    const int file = mkstemp(path_.data());
    REQUIRE(file >= 0);
    REQUIRE(ftruncate(file, SS_RING_BYTES) == 0);
    void* memory = mmap(nullptr, SS_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    REQUIRE(memory != MAP_FAILED);
    close(file);
    ring_ = static_cast<ss_ring*>(memory);
    ring_->magic = SS_RING_MAGIC;
    ring_->version = SS_STREAM_VERSION;
    ring_->mode = SS_MODE_COUNT;
    ring_->base = reinterpret_cast<std::uint64_t>(memory);
    start();
  }
  ~Writer() {
    munmap(ring_, SS_RING_BYTES);
    unlink(path_.c_str());
  }
  void write(std::uint64_t word) {
    *reinterpret_cast<std::uint64_t*>(ring_->position) = word;
    ring_->position += 8;
  }
  bool full() const { return ring_->published - ring_->consumed == SS_RING_BUFFERS; }
  void publish() {
    ring_->used[ring_->published % SS_RING_BUFFERS] = (ring_->position - start_) / 8;
    ++ring_->published;
    if (!full()) start();
  }
  std::unique_ptr<Ring> reader() const {
    auto opened = Ring::open(path_);
    REQUIRE(opened);
    REQUIRE(*opened);
    return std::move(*opened);
  }
  ss_ring& header() { return *ring_; }

 private:
  void start() {
    start_ = ring_->position = ring_->base + SS_RING_HEADER_BYTES +
                               (ring_->published % SS_RING_BUFFERS) * SS_RING_BUFFER_WORDS * 8;
  }
  std::string path_ = "/tmp/stallscope-ring-test-XXXXXX";
  ss_ring* ring_ = nullptr;
  std::uint64_t start_ = 0;
};

std::vector<std::uint64_t> words(Result<std::span<const std::uint64_t>> got) {
  REQUIRE(got);
  return {got->begin(), got->end()};
}

using Words = std::vector<std::uint64_t>;

TEST_CASE("words come out in order, whether read before or after they were published") {
  Writer writer;
  const auto reader = writer.reader();
  CHECK(words(reader->next()).empty());
  writer.write(1);
  writer.write(2);
  CHECK(words(reader->next()).empty());
  CHECK(words(reader->unpublished()) == Words{1, 2});
  reader->take(2);
  writer.write(3);
  CHECK(words(reader->unpublished()) == Words{3});
  writer.publish();
  CHECK(words(reader->unpublished()).empty());
  CHECK(words(reader->next()) == Words{3});
  reader->release();
  CHECK(words(reader->next()).empty());
}

TEST_CASE("a buffer that was read whole before it was published does not hold the writer up") {
  Writer writer;
  const auto reader = writer.reader();
  for (std::uint64_t turn = 0; turn < 3 * SS_RING_BUFFERS; ++turn) {
    writer.write(turn);
    CHECK(words(reader->unpublished()) == Words{turn});
    reader->take(1);
    writer.publish();
    CHECK(words(reader->next()).empty());
    REQUIRE_FALSE(writer.full());
  }
  writer.write(7);
  writer.publish();
  CHECK(words(reader->next()) == Words{7});
}

TEST_CASE("what lies on the desk of a stream is read there until it is published") {
  Writer writer;
  const auto reader = writer.reader();
  ss_ring& header = writer.header();
  header.mode = SS_MODE_STREAM;
  const std::uint64_t desk = header.base + SS_RING_DESK_OFFSET;
  const auto write = [&](std::uint64_t word) {
    *reinterpret_cast<std::uint64_t*>(header.position) = word;
    header.position += 8;
  };
  header.position = desk;
  CHECK(words(reader->unpublished()).empty());
  write(1);
  write(2);
  CHECK(words(reader->unpublished()) == Words{1, 2});
  auto* const buffer = reinterpret_cast<std::uint64_t*>(header.base + SS_RING_HEADER_BYTES);
  buffer[0] = 1;  // copied, but not published: it still lies on the desk
  buffer[1] = 2;
  CHECK(words(reader->unpublished()) == Words{1, 2});
  header.used[0] = 2;
  header.published = 1;
  CHECK(words(reader->next()) == Words{1, 2});
  reader->release();
  CHECK(words(reader->unpublished()).empty());  // killed before it cleared the desk
  header.position = desk;
  header.desk = 1;
  write(3);
  CHECK(words(reader->unpublished()) == Words{3});
  header.position = desk - 8;
  CHECK_FALSE(reader->unpublished());
}

TEST_CASE("damage is found, and a damaged ring can be emptied") {
  Writer writer;
  const auto reader = writer.reader();
  writer.write(1);
  writer.publish();
  writer.header().used[0] = SS_RING_BUFFER_WORDS + 1;
  CHECK_FALSE(reader->next());
  reader->discard();
  CHECK(words(reader->next()).empty());
  writer.header().position = 0;
  CHECK_FALSE(reader->unpublished());
}

}  // namespace
}  // namespace stallscope::session
