// SPDX-License-Identifier: Apache-2.0
#include "session/process.h"

#include "stream/chunk_output.h"
#include "stream/parser.h"
#include "target/naming.h"
#include "target/resolver.h"

namespace stallscope::session {

// Target first: the writer reads the code table that the parse has just grown.
struct Process::Sink {
  Process& process;
  const Forked& forked;

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    process.target_.on_block(exit, info, addresses);
    if (process.simulation_) process.simulation_->on_block(exit, info, addresses);
    if (process.tracker_) process.tracker_->on_block(exit, info, addresses);
    if (process.writer_ && !process.counted_) process.writer_->on_block(exit, info, addresses);
  }
  void on_values(const stream::Exit& info, const std::uint64_t* addresses,
                 const std::uint64_t* values) {
    if (!process.values_) return;
    const std::uint8_t* const kept =
        process.kept_ ? process.kept_->masks(process.target_.code, info, addresses) : nullptr;
    process.values_->on_values(info, addresses, values, kept);
  }
  std::size_t on_blocks(std::span<const std::uint64_t> words) {
    if (process.valued_ || !process.simulation_ || process.tracker_ ||
        (process.writer_ && !process.counted_))
      return 0;
    return process.simulation_->on_blocks(words, process.target_.taken());
  }
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
    if (tag == SS_SIFTED) return on_sifted(words, count);
    if (Status taken = process.target_.on_record(tag, words, count); !taken) return taken;
    if (process.kept_) process.kept_->on_record(tag, words, process.target_);
    if (tag == SS_FORK)
      forked(reinterpret_cast<const ss_fork*>(words)->token,
             process.target_.inheritance(SS_HEAD_THREAD(words[0])));
    if (process.simulation_) {
      if (Placing::concerns(tag))
        process.placing_.on_record(tag, words, process.target_, process.simulation_->buckets());
      if (Status taken = process.simulation_->on_record(tag, words, count); !taken) return taken;
    }
    if (process.tracker_) {
      if (Placing::concerns(tag))
        process.placing_.on_record(tag, words, process.target_, process.tracker_->buckets());
      if (Status taken = process.tracker_->on_record(tag, words, count); !taken) return taken;
    }
    return process.writer_ ? process.writer_->on_record(tag, words, count) : Status(Done{});
  }
  // Block executions in another form; no part of a kept stream.
  Status on_sifted(const std::uint64_t* words, std::uint32_t count) {
    if (!process.simulation_ || process.tracker_ || (process.writer_ && !process.counted_))
      return Error{"the stream has sifted accesses where all are wanted", "", ""};
    return process.simulation_->on_record(SS_SIFTED, words, count);
  }
};

Process::Process(std::string name, std::string folder, std::unique_ptr<Ring> ring,
                 symbols::SymbolCache& symbols)
    : name_(std::move(name)),
      folder_(std::move(folder)),
      ring_(std::move(ring)),
      symbols_(symbols),
      placing_(symbols),
      counted_(ring_->counts()) {}

void Process::look_up_names() {
  const std::unique_lock lock(symbols_.mutex(), std::try_to_lock);
  if (lock.owns_lock()) named_blocks_ = target::look_up_names(target_, symbols_, named_blocks_);
}

void Process::simulate(const machine::MachineConfig& config, const SimulationOptions& options) {
  auto made = Simulation::make(config, target_.code, options);
  if (!made) return fail(made.error());
  simulation_ = std::move(*made);
  if (!options.offsets) return;
  simulation_->attach_elements(std::make_unique<Elements>(target_.code, simulation_->buckets(),
                                                          symbols_, [this] { return modules(); }));
}

void Process::track(const PageOptions& options) {
  auto made = PageTracker::make(options, target_.code);
  if (!made) return fail(made.error());
  tracker_ = std::move(*made);
}

std::vector<types::Module> Process::modules() {
  std::vector<types::Module> known;
  for (const target::Module& module : target_.mappings.modules()) {
    auto opened = module.has_code ? symbols_.open(module.path) : Error{};
    if (!opened) continue;
    const std::uint64_t bias = target::bias_of(module, (*opened)->facts());
    known.push_back({module.path, "", bias, module.start, module.end});
  }
  return known;
}

void Process::fail(Error error) { errors_.push_back(std::move(error)); }

void Process::open_stream(const std::string& path, bool blocks) {
  counted_ = counted_ || !blocks;
  auto output = stream::create_file(path);
  if (!output) return fail(output.error());
  writer_ = std::make_unique<stream::TraceWriter>(std::move(*output), target_.code);
}

void Process::open_values(const std::string& path, std::shared_ptr<const ValueTargets> targets) {
  using stream::ValueWriter;
  valued_ = true;
  auto output = stream::create_file(path);
  if (!output) return fail(output.error());
  const auto extent = targets ? ValueWriter::Extent::some : ValueWriter::Extent::all;
  values_ = std::make_unique<ValueWriter>(std::move(*output), target_.code, extent);
  if (targets) kept_ = std::make_unique<KeptValues>(std::move(targets), symbols_);
}

