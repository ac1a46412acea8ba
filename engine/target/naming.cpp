// SPDX-License-Identifier: Apache-2.0
#include "target/naming.h"

#include <algorithm>
#include <set>

#include "symbols/debug_files.h"
#include "target/resolver.h"

namespace stallscope::target {
namespace {

PerfMap generated_names(const Target& target) {
  const auto& modules = target.block_module;
  const bool any = std::any_of(modules.begin(), modules.end(), [&](std::uint32_t module) {
    return module >= target.mappings.modules().size();
  });
  if (!any) return {};
  const Life& life = target.life;
  return PerfMap::of_process(life.pid, life.started_ns, life.ended ? life.ended_ns : 0);
}

// What a block that ran needs named: itself and each of its operations.
struct RunBlock {
  std::uint32_t number;
  std::uint64_t executions;
  std::size_t request;                 // of the block; its operations' follow
  std::vector<std::uint64_t> reached;  // executions by operation
};

class TableMaker {
 public:
  TableMaker(Target& target, symbols::SymbolCache& cache)
      : target_(target), resolver_(target.mappings.modules(), cache, generated_names(target)) {}

  Tables make() {
    request_blocks();
    request_sites();
    resolver_.resolve();
    target_.threads.fill(tables_.thread);
    fill_modules();
    fill_blocks();
    fill_sites();
    fill_objects();
    fill_quality();
    tables_.instructions = target_.measured();
    return std::move(tables_);
  }

 private:
  void request_blocks();
  void request_sites();
  void fill_modules();
  void fill_blocks();
  void fill_operation(const RunBlock& run, std::uint32_t index);
  void fill_sites();
  void fill_objects();
  void fill_variables();
  void fill_quality();
  std::uint64_t operation_address(const stream::Block& block, std::uint32_t index) const;

  struct SiteFrame {
    std::uint32_t site;
    std::uint64_t address;
    std::uint32_t module;
    std::size_t request;
  };

