// SPDX-License-Identifier: Apache-2.0
#include "session/loops.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "session/loop_code.h"
#include "stream/reader.h"

namespace stallscope::session {
namespace {

using code::Flow;

constexpr std::size_t kNowhere = ~std::size_t{0};

bool jumps(Flow flow) { return flow == Flow::kJump || flow == Flow::kBranch; }

// First pass: jumps backwards, and how far back they reach.
class Finder {
 public:
  Finder(const stream::CodeTable& code, LoopCode& known) : code_(code), known_(known) {}

  void on_block(std::uint32_t, const stream::Exit& info, const std::uint64_t*) {
    if (!known_.knows(info.block)) known_.learn();
    const stream::Block& block = code_.blocks[info.block];
    jump(*last_, block.address);
    for (const std::uint32_t point : known_.points(info.block))
      if (point < info.instructions)
        jump(block.first_instruction + point - 1,
             code_.instructions[block.first_instruction + point].address);
    *last_ = block.first_instruction + info.instructions - 1;
  }
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t) {
    if (tag == SS_THREAD_SWITCH) {
      const auto [at, fresh] = lasts_.try_emplace(SS_HEAD_THREAD(words[0]), kNowhere);
      last_ = &at->second;
    }
    return Done{};
  }

  std::map<std::uint64_t, std::uint64_t> found;  // first instruction: last

 private:
  void jump(std::size_t from, std::uint64_t to) {
    if (from == kNowhere || !jumps(known_.flow(from))) return;
    const std::uint64_t at = code_.instructions[from].address;
    if (to > at) return;
    std::uint64_t& end = found.try_emplace(to, at).first->second;
    end = std::max(end, at);
  }

  const stream::CodeTable& code_;
  LoopCode& known_;
  std::unordered_map<std::uint32_t, std::size_t> lasts_;  // instruction, by thread
  std::size_t* last_ = &lasts_.try_emplace(1, kNowhere).first->second;
};

struct Loop {
  std::uint64_t header, end;
  std::uint32_t around = kNone32;
  std::uint64_t entries = 0, iterations = 0, shortest = ~std::uint64_t{0}, longest = 0;
  std::uint64_t instructions = 0, calls = 0;
  std::uint32_t block = 0;
};

// How far apart the accesses of one memory operation are: the distances seen first and often.
struct Distances {
  static constexpr std::size_t kKept = 4;
  std::uint64_t last = 0, entry = 0;  // entry: of which loop, by number; 0 for none
  std::uint64_t executions = 0, pairs = 0;
  std::array<std::int64_t, kKept> stride{};
  std::array<std::uint64_t, kKept> times{};

  void add(std::uint64_t address, std::uint64_t now) {
    ++executions;
    if (now == entry && now != 0) count(static_cast<std::int64_t>(address - last));
    last = address;
    entry = now;
  }
  void count(std::int64_t distance) {
    ++pairs;
    for (std::size_t i = 0; i < kKept; ++i)
      if (times[i] > 0 && stride[i] == distance) {
        ++times[i];
        return;
      }
    const auto least = std::min_element(times.begin(), times.end()) - times.begin();
    stride[least] = distance;
    times[least] = 1;
  }
};

// Second pass, with all loops known.
class Counter {
 public:
  Counter(const stream::CodeTable& code, LoopCode& known, std::vector<Loop>& loops)
      : code_(code), known_(known), loops_(loops) {}

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    if (!known_.knows(info.block)) known_.learn();
    if (exit >= taken_.size()) taken_.resize(code_.exits.size());
    if (same_.size() < code_.operations.size()) learn_operations();
    ++taken_[exit];
    const stream::Block& block = code_.blocks[info.block];
    arrive(now_->last, block.address);
    std::uint32_t operation = 0;
    for (const std::uint32_t point : known_.points(info.block)) {
      if (point >= info.instructions) break;
      operation = access(info, addresses, operation, point);
      const std::size_t index = block.first_instruction + point;
      arrive(index - 1, code_.instructions[index].address);
    }
    access(info, addresses, operation, ~std::uint32_t{0});
    now_->last = block.first_instruction + info.instructions - 1;
  }
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t) {
    if (tag == SS_SIFTED)
      return Error{"the stream has sifted accesses where all are wanted", "", ""};
    if (tag == SS_THREAD_SWITCH) now_ = &threads_[SS_HEAD_THREAD(words[0])];
    return Done{};
  }

  void finish(Loops& out);

 private:
  struct Entry {
    std::uint32_t loop;
    std::int64_t depth;  // of calls
    std::uint64_t iterations, number;
  };
  struct Thread {
    std::size_t last = kNowhere;  // instruction
    std::int64_t depth = 0;
    std::vector<Entry> inside;  // innermost last
  };
  struct Branch {
    std::uint64_t taken = 0, passed = 0;
  };

  // Those before instruction `until` of the block.
  std::uint32_t access(const stream::Exit& info, const std::uint64_t* addresses,
                       std::uint32_t operation, std::uint32_t until) {
    const std::uint64_t entry = now_->inside.empty() ? 0 : now_->inside.back().number;
    for (; operation < info.operations; ++operation) {
      const std::uint32_t number = info.first_operation + operation;
      if (code_.operations[number].instruction >= until) break;
      if (addresses[operation] != SS_NO_ADDRESS && !code_.operations[number].is_prefetch())
        distances_[same_[number]].add(addresses[operation], entry);
    }
    return operation;
  }
  void arrive(std::size_t from, std::uint64_t to);
  void leave(Thread& thread);
  void learn_operations();
  std::uint32_t innermost(std::uint64_t address) const;
  void count_code(std::vector<std::uint64_t>& executed);

  const stream::CodeTable& code_;
  LoopCode& known_;
  std::vector<Loop>& loops_;
  std::vector<std::uint64_t> taken_;  // by exit
  // An instruction may be in several blocks: the operation that stands for it in all of them.
  std::vector<std::uint32_t> same_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> operations_;
  std::vector<Distances> distances_;  // by operation
  std::map<std::uint64_t, Branch> branches_;
  FlatMap<Branch> ends_;  // branches that ended a block, by address
  std::unordered_map<std::uint32_t, Thread> threads_;
  Thread* now_ = &threads_[1];
  std::uint64_t entries_ = 0;
};

