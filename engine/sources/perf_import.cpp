// SPDX-License-Identifier: Apache-2.0
#include "sources/perf_import.h"

#include <algorithm>
#include <filesystem>
#include <mutex>

namespace stallscope::sources {
namespace {

constexpr std::uint32_t kNoProcess = ~std::uint32_t{0};
constexpr std::uint64_t kMostInherited = 2U << 20;
constexpr unsigned kUsualSkid = 1;  // of a sample that is not precise

// Stops at the first record that has a time.
struct FirstTime : PerfSink {
  std::uint64_t time = 0;
  Status on_event(const Event& record, const PerfEvent*) override {
    time = std::visit([](const auto& one) { return one.source.time; }, record);
    return time == 0 ? Status(Done{}) : Status(Error{"found", "", ""});
  }
};

bool all_precise(const std::vector<PerfEvent>& events) {
  return !events.empty() && std::all_of(events.begin(), events.end(), [](const PerfEvent& event) {
    return event.precise > 0 || (event.layout.sample_type & kSampleAddress) != 0;
  });
}

// Nothing is mapped into the last megabyte of addresses, whatever a file says.
bool is_possible(const Mapped& mapped) {
  constexpr std::uint64_t kEnd = ~std::uint64_t{0} - (1U << 20);
  return mapped.start < kEnd && mapped.length <= kEnd - mapped.start;
}

// An id may be shorter than the room that records have for it.
std::string without_zeros(std::string id) {
  id.erase(id.find_last_not_of('\0') + 1);
  return id;
}

}  // namespace

PerfImport::PerfImport(PerfData file, symbols::SymbolCache& symbols, unsigned skid,
                       std::uint64_t started)
    : file_(std::move(file)),
      symbols_(symbols),
      started_(started),
      tree_(symbols, skid, started, true) {
  tree_.set_past();
}

Result<std::unique_ptr<PerfImport>> PerfImport::read(const std::string& path,
                                                     symbols::SymbolCache& symbols) {
  auto once = PerfData::open(path);
  if (!once) return once.error();
  auto again = PerfData::open(path);
  if (!again) return again.error();
  return read(std::move(*once), std::move(*again), symbols);
}

Result<std::unique_ptr<PerfImport>> PerfImport::read(PerfData once, PerfData again,
                                                     symbols::SymbolCache& symbols) {
  FirstTime first;
  if (Status done = once.read(first); !done && first.time == 0) return done.error();
  // A piped file says only while it is read what its events are; that has been done once.
  const unsigned skid = all_precise(once.events()) ? 0 : kUsualSkid;
  std::unique_ptr<PerfImport> import(new PerfImport(std::move(again), symbols, skid, first.time));
  if (Status done = import->file_.read(*import); !done) return done.error();
  return import;
}

std::string PerfImport::recorded_id(const Mapped& mapped) {
  if (!mapped.build_id.empty())
    return std::string(reinterpret_cast<const char*>(mapped.build_id.data()),
                       mapped.build_id.size());
  const auto& all = file_.facts().build_ids;
  for (; ids_known_ < all.size(); ++ids_known_)
    build_ids_.emplace(all[ids_known_].path, all[ids_known_].build_id);
  const auto found = build_ids_.find(std::string(mapped.path));
  return found == build_ids_.end() ? "" : found->second;
}

// A file of that name may be here, and be another one: its names would be wrong.
void PerfImport::judge(const Mapped& mapped) {
  const std::string path(mapped.path);
  if (path.empty() || path[0] != '/' || mapped.data || !judged_.insert(path).second) return;
  const std::string recorded = without_zeros(recorded_id(mapped));
  const std::lock_guard lock(symbols_.mutex());
  // The path is whatever the file says: it may name a pipe, which must not be opened.
  std::error_code none;
  if (!recorded.empty() && std::filesystem::is_regular_file(path, none)) {
    auto opened = symbols_.open(path);
    if (opened && without_zeros((*opened)->facts().build_id) == recorded) return;
  }
  others_.insert(path);
  symbols_.refuse(path);
}

// A child has whatever its parent had mapped. A file may say that a process with thousands of
// mappings forks thousands of times: past kMostInherited, children begin with nothing.
bool PerfImport::may_inherit(const Forked& forked) {
  if (forked.pid == forked.parent_pid) return true;
  const std::uint64_t count = mapped_[forked.parent_pid];
  mapped_[forked.pid] = count;
  inherited_ += count + 1;
  return inherited_ <= kMostInherited;
}

Status PerfImport::on_event(const Event& record, const PerfEvent*) {
  if (const auto* mapped = std::get_if<Mapped>(&record)) {
    if (mapped->mode == Mode::kernel || mapped->pid == kNoProcess || !is_possible(*mapped))
      return Done{};
    ++mapped_[mapped->pid];
    judge(*mapped);
  }
  if (const auto* forked = std::get_if<Forked>(&record); forked && !may_inherit(*forked))
    return Done{};
  tree_.take(record);
  return Done{};
}

}  // namespace stallscope::sources
