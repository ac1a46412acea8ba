// SPDX-License-Identifier: Apache-2.0
// What was watched of an image, as tables.
#include <algorithm>

#include "sources/sampled.h"

namespace stallscope::sources {
namespace {

// A breakpoint stops the program behind the instruction that touched the data, on every machine.
constexpr unsigned kBehind = 1;

}  // namespace

std::uint32_t SampledImage::touched_from(std::uint64_t ip, std::uint64_t time) {
  auto [found, fresh] = spot_by_touch_.try_emplace(ip, static_cast<std::uint32_t>(spots_.size()));
  if (fresh) spots_.push_back(make_spot(ip, kBehind, time));
  return found->second;
}

// What a watch saw may be told after the thread has ended.
std::uint32_t SampledImage::toucher(std::uint32_t tid, std::uint64_t time) {
  const auto known = last_numbers_.find(tid);
  return known == last_numbers_.end() ? thread_of(tid, time) : known->second;
}

void SampledImage::watched(Watched watched) {
  WatchRow row;
  row.bucket = holder_of(watched.sampled.address, since(watched.sampled.time)).bucket;
  const Accessed& sampled = watched.sampled;
  row.touchers.push_back({toucher(sampled.tid, sampled.time), spot_at(sampled.ip, sampled.time)});
  for (const Touch& touch : watched.touches)
    row.touchers.push_back({toucher(touch.tid, touch.time), touched_from(touch.ip, touch.time)});
  row.watched = std::move(watched);
  watches_.push_back(std::move(row));
}

std::uint32_t SampledImage::operation_of(const Toucher& toucher) const {
  const Spot& spot = spots_[toucher.spot];
  return spot.recipe.known ? spot.operation : kNone32;
}

void SampledImage::fill_reuses(const WatchRow& row, std::uint32_t number,
                               SampledTables& out) const {
  const Watched& w = row.watched;
  // The last that a watch waits for has nothing behind it.
  const std::size_t starts = std::min(w.touches.size(), Watched::kTouches - 1);
  for (std::size_t i = 0; i < starts; ++i) {
    const Touch& touch = w.touches[i];
    const Toucher& toucher = row.touchers[i + 1];
    const bool again = i + 1 < w.touches.size();
    std::uint64_t after = kNever, ran = kNever;
    std::uint32_t by = kNone32, by_operation = kNone32;
    if (again) {
      const Touch& next = w.touches[i + 1];
      after = next.time - touch.time;
      if (next.tid == touch.tid && next.word == touch.word) ran = next.ran - touch.ran;
      by = row.touchers[i + 2].thread;
      by_operation = operation_of(row.touchers[i + 2]);
    }
    const std::uint64_t left = w.ended > touch.time ? w.ended - touch.time : 0;
    const std::uint64_t allowed = again ? w.patience : std::min(w.patience, left);
    out.reuse.append({number, since(touch.time), toucher.thread, operation_of(toucher), allowed,
                      after, ran, by, by_operation});
  }
}

void SampledImage::fill_watches(SampledTables& out) const {
  std::uint32_t number = 0;
  for (const WatchRow& row : watches_) {
    const Watched& w = row.watched;
    const bool touched = !w.touches.empty();
    const std::uint64_t allowed = std::min(w.patience, w.ended - w.armed);
    out.watch.append({number, since(w.sampled.time), since(w.armed), touched ? w.patience : allowed,
                      row.touchers[0].thread, operation_of(row.touchers[0]), w.granule, w.bytes,
                      row.bucket, touched ? w.touches[0].time - w.armed : kNever});
    fill_reuses(row, number++, out);
  }
}

}  // namespace stallscope::sources
