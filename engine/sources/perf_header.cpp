// SPDX-License-Identifier: Apache-2.0
#include "sources/perf_header.h"

#include <algorithm>
#include <cstring>

namespace stallscope::sources {
namespace {

constexpr std::string_view kMagic = "PERFILE2";
constexpr std::string_view kSwapped = "2ELIFREP";
constexpr std::string_view kFirstForm = "PERFFILE";
constexpr std::uint64_t kPipeHeader = 16;
constexpr std::uint64_t kOldHeader = 72;  // before there were features
constexpr std::uint64_t kFullHeader = 104;
constexpr unsigned kFeatures = 256;
constexpr std::uint64_t kMostFeatureBytes = 64U << 20;
constexpr std::uint64_t kMostEventBytes = 64U << 20;  // their ids included
constexpr std::size_t kLeastAttribute = 64;           // as of the first kernel that had one
constexpr std::size_t kBuildIdRoom = 20;
constexpr std::uint16_t kBuildIdHasSize = 1U << 15;

Error no_perf_data(const std::string& name, std::string why) {
  return Error{name + " is no perf.data file", std::move(why),
               "give a file that perf record or perf mem record made"};
}

// The caller has checked that the section lies inside the file.
Result<std::span<const std::byte>> read_at(const stream::Source& source, const Section& section,
                                           stream::Bytes& room) {
  auto bytes = source.read(section.offset, static_cast<std::size_t>(section.size), room);
  if (!bytes)
    return Error{"the file cannot be read at byte " + std::to_string(section.offset),
                 bytes.error().why, ""};
  return bytes;
}

bool inside(const Section& section, std::uint64_t size) {
  return section.offset <= size && section.size <= size - section.offset;
}

Section section_of(Cursor& in) {
  Section section;
  section.offset = in.u64();
  section.size = in.u64();
  return section;
}

std::string text_of(Cursor& in) { return std::string(in.text(in.u32())); }

Status check_magic(std::string_view magic, const std::string& name) {
  if (magic == kMagic) return Done{};
  if (magic == kSwapped)
    return Error{name + " was recorded on a big-endian machine",
                 "only files of little-endian machines are read",
                 "perf script on that machine, and import its addresses as CSV"};
  if (magic == kFirstForm)
    return Error{name + " is in perf's first format", "it was replaced in 2010",
                 "record again with a newer perf"};
  return no_perf_data(name, "it does not begin with " + std::string(kMagic));
}

Status read_events(const stream::Source& source, const std::string& name, const Section& where,
                   std::uint64_t each, PerfHeader& header) {
  if (where.size == 0) return damaged(name, where.offset, "it has no events");
  if (each < kLeastAttribute + 16 || !inside(where, source.size()))
    return damaged(name, where.offset, "its events lie outside the file");
  std::uint64_t bytes_left = kMostEventBytes;
  if (where.size > bytes_left) return damaged(name, where.offset, "it has too many events");
  stream::Bytes room, id_room;
  auto bytes = read_at(source, where, room);
  if (!bytes) return bytes.error();
  for (std::uint64_t at = 0; at + each <= where.size; at += each) {
    const auto one = bytes->subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(each));
    PerfEvent event;
    read_attribute(one.first(one.size() - 16), event);
    Cursor in(one.last(16));
    const Section ids = section_of(in);
    if (!inside(ids, source.size()))
      return damaged(name, where.offset + at, "the ids of an event lie outside the file");
    if (ids.size > bytes_left) return damaged(name, where.offset + at, "it has too many events");
    bytes_left -= ids.size;
    auto numbers = read_at(source, ids, id_room);
    if (!numbers) return numbers.error();
    Cursor list(*numbers);
    for (std::uint64_t i = 0; i < ids.size / 8; ++i) event.ids.push_back(list.u64());
    header.events.push_back(std::move(event));
  }
  return Done{};
}

Status read_features(const stream::Source& source, std::span<const std::uint64_t> flags,
                     PerfHeader& header) {
  std::uint64_t table = header.data.offset + header.data.size;
  stream::Bytes room;
  for (unsigned feature = 0; feature < kFeatures; ++feature) {
    if (((flags[feature / 64] >> (feature % 64)) & 1) == 0) continue;
    if (!inside({table, 16}, source.size())) {
      header.cut_off = true;
      return Done{};
    }
    auto entry = read_at(source, {table, 16}, room);
    if (!entry) return entry.error();
    table += 16;
    Cursor in(*entry);
    const Section section = section_of(in);
    if (feature > static_cast<unsigned>(Feature::last_known)) header.newer = true;
    if (!inside(section, source.size())) {
      header.cut_off = true;
      continue;
    }
    if (section.size > kMostFeatureBytes) continue;
    auto bytes = read_at(source, section, room);
    if (!bytes) return bytes.error();
    read_feature(feature, *bytes, header);
  }
  return Done{};
}

void read_build_ids(Cursor in, PerfFacts& facts) {
  while (in.left() >= kHeaderBytes) {
    in.u32();
    const std::uint16_t misc = in.u16();
    const std::uint16_t size = in.u16();
    if (size < kHeaderBytes) return;
    Cursor one(in.bytes(size - kHeaderBytes));
    one.u32();  // pid
    const auto id = one.bytes(kBuildIdRoom);
    const std::uint8_t told = one.u8();
    one.bytes(3);
    const auto path = one.text(one.left());
    if (in.failed() || one.failed()) return;
    const std::size_t bytes =
        (misc & kBuildIdHasSize) != 0 ? std::min<std::size_t>(told, id.size()) : id.size();
    facts.build_ids.push_back(
        {std::string(path), std::string(reinterpret_cast<const char*>(id.data()), bytes)});
  }
}

void read_names(Cursor in, std::vector<PerfEvent>& events) {
  const std::uint32_t count = in.u32();
  const std::uint32_t attribute = in.u32();
  for (std::uint32_t i = 0; i < count && !in.failed(); ++i) {
    PerfEvent event;
    const bool is_one = read_attribute(in.bytes(attribute), event);
    const std::uint32_t ids = in.u32();
    event.name = text_of(in);
    const Words numbers = in.words(ids);
    if (in.failed() || !is_one) return;
    for (std::size_t k = 0; k < numbers.size(); ++k) event.ids.push_back(numbers[k]);
    // Both lists are written in one order.
    if (i < events.size() && events[i].type == event.type && events[i].config == event.config)
      events[i].name = event.name;
    if (i < events.size() && events[i].ids.empty()) events[i].ids = event.ids;
  }
}

void read_command(Cursor in, PerfFacts& facts) {
  const std::uint32_t count = in.u32();
  for (std::uint32_t i = 0; i < count && in.left() > 0; ++i) {
    std::string word = text_of(in);
    if (!in.failed()) facts.command.push_back(std::move(word));
  }
}

Status place_data(const stream::Source& source, const std::string& name, PerfHeader& header) {
  Section& data = header.data;
  if (data.offset > source.size())
    return damaged(name, source.size(), "it ends before its records begin");
  const std::uint64_t there = source.size() - data.offset;
  if (data.size == 0 && there > 0) {
    header.unfinished = true;
    data.size = there;
  } else if (data.size > there) {
    header.cut_off = true;
    data.size = there;
  }
  return Done{};
}

}  // namespace

