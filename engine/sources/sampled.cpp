// SPDX-License-Identifier: Apache-2.0
#include "sources/sampled.h"

#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>

#include "sources/data_source.h"
#include "sources/hot_lines.h"
#include "stallscope_records.h"
#include "symbols/debug_files.h"
#include "target/resolver.h"

namespace stallscope::sources {
namespace {

constexpr std::uint32_t kReadWriteExecute = 7;
constexpr unsigned kStackBit = 7;  // the stack pointer in the kernel's numbering

// The kernel's number of each general register, by hardware number, and the instruction pointer.
constexpr unsigned kBits[] = {0, 2, 3, 1, 7, 6, 4, 5, 16, 17, 18, 19, 20, 21, 22, 23, 8};

bool registers_of(const Sample& sample, UserRegisters& out) {
  if (sample.regs_user.abi != static_cast<std::uint64_t>(RegisterAbi::bits64)) return false;
  for (std::size_t i = 0; i < out.size(); ++i)
    if (!sample.regs_user.get(kBits[i], out[i])) return false;
  return true;
}

// The kernel writes //anon for memory without a file.
std::string_view path_of(const Mapped& mapped) {
  return mapped.path == "//anon" ? std::string_view() : mapped.path;
}

// Eight bytes of a process that still runs and is ours to look at.
std::optional<std::uint64_t> read_memory(pid_t process, std::uint64_t address) {
  std::uint64_t value = 0;
  const iovec here{&value, sizeof value};
  const iovec there{reinterpret_cast<void*>(address), sizeof value};
  if (process_vm_readv(process, &here, 1, &there, 1, 0) != sizeof value) return std::nullopt;
  return value;
}

const char* text_of(How how) {
  constexpr const char* kNames[] = {"none", "exact", "kept", "read", "next", "given", "array"};
  return kNames[static_cast<int>(how)];
}

// A sampled access that the nearest cache served at once kept nobody waiting.
bool waited(const DataSource& source, std::uint64_t latency) {
  constexpr std::uint64_t kLong = 32;  // cycles: more than the first two levels take
  return source.level != DataSource::Level::l1 || source.found == DataSource::Found::miss ||
         latency >= kLong;
}

}  // namespace

CodeFile* CodeFiles::open(const std::string& path) {
  auto [found, fresh] = files_.try_emplace(path);
  if (fresh) found->second = CodeFile::open(path);
  return found->second.get();
}

SampledImage::SampledImage(Sampling sampling, std::uint32_t pid, std::string name)
    : sampling_(sampling),
      pid_(pid),
      name_(std::move(name)),
      generated_(sampling_.running ? static_cast<pid_t>(pid) : 0) {
  if (!sampling_.heap_logs.empty()) heap_.expect(sampling_.heap_logs, name_, sampling_.started);
}

std::uint32_t SampledImage::thread_of(std::uint32_t tid, std::uint64_t time) {
  const auto found = numbers_.find(tid);
  if (found != numbers_.end()) return found->second;
  start_thread(tid, 0, time);
  return numbers_.at(tid);
}

void SampledImage::start_thread(std::uint32_t tid, std::uint32_t parent, std::uint64_t time) {
  const auto number = static_cast<std::uint32_t>(threads_.all().size() + 1);
  const auto made_by = numbers_.find(parent);
  target::Threads::Thread thread;
  thread.number = number;
  thread.lwp = tid;
  thread.started = since(time);
  if (made_by != numbers_.end()) {
    thread.parent = made_by->second;
    thread.name = std::as_const(threads_).find(made_by->second)->name;
  }
  threads_.start(std::move(thread));
  numbers_.insert_or_assign(tid, number);  // the kernel uses numbers again
  last_numbers_.insert_or_assign(tid, number);
}

void SampledImage::end_thread(std::uint32_t tid, std::uint64_t time) {
  const auto found = numbers_.find(tid);
  if (found == numbers_.end()) return;
  threads_.exit(found->second, since(time));
  numbers_.erase(found);
}

void SampledImage::rename(std::uint32_t tid, std::string_view name, std::uint64_t time) {
  threads_.rename(thread_of(tid, time), name);
}

void SampledImage::place_variables(const target::Module& module) {
  const std::lock_guard lock(sampling_.symbols.mutex());
  auto opened = sampling_.symbols.open(module.path);
  if (!opened) return;
  symbols::Symbols& symbols = **opened;
  const std::uint64_t bias = target::bias_of(module, symbols.facts());
  for (const symbols::Variable& v : symbols.variables())
    buckets_.name("global", symbols.text(v.name), symbols.text(v.type), v.address + bias, v.size);
}

// The kernel tells of a mapping that grew, as the heap does, as of a new one over the old: what is
// new is left.
void SampledImage::skip_known(target::Mapping& m) const {
  while (m.start < m.end) {
    const target::Mapping* before = mappings_.find(m.start);
    if (before == nullptr || before->path != m.path || before->access != m.access ||
        before->offset - before->start != m.offset - m.start)
      return;
    m.offset += before->end - m.start;
    m.start = before->end;
  }
}

void SampledImage::map(const Mapped& mapped) {
  target::Mapping m;
  m.start = mapped.start;
  m.end = mapped.start + mapped.length;
  m.offset = mapped.page_offset;
  m.born = since(mapped.source.time);
  m.path = path_of(mapped);
  m.access = mapped.has_detail ? mapped.protection & kReadWriteExecute : mapped.data ? 1 : 5;
  m.thread = thread_of(mapped.tid, mapped.source.time);
  if (!sampling_.heap_logs.empty() && m.path.starts_with(sampling_.heap_logs))
    m.path = "[allocation log]";
  skip_known(m);
  if (m.end <= m.start) return;
  const bool stack = m.path == "[stack]";
  buckets_.map(stack ? "stack" : "mapping", stack ? "" : m.path, m.start, m.end - m.start);
  if (stack) stacks_.emplace(m.start, m.thread);
  mappings_.map(m, gone_);
  const std::uint32_t module = mappings_.module_of(m.start);
  if ((m.access & PROT_EXEC) && module != kNone32 && with_variables_.insert(module).second)
    place_variables(mappings_.modules()[module]);
}

void SampledImage::inherit(SampledImage& parent) {
  heap_.inherit(parent.heap_);
  parent.mappings_.for_each_live([&](const target::Mapping& m) {
    Mapped mapped;
    mapped.source.time = sampling_.started + m.born;
    mapped.pid = mapped.tid = pid_;
    mapped.start = m.start;
    mapped.length = m.end - m.start;
    mapped.page_offset = m.offset;
    mapped.has_detail = true;
    mapped.protection = m.access;
    mapped.path = m.path;
    map(mapped);
  });
}

// What a stack pointer points into is a stack.
void SampledImage::place_stack(std::uint32_t thread, std::uint64_t pointer) {
  const target::Mapping* mapping = mappings_.find(pointer);
  if (mapping == nullptr || !mapping->path.empty()) return;
  if (!stacks_.emplace(mapping->start, thread).second) return;
  buckets_.map("stack", "", mapping->start, mapping->end - mapping->start);
}

SampledImage::Spot SampledImage::spot_in_file(std::uint64_t ip, unsigned skid) {
  Spot spot;
  spot.ip = ip;
  spot.module = mappings_.module_of(ip);
  if (spot.module == kNone32 || !mappings_.modules()[spot.module].has_code) return spot;
  const target::Module& module = mappings_.modules()[spot.module];
  const std::lock_guard lock(sampling_.symbols.mutex());
  if (auto opened = sampling_.symbols.open(module.path); opened) {
    spot.bias = target::bias_of(module, (*opened)->facts());
    spot.ip = ip - spot.bias;
    spot.allocates = (*opened)->is_allocator(spot.ip);
    if (const FunctionCode* code = code_of(spot)) spot.recipe = recipe_at(*code, spot.ip, skid);
  }
  return spot;
}

SampledImage::Spot SampledImage::make_spot(std::uint64_t ip, unsigned skid, std::uint64_t time) {
  Spot spot = spot_in_file(ip, skid);
  if (spot.module != kNone32 || !sampling_.running) return spot;
  if (const FunctionCode* code = generated_.at(ip, time)) spot.recipe = recipe_at(*code, ip, skid);
  return spot;
}

// What a process made for itself may be known a moment later than it runs.
std::uint32_t SampledImage::spot_at(std::uint64_t ip, std::uint64_t time) {
  auto [found, fresh] = spot_by_ip_.try_emplace(ip, static_cast<std::uint32_t>(spots_.size()));
  if (fresh) {
    spots_.push_back(make_spot(ip, sampling_.skid, time));
  } else if (Spot& spot = spots_[found->second]; spot.module == kNone32 && !spot.recipe.known) {
    const std::uint64_t count = spot.count;
    spot = make_spot(ip, sampling_.skid, time);
    spot.count = count;
  }
  return found->second;
}

const FunctionCode* SampledImage::code_of(const Spot& spot) const {
  if (spot.module == kNone32) return generated_.known(spot.ip);
  if (spot.module >= mappings_.modules().size()) return nullptr;
  CodeFile* file = sampling_.code.open(mappings_.modules()[spot.module].path);
  return file == nullptr ? nullptr : file->at(spot.ip);
}

// Those of a process of another machine, or of the past, would be somebody else's.
target::PerfMap SampledImage::generated_names() const {
  return sampling_.running ? generated_.names() : target::PerfMap();
}

void SampledImage::find_waiting(const Sample& sample, Row& row) {
  row.spot = spot_at(sample.ip, sample.source.time);
  Spot& spot = spots_[row.spot];
  ++spot.count;
  if (!spot.recipe.known) return;
  row.state = spot.recipe.accesses() ? State::kMemory : State::kCompute;
  UserRegisters registers;
  if (!spot.recipe.accesses() || !registers_of(sample, registers)) return;
  const auto read = [this](std::uint64_t at) {
    return sampling_.running ? read_memory(static_cast<pid_t>(pid_), at) : std::nullopt;
  };
  const auto address = address_of(spot.recipe, registers, spot.bias, read);
  if (!address) return take_array(spot.recipe, registers, row);
  if (is_on_top_of_stack(*address, registers)) row.state = State::kCompute;
  row.address = *address;
  row.how = spot.recipe.how;
  // What an allocator reads and writes itself is nobody's block: not yet, or not any more.
  row.set(spot.allocates ? Held{buckets_.find(*address), 1} : holder_of(*address, row.time));
  if (sampling_.offered != nullptr)
    sampling_.offered->push_back(
        {this, {*address, sample.ip, sample.source.time, sample.source.tid}});
}

// Without the address, an array that has a name is still what the program waits for.
void SampledImage::take_array(const Recipe& recipe, const UserRegisters& registers, Row& row) {
  const auto array = array_of(recipe, registers);
  if (!array) return;
  const Held held = holder_of(*array, row.time);
  const std::string_view kind = buckets_.kind_of(held.bucket);
  if (kind != "heap" && kind != "global") return;
  row.set(held);
  row.how = How::kArray;
}

// What the allocation log knows lies in mappings; names and stacks are not its business.
SampledImage::Held SampledImage::holder_of(std::uint64_t address, std::uint64_t time) {
  const probes::BucketId found = buckets_.find(address);
  const std::string_view kind = buckets_.kind_of(found);
  if (kind != "mapping" && kind != "unknown") return {found, 1};
  const auto named = heap_.find(address, time);
  return named ? Held{buckets_.of_site(named->site), named->confidence} : Held{found, 1};
}

// Precise samples say what was accessed, how long it took and where it was found.
void SampledImage::take_given(const Sample& sample, Row& row) {
  const DataSource source = decode_data_source(sample.data_source);
  const bool timed = sample.has(kSampleWeight | kSampleWeightParts) && sample.latency != 0;
  row.address = sample.address;
  row.how = How::kGiven;
  row.set(holder_of(sample.address, row.time));
  row.data_source = sample.data_source;
  if (timed) row.latency = sample.latency;
  if (sample.mode != Mode::user) return;
  row.spot = spot_at(sample.ip, sample.source.time);
  Spot& spot = spots_[row.spot];
  ++spot.count;
  if (!spot.recipe.known) {
    spot.recipe.reads = source.operation == DataSource::Operation::load;
    spot.recipe.writes = source.operation == DataSource::Operation::store;
  }
  row.state = waited(source, timed ? sample.latency : 0) ? State::kMemory : State::kCompute;
}

void SampledImage::sample(const Sample& sample) {
  Row row{since(sample.source.time),
          sample.ip,
          kNever,
          kNever,
          std::max<std::uint64_t>(sample.period, 1),
          0,
          thread_of(sample.source.tid, sample.source.time),
          sample.has(kSampleCpu) ? sample.source.cpu : kNone32,
          kNone32,
          kNone32,
          State::kUnknown,
          How::kNone};
  std::uint64_t pointer = 0;
  if (sample.regs_user.get(kStackBit, pointer)) place_stack(row.thread, pointer);
  if (sample.mode == Mode::kernel) row.state = State::kKernel;
  if (sample.has(kSampleAddress) && sample.address != 0)
    take_given(sample, row);
  else if (sample.mode == Mode::user)
    find_waiting(sample, row);
  rows_.push_back(row);
}

void SampledImage::weigh_spots() {
  constexpr double kOnlyWrites = 0.8;  // the program goes on while a write is under way
  constexpr double kNextOne = 0.9;     // the address of another element of the chain
  for (Spot& spot : spots_) {
    if (!spot.recipe.known || !spot.recipe.accesses() || spot.count == 0) continue;
    const FunctionCode* code = code_of(spot);
    if (code == nullptr) continue;
    spot.waits = waits_at(*code, spot.ip, sampling_.skid, [&](std::uint64_t ip) {
      const auto found = spot_by_ip_.find(ip + spot.bias);
      return found == spot_by_ip_.end() ? std::uint64_t{0} : spots_[found->second].count;
    });
    if (!spot.recipe.reads) spot.waits *= kOnlyWrites;
    if (spot.recipe.how == How::kNext) spot.waits *= kNextOne;
  }
}

// What is surely in the first caches is not waited for.
void SampledImage::find_hot_lines() {
  std::vector<Standing> touches;
  std::vector<Row*> rows;
  for (Row& row : rows_) {
    const bool looked_up = row.how != How::kNone && row.how != How::kGiven && row.address != kNever;
    if (row.state != State::kMemory || !looked_up) continue;
    touches.push_back({row.spot, row.thread, row.cpu, row.address});
    rows.push_back(&row);
  }
  const std::vector<bool> hot = hot_lines(touches);
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (hot[i]) rows[i]->state = State::kCompute;
}

void SampledImage::fill_code(SampledTables& out) {
  target::Resolver resolver(mappings_.modules(), sampling_.symbols, generated_names());
  std::map<std::uint64_t, std::uint32_t> numbers;  // of operations, by address
  std::vector<const Spot*> first;                  // spot of each
  std::vector<std::size_t> requests;
  for (Spot& spot : spots_) {
    const std::uint64_t address =
        (spot.recipe.known ? spot.recipe.instruction : spot.ip) + spot.bias;
    auto [found, fresh] = numbers.try_emplace(address, static_cast<std::uint32_t>(first.size()));
    spot.operation = found->second;
    if (!fresh) continue;
    first.push_back(&spot);
    requests.push_back(resolver.request(spot.module, address));
  }
  resolver.resolve();
  for (const auto& [address, number] : numbers) {
    const Spot& spot = *first[number];
    const target::Resolver::Place place = resolver.innermost(requests[number]);
    const Recipe& r = spot.recipe;
    const std::uint8_t kind = !r.accesses() ? SS_OP_KIND_NONE : !r.writes ? 0 : r.reads ? 2 : 1;
    const std::uint32_t operations = r.accesses() ? 1 : 0;
    out.block.append({number, address, spot.module, 1, operations, 0, place.function, place.file,
                      place.line, ""});
    out.operation.append(
        {number, number, address, kind, r.size, 0, place.function, place.file, place.line});
  }
  const auto& modules = mappings_.modules();
  for (std::uint32_t i = 0; i < modules.size(); ++i) {
    if (!modules[i].has_code) continue;
    const symbols::Symbols* symbols = resolver.symbols(i);
    out.module.append({i, modules[i].path,
                       symbols ? symbols::hexadecimal(symbols->facts().build_id) : "",
                       resolver.bias(i), modules[i].start, modules[i].end, modules[i].loaded,
                       modules[i].unloaded});
  }
}

void SampledImage::fill_sites(SampledTables& out) {
  const std::vector<SampledHeap::Site> sites = heap_.sites();
  target::Resolver resolver(mappings_.modules(), sampling_.symbols, generated_names());
  std::vector<std::size_t> requests;
  for (const SampledHeap::Site& site : sites)
    for (const Address frame : site.frames)  // where it returns to is behind the call
      requests.push_back(resolver.request(mappings_.module_ever(frame.value - 1), frame.value - 1));
  resolver.resolve();
  std::size_t next = 0;
  for (const SampledHeap::Site& site : sites) {
    out.allocations += site.blocks;
    buckets_.set_blocks(buckets_.of_site(site.number), site.blocks, site.bytes);
    std::uint32_t depth = 0;
    for (const Address frame : site.frames) {
      const std::uint32_t module = mappings_.module_ever(frame.value - 1);
      for (const target::Resolver::Place& place : resolver.frames(requests[next++]))
        out.site.append({site.number, depth++, frame.value - 1, module, place.function, place.file,
                         place.line, place.inlined});
    }
  }
}

void SampledImage::fill_heap_quality(SampledTables& out) {
  const HeapLost lost = heap_.lost();
  const std::uint64_t unknown = lost.without_mark + lost.without_site + lost.without_thread +
                                lost.without_record + lost.without_live;
  if (unknown)
    out.quality.append({"heap_log", "info", unknown,
                        "heap blocks are not in the allocation log, or only in part"});
  const auto guessed = std::count_if(rows_.begin(), rows_.end(),
                                     [](const Row& row) { return row.bucket_confidence < 1; });
  if (guessed)
    out.quality.append({"heap_sampled", "info", static_cast<std::uint64_t>(guessed),
                        "samples lie in heap blocks that were not logged, because " +
                            std::to_string(heap_.passed()) +
                            " came and went too fast; the blocks beside them name them"});
}

void SampledImage::fill_samples(SampledTables& out) const {
  constexpr double kSure = 0.5;
  for (const Row& row : rows_) {
    const Spot* spot = row.spot == kNone32 ? nullptr : &spots_[row.spot];
    State state = row.state;
    double confidence = state == State::kUnknown ? 0 : 1;
    if (state == State::kMemory && row.how != How::kGiven) {
      const bool waits = spot->waits >= kSure;
      if (!waits) state = State::kCompute;
      confidence = waits ? spot->waits : 1 - spot->waits;
    }
    constexpr const char* kStates[] = {"memory", "compute", "kernel", "unknown"};
    out.live_sample.append({row.time, row.thread, row.cpu, row.ip, spot ? spot->operation : kNone32,
                            row.address, row.bucket, row.bucket_confidence,
                            kStates[static_cast<int>(state)], text_of(row.how), confidence,
                            row.latency, decode_data_source(row.data_source).served(), row.weight});
  }
}

void SampledImage::fill_objects(SampledTables& out) const {
  out.object = gone_;
  mappings_.for_each_live([&](const target::Mapping& m) {
    const auto stack = stacks_.find(m.start);
    const bool is_stack = stack != stacks_.end();
    const std::uint32_t thread = is_stack ? stack->second : m.thread;
    const target::Threads::Thread* owner = threads_.find(thread);
    out.object.append({is_stack ? "stack" : "mapping",
                       is_stack && owner ? std::string_view(owner->name) : m.path, "", m.start,
                       m.end - m.start, m.born, kNever, thread, kNone32, ""});
  });
  for (std::uint32_t i : with_variables_) {
    const target::Module& module = mappings_.modules()[i];
    auto opened = sampling_.symbols.open(module.path);
    if (!opened) continue;
    symbols::Symbols& symbols = **opened;
    const std::uint64_t bias = target::bias_of(module, symbols.facts());
    for (const symbols::Variable& v : symbols.variables())
      out.object.append({"global", symbols.text(v.name), symbols.text(v.type), v.address + bias,
                         v.size, module.loaded, module.unloaded, 0, kNone32, ""});
  }
}

SampledTables SampledImage::tables() {
  const std::lock_guard lock(sampling_.symbols.mutex());
  SampledTables out;
  weigh_spots();
  find_hot_lines();
  fill_code(out);
  fill_samples(out);
  fill_watches(out);
  fill_objects(out);
  heap_.poll();
  fill_sites(out);
  heap_.fill_large(last_numbers_, out.object);
  fill_heap_quality(out);
  threads_.fill(out.thread);
  buckets_.fill(out.bucket);
  return out;
}

}  // namespace stallscope::sources