void Counter::learn_operations() {
  auto block = std::partition_point(
      code_.blocks.begin(), code_.blocks.end(),
      [&](const stream::Block& b) { return b.first_operation + b.operations <= same_.size(); });
  for (; block != code_.blocks.end(); ++block) {
    std::uint32_t index = 0;  // within the instruction
    for (std::uint32_t k = 0; k < block->operations; ++k) {
      const std::uint32_t number = block->first_operation + k;
      const std::uint16_t instruction = code_.operations[number].instruction;
      index = k > 0 && code_.operations[number - 1].instruction == instruction ? index + 1 : 0;
      const std::uint64_t address =
          code_.instructions[block->first_instruction + instruction].address;
      same_.push_back(operations_.try_emplace({address, index}, number).first->second);
    }
  }
  distances_.resize(code_.operations.size());
}

void Counter::leave(Thread& thread) {
  const Entry& entry = thread.inside.back();
  Loop& loop = loops_[entry.loop];
  ++loop.entries;
  loop.iterations += entry.iterations;
  loop.shortest = std::min(loop.shortest, entry.iterations);
  loop.longest = std::max(loop.longest, entry.iterations);
  thread.inside.pop_back();
}

void Counter::arrive(std::size_t from, std::uint64_t to) {
  Thread& thread = *now_;
  const Flow flow = from == kNowhere ? Flow::kNext : known_.flow(from);
  if (flow == Flow::kBranch) {
    Branch& branch = *ends_.try_emplace(code_.instructions[from].address).first;
    ++(to == known_.next(from) ? branch.passed : branch.taken);
  }
  if (flow == Flow::kCall) {
    ++thread.depth;
  } else {
    thread.depth -= flow == Flow::kReturn;
    while (!thread.inside.empty()) {
      const Entry& top = thread.inside.back();
      const Loop& loop = loops_[top.loop];
      if (top.depth < thread.depth) break;
      if (top.depth == thread.depth && to >= loop.header && to <= loop.end) break;
      leave(thread);
    }
  }
  const std::uint32_t* header = known_.headers.find(to);
  if (!header) return;
  if (!thread.inside.empty() && thread.inside.back().loop == *header &&
      thread.inside.back().depth == thread.depth)
    ++thread.inside.back().iterations;
  else
    thread.inside.push_back({*header, thread.depth, 1, ++entries_});
}

// Loops are in the order of their headers; those around one come before it.
std::uint32_t Counter::innermost(std::uint64_t address) const {
  auto behind = std::upper_bound(loops_.begin(), loops_.end(), address,
                                 [](std::uint64_t at, const Loop& l) { return at < l.header; });
  if (behind == loops_.begin()) return kNone32;
  auto loop = static_cast<std::uint32_t>(behind - loops_.begin()) - 1;
  while (loop != kNone32 && address > loops_[loop].end) loop = loops_[loop].around;
  return loop;
}

