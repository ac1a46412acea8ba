// SPDX-License-Identifier: Apache-2.0
#include "sources/sampled_tree.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace stallscope::sources {
namespace {

std::uint64_t time_of(const Event& event) {
  return std::visit([](const auto& e) { return e.source.time; }, event);
}

std::string proc(std::uint32_t pid, std::string_view file) {
  return "/proc/" + std::to_string(pid) + "/" + std::string(file);
}

std::uint32_t protection_of(std::string_view letters) {
  std::uint32_t access = 0;
  for (std::size_t i = 0; i < 3 && i < letters.size(); ++i)
    if (letters[i] != '-') access |= 1u << i;
  return access;
}

// One line of /proc/PID/maps; `path` holds what its path points into.
bool read_line(const std::string& line, std::string& path, Mapped& out) {
  std::istringstream in(line);
  std::string access, device;
  std::uint64_t end = 0;
  char dash = 0;
  in >> std::hex >> out.start >> dash >> end >> access >> out.page_offset >> device >> std::dec >>
      out.inode >> std::ws;
  if (!in && !in.eof()) return false;
  path.clear();  // which getline does not, when nothing is left
  std::getline(in, path);
  out.length = end - out.start;
  out.protection = protection_of(access);
  out.has_detail = true;
  out.path = path;
  return end > out.start;
}

unsigned number_in(std::string_view text) {
  unsigned number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

SampledImage& SampledTree::make_image(std::uint32_t pid, std::uint64_t time) {
  const unsigned number = made_[pid]++;
  auto image = std::make_unique<SampledImage>(sampling_, pid,
                                              std::to_string(pid) + "." + std::to_string(number));
  image->first = image->last = time;
  images_.push_back(std::move(image));
  return *(current_[pid] = images_.back().get());
}

SampledImage& SampledTree::image_of(std::uint32_t pid, std::uint64_t time) {
  const auto found = current_.find(pid);
  SampledImage& image = found != current_.end() ? *found->second : make_image(pid, time);
  image.last = std::max(image.last, time);
  return image;
}

Status SampledTree::adopt(std::uint32_t pid) {
  std::ifstream maps(proc(pid, "maps"));
  if (!maps)
    return Error{"the memory map of process " + std::to_string(pid) + " cannot be read",
                 "it has ended, or belongs to another user", "run as its user or as root"};
  std::vector<std::string> lines;
  for (std::string line; std::getline(maps, line);) lines.push_back(line);
  // Images are numbered as their logs are: it may have become another program before.
  const std::string log = sampling_.heap_logs + "/" + std::to_string(pid) + ".";
  if (!sampling_.heap_logs.empty())
    for (const std::string& line : lines)
      if (const auto at = line.find(log); at != std::string::npos)
        made_[pid] = number_in(std::string_view(line).substr(at + log.size()));
  SampledImage& image = image_of(pid, sampling_.started);
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator(proc(pid, "task"), gone)) {
    const auto tid = static_cast<std::uint32_t>(std::stoul(task.path().filename()));
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    image.rename(tid, name, sampling_.started);
  }
  std::string path;
  for (const std::string& line : lines) {
    Mapped mapped;
    mapped.pid = mapped.tid = pid;
    mapped.source.time = sampling_.started;
    if (read_line(line, path, mapped)) image.map(mapped);
  }
  return Done{};
}

void SampledTree::add(std::span<const std::byte> record, const Layout& layout) {
  layout_ = layout;
  auto event = parse(record, layout);
  if (!event) {
    ++damaged_;
    return;
  }
  pending_.push_back({time_of(*event), bytes_.size()});
  bytes_.insert(bytes_.end(), record.begin(), record.end());
}

void SampledTree::settle(std::uint64_t until) {
  // What was allocated by now is known before samples ask for it.
  for (auto& [pid, image] : current_) image->poll_heap();
  std::stable_sort(pending_.begin(), pending_.end(),
                   [](const Pending& a, const Pending& b) { return a.time < b.time; });
  std::size_t done = 0;
  for (; done < pending_.size() && pending_[done].time <= until; ++done)
    if (auto event = parse(std::span(bytes_).subspan(pending_[done].start), layout_); event)
      take(*event);
  std::vector<std::byte> rest;
  std::vector<Pending> later(pending_.begin() + static_cast<std::ptrdiff_t>(done), pending_.end());
  for (Pending& p : later) {
    const auto record = std::span(bytes_).subspan(p.start);
    p.start = rest.size();
    const auto size = static_cast<std::ptrdiff_t>(header_of(record).size);
    rest.insert(rest.end(), record.begin(), record.begin() + size);
  }
  bytes_ = std::move(rest);
  pending_ = std::move(later);
}

void SampledTree::take(const Event& event) {
  std::visit([this](const auto& e) { on(e); }, event);
}

void SampledTree::on(const Sample& sample) {
  ++samples_;
  image_of(sample.source.pid, sample.source.time).sample(sample);
}

void SampledTree::on(const Mapped& mapped) {
  if (mapped.mode != Mode::kernel) image_of(mapped.pid, mapped.source.time).map(mapped);
}

void SampledTree::on(const Named& named) {
  if (named.exec) {
    const auto before = current_.find(named.pid);
    const std::string parent = before == current_.end() ? "" : before->second->name();
    make_image(named.pid, named.source.time).parent = parent;
  }
  image_of(named.pid, named.source.time).rename(named.tid, named.name, named.source.time);
}

void SampledTree::on(const Forked& forked) {
  if (forked.pid == forked.parent_pid) {
    image_of(forked.pid, forked.time).start_thread(forked.tid, forked.parent_tid, forked.time);
    return;
  }
  if (!children_) return;
  SampledImage& parent = image_of(forked.parent_pid, forked.time);
  SampledImage& child = make_image(forked.pid, forked.time);
  child.parent = parent.name();
  child.forked = true;
  child.inherit(parent);
}

void SampledTree::on(const Exited& exited) {
  SampledImage& image = image_of(exited.pid, exited.time);
  image.end_thread(exited.tid, exited.time);
  if (exited.pid == exited.tid) image.ended = true;
}

void SampledTree::on(const Lost& lost) { lost_ += lost.count; }

}  // namespace stallscope::sources
