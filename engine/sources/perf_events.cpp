// SPDX-License-Identifier: Apache-2.0
#include "sources/perf_events.h"

#include <bit>
#include <string>

namespace stallscope::sources {
namespace {

constexpr std::uint16_t kMiscMode = 7;
constexpr std::uint16_t kMiscBit13 = 1U << 13;  // data mapping, exec, switch out: by record type
constexpr std::uint16_t kMiscBit14 = 1U << 14;  // exact ip, build id, preempted: by record type
constexpr std::size_t kBuildIdRoom = 20;

Mode mode_of(std::uint16_t misc) {
  const unsigned mode = misc & kMiscMode;
  return mode <= static_cast<unsigned>(Mode::guest_user) ? static_cast<Mode>(mode) : Mode::unknown;
}

Error too_short(const RecordHeader& header, const char* part) {
  return Error{"a perf record is damaged",
               "a record of type " + type_name(header.type) + " has " +
                   std::to_string(header.size) + " bytes and ends inside its " + part,
               ""};
}

// What sample_id_all puts behind a record, as many bytes as sample_type calls for.
std::size_t source_bytes(const Layout& layout) {
  constexpr std::uint64_t kParts =
      kSampleTid | kSampleTime | kSampleId | kSampleStreamId | kSampleCpu | kSampleIdentifier;
  return layout.sample_id_all
             ? static_cast<std::size_t>(std::popcount(layout.sample_type & kParts)) * 8
             : 0;
}

Source read_source(Cursor in, const Layout& layout) {
  Source source;
  const auto has = [&](std::uint64_t part) { return (layout.sample_type & part) != 0; };
  if (has(kSampleTid)) {
    source.pid = in.u32();
    source.tid = in.u32();
  }
  if (has(kSampleTime)) source.time = in.u64();
  if (has(kSampleId)) source.id = in.u64();
  if (has(kSampleStreamId)) source.stream_id = in.u64();
  if (has(kSampleCpu)) {
    source.cpu = in.u32();
    in.u32();
  }
  if (has(kSampleIdentifier)) source.id = in.u64();
  return source;
}

// Steps over the counter values of a sample.
void skip_read(Cursor& in, std::uint64_t format) {
  const auto bit = [&](ReadPart part) { return (format & part) != 0 ? 1U : 0U; };
  const unsigned times = bit(kReadEnabled) + bit(kReadRunning);
  const unsigned each = 1 + bit(kReadId) + bit(kReadLost);
  if ((format & kReadGroup) == 0) {
    in.words(times + each);
    return;
  }
  const std::uint64_t counters = in.u64();
  in.words(times);
  // More than fit is a failure that words() finds; the limit keeps the product in range.
  in.words(counters > in.left() ? in.left() + 1 : counters * each);
}

void read_branches(Cursor& in, const Layout& layout, Sample& sample) {
  const std::uint64_t count = in.u64();
  if ((layout.branch_sample_type & kBranchIndex) != 0) in.u64();
  const bool fits = count <= in.left() / 24;
  sample.branches = in.words(fits ? count * 3 : in.left() + 1);
  if ((layout.branch_sample_type & kBranchCounters) != 0) in.words(fits ? count : 0);
}

void read_registers(Cursor& in, std::uint64_t mask, Registers& registers) {
  registers.abi = in.u64();
  if (registers.abi == static_cast<std::uint64_t>(RegisterAbi::none)) return;
  registers.mask = mask;
  registers.values = in.words(static_cast<std::uint64_t>(std::popcount(mask)));
}

void read_stack(Cursor& in, Sample& sample) {
  const std::uint64_t room = in.u64();
  if (room == 0) return;
  const auto copy = in.bytes(room);
  const std::uint64_t used = in.u64();
  sample.stack_user = copy.first(used < copy.size() ? static_cast<std::size_t>(used) : copy.size());
}

void read_weight(Cursor& in, Sample& sample) {
  sample.weight = in.u64();
  sample.latency = static_cast<std::uint32_t>(sample.weight);
  if (!sample.has(kSampleWeightParts)) return;
  sample.weight_var2 = static_cast<std::uint16_t>(sample.weight >> 32);
  sample.weight_var3 = static_cast<std::uint16_t>(sample.weight >> 48);
  sample.weight = sample.latency;
}

void read_identity(Cursor& in, Sample& sample) {
  Source& source = sample.source;
  if (sample.has(kSampleIdentifier)) source.id = in.u64();
  if (sample.has(kSampleIp)) sample.ip = in.u64();
  if (sample.has(kSampleTid)) {
    source.pid = in.u32();
    source.tid = in.u32();
  }
  if (sample.has(kSampleTime)) source.time = in.u64();
  if (sample.has(kSampleAddress)) sample.address = in.u64();
  if (sample.has(kSampleId)) source.id = in.u64();
  if (sample.has(kSampleStreamId)) source.stream_id = in.u64();
  if (sample.has(kSampleCpu)) {
    source.cpu = in.u32();
    in.u32();
  }
  if (sample.has(kSamplePeriod)) sample.period = in.u64();
}

// The part that a sample was cut off in, or nothing.
const char* read_parts(Cursor& in, const Layout& layout, Sample& sample) {
  if (sample.has(kSampleRead)) skip_read(in, layout.read_format);
  if (in.failed()) return "counter values";
  if (sample.has(kSampleCallchain)) sample.callchain = in.words(in.u64());
  if (in.failed()) return "call chain";
  if (sample.has(kSampleRaw)) sample.raw = in.bytes(in.u32());
  if (sample.has(kSampleBranches)) read_branches(in, layout, sample);
  if (in.failed()) return "branches";
  if (sample.has(kSampleRegsUser)) read_registers(in, layout.regs_user, sample.regs_user);
  if (sample.has(kSampleStackUser)) read_stack(in, sample);
  if (in.failed()) return "registers or stack";
  if (sample.has(kSampleWeight | kSampleWeightParts)) read_weight(in, sample);
  if (sample.has(kSampleDataSource)) sample.data_source = in.u64();
  if (sample.has(kSampleTransaction)) sample.transaction = in.u64();
  if (in.failed()) return "weight or data source";
  if (sample.has(kSampleRegsIntr)) read_registers(in, layout.regs_intr, sample.regs_intr);
  if (in.failed()) return "registers";
  if (sample.has(kSamplePhysical)) sample.physical = in.u64();
  if (sample.has(kSampleCgroup)) sample.cgroup = in.u64();
  if (sample.has(kSampleDataPageSize)) sample.data_page_size = in.u64();
  if (sample.has(kSampleCodePageSize)) sample.code_page_size = in.u64();
  return in.failed() ? "physical address or page size" : nullptr;
}

Result<Event> parse_sample(Cursor in, const RecordHeader& header, const Layout& layout) {
  Sample sample;
  sample.mode = mode_of(header.misc);
  sample.exact_ip = (header.misc & kMiscBit14) != 0;
  sample.parts = layout.sample_type;
  read_identity(in, sample);
  if (in.failed()) return too_short(header, "identity");
  // What a newer kernel adds stands behind everything that is known here, and is left out.
  if (const char* part = read_parts(in, layout, sample)) return too_short(header, part);
  return Event(std::in_place_type<Sample>, sample);
}

Result<Event> parse_mapped(Cursor in, const RecordHeader& header, const Source& source) {
  Mapped mapped;
  mapped.source = source;
  mapped.mode = mode_of(header.misc);
  mapped.pid = in.u32();
  mapped.tid = in.u32();
  mapped.start = in.u64();
  mapped.length = in.u64();
  mapped.page_offset = in.u64();
  mapped.data = (header.misc & kMiscBit13) != 0;
  mapped.has_detail = header.type == static_cast<std::uint32_t>(RecordType::mmap2);
  if (mapped.has_detail && (header.misc & kMiscBit14) != 0) {
    const std::size_t size = in.u8();
    in.bytes(3);
    const auto room = in.bytes(kBuildIdRoom);
    mapped.build_id = room.first(size < room.size() ? size : room.size());
  } else if (mapped.has_detail) {
    mapped.major = in.u32();
    mapped.minor = in.u32();
    mapped.inode = in.u64();
    mapped.generation = in.u64();
  }
  if (mapped.has_detail) {
    mapped.protection = in.u32();
    mapped.flags = in.u32();
  }
  mapped.path = in.text(in.left());
  if (in.failed()) return too_short(header, "mapping");
  return Event(std::in_place_type<Mapped>, mapped);
}

template <typename Life>  // Forked, Exited
Result<Event> parse_life(Cursor in, const RecordHeader& header, const Source& source) {
  Life life;
  life.source = source;
  life.pid = in.u32();
  life.parent_pid = in.u32();
  life.tid = in.u32();
  life.parent_tid = in.u32();
  life.time = in.u64();
  if (in.failed()) return too_short(header, "fields");
  return Event(std::in_place_type<Life>, life);
}

Result<Event> parse_named(Cursor in, const RecordHeader& header, const Source& source) {
  Named named;
  named.source = source;
  named.pid = in.u32();
  named.tid = in.u32();
  named.exec = (header.misc & kMiscBit13) != 0;
  named.name = in.text(in.left());
  if (in.failed()) return too_short(header, "name");
  return Event(std::in_place_type<Named>, named);
}

Result<Event> parse_lost(Cursor in, const RecordHeader& header, const Source& source) {
  Lost lost;
  lost.source = source;
  lost.samples = header.type == static_cast<std::uint32_t>(RecordType::lost_samples);
  lost.id = lost.samples ? source.id : in.u64();
  lost.count = in.u64();
  if (in.failed()) return too_short(header, "count");
  return Event(std::in_place_type<Lost>, lost);
}

Result<Event> parse_throttled(Cursor in, const RecordHeader& header, const Source& source) {
  Throttled throttled;
  throttled.source = source;
  throttled.time = in.u64();
  throttled.id = in.u64();
  throttled.stream_id = in.u64();
  throttled.begins = header.type == static_cast<std::uint32_t>(RecordType::throttle);
  if (in.failed()) return too_short(header, "fields");
  return Event(std::in_place_type<Throttled>, throttled);
}

Result<Event> parse_switched(Cursor in, const RecordHeader& header, const Source& source) {
  Switched switched;
  switched.source = source;
  switched.out = (header.misc & kMiscBit13) != 0;
  switched.preempted = (header.misc & kMiscBit14) != 0;
  if (header.type == static_cast<std::uint32_t>(RecordType::switched_cpu_wide)) {
    switched.other_pid = in.u32();
    switched.other_tid = in.u32();
  }
  if (in.failed()) return too_short(header, "fields");
  return Event(std::in_place_type<Switched>, switched);
}

Result<Event> parse_other(std::span<const std::byte> payload, const RecordHeader& header,
                          const Source& source) {
  Other other;
  other.source = source;
  other.type = header.type;
  other.payload = payload;
  return Event(std::in_place_type<Other>, other);
}

constexpr std::uint32_t kFirstOfPerf = 64;

}  // namespace

bool Registers::get(unsigned bit, std::uint64_t& value) const {
  if (bit >= 64 || ((mask >> bit) & 1) == 0) return false;
  const std::uint64_t before = mask & ((std::uint64_t{1} << bit) - 1);
  value = values[static_cast<std::size_t>(std::popcount(before))];
  return true;
}

RecordHeader header_of(std::span<const std::byte> bytes) {
  Cursor in(bytes);
  RecordHeader header;
  header.type = in.u32();
  header.misc = in.u16();
  header.size = in.u16();
  return header;
}

std::string type_name(std::uint32_t type) {
  static constexpr const char* kNames[] = {"",           "mmap",
                                           "lost",       "comm",
                                           "exit",       "throttle",
                                           "unthrottle", "fork",
                                           "read",       "sample",
                                           "mmap2",      "aux",
                                           "itrace",     "lost_samples",
                                           "switch",     "switch_cpu_wide",
                                           "namespaces", "ksymbol",
                                           "bpf_event",  "cgroup",
                                           "text_poke",  "aux_output_hw_id"};
  if (type > 0 && type < std::size(kNames)) return kNames[type];
  return std::to_string(type);
}

Result<Event> parse(std::span<const std::byte> record, const Layout& layout) {
  if (record.size() < kHeaderBytes)
    return Error{"a perf record is damaged", "it is shorter than a header", ""};
  const RecordHeader header = header_of(record);
  if (header.size < kHeaderBytes || header.size > record.size())
    return Error{"a perf record is damaged",
                 "a record of type " + type_name(header.type) + " says that it has " +
                     std::to_string(header.size) + " bytes, and " + std::to_string(record.size()) +
                     " are there",
                 ""};
  const auto payload = record.subspan(kHeaderBytes, header.size - kHeaderBytes);
  const auto type = static_cast<RecordType>(header.type);
  if (type == RecordType::sample) return parse_sample(Cursor(payload), header, layout);

  const std::size_t behind = header.type < kFirstOfPerf ? source_bytes(layout) : 0;
  if (behind > payload.size()) return too_short(header, "source");
  const Source source = behind ? read_source(Cursor(payload.last(behind)), layout) : Source{};
  const Cursor in(payload.first(payload.size() - behind));
  switch (type) {
    case RecordType::mmap:
    case RecordType::mmap2:
      return parse_mapped(in, header, source);
    case RecordType::comm:
      return parse_named(in, header, source);
    case RecordType::fork:
      return parse_life<Forked>(in, header, source);
    case RecordType::exit:
      return parse_life<Exited>(in, header, source);
    case RecordType::lost:
    case RecordType::lost_samples:
      return parse_lost(in, header, source);
    case RecordType::throttle:
    case RecordType::unthrottle:
      return parse_throttled(in, header, source);
    case RecordType::switched:
    case RecordType::switched_cpu_wide:
      return parse_switched(in, header, source);
    default:
      return parse_other(payload, header, source);
  }
}

}  // namespace stallscope::sources