Error damaged(const std::string& name, std::uint64_t offset, const std::string& why) {
  return Error{name + " is damaged at byte " + std::to_string(offset), why,
               "copy the file again, or record again"};
}

bool read_attribute(std::span<const std::byte> bytes, PerfEvent& event) {
  if (bytes.size() < kLeastAttribute) return false;
  // Whatever a shorter one lacks is zero.
  std::byte full[128] = {};
  Cursor head(bytes);
  event.type = head.u32();
  const std::uint32_t told = head.u32();
  const std::size_t size = std::min<std::size_t>(
      {bytes.size(), sizeof full, told == 0 ? sizeof full : std::size_t{told}});
  std::memcpy(full, bytes.data(), size);
  Cursor in(full);
  in.u64();
  event.config = in.u64();
  event.period = in.u64();
  event.layout.sample_type = in.u64();
  event.layout.read_format = in.u64();
  const std::uint64_t bits = in.u64();
  event.is_frequency = ((bits >> 10) & 1) != 0;
  event.precise = static_cast<std::uint8_t>((bits >> 15) & 3);
  event.layout.sample_id_all = ((bits >> 18) & 1) != 0;
  in.u64();
  event.config1 = in.u64();
  in.u64();
  event.layout.branch_sample_type = in.u64();
  event.layout.regs_user = in.u64();
  in.u64();
  event.layout.regs_intr = in.u64();
  return true;
}

