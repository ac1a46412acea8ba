// SPDX-License-Identifier: Apache-2.0
#include "session/recorder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace stallscope::session {
namespace {

constexpr int kBuffersATurn = 32;
constexpr std::size_t kRowsABatch = 200'000;
constexpr std::size_t kBatchesWaiting = 8;
constexpr std::uint64_t kFlushEveryNs = 1'000'000'000;
constexpr std::uint64_t kNamesEveryNs = 150'000'000;
constexpr auto kNap = std::chrono::microseconds(300);
const std::string kRingPrefix = "ring-";

std::uint64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Recorder::Recorder(RecorderOptions options, symbols::SymbolCache& symbols)
    : options_(std::move(options)), symbols_(symbols) {}

Recorder::~Recorder() {
  stop(true);
  if (notify_fd_ >= 0) close(notify_fd_);
}

std::string Recorder::sieve() const {
  if (!options_.machine || options_.trace || options_.pages) return "";
  const auto gates = Simulation::gates_of(*options_.machine, options_.simulation);
  if (!gates) return "";
  std::string numbers;
  for (const machine::GateShape& gate : {gates->data, gates->code})
    for (const std::uint64_t number :
         {gate.lines, gate.pages, std::uint64_t{gate.line_bits}, std::uint64_t{gate.page_bits}})
      numbers.append(numbers.empty() ? "" : ",").append(std::to_string(number));
  return numbers;
}

Status Recorder::start(std::uint64_t root_pid) {
  root_pid_ = root_pid;
  if (options_.machine)
    if (Status sound = machine::check(*options_.machine); !sound) return sound;
  notify_fd_ = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (notify_fd_ < 0 ||
      inotify_add_watch(notify_fd_, options_.session_folder.c_str(), IN_CREATE) < 0)
    return Error{"cannot watch " + options_.session_folder, std::strerror(errno),
                 "raise fs.inotify.max_user_instances"};
  // Rings that were there before the watch.
  if (DIR* folder = opendir(options_.session_folder.c_str())) {
    while (const dirent* entry = readdir(folder))
      if (std::string_view(entry->d_name).starts_with(kRingPrefix))
        unopened_.emplace_back(entry->d_name);
    closedir(folder);
  }
  thread_ = std::thread([this] { run(); });
  return Done{};
}

void Recorder::stop(bool abandon) {
  abandon_ = abandon_ || abandon;
  stopping_ = true;
  room_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Recorder::find_rings() {
  alignas(inotify_event) char buffer[4096];
  ssize_t length;
  while ((length = read(notify_fd_, buffer, sizeof buffer)) > 0) {
    for (char* at = buffer; at < buffer + length;) {
      const auto* event = reinterpret_cast<const inotify_event*>(at);
      const std::string name = event->len ? event->name : "";
      if (name.starts_with(kRingPrefix) &&
          std::find(unopened_.begin(), unopened_.end(), name) == unopened_.end())
        unopened_.push_back(name);
      at += sizeof(inotify_event) + event->len;
    }
  }
  std::erase_if(unopened_, [this](const std::string& name) { return try_open(name); });
}

std::string Recorder::folder_for(const std::string& name) const {
  if (name == std::to_string(root_pid_) + ".0") return options_.output_folder;
  return options_.output_folder + "/children/" + name;
}

bool Recorder::try_open(const std::string& file) {
  const std::string path = options_.session_folder + "/" + file;
  auto ring = Ring::open(path);
  if (!ring || *ring == nullptr) return false;
  const std::string name = file.substr(kRingPrefix.size());
  const std::string folder = folder_for(name);
  auto process = std::make_unique<Process>(name, folder, std::move(*ring), symbols_);
  mkdir((options_.output_folder + "/children").c_str(), 0700);
  mkdir(folder.c_str(), 0700);
  process->open_stream(folder + "/stream.ss", options_.trace);
  if (options_.values) process->open_values(folder + "/values.ss", options_.value_targets);
  if (options_.machine) process->simulate(*options_.machine, options_.simulation);
  if (options_.pages) process->track(*options_.pages);
  running_.push_back(std::move(process));
  // The mapping stays. A later image of the same process looks for this name to choose its own.
  const std::string taken = options_.session_folder + "/taken-" + name;
  if (const int fd = open(taken.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600); fd >= 0) close(fd);
  unlink(path.c_str());
  return true;
}

Process::Inherit Recorder::inherit() {
  return [this](std::uint64_t token) {
    auto node = inheritances_.extract(token);
    return node ? std::move(node.mapped()) : std::vector<std::uint64_t>();
  };
}

Process::Forked Recorder::remember() {
  return [this](std::uint64_t token, std::vector<std::uint64_t> words) {
    inheritances_.emplace(token, std::move(words));
  };
}

// It cannot be read before its parent's fork was, which a parent that is gone will not tell any
// more.
bool Recorder::waits(const Process& process) const {
  const auto token = process.waits_for();
  if (!token || inheritances_.contains(*token)) return false;
  const std::string parent = std::to_string(*token >> 32) + ".";
  return std::any_of(running_.begin(), running_.end(),
                     [&](const auto& other) { return other->name().starts_with(parent); });
}

bool Recorder::pump(Process& process) {
  if (waits(process)) return false;
  const bool any = process.pump(kBuffersATurn, inherit(), remember());
  queue_batches(process, false);
  return any;
}

void Recorder::flush(Process& process) {
  if (!waits(process)) process.peek(inherit(), remember());
  process.flush();
}

void Recorder::queue_batches(Process& process, bool all) {
  target::Target& target = process.target();
  auto ready = [&](std::size_t rows) { return all ? rows > 0 : rows >= kRowsABatch; };
  std::unique_lock lock(mutex_, std::defer_lock);
  PageTracker* const tracker = process.tracker();
  const bool pages = tracker && ready(tracker->log_rows());
  if (!ready(target.objects.rows()) && !ready(target.events.rows()) &&
      !ready(target.watched.rows()) && !pages)
    return;
  lock.lock();
  room_.wait(lock, [&] { return batches_.size() < kBatchesWaiting || stopping_; });
  if (ready(target.objects.rows())) {
    batches_.push_back({process.folder(),
                        std::make_unique<ObjectTable>(std::exchange(target.objects, ObjectTable{})),
                        nullptr, nullptr, nullptr});
    if (!all) target.objects.reserve(kRowsABatch + kRowsABatch / 16);  // many are followed by more
  }
  if (ready(target.events.rows()))
    batches_.push_back({process.folder(), nullptr,
                        std::make_unique<EventTable>(std::exchange(target.events, EventTable{})),
                        nullptr, nullptr});
  if (ready(target.watched.rows()))
    batches_.push_back(
        {process.folder(), nullptr, nullptr, nullptr,
         std::make_unique<WatchedTable>(std::exchange(target.watched, WatchedTable{}))});
  if (pages)
    batches_.push_back({process.folder(), nullptr, nullptr,
                        std::make_unique<PageLogTable>(tracker->take_log()), nullptr});
}

void Recorder::finish(std::unique_ptr<Process> process) {
  process->close(inherit(), remember());
  finished_instructions_ += process->target().measured();
  finished_bytes_ += process->stream_bytes() + process->value_bytes();
  ++finished_count_;
  std::lock_guard lock(mutex_);
  finished_.push_back(std::move(process));
}

void Recorder::tick() {
  const bool flush = now_ns() - last_tick_ns_ > kFlushEveryNs;
  if (flush) last_tick_ns_ = now_ns();
  Progress progress{finished_instructions_, finished_bytes_, running_.size(), finished_count_};
  for (const auto& process : running_) {
    if (flush) this->flush(*process);
    progress.instructions += process->executed();
    progress.bytes += process->stream_bytes() + process->value_bytes();
  }
  if (options_.max_bytes && progress.bytes > options_.max_bytes)
    for (const auto& process : running_)
      process->stop_stream("the trace was cut off where it reached --max-size");
  std::lock_guard lock(mutex_);
  progress_ = progress;
}

// While the rings are empty there is time for what would otherwise come after the program's end.
void Recorder::look_up_names() {
  if (now_ns() - last_names_ns_ < kNamesEveryNs) return;
  for (const auto& process : running_) {
    if (!waits(*process)) process->peek(inherit(), remember());
    process->look_up_names();
  }
  last_names_ns_ = now_ns();
}

void Recorder::run() {
  last_tick_ns_ = now_ns();
  std::uint64_t last_look = 0;
  while (true) {
    const bool stopping = stopping_;
    if (stopping || now_ns() - last_look > 1'000'000) {  // a look costs a system call
      find_rings();
      tick();
      last_look = now_ns();
    }
    bool any = false;
    for (const auto& process : running_) any = pump(*process) || any;
    if (any) continue;
    for (std::size_t i = 0; i < running_.size();) {
      Process& process = *running_[i];
      const bool orphan = !stopping && waits(process);
      if ((process.over() && !orphan) || (stopping && abandon_)) {
        finish(std::move(running_[i]));
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
        any = true;
      } else {
        ++i;
      }
    }
    if (any) continue;
    if (stopping && (running_.empty() || abandon_)) break;
    look_up_names();
    std::this_thread::sleep_for(kNap);
  }
  find_rings();
  tick();
}

Progress Recorder::progress() const {
  std::lock_guard lock(mutex_);
  return progress_;
}

std::vector<std::unique_ptr<Process>> Recorder::take_finished() {
  std::lock_guard lock(mutex_);
  std::vector<std::unique_ptr<Process>> taken(std::make_move_iterator(finished_.begin()),
                                              std::make_move_iterator(finished_.end()));
  finished_.clear();
  return taken;
}

std::vector<Batch> Recorder::take_batches() {
  std::lock_guard lock(mutex_);
  std::vector<Batch> taken(std::make_move_iterator(batches_.begin()),
                           std::make_move_iterator(batches_.end()));
  batches_.clear();
  room_.notify_all();
  return taken;
}

}  // namespace stallscope::session