  Target& target_;
  Resolver resolver_;
  Tables tables_;
  std::vector<RunBlock> blocks_;
  std::vector<SiteFrame> frames_;
};

std::uint64_t TableMaker::operation_address(const stream::Block& block, std::uint32_t index) const {
  const stream::CodeTable& code = target_.code;
  const std::uint32_t instruction = code.operations[block.first_operation + index].instruction;
  return code.instructions[block.first_instruction + instruction].address;
}

void TableMaker::request_blocks() {
  const stream::CodeTable& code = target_.code;
  const std::vector<std::uint64_t> taken = target_.exits_taken();
  for (std::uint32_t number = 0; number < code.blocks.size(); ++number) {
    const stream::Block& block = code.blocks[number];
    RunBlock run{number, 0, 0, std::vector<std::uint64_t>(block.operations)};
    for (std::uint32_t exit = block.first_exit; exit < block.first_exit + block.exits; ++exit) {
      run.executions += taken[exit];
      for (std::uint32_t op = 0; op < code.exits[exit].operations; ++op)
        run.reached[op] += taken[exit];
    }
    if (run.executions == 0) continue;
    const std::uint32_t module = target_.block_module[number];
    run.request = resolver_.request(module, block.address);
    for (std::uint32_t op = 0; op < block.operations; ++op)
      resolver_.request(module, operation_address(block, op));
    blocks_.push_back(std::move(run));
  }
}

void TableMaker::request_sites() {
  for (const auto& [site, frames] : target_.sites)
    for (std::uint64_t address : frames) {
      const std::uint32_t module = target_.mappings.module_ever(address);
      frames_.push_back({site, address, module, resolver_.request(module, address)});
    }
}

void TableMaker::fill_modules() {
  const auto& modules = target_.mappings.modules();
  for (std::uint32_t i = 0; i < modules.size(); ++i) {
    const Module& m = modules[i];
    if (!m.has_code) continue;
    const symbols::Symbols* symbols = resolver_.symbols(i);
    tables_.module.append({i, m.path,
                           symbols ? symbols::hexadecimal(symbols->facts().build_id) : "",
                           resolver_.bias(i), m.start, m.end, m.loaded, m.unloaded});
  }
}

void TableMaker::fill_operation(const RunBlock& run, std::uint32_t index) {
  const stream::Block& block = target_.code.blocks[run.number];
  const stream::Operation& op = target_.code.operations[block.first_operation + index];
  const Resolver::Place place = resolver_.innermost(run.request + 1 + index);
  tables_.operation.append({block.first_operation + index, run.number,
                            operation_address(block, index), op.kind, op.size, run.reached[index],
                            place.function, place.file, place.line});
  if (!op.is_prefetch())
    (op.kind == SS_OP_KIND_STORE ? tables_.stores : tables_.loads) += run.reached[index];
}

void TableMaker::fill_blocks() {
  const stream::CodeTable& code = target_.code;
  for (const RunBlock& run : blocks_) {
    const stream::Block& block = code.blocks[run.number];
    const Resolver::Place place = resolver_.innermost(run.request);
    tables_.block.append({run.number, block.address, target_.block_module[run.number],
                          block.instructions, block.operations, run.executions, place.function,
                          place.file, place.line,
                          std::string_view(code.bytes).substr(block.first_byte, block.size)});
    for (std::uint32_t op = 0; op < block.operations; ++op) fill_operation(run, op);
  }
}

void TableMaker::fill_sites() {
  std::uint32_t depth = 0;
  std::uint32_t current = kNone32;
  for (const SiteFrame& frame : frames_) {
    if (frame.site != current) depth = 0;
    current = frame.site;
    for (const Resolver::Place& place : resolver_.frames(frame.request))
      tables_.site.append({frame.site, depth++, frame.address, frame.module, place.function,
                           place.file, place.line, place.inlined});
  }
}

void TableMaker::fill_variables() {
  const auto& modules = target_.mappings.modules();
  for (std::uint32_t i = 0; i < modules.size(); ++i) {
    symbols::Symbols* symbols = resolver_.symbols(i);
    if (!symbols) continue;
    for (const symbols::Variable& v : symbols->variables())
      tables_.object.append({"global", symbols->text(v.name), symbols->text(v.type),
                             v.address + resolver_.bias(i), v.size, modules[i].loaded,
                             modules[i].unloaded, 0, kNone32, ""});
  }
}

void TableMaker::fill_objects() {
  std::set<std::uint64_t> stacks;  // mappings that are some thread's stack
  for (const Threads::Thread& thread : target_.threads.all()) {
    const Mapping* mapping = target_.mappings.find(thread.stack_pointer);
    if (!mapping || !stacks.insert(mapping->start).second) continue;
    tables_.object.append({"stack", thread.name, "", mapping->start, mapping->end - mapping->start,
                           thread.started, thread.ended, thread.number, kNone32, ""});
  }
  target_.mappings.for_each_live([&](const Mapping& m) {
    if (!stacks.contains(m.start))
      tables_.object.append(
          {"mapping", m.path, "", m.start, m.end - m.start, m.born, kNever, m.thread, kNone32, ""});
  });
  fill_variables();
  target_.heap.fill_live(tables_.object);
  target_.names.fill_live(tables_.object);
}

void TableMaker::fill_quality() {
  tables_.quality = std::move(target_.quality);
  if (const auto count = target_.heap.unmatched_frees(); count)
    tables_.quality.append(
        {"unmatched_frees", "info", count, "blocks were freed whose allocation was not seen"});
  if (const auto count = target_.heap.unseen_frees(); count)
    tables_.quality.append({"unseen_frees", "warning", count,
                            "addresses were allocated again although no free was seen"});
  const auto& modules = target_.mappings.modules();
  for (std::uint32_t i = 0; i < modules.size(); ++i) {
    if (!modules[i].has_code) continue;
    const symbols::Symbols* symbols = resolver_.symbols(i);
    const std::string why = symbols ? symbols->shortfall() : "the file cannot be read";
    if (!why.empty())
      tables_.quality.append(
          {"names", "info", 1, "names are missing in " + modules[i].path + ": " + why});
  }
}

}  // namespace

std::uint32_t look_up_names(const Target& target, symbols::SymbolCache& cache,
                            std::uint32_t first) {
  constexpr std::uint32_t kAtATime = 4000;
  const stream::CodeTable& code = target.code;
  const auto end =
      std::min<std::uint32_t>(first + kAtATime, static_cast<std::uint32_t>(code.blocks.size()));
  if (first >= end) return first;
  Resolver resolver(target.mappings.modules(), cache);
  for (std::uint32_t block = first; block < end; ++block) {
    const stream::Block& b = code.blocks[block];
    for (std::uint32_t i = 0; i < b.instructions; ++i)
      resolver.request(target.block_module[block],
                       code.instructions[b.first_instruction + i].address);
  }
  resolver.resolve();
  for (std::uint32_t i = 0; i < target.mappings.modules().size(); ++i)
    if (symbols::Symbols* symbols = resolver.symbols(i)) symbols->variables();
  return end;
}

Tables make_tables(Target& target, symbols::SymbolCache& cache) {
  return TableMaker(target, cache).make();
}

}  // namespace stallscope::target
