// SPDX-License-Identifier: Apache-2.0
#include "sources/data_source.h"

namespace stallscope::sources {
namespace {

using Level = DataSource::Level;
using Found = DataSource::Found;
using Snoop = DataSource::Snoop;
using Operation = DataSource::Operation;

std::uint64_t field(std::uint64_t bits, unsigned shift, unsigned width) {
  return (bits >> shift) & ((std::uint64_t{1} << width) - 1);
}

// One bit of a field each; 1 says that the field is not available.
enum OperationBits { kLoad = 2, kStore = 4, kPrefetch = 8, kExecute = 16 };
enum LevelBits {
  kHit = 2,
  kMiss = 4,
  kL1 = 8,
  kLfb = 0x10,
  kL2 = 0x20,
  kL3 = 0x40,
  kLocalRam = 0x80,
  kRemoteRam1 = 0x100,
  kRemoteRam2 = 0x200,
  kRemoteCache1 = 0x400,
  kRemoteCache2 = 0x800,
  kIo = 0x1000,
  kUncached = 0x2000
};
enum SnoopBits { kSnoopNone = 2, kSnoopHit = 4, kSnoopMiss = 8, kSnoopModified = 16 };
enum TlbBits { kTlbHit = 2, kTlbMiss = 4, kTlbL1 = 8, kTlbL2 = 16, kTlbWalk = 32, kTlbOs = 64 };

Operation operation_of(std::uint64_t bits) {
  if (bits & kLoad) return Operation::load;
  if (bits & kStore) return Operation::store;
  if (bits & kPrefetch) return Operation::prefetch;
  return bits & kExecute ? Operation::execute : Operation::unknown;
}

// The first way of telling: a bit for each level.
void old_level(std::uint64_t bits, DataSource& source) {
  struct Entry {
    unsigned bits;
    Level level;
    bool remote;
  };
  static constexpr Entry kLevels[] = {{kL1, Level::l1, false},
                                      {kLfb, Level::lfb, false},
                                      {kL2, Level::l2, false},
                                      {kL3, Level::l3, false},
                                      {kLocalRam, Level::ram, false},
                                      {kRemoteRam1 | kRemoteRam2, Level::ram, true},
                                      {kRemoteCache1 | kRemoteCache2, Level::cache, true},
                                      {kIo, Level::io, false},
                                      {kUncached, Level::uncached, false}};
  for (const Entry& entry : kLevels) {
    if ((bits & entry.bits) == 0) continue;
    source.level = entry.level;
    source.remote = entry.remote;
    return;
  }
}

// The newer way: a number, and a bit that says whether it is somebody else's.
Level new_level(std::uint64_t number) {
  switch (number) {
    case 1:
      return Level::l1;
    case 2:
      return Level::l2;
    case 3:
      return Level::l3;
    case 4:
      return Level::l4;
    case 9:
      return Level::cxl;
    case 0xa:
      return Level::io;
    case 0xb:
      return Level::cache;
    case 0xc:
      return Level::lfb;
    case 0xd:
      return Level::ram;
    case 0xe:
      return Level::persistent;
    default:
      return Level::unknown;
  }
}

Found found_of(std::uint64_t bits) {
  if (bits & kHit) return Found::hit;
  return bits & kMiss ? Found::miss : Found::unknown;
}

Snoop snoop_of(std::uint64_t bits) {
  if (bits & kSnoopModified) return Snoop::modified;
  if (bits & kSnoopHit) return Snoop::hit;
  if (bits & kSnoopMiss) return Snoop::miss;
  return bits & kSnoopNone ? Snoop::none : Snoop::unknown;
}

}  // namespace

DataSource decode_data_source(std::uint64_t bits) {
  DataSource source;
  source.operation = operation_of(field(bits, 0, 5));
  const std::uint64_t level = field(bits, 5, 14);
  old_level(level, source);
  source.found = found_of(level);
  source.snoop = snoop_of(field(bits, 19, 5));
  source.locked = (field(bits, 24, 2) & 2) != 0;
  const std::uint64_t tlb = field(bits, 26, 7);
  source.tlb = found_of(tlb & (kTlbHit | kTlbMiss));
  source.tlb_l1 = (tlb & kTlbL1) != 0;
  source.tlb_l2 = (tlb & kTlbL2) != 0;
  source.tlb_walked = (tlb & kTlbWalk) != 0;
  source.tlb_os = (tlb & kTlbOs) != 0;
  if (source.level == Level::unknown) source.level = new_level(field(bits, 33, 4));
  source.remote = source.remote || field(bits, 37, 1) != 0;
  source.forwarded = (field(bits, 38, 2) & 1) != 0;
  source.peer = (field(bits, 38, 2) & 2) != 0;
  source.blocked_data = (field(bits, 40, 3) & 2) != 0;
  source.blocked_address = (field(bits, 40, 3) & 4) != 0;
  source.hops = static_cast<std::uint8_t>(field(bits, 43, 3));
  return source;
}

const char* name_of(DataSource::Operation operation) {
  static constexpr const char* kNames[] = {"", "load", "store", "prefetch", "execute"};
  return kNames[static_cast<int>(operation)];
}
const char* name_of(DataSource::Level level) {
  static constexpr const char* kNames[] = {"",    "L1",   "LFB", "L2",    "L3",  "L4",
                                           "RAM", "PMEM", "CXL", "cache", "I/O", "uncached"};
  return kNames[static_cast<int>(level)];
}
const char* name_of(DataSource::Found found) {
  static constexpr const char* kNames[] = {"", "hit", "miss"};
  return kNames[static_cast<int>(found)];
}
const char* name_of(DataSource::Snoop snoop) {
  static constexpr const char* kNames[] = {"", "none", "hit", "miss", "modified"};
  return kNames[static_cast<int>(snoop)];
}

std::string DataSource::served() const {
  if (level == Level::unknown) return "";
  std::string text = remote ? "remote " : "";
  text += name_of(level);
  if (found == Found::miss || (found == Found::hit && level != Level::ram))
    text += std::string(" ") + name_of(found);
  if (snoop == Snoop::modified) text += ", modified";
  return text;
}

std::string DataSource::tlb_text() const {
  std::string text;
  const auto add = [&](const char* word, const char* between) {
    if (!text.empty()) text += between;
    text += word;
  };
  if (tlb_l1) add("L1", "");
  if (tlb_l2) add("L2", " or ");
  if (tlb != Found::unknown) add(name_of(tlb), " ");
  if (tlb_walked) add("walked", ", ");
  if (tlb_os) add("by the kernel", ", ");
  return text;
}

}  // namespace stallscope::sources
