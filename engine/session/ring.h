// SPDX-License-Identifier: Apache-2.0
// The engine's end of the shared memory that schemas/ring.py describes. One thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "stallscope_records.h"

namespace stallscope::session {

class Ring {
 public:
  // Null when the writer has not finished the header yet: try again later.
  static Result<std::unique_ptr<Ring>> open(const std::string& path);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // The next published buffer, empty when there is none; give it back with release().
  Result<std::span<const std::uint64_t>> next();
  void release();
  // Gives back everything that is published, unread: a writer must never wait for a reader that
  // cannot go on.
  void discard();

  // The writer said that nothing follows.
  bool ended() const;
  // The writer's process is gone, or has replaced itself by exec.
  bool abandoned() const;
  // After next() ran dry: whole records that the writer has written but not published yet. Of a
  // living writer it is a look that may come at a bad moment and find nothing; an error means
  // damage only once the writer is gone. What is read goes to take(), and next() leaves it out.
  Result<std::span<const std::uint64_t>> unpublished() const;
  void take(std::size_t words) { taken_ += words; }

  bool counts() const { return header_->mode & SS_MODE_COUNT; }
  std::uint64_t pid() const { return header_->pid; }
  std::uint64_t executed() const;  // instructions, live; not only the measured ones
  bool parked() const { return header_->parked != 0; }  // measuring is off
  // Of each exit; what they count depends on the mode.
  std::vector<std::uint64_t> counters(std::size_t exits) const;
  // The counters have blocks that are still on the desk.
  bool desk_counted() const { return header_->sifted == acquire_published() + 1; }

 private:
  std::uint64_t acquire_published() const;
  Ring(int fd, ss_ring* header) : fd_(fd), header_(header) {}
  const std::uint64_t* buffer(std::uint64_t number) const;

  int fd_;
  ss_ring* header_;
  std::size_t taken_ = 0;  // words of the writer's buffer that were read before it was published
};

}  // namespace stallscope::session
