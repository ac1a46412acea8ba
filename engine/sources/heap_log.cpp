// SPDX-License-Identifier: Apache-2.0
#include "sources/heap_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "heap_log_layout.h"

namespace stallscope::sources {
namespace {

constexpr std::uint64_t kGranule = 16;
constexpr std::uint64_t kRegionMarks = HEAP_LOG_REGION_MARKS;
// A small block begins at most this far before any of its granules.
constexpr std::uint64_t kReach = HEAP_LOG_SMALL / kGranule;
constexpr std::uint64_t kHighest = std::uint64_t{1} << 47;

std::uint64_t slot_at(std::uint32_t slot) {
  return HEAP_LOG_SLOTS_AT + std::uint64_t{slot} * sizeof(heap_log_slot);
}

bool is_start(std::uint16_t mark) {
  return mark != 0 && (mark & (HEAP_LOG_IS_SIZE | HEAP_LOG_FREED)) == 0;
}

bool is_freed_start(std::uint16_t mark) {
  return (mark & (HEAP_LOG_IS_SIZE | HEAP_LOG_FREED)) == HEAP_LOG_FREED && mark != HEAP_LOG_FREED;
}

}  // namespace

HeapLog::HeapLog(HeapLog&& other) noexcept { *this = std::move(other); }

HeapLog& HeapLog::operator=(HeapLog&& other) noexcept {
  std::swap(file_, other.file_);
  path_ = std::move(other.path_);
  counts_ = other.counts_;
  tables_ = std::move(other.tables_);
  large_ = std::move(other.large_);
  taken_ = std::move(other.taken_);
  return *this;
}

HeapLog::~HeapLog() {
  if (file_ >= 0) ::close(file_);
}

Error HeapLog::damaged(const std::string& why) const {
  return {"the allocation log " + path_ + " cannot be read", why,
          "record the program again; the log belongs to one run"};
}

// What lies behind the end of the file, or in a hole, is zeros.
bool HeapLog::read(std::uint64_t offset, void* to, std::size_t bytes) const {
  char* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(file_, at, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      std::memset(at, 0, bytes);
      return got == 0;
    }
    at += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

Result<HeapLog> HeapLog::open(const std::string& path) {
  int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return Error{"cannot open the allocation log " + path, std::strerror(errno), ""};
  HeapLog log(file, path);
  Status checked = log.check();
  if (!checked) return checked.error();
  log.refresh();
  return log;
}

Status HeapLog::check() {
  struct stat info;
  heap_log_header header;
  if (::fstat(file_, &info) != 0 || !S_ISREG(info.st_mode)) return damaged("it is no plain file");
  if (!read(0, &header, sizeof header)) return damaged(std::strerror(errno));
  if (header.magic != HEAP_LOG_MAGIC) return damaged("it does not begin as a log does");
  if (header.version != HEAP_LOG_VERSION)
    return damaged("its format is " + std::to_string(header.version) + ", and this program reads " +
                   std::to_string(HEAP_LOG_VERSION));
  if (header.is_ready == 0) return damaged("it is still being made");
  return Done{};
}

// Counts only grow; one that is too high or shrank is not believed.
void HeapLog::refresh() {
  heap_log_header header;
  if (!read(0, &header, sizeof header) || header.magic != HEAP_LOG_MAGIC) return;
  if (header.sites <= HEAP_LOG_SITES) counts_.sites = std::max(counts_.sites, header.sites);
  if (header.slots <= HEAP_LOG_SLOTS) counts_.slots = std::max(counts_.slots, header.slots);
  counts_.is_sampled |= header.sampled_since != 0;
  if (header.live <= HEAP_LOG_LIVE) counts_.live = std::max(counts_.live, header.live);
  if (header.regions <= HEAP_LOG_REGIONS && header.regions > counts_.regions)
    refresh_regions(header.regions);
  if (header.live_version != counts_.live_version) {
    counts_.live_version = header.live_version;
    refresh_live();
  }
}

void HeapLog::refresh_regions(std::uint32_t count) {
  std::vector<std::uint32_t> fresh(count - counts_.regions);
  const std::uint64_t at = HEAP_LOG_REGIONS_AT + 4 * std::uint64_t{counts_.regions};
  if (!read(at, fresh.data(), 4 * fresh.size())) return;
  for (std::uint32_t i = 0; i < fresh.size(); ++i) tables_.emplace(fresh[i], counts_.regions + i);
  counts_.regions = count;
}

void HeapLog::refresh_live() {
  std::vector<heap_log_live> list(counts_.live);
  if (!read(HEAP_LOG_LIVE_AT, list.data(), list.size() * sizeof list[0])) return;
  large_.clear();
  for (const heap_log_live& one : list)
    if (one.address != 0 && one.address < kHighest && one.size <= kHighest)
      large_.insert_or_assign(one.address,
                              HeapBlock{one.site, true, Address{one.address}, one.size});
}

std::optional<HeapBlock> HeapLog::find(Address address) {
  refresh();
  auto after = large_.upper_bound(address.value);
  if (after != large_.begin()) {
    const HeapBlock& block = std::prev(after)->second;
    if (address.value - block.start.value < block.size) return block;
  }
  if (address.value >= kHighest) return std::nullopt;
  auto block = find_small(address.value, is_start);
  if (block && is_stale(block->start.value)) return std::nullopt;
  return block;
}

std::optional<HeapBlock> HeapLog::find_freed(Address address) {
  refresh();
  if (address.value >= kHighest) return std::nullopt;
  return find_small(address.value, is_freed_start);
}

bool HeapLog::is_sampled() {
  refresh();
  return counts_.is_sampled;
}

// Whether a mark may be of a block that was freed since, unseen.
bool HeapLog::is_stale(std::uint64_t address) const {
  if (!counts_.is_sampled) return false;
  std::uint8_t chunk = HEAP_LOG_STALE;
  read(HEAP_LOG_CHUNKS_AT + (address >> HEAP_LOG_CHUNK_SHIFT) % HEAP_LOG_CHUNKS, &chunk, 1);
  return chunk != HEAP_LOG_CLEAN;
}

// The marks from a granule on, as many as its region still has and one more, which lies behind them
// when the last block begins there. Where there is no table, they are 0.
void HeapLog::read_marks(std::uint64_t granule, std::uint16_t* marks, std::uint64_t count) const {
  std::fill_n(marks, count, std::uint16_t{0});
  auto table = tables_.find(static_cast<std::uint32_t>(granule / kRegionMarks));
  if (table == tables_.end()) return;
  const std::uint64_t within = granule % kRegionMarks;
  read(HEAP_LOG_TABLES_AT + std::uint64_t{table->second} * HEAP_LOG_TABLE_BYTES + 2 * within, marks,
       2 * std::min(count, kRegionMarks + 1 - within));
}

// The granules of one region between `first` and `last`, backwards to the first start.
std::optional<std::uint64_t> HeapLog::start_between(std::uint64_t first, std::uint64_t last,
                                                    IsStart is_start) const {
  std::vector<std::uint16_t> marks(last - first + 1);
  read_marks(first, marks.data(), marks.size());
  for (std::uint64_t at = marks.size(); at > 0; --at)
    if (is_start(marks[at - 1])) return first + at - 1;
  return std::nullopt;
}

std::optional<HeapBlock> HeapLog::find_small(std::uint64_t address, IsStart is_start) const {
  const std::uint64_t granule = address / kGranule;
  const std::uint64_t first = granule < kReach ? 0 : granule - kReach;
  const std::uint64_t border = granule / kRegionMarks * kRegionMarks;
  std::optional<std::uint64_t> start = start_between(std::max(first, border), granule, is_start);
  if (!start && first < border) start = start_between(first, border - 1, is_start);
  if (!start) return std::nullopt;
  std::uint16_t marks[2];
  read_marks(*start, marks, 2);
  // It may have been freed just now.
  if (!is_start(marks[0]) || marks[0] == HEAP_LOG_LARGE) return std::nullopt;
  const bool has_size = (marks[1] & HEAP_LOG_IS_SIZE) != 0;
  const std::uint64_t size = has_size ? marks[1] & (HEAP_LOG_SMALL - 1) : kGranule;
  if (address - *start * kGranule >= size) return std::nullopt;
  const std::uint32_t site = marks[0] & (HEAP_LOG_FREED - 1);
  return HeapBlock{site, false, Address{*start * kGranule}, size};
}

void HeapLog::take_ring(std::uint32_t slot, std::vector<LargeEvent>& events) {
  constexpr std::size_t kHead = offsetof(heap_log_slot, thread);
  struct {
    std::uint32_t thread, has_ring;
    std::uint64_t written, taken;
  } head;
  static_assert(offsetof(heap_log_slot, taken) - kHead == 16);
  if (!read(slot_at(slot) + kHead, &head, sizeof head) || head.has_ring == 0) return;
  std::uint64_t& taken = taken_[slot];
  if (head.written - taken > HEAP_LOG_RING)
    taken = head.written - std::min<std::uint64_t>(head.written, HEAP_LOG_RING);
  if (head.written == taken) return;
  std::vector<heap_log_record> ring(HEAP_LOG_RING);
  const std::uint64_t ring_at = slot_at(slot) + offsetof(heap_log_slot, ring);
  if (!read(ring_at, ring.data(), ring.size() * sizeof ring[0])) return;
  for (; taken != head.written; ++taken) {
    const heap_log_record& one = ring[taken % HEAP_LOG_RING];
    if (one.kind == HEAP_LOG_BORN || one.kind == HEAP_LOG_DIED)
      events.push_back({one.time, one.kind == HEAP_LOG_BORN, Address{one.address}, one.size,
                        one.site, one.thread});
  }
  // A log that may only be read stays as it is, and its rings fill up.
  (void)!::pwrite(file_, &taken, sizeof taken,
                  static_cast<off_t>(slot_at(slot) + offsetof(heap_log_slot, taken)));
}

std::vector<LargeEvent> HeapLog::poll() {
  refresh();
  taken_.resize(counts_.slots);
  std::vector<LargeEvent> events;
  for (std::uint32_t slot = 0; slot < counts_.slots; ++slot) take_ring(slot, events);
  std::stable_sort(events.begin(), events.end(),
                   [](const LargeEvent& a, const LargeEvent& b) { return a.time < b.time; });
  return events;
}

void HeapLog::add_hot_counts(std::vector<HeapSite>& sites) {
  std::vector<heap_log_hot> hot(HEAP_LOG_HOT);
  for (std::uint32_t slot = 0; slot < counts_.slots; ++slot) {
    if (!read(slot_at(slot), hot.data(), hot.size() * sizeof hot[0])) continue;
    for (const heap_log_hot& path : hot) {
      const std::uint32_t number = path.mark & (HEAP_LOG_IS_SIZE - 1);
      if (number >= sites.size()) continue;
      sites[number].blocks += path.blocks;
      sites[number].bytes += path.bytes;
    }
  }
}

Result<std::vector<HeapSite>> HeapLog::sites() {
  refresh();
  std::vector<heap_log_site> read_sites(counts_.sites);
  if (!read(HEAP_LOG_SITES_AT, read_sites.data(), read_sites.size() * sizeof read_sites[0]))
    return damaged(std::strerror(errno));
  std::vector<HeapSite> sites;
  for (std::uint32_t number = 0; number < counts_.sites; ++number) {
    const heap_log_site& one = read_sites[number];
    if (one.depth > HEAP_LOG_FRAMES)
      return damaged("site " + std::to_string(number) + " has " + std::to_string(one.depth) +
                     " frames, and at most " + std::to_string(HEAP_LOG_FRAMES) + " are possible");
    HeapSite site{number, {}, one.blocks, one.bytes};
    for (std::uint32_t i = 0; i < one.depth; ++i) site.frames.push_back(Address{one.frames[i]});
    sites.push_back(std::move(site));
  }
  add_hot_counts(sites);
  std::erase_if(sites, [](const HeapSite& site) { return site.blocks == 0; });
  return sites;
}

HeapLost HeapLog::lost() {
  heap_log_header header;
  read(0, &header, sizeof header);
  return {header.without_mark, header.without_site, header.without_thread, header.without_record,
          header.without_live};
}

HeapImage HeapLog::image() {
  heap_log_header header;
  read(0, &header, sizeof header);
  return {header.pid,   header.number,  header.parent_pid, header.parent_number,
          header.begun, header.unwound, header.walked,     header.passed};
}

}  // namespace stallscope::sources