void Counter::count_code(std::vector<std::uint64_t>& executed) {
  taken_.resize(code_.exits.size());
  executed.assign(code_.instructions.size() + 1, 0);
  for (std::uint32_t number = 0; number < code_.blocks.size(); ++number) {
    const stream::Block& block = code_.blocks[number];
    for (std::uint32_t i = 0; i < block.exits; ++i) {
      const stream::Exit& exit = code_.exits[block.first_exit + i];
      for (std::uint32_t k = 0; k < exit.instructions; ++k)
        executed[block.first_instruction + k] += taken_[block.first_exit + i];
      // Branches that the block goes over without ending.
      for (std::uint32_t k = 0; k + 1 < exit.instructions; ++k) {
        const std::size_t at = block.first_instruction + k;
        if (known_.flow(at) != Flow::kBranch) continue;
        const auto& points = known_.points(number);
        if (std::find(points.begin(), points.end(), k + 1) != points.end()) continue;  // arrived
        Branch& branch = *ends_.try_emplace(code_.instructions[at].address).first;
        branch.passed += taken_[block.first_exit + i];
      }
    }
  }
}

void Counter::finish(Loops& out) {
  for (auto& [number, thread] : threads_)
    while (!thread.inside.empty()) leave(thread);
  std::vector<std::uint64_t> executed;
  known_.learn();
  count_code(executed);
  std::vector<bool> has_block(loops_.size());
  for (std::uint32_t number = 0; number < code_.blocks.size(); ++number) {
    const stream::Block& block = code_.blocks[number];
    for (std::uint32_t k = 0; k < block.instructions; ++k) {
      const std::size_t at = block.first_instruction + k;
      out.instructions += executed[at];
      const std::uint64_t address = code_.instructions[at].address;
      for (std::uint32_t loop = innermost(address); loop != kNone32; loop = loops_[loop].around) {
        loops_[loop].instructions += executed[at];
        if (known_.flow(at) == Flow::kCall) loops_[loop].calls += executed[at];
        if (address == loops_[loop].header && !has_block[loop]) {
          has_block[loop] = true;
          loops_[loop].block = number;
        }
      }
    }
    for (std::uint32_t k = 0; k < block.operations; ++k) {
      const std::uint32_t number_of = block.first_operation + k;
      if (number_of >= distances_.size() || distances_[number_of].executions == 0) continue;
      const stream::Operation& operation = code_.operations[number_of];
      const std::uint32_t loop =
          innermost(code_.instructions[block.first_instruction + operation.instruction].address);
      if (loop == kNone32) continue;
      const Distances& seen = distances_[number_of];
      const auto most = std::max_element(seen.times.begin(), seen.times.end()) - seen.times.begin();
      out.access.append(
          {loop, number_of, seen.executions, seen.pairs, seen.stride[most], seen.times[most]});
    }
  }
  ends_.for_each([&](std::uint64_t at, const Branch& branch) { branches_[at] = branch; });
  for (const auto& [at, branch] : branches_)
    if (const std::uint32_t loop = innermost(at); loop != kNone32)
      out.branch.append({loop, at, branch.taken, branch.passed, at == loops_[loop].end});
  for (std::uint32_t i = 0; i < loops_.size(); ++i) {
    const Loop& l = loops_[i];
    out.loop.append({i, l.header, l.end, l.around, l.block, l.entries, l.iterations,
                     l.entries ? l.shortest : 0, l.longest, l.instructions, l.calls});
  }
}

// Loops that overlap without one holding the other are taken as one behind the other.
std::vector<Loop> nested(const std::map<std::uint64_t, std::uint64_t>& found) {
  std::vector<Loop> loops;
  std::vector<std::uint32_t> open;
  for (const auto& [header, end] : found) {
    while (!open.empty() && loops[open.back()].end < end) open.pop_back();
    loops.push_back({header, end, open.empty() ? kNone32 : open.back()});
    open.push_back(static_cast<std::uint32_t>(loops.size()) - 1);
  }
  return loops;
}

}  // namespace

Result<Loops> loops(const std::string& path) {
  auto reader = stream::TraceReader::open(path);
  if (!reader) return reader.error();
  LoopCode plain(reader->code());
  Finder finder(reader->code(), plain);
  if (Status read = reader->for_each(finder); !read) return read.error();
  // A jump backwards into another function is none; it shows when nothing ever comes around.
  for (bool last = false;; last = true) {
    std::vector<Loop> found = nested(finder.found);
    LoopCode known(reader->code());
    for (std::uint32_t i = 0; i < found.size(); ++i)
      *known.headers.try_emplace(found[i].header).first = i;
    Counter counter(reader->code(), known, found);
    if (Status read = reader->for_each(counter); !read) return read.error();
    Loops out;
    counter.finish(out);
    out.truncated = reader->truncated();
    const auto goes_round = [](const Loop& loop) { return loop.iterations > loop.entries; };
    if (last || std::all_of(found.begin(), found.end(), goes_round)) return out;
    for (const Loop& loop : found)
      if (!goes_round(loop)) finder.found.erase(loop.header);
  }
}

}  // namespace stallscope::session
