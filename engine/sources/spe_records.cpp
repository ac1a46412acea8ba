// SPDX-License-Identifier: Apache-2.0
#include "sources/spe_records.h"

#include <algorithm>
#include <cstring>

namespace stallscope::sources {
namespace {

constexpr std::uint64_t kLow56 = (std::uint64_t{1} << 56) - 1;
constexpr std::uint64_t kHigh8 = ~kLow56;
constexpr unsigned kLoadStore = 1;  // the class of an operation

// Above an address there is a tag, or the exception level and the security state. Bit 55 says in
// which half of all addresses it lies.
std::uint64_t canonical(std::uint64_t payload) {
  const bool high = ((payload >> 55) & 1) != 0;
  return (payload & kLow56) | (high ? kHigh8 : 0);
}

Mode mode_at(unsigned level) {
  constexpr Mode kModes[] = {Mode::user, Mode::kernel, Mode::kernel, Mode::hypervisor};
  return kModes[level];
}

void take_address(const SpePacket& packet, SpeRecord& record) {
  switch (static_cast<SpeAddress>(packet.index)) {
    case SpeAddress::instruction:
      record.instruction = canonical(packet.payload);
      record.mode = mode_at((packet.payload >> 61) & 3);
      return;
    case SpeAddress::data:
      record.address = canonical(packet.payload);
      return;
    default:
      return;
  }
}

void take_counter(const SpePacket& packet, SpeRecord& record) {
  switch (static_cast<SpeCounter>(packet.index)) {
    case SpeCounter::total:
      record.total = packet.payload;
      return;
    case SpeCounter::issue:
      record.issue = packet.payload;
      return;
    case SpeCounter::translation:
      record.translation = packet.payload;
      return;
  }
}

void take_operation(const SpePacket& packet, SpeRecord& record) {
  if (packet.index != kLoadStore) return;
  const bool store = (packet.payload & 1) != 0;
  record.operation = store ? SpeRecord::Operation::store : SpeRecord::Operation::load;
  // One of the general registers with something beside: atomic in bit 2, exclusive in bit 3.
  const bool ordered = (packet.payload & 0xe2) == 0x02;
  record.locked = ordered && (packet.payload & 0x0c) != 0;
}

}  // namespace

void SpeReader::drop() {
  ++damaged_;
  record_ = {};
  begun_ = false;
}

void SpeReader::finish(const Visit& visit) {
  if (lost_) {
    lost_ = false;
    doubtful_ = true;
    return;
  }
  if (doubtful_) {
    doubtful_ = false;
    drop();
    return;
  }
  if (begun_) visit(record_);
  record_ = {};
  begun_ = false;
}

void SpeReader::take(const SpePacket& packet, const Visit& visit) {
  switch (packet.kind) {
    case SpeKind::padding:
      return;
    case SpeKind::timestamp:
      record_.timer = packet.payload;
      return finish(visit);
    case SpeKind::end:
      return finish(visit);
    case SpeKind::address:
      take_address(packet, record_);
      break;
    case SpeKind::counter:
      take_counter(packet, record_);
      break;
    case SpeKind::context:
      record_.thread = packet.payload;
      break;
    case SpeKind::operation:
      take_operation(packet, record_);
      break;
    case SpeKind::events:
      record_.events = packet.payload;
      break;
    case SpeKind::source:
      record_.source = packet.payload;
      break;
    case SpeKind::unknown:
      drop();
      lost_ = true;
      return;
  }
  begun_ = true;
}

// While lost, every byte may be the last header of a record.
std::size_t SpeReader::step(std::span<const std::byte> bytes, const Visit& visit) {
  const auto packet = first_packet(bytes, offset_);
  if (!packet) return 0;
  const bool ends = packet->kind == SpeKind::end || packet->kind == SpeKind::timestamp;
  if (!lost_ || ends) take(*packet, visit);
  return lost_ ? 1 : packet->bytes;
}

void SpeReader::feed(std::span<const std::byte> bytes, const Visit& visit) {
  rest_.insert(rest_.end(), bytes.begin(), bytes.end());
  const std::span<const std::byte> all(rest_);
  std::size_t at = 0;
  while (const std::size_t done = step(all.subspan(at), visit)) {
    at += done;
    offset_ += done;
  }
  rest_.erase(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(at));
}

void SpeReader::end() {
  if (begun_ || !rest_.empty()) drop();
  rest_.clear();
  lost_ = doubtful_ = false;
  offset_ = 0;
}

bool is_access(const SpeRecord& record) {
  return record.operation != SpeRecord::Operation::other && record.instruction && record.address;
}

namespace {

// The kernel's layout of where data came from, by the place of each field.
constexpr unsigned kLevelAt = 5, kSnoopAt = 19, kLockAt = 24, kTlbAt = 26, kRemoteAt = 37,
                   kPeerAt = 39;
enum : std::uint64_t {
  kLoad = 2,
  kStore = 4,
  kHit = 2,
  kMiss = 4,
  kL1 = 8,
  kL2 = 0x20,
  kL3 = 0x40,
  kLocalRam = 0x80,
  kRemoteCache = 0x400,
  kSnoopNone = 2,
  kSnoopHit = 4,
  kLocked = 2,
  kTlbHit = 2,
  kTlbMiss = 4,
  kTlbWalker = 0x20,
};

// Cores of Arm whose source packets all mean the same, by part number.
bool has_known_sources(std::uint64_t midr) {
  constexpr std::uint64_t kArm = 0x41;
  constexpr std::uint64_t kParts[] = {
      0xd0c, 0xd49, 0xd40, 0xd4f,         // Neoverse N1, N2, V1, V2
      0xd4b, 0xd4c, 0xd4e, 0xd81, 0xd85,  // Cortex-A78C, X1C, X3, A720, X925
      0xd87, 0xd89,                       // Cortex-A725, A720AE
  };
  if (((midr >> 24) & 0xff) != kArm) return false;
  return std::find(std::begin(kParts), std::end(kParts), (midr >> 4) & 0xfff) != std::end(kParts);
}

std::uint64_t level(std::uint64_t bits) { return bits << kLevelAt; }
std::uint64_t snoop(std::uint64_t bits) { return bits << kSnoopAt; }
constexpr std::uint64_t kFromPeer = std::uint64_t{1} << kPeerAt;
constexpr std::uint64_t kRemote = std::uint64_t{1} << kRemoteAt;

std::uint64_t from_source(std::uint64_t source) {
  switch (source) {
    case 0x0:
      return level(kL1 | kHit) | snoop(kSnoopNone);
    case 0x8:
      return level(kL2 | kHit) | snoop(kSnoopNone);
    case 0x9:  // another core of the cluster
      return level(kL2 | kHit) | kFromPeer;
    case 0xa:  // a cluster here, or its neighbour
    case 0xc:
      return level(kL3 | kHit) | kFromPeer;
    case 0xb:  // the system's cache
      return level(kL3 | kHit) | snoop(kSnoopHit);
    case 0xd:  // another socket
      return level(kRemoteCache) | kRemote | kFromPeer;
    case 0xe:
      return level(kLocalRam | kHit) | snoop(kSnoopNone);
    default:
      return 0;
  }
}

// The farthest level that the events tell of.
std::uint64_t from_events(std::uint64_t events) {
  const auto has = [&](std::uint64_t bits) { return (events & bits) != 0; };
  std::uint64_t found = 0;
  if (has(kSpeLastLevelAccess | kSpeLastLevelMiss))
    found = kL3 | (has(kSpeLastLevelMiss) ? kMiss : kHit);
  else if (has(kSpeL2Access | kSpeL2Miss))
    found = kL2 | (has(kSpeL2Miss) ? kMiss : kHit);
  else if (has(kSpeL1Access | kSpeL1Refill))
    found = kL1 | (has(kSpeL1Refill) ? kMiss : kHit);
  // Of another socket: from which of its caches, or from memory, is not told.
  if (has(kSpeRemoteAccess)) return level(kRemoteCache) | kRemote;
  return level(found);
}

template <typename Number>
void put(Number value, std::vector<std::byte>& out) {
  const std::size_t at = out.size();
  out.resize(at + sizeof value);
  std::memcpy(out.data() + at, &value, sizeof value);
}

}  // namespace

std::uint64_t data_source_of(const SpeRecord& record, std::uint64_t midr) {
  const bool load = record.operation == SpeRecord::Operation::load;
  std::uint64_t bits = load ? kLoad : kStore;
  // Of a store there is no source: the packet, where there is one, says nothing.
  const std::uint64_t told =
      load && record.source && has_known_sources(midr) ? from_source(*record.source) : 0;
  bits |= told ? told : from_events(record.events);
  if (record.locked) bits |= std::uint64_t{kLocked} << kLockAt;
  if ((record.events & (kSpeTlbAccess | kSpeTlbWalk)) != 0) {
    const bool missed = (record.events & kSpeTlbWalk) != 0;
    bits |= (kTlbWalker | (missed ? kTlbMiss : kTlbHit)) << kTlbAt;
  }
  return bits;
}

void append_sample(const SpeRecord& record, const SpeOrigin& origin, std::uint32_t type,
                   std::vector<std::byte>& out) {
  constexpr std::uint16_t kBytes = kHeaderBytes + 8 * 8;
  constexpr std::uint16_t kExactIp = 1U << 14;
  put(type, out);
  put(static_cast<std::uint16_t>(static_cast<unsigned>(record.mode) | kExactIp), out);
  put(kBytes, out);
  put(record.instruction.value_or(0), out);
  put(origin.pid, out);
  put(origin.tid, out);
  put(origin.time, out);
  put(record.address.value_or(0), out);
  put(origin.cpu, out);
  put(std::uint32_t{0}, out);
  put(origin.period, out);
  put(record.total > record.issue ? record.total - record.issue : 0, out);
  put(data_source_of(record, origin.midr), out);
}

}  // namespace stallscope::sources