std::string event_name(const PerfEvent& event) {
  static constexpr const char* kHardware[] = {"cycles",       "instructions", "cache-references",
                                              "cache-misses", "branches",     "branch-misses",
                                              "bus-cycles"};
  static constexpr const char* kSoftware[] = {
      "cpu-clock",    "task-clock",   "page-faults",      "context-switches", "cpu-migrations",
      "minor-faults", "major-faults", "alignment-faults", "emulation-faults", "dummy"};
  if (event.type == 0 && event.config < std::size(kHardware)) return kHardware[event.config];
  if (event.type == 1 && event.config < std::size(kSoftware)) return kSoftware[event.config];
  return "type " + std::to_string(event.type) + " config " + std::to_string(event.config);
}

void read_feature(unsigned feature, std::span<const std::byte> bytes, PerfHeader& header) {
  Cursor in(bytes);
  PerfFacts& facts = header.facts;
  switch (static_cast<Feature>(feature)) {
    case Feature::build_id:
      return read_build_ids(in, facts);
    case Feature::hostname:
      facts.hostname = text_of(in);
      return;
    case Feature::os_release:
      facts.os_release = text_of(in);
      return;
    case Feature::version:
      facts.perf_version = text_of(in);
      return;
    case Feature::arch:
      facts.arch = text_of(in);
      return;
    case Feature::cpus:
      facts.cpus_available = in.u32();
      facts.cpus_online = in.u32();
      return;
    case Feature::cpu:
      facts.cpu = text_of(in);
      return;
    case Feature::cpu_id:
      facts.cpu_id = text_of(in);
      return;
    case Feature::memory:
      facts.memory_kb = in.u64();
      return;
    case Feature::command:
      return read_command(in, facts);
    case Feature::events:
      return read_names(in, header.events);
    case Feature::compressed:
      in.bytes(16);  // version, type, level, ratio
      header.unpacked_bytes = in.u32();
      facts.compressed = true;
      return;
    default:
      return;
  }
}

Result<PerfHeader> read_header(const stream::Source& source, const std::string& name) {
  if (source.size() < kPipeHeader)
    return no_perf_data(name, source.size() == 0
                                  ? "it is empty"
                                  : "it has only " + std::to_string(source.size()) + " bytes");
  stream::Bytes room;
  auto bytes = read_at(source, {0, std::min(source.size(), kFullHeader)}, room);
  if (!bytes) return bytes.error();
  Cursor in(*bytes);
  const auto magic = in.bytes(kMagic.size());
  if (Status known = check_magic({reinterpret_cast<const char*>(magic.data()), magic.size()}, name);
      !known)
    return known.error();
  PerfHeader header;
  const std::uint64_t size = in.u64();
  if (size == kPipeHeader) {
    header.piped = header.facts.piped = true;
    header.data = {kPipeHeader, source.size() - kPipeHeader};
    return header;
  }
  const std::uint64_t attribute_bytes = in.u64();
  const Section events = section_of(in);
  header.data = section_of(in);
  section_of(in);  // event types, no longer used
  if (size < kOldHeader || in.failed()) return damaged(name, 8, "its header is too short");
  std::uint64_t flags[4] = {};
  if (size >= kFullHeader)
    for (std::uint64_t& word : flags) word = in.u64();
  if (in.failed()) return damaged(name, 8, "it ends inside its header");
  header.newer = size > kFullHeader;
  if (Status read = read_events(source, name, events, attribute_bytes, header); !read)
    return read.error();
  if (Status placed = place_data(source, name, header); !placed) return placed.error();
  if (!header.unfinished && !header.cut_off)
    if (Status read = read_features(source, flags, header); !read) return read.error();
  for (PerfEvent& event : header.events)
    if (event.name.empty()) event.name = event_name(event);
  return header;
}

}  // namespace stallscope::sources
