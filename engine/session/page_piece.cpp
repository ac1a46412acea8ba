// SPDX-License-Identifier: Apache-2.0
#include "session/page_piece.h"

#include <algorithm>
#include <bit>

#include "stack/lru_stack.h"
#include "stallscope_records.h"
#include "stream/reader.h"

namespace stallscope::session {
namespace {

constexpr std::size_t kGathered = 1 << 16;

class Referenced {
 public:
  Referenced(const stream::CodeTable& code, unsigned bits, std::uint64_t first, std::uint64_t last)
      : code_(code), bits_(bits), first_(first), last_(last), distances_(kGathered) {}

  void on_block(std::uint32_t, const stream::Exit& info, const std::uint64_t* addresses) {
    const std::uint64_t at = position_;
    position_ += info.instructions;
    if (at < first_ || at >= last_) return;
    const stream::Operation* const operations = code_.operations.data() + info.first_operation;
    for (std::uint32_t i = 0; i < info.operations; ++i) {
      if (addresses[i] == SS_NO_ADDRESS || operations[i].is_prefetch()) continue;
      const std::uint64_t end = addresses[i] + std::max(operations[i].size, 1u) - 1;
      touch(addresses[i] >> bits_);
      touch(end >> bits_);
    }
  }
  Status on_record(unsigned tag, const std::uint64_t*, std::uint32_t) {
    if (tag == SS_SIFTED)
      return Error{"the stream has sifted accesses where all are wanted", "", ""};
    return failed_;
  }

  Result<PagePiece> result() {
    learn();
    if (!failed_) return failed_.error();
    made_.curve = stack_.counts().curve();
    made_.lasts = stack_.pages();
    std::ranges::reverse(made_.lasts);
    return std::move(made_);
  }

 private:
  void touch(std::uint64_t page) {
    if (page == page_) return;
    page_ = page;
    gathered_.push_back(page);
    if (gathered_.size() == kGathered) learn();
  }
  void learn() {
    if (Status taken = stack_.append(gathered_, distances_.data()); !taken) failed_ = taken;
    made_.references += gathered_.size();
    for (std::size_t i = 0; i < gathered_.size(); ++i)
      if (distances_[i] == stack::kCold) made_.firsts.push_back(gathered_[i]);
    gathered_.clear();
  }

  const stream::CodeTable& code_;
  unsigned bits_;
  std::uint64_t first_, last_, position_ = 0, page_ = ~std::uint64_t{0};
  std::vector<std::uint64_t> gathered_;
  std::vector<std::uint32_t> distances_;
  stack::LruStack stack_;
  PagePiece made_;
  Status failed_ = Done{};
};

}  // namespace

Result<PagePiece> page_piece(const std::string& path, std::uint64_t page_size, std::uint64_t first,
                             std::uint64_t last) {
  if (!std::has_single_bit(page_size) || page_size < 64 || page_size > std::uint64_t{1} << 40)
    return Error{"pages of " + std::to_string(page_size) + " bytes cannot be tracked",
                 "a page's size is a power of two, at least 64", "4096"};
  auto reader = stream::TraceReader::open(path);
  if (!reader) return reader.error();
  const auto bits = static_cast<unsigned>(std::countr_zero(page_size));
  Referenced referenced(reader->code(), bits, first, last);
  if (Status read = reader->for_each(referenced); !read) return read.error();
  return referenced.result();
}

}  // namespace stallscope::session