void Process::stop_stream(const std::string& why) {
  if (!writer_) return;
  if (Status closed = writer_->close(); !closed) fail(closed.error());
  if (values_)
    if (Status closed = values_->close(); !closed) fail(closed.error());
  values_.reset();
  fail(Error{why, "", ""});
  cut_bytes_ = writer_->bytes();
  writer_.reset();
}

void Process::parse(std::span<const std::uint64_t> words, const Forked& forked) {
  if (damaged_) return;
  Sink sink{*this, forked};
  if (Status parsed = stream::parse(words, target_.code, sink); !parsed) {
    damaged_ = true;
    fail(parsed.error());
  }
  if (values_)
    if (Status written = values_->take_error(); !written) fail(written.error());
  if (!writer_) return;
  if (Status written = writer_->take_error(); !written) fail(written.error());
}

// The first record is process_start; what a forked child inherits belongs right behind it.
void Process::take(std::span<const std::uint64_t> words, const Inherit& inherit,
                   const Forked& forked) {
  if (!started_ && !words.empty()) {
    started_ = true;
    const std::size_t first = std::min<std::size_t>(SS_HEAD_WORDS(words[0]), words.size());
    parse(words.first(first), forked);
    if (target_.life.fork_token != 0) parse(inherit(target_.life.fork_token), forked);
    words = words.subspan(first);
  }
  parse(words, forked);
}

std::optional<std::uint64_t> Process::waits_for() const {
  if (started_) return std::nullopt;
  constexpr std::size_t kWords = sizeof(ss_process_start) / 8;
  const auto token_in = [](std::span<const std::uint64_t> words) -> std::optional<std::uint64_t> {
    if (words.size() < kWords || SS_HEAD_TAG(words[0]) != SS_PROCESS_START) return std::nullopt;
    const auto token = reinterpret_cast<const ss_process_start*>(words.data())->fork_token;
    return token ? std::optional(token) : std::nullopt;
  };
  std::optional<std::uint64_t> early;
  if (auto rest = ring_->unpublished(); rest) early = token_in(*rest);
  // What was not published may have been overwritten while it was read, but then it is published.
  const auto first = ring_->next();
  return first && !first->empty() ? token_in(*first) : early;
}

bool Process::pump(int buffers, const Inherit& inherit, const Forked& forked) {
  bool any = false;
  for (int i = 0; i < buffers && !damaged_; ++i) {
    auto words = ring_->next();
    if (!words) {
      fail(words.error());
      damaged_ = true;
      break;
    }
    if (words->empty()) break;
    take(*words, inherit, forked);
    ring_->release();
    any = true;
  }
  if (damaged_) ring_->discard();
  return any && !damaged_;
}

// In a stream, a block that has passed one of its exits may still go on behind `position`; records
// are whole once `position` has moved over them.
void Process::peek(const Inherit& inherit, const Forked& forked) {
  if (!ring_->counts() || damaged_) return;
  auto words = ring_->unpublished();
  if (!words || words->empty()) return;
  take(*words, inherit, forked);
  ring_->take(words->size());
}

void Process::count() {
  auto counters = ring_->counters(target_.code.exits.size());
  if (ring_->counts())
    target_.set_reached(std::move(counters));
  else
    target_.set_sifted(std::move(counters));
}

void Process::flush() {
  if (!writer_) return;
  if (counted_) {
    count();
    if (Status counted = writer_->counts(target_.exits_taken()); !counted) fail(counted.error());
  }
  if (Status flushed = writer_->flush(); !flushed) fail(flushed.error());
  if (values_)
    if (Status flushed = values_->flush(); !flushed) fail(flushed.error());
}

// What lay on the desk of a writer that was killed.
void Process::take_rest(const Inherit& inherit, const Forked& forked) {
  const auto rest = ring_->unpublished();
  if (!rest) return fail(rest.error());
  const std::vector<std::uint64_t> taken = target_.counted();
  take(*rest, inherit, forked);
  if (ring_->desk_counted()) target_.set_taken(taken);
}

void Process::close(const Inherit& inherit, const Forked& forked) {
  while (pump(1 << 20, inherit, forked)) {
  }
  const bool said_so = ring_->ended();
  // A program that is left to itself goes on writing on its desk, and is known up to the last
  // buffer that it published.
  const bool goes_on = !said_so && !ring_->counts() && !ring_->abandoned();
  if (!said_so && !goes_on) take_rest(inherit, forked);
  count();
  const std::uint64_t when = ring_->parked() ? target_.last_when() : ring_->executed();
  target_.close(goes_on ? target_.first_when() + target_.executed() : when);
  complete_ = !damaged_ && (said_so || target_.life.replaced);
  flush();
  if (writer_)
    if (Status closed = writer_->close(); !closed) fail(closed.error());
  if (values_)
    if (Status closed = values_->close(); !closed) fail(closed.error());
  ring_.reset();
}

}  // namespace stallscope::session
