// SPDX-License-Identifier: Apache-2.0
// The front: what is fetched, predicted and put into bundles. The rest is in retirement.cpp.
#include "pipeline/pipeline.h"

#include <algorithm>
#include <bit>

namespace stallscope::pipeline {
namespace {

std::uint32_t code_line_bits(const machine::MachineConfig& config) {
  for (const machine::CacheConfig& cache : config.caches)
    if (machine::on_fetch_path(cache.holds)) return std::countr_zero(cache.line);
  return 6;
}

constexpr std::uint64_t kHandler = 0xffff'8800'0000'0000;  // where a switch of counters reads

}  // namespace

Result<std::unique_ptr<Pipeline>> Pipeline::make(machine::Machine& machine,
                                                 const stream::CodeTable& code,
                                                 const CoreConfig& config,
                                                 const PipelineOptions& options) {
  if (Status fine = check_core(config); !fine) return fine.error();
  // Slices are measured in all cycles: nothing else would ever run.
  if (options.slice > 0 && options.switch_cycles >= options.slice)
    return Error{"a slice of " + std::to_string(options.slice) + " is too short",
                 "a switch takes " + std::to_string(options.switch_cycles) + " cycles", ""};
  return std::unique_ptr<Pipeline>(new Pipeline(machine, code, config, options));
}

Pipeline::Pipeline(machine::Machine& machine, const stream::CodeTable& code,
                   const CoreConfig& config, const PipelineOptions& options)
    : code_(code),
      config_(config),
      options_(options),
      memory_(machine, config, options.ideal, options.bus, events_),
      line_bits_(code_line_bits(machine.config())),
      lowered_(code, config, options.ideal, line_bits_),
      predictor_(config),
      meetings_(lowered_),
      wrong_paths_(config),
      calendar_(config),
      in_front_(config.front_end + config.fetch_buffer),
      dispatch_cycles_(std::bit_ceil(in_front_)),
      window_(std::bit_ceil((config.loose_rob ? config.rob * config.bundle : config.rob) + 1)),
      source_cycles_(machine.config().caches.size() + 1),
      slice_end_(options.slice ? options.slice : kNever) {
  if (is_ideal(options.ideal, Cause::other)) config_.taken_bubble = 0;
}

void Pipeline::on_part(const stream::Exit& exit, const std::uint64_t* addresses, std::uint32_t from,
                       std::uint32_t to) {
  const stream::Block& block = code_.blocks[exit.block];
  if (block.first_instruction + block.instructions > lowered_.instructions.size()) [[unlikely]]
    learn();
  const CoreInstruction* instructions = &lowered_.instructions[block.first_instruction];
  if (from > 0) {  // what stands in front of it was not fetched now
    const std::uint64_t at = instructions[from].address;
    if (branch_) resolve(at);
    fetch_line(at >> line_bits_, block.first_instruction + from);
  }
  for (std::uint32_t i = from; i < to; ++i) {
    const CoreInstruction& one = instructions[i];
    if (branch_) resolve(one.address);
    const std::uint32_t index = block.first_instruction + i;
    ++executed_[index];
    if (one.lines) fetch_lines(one, index);
    ahead_ = wrong_paths_.any() ? wrong_paths_.pass(one) : 0;
    add(one, index, exit, addresses);
    if (one.flow != code::WorkFlow::kNext) {
      branch_ = &one;
      branch_index_ = index;
    }
  }
}

// Tables may move when they grow, and what waits for its bundle to be complete points into them.
void Pipeline::learn() {
  std::size_t ops[kMostBundle];
  for (unsigned i = 0; i < size_; ++i)
    ops[i] = static_cast<std::size_t>(slots_[i].op - lowered_.ops.data());
  const std::ptrdiff_t branch = branch_ ? branch_ - lowered_.instructions.data() : 0;
  lowered_.learn();
  for (unsigned i = 0; i < size_; ++i) slots_[i].op = &lowered_.ops[ops[i]];
  if (branch_) branch_ = lowered_.instructions.data() + branch;
  charged_.resize(lowered_.instructions.size() * kCauses);
  executed_.resize(lowered_.instructions.size());
  went_.resize(lowered_.instructions.size());
}

void Pipeline::fetch_lines(const CoreInstruction& one, std::uint32_t index) {
  if (one.lines & 1) fetch_line(one.address >> line_bits_, index);
  if (one.lines & 2) fetch_line((one.address + one.length - 1) >> line_bits_, index);
}

// A bundle ends where fetch has to wait.
void Pipeline::fetch_line(std::uint64_t line, std::uint32_t index) {
  if (line == line_) return;
  line_ = line;
  const std::uint64_t ready = memory_.fetch(line << line_bits_, 1u << line_bits_, fetch_cycle_);
  if (ready == fetch_cycle_) return;
  const std::uint64_t wait = ready - fetch_cycle_;
  close();
  if (missed_at_ == kNever) {
    missed_at_ = fetch_cycle_;
    missed_by_ = index;
  }
  fetch_cycle_ += wait;
  fetched_ = 0;
}

void Pipeline::add(const CoreInstruction& one, std::uint32_t index, const stream::Exit& exit,
                   const std::uint64_t* addresses) {
  if (size_ + one.count > config_.bundle || (options_.mode != Mode::real && size_ > 0)) close();
  const MicroOp* op = &lowered_.ops[one.first];
  const MicroOp* const end = op + one.count;
  if (one.count <= config_.bundle) [[likely]] {
    needs_.packed += one.needs.packed;
    for (; op < end; ++op) fill(slots_[size_++], *op, index, exit, addresses);
  } else {
    for (; op < end; ++op) {
      if (size_ == config_.bundle) close();
      needs_.packed += needs_of(*op).packed;
      fill(slots_[size_++], *op, index, exit, addresses);
    }
  }
  ++instructions_;
  if (++fetched_ == config_.fetch) {
    fetched_ = 0;
    ++fetch_cycle_;
  }
}

// An exit may be taken before the last instruction has done all that it does.
void Pipeline::fill(Slot& slot, const MicroOp& op, std::uint32_t index, const stream::Exit& exit,
                    const std::uint64_t* addresses) {
  slot.op = &op;
  slot.instruction = index;
  slot.ahead = ahead_;
  slot.address = machine::kNoAddress;
  if (op.operation >= exit.operations) return;
  slot.address = addresses[op.operation];
  slot.size = std::max(1u, code_.operations[exit.first_operation + op.operation].size);
}

bool Pipeline::predicted(const CoreInstruction& branch, bool taken, std::uint64_t next) {
  using code::WorkFlow;
  bool right = true;
  switch (branch.flow) {
    case WorkFlow::kConditional:
      ++events_[Event::conditional_branches];
      right = predictor_.conditional(branch.address, taken);
      events_[Event::direction_mispredicts] += !right;
      return right;
    case WorkFlow::kReturn:
      ++events_[Event::returns];
      right = predictor_.returns(next);
      break;
    case WorkFlow::kIndirectJump:
      ++events_[Event::indirect_branches];
      right = predictor_.indirect(branch.address, next);
      break;
    case WorkFlow::kIndirectCall:
      ++events_[Event::indirect_branches];
      right = predictor_.indirect(branch.address, next);
      [[fallthrough]];
    case WorkFlow::kCall:
      ++events_[Event::calls];
      predictor_.call(branch.address + branch.length);
      break;
    default:
      break;
  }
  events_[Event::target_mispredicts] += !right;
  return right;
}

void Pipeline::resolve(std::uint64_t next) {
  const CoreInstruction& branch = *branch_;
  branch_ = nullptr;
  const bool taken = next != branch.address + branch.length;
  ++events_[Event::branches];
  events_[Event::taken_branches] += taken;
  bool right = predicted(branch, taken, next);
  if (taken) {
    predictor_.passed(next);
    learn_target(branch, next);
  }
  if (is_ideal(options_.ideal, Cause::branch_mispredict)) right = true;
  if (right && !taken) return;
  events_[Event::mispredicts] += !right;
  redirected_ = !right;
  if (fetched_ > 0) ++fetch_cycle_;
  fetched_ = 0;
  fetch_cycle_ += config_.taken_bubble;
  close();
}

void Pipeline::learn_target(const CoreInstruction& branch, std::uint64_t next) {
  if (!config_.wrong_paths || went_[branch_index_]) return;
  went_[branch_index_] = true;
  if (branch.flow == code::WorkFlow::kConditional || branch.flow == code::WorkFlow::kJump)
    meetings_.went(branch, next);
}

// What comes next was not what the program did next: nothing is known of it, nothing is predicted.
void Pipeline::interrupt(std::uint32_t thread) {
  branch_ = nullptr;
  close();
  wrong_paths_.end();
  line_ = kNever;
  if (thread == thread_) return;
  end_thread();
  thread_ = thread;
}

void Pipeline::end_thread() {
  if (threads_.size() <= thread_) threads_.resize(thread_ + 1);
  const EventCounts ran = less(events_, thread_start_);
  for (unsigned i = 0; i < kEvents; ++i) threads_[thread_].counts.values[i] += ran.values[i];
  thread_start_ = events_;
}

void Pipeline::finish() {
  interrupt(thread_ + 1);
  --thread_;
  if (events_[Event::cycles] > row_start_[Event::cycles])
    timeline_.push_back({thread_, less(events_, row_start_)});
  if (options_.slice && events_[Event::cycles] > slice_start_[Event::cycles]) keep_slice();
}

void Pipeline::restart_rows() {
  close();
  timeline_.clear();
  threads_.clear();
  row_start_ = thread_start_ = events_;
  row_length_ = 1024;
  row_end_ = events_[Event::cycles] + row_length_;
}

void Pipeline::end_rows() {
  close();
  if (events_[Event::cycles] > row_start_[Event::cycles])
    timeline_.push_back({thread_, less(events_, row_start_)});
  row_start_ = events_;
  end_thread();
}

EventCounts Pipeline::less(const EventCounts& now, const EventCounts& before) {
  EventCounts difference;
  for (unsigned i = 0; i < kEvents; ++i) difference.values[i] = now.values[i] - before.values[i];
  return difference;
}

std::vector<Slice> Pipeline::threads() const {
  std::vector<Slice> found;
  for (std::uint32_t thread = 0; thread < threads_.size(); ++thread)
    if (threads_[thread].counts[Event::cycles] > 0)
      found.push_back({thread, threads_[thread].counts});
  return found;
}

void Pipeline::count_time() {
  if (events_[Event::cycles] >= row_end_) {
    timeline_.push_back({thread_, less(events_, row_start_)});
    row_start_ = events_;
    if (timeline_.size() == 2 * kTimeline) {
      for (std::size_t i = 0; i < kTimeline; ++i) {
        timeline_[i] = timeline_[2 * i];
        for (unsigned k = 0; k < kEvents; ++k)
          timeline_[i].counts.values[k] += timeline_[2 * i + 1].counts.values[k];
      }
      timeline_.resize(kTimeline);
      row_length_ *= 2;
    }
    row_end_ = events_[Event::cycles] + row_length_;
  }
  const Event clock = options_.slice_by_instructions ? Event::instructions : Event::cycles;
  if (events_[clock] >= slice_end_) end_slice();
}

void Pipeline::keep_slice() {
  slices_.push_back({thread_, less(events_, slice_start_)});
  slice_start_ = events_;
  if (told_) told_(slices_.back());
}

void Pipeline::end_slice() {
  keep_slice();
  const Event clock = options_.slice_by_instructions ? Event::instructions : Event::cycles;
  slice_end_ = (events_[clock] / options_.slice + 1) * options_.slice;
  if (options_.switch_cycles == 0) return;
  fetch_cycle_ = std::max(fetch_cycle_, retired_ + options_.switch_cycles);
  switched_ = true;
  for (std::uint32_t i = 0; i < options_.switch_lines; ++i)
    memory_.disturb(kHandler + (slices_.size() % 16 * 64 + i) * 64);
}

}  // namespace stallscope::pipeline
