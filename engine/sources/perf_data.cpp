// SPDX-License-Identifier: Apache-2.0
#include "sources/perf_data.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

#include "sources/perf_header.h"
#include "sources/perf_order.h"
#include "sources/spe_trace.h"
#include "sources/unpack.h"

namespace stallscope::sources {
namespace {

// Records that perf itself writes.
enum Written : std::uint32_t {
  kAttribute = 64,
  kTracingData = 66,
  kBuildId = 67,
  kRoundEnd = 68,
  kAuxTraceInfo = 70,
  kAuxTrace = 71,
  kEventUpdate = 78,
  kTimeConversion = 79,
  kFeature = 80,
  kCompressed = 81,
  kPacked = 83,  // as 81, with its length in front
  kLastWritten = 84,
};
constexpr std::uint32_t kLastOfKernel = 22;
constexpr std::size_t kWindow = 1U << 20;
constexpr std::size_t kMostQueued = 256U << 20;
constexpr std::size_t kMostUnpacked = 64U << 20;    // from one record
constexpr std::uint64_t kMostUnpackedTimes = 1000;  // of the file's size, in all
constexpr std::size_t kMostEvents = 1U << 16;

constexpr std::uint64_t kNoTime = ~std::uint64_t{0};

// Where the id of a record's event stands: from the front of a sample, from the end of another.
std::optional<std::uint64_t> id_of(std::span<const std::byte> record, const RecordHeader& header,
                                   const Layout& layout) {
  const std::uint64_t type = layout.sample_type;
  const auto one = [&](std::uint64_t part) { return (type & part) != 0 ? std::size_t{1} : 0; };
  const auto payload = record.subspan(kHeaderBytes);
  const Words words(payload.data(), payload.size() / 8);
  if ((type & (kSampleIdentifier | kSampleId)) == 0) return std::nullopt;
  if (header.type == static_cast<std::uint32_t>(RecordType::sample)) {
    const std::size_t at =
        (type & kSampleIdentifier) != 0
            ? 0
            : one(kSampleIp) + one(kSampleTid) + one(kSampleTime) + one(kSampleAddress);
    return at < words.size() ? std::optional(words[at]) : std::nullopt;
  }
  if (!layout.sample_id_all) return std::nullopt;
  const std::size_t behind =
      (type & kSampleIdentifier) != 0 ? 1 : 1 + one(kSampleCpu) + one(kSampleStreamId);
  return behind <= words.size() ? std::optional(words[words.size() - behind]) : std::nullopt;
}

std::uint64_t time_of(const Event& event) {
  return std::visit([](const auto& record) { return record.source.time; }, event);
}

}  // namespace

struct PerfData::State {
  std::unique_ptr<stream::Source> source;
  std::string name;
  PerfHeader header;
  std::map<std::uint64_t, std::size_t> event_of_id;
  std::vector<PerfNote> notes;

  RecordQueue queue;
  SpeTrace spe;
  Unpacker unpacker;
  bool unpacking = false;
  std::vector<std::byte> unpacked;  // what has been unpacked and not been read
  std::uint64_t unpacked_in_all = 0;
  PerfSink* sink = nullptr;

  void note(const char* kind, const char* severity, std::uint64_t count, const char* explanation);
  void index_ids();
  const PerfEvent* event_of(std::span<const std::byte> record, const RecordHeader& header);
  Status deliver(std::uint64_t offset, std::span<const std::byte> record);
  Status deliver_made(std::span<const std::byte> record);
  const PerfEvent* spe_event() const;
  Status bound_queue();
  Status read_trace(std::uint64_t offset, std::span<const std::byte> record, std::uint64_t size);
  void tell_spe();
  Status take_kernel(std::uint64_t offset, std::span<const std::byte> record);
  Status take_written(std::uint64_t offset, std::span<const std::byte> record,
                      std::uint64_t& behind);
  Status take(std::uint64_t offset, std::span<const std::byte> record, std::uint64_t& behind);
  void take_attribute(std::span<const std::byte> payload);
  void take_update(std::span<const std::byte> payload);
  Status unpack(std::uint64_t offset, std::span<const std::byte> packed);
  Status end_round();
  Status leave_all();
  Status read_records();
  void tell();
};

void PerfData::State::note(const char* kind, const char* severity, std::uint64_t count,
                           const char* explanation) {
  const auto same = [&](const PerfNote& note) { return note.kind == kind; };
  const auto found = std::find_if(notes.begin(), notes.end(), same);
  if (found != notes.end())
    found->count += count;
  else
    notes.push_back({kind, severity, count, explanation});
}

void PerfData::State::index_ids() {
  for (std::size_t i = 0; i < header.events.size(); ++i)
    for (const std::uint64_t id : header.events[i].ids) event_of_id.emplace(id, i);
}

// All events of a file agree about where the id stands, or perf could not read it either.
const PerfEvent* PerfData::State::event_of(std::span<const std::byte> record,
                                           const RecordHeader& record_header) {
  const std::vector<PerfEvent>& events = header.events;
  if (events.empty()) return nullptr;
  if (events.size() == 1) return &events.front();
  const auto id = id_of(record, record_header, events.front().layout);
  // perf makes records about what was there before it began, with no id.
  if (!id || *id == 0) return &events.front();
  const auto found = event_of_id.find(*id);
  return found == event_of_id.end() ? nullptr : &events[found->second];
}

Status PerfData::State::deliver(std::uint64_t offset, std::span<const std::byte> record) {
  const RecordHeader record_header = header_of(record);
  if (record_header.type == SpeTrace::kMade) return deliver_made(record);
  const PerfEvent* event = event_of(record, record_header);
  const Layout layout =
      event ? event->layout : (header.events.empty() ? Layout{} : header.events.front().layout);
  auto parsed = parse(record, layout);
  if (!parsed) return damaged(name, offset, parsed.error().why);
  if (!event)
    note("unknown_event", "warning", 1, "records belong to events that the file does not describe");
  // A fixed period stands in the event, not in each sample.
  if (auto* sample = std::get_if<Sample>(&*parsed); sample && event && !sample->has(kSamplePeriod))
    sample->period = event->period;
  if (spe.described()) spe.follow(*parsed);
  return sink->on_event(*parsed, event);
}

const PerfEvent* PerfData::State::spe_event() const {
  for (const PerfEvent& event : header.events)
    if (event.type == spe.event_type()) return &event;
  return nullptr;
}

Status PerfData::State::deliver_made(std::span<const std::byte> record) {
  Sample sample;
  if (!spe.sample(record, sample)) return Done{};
  return sink->on_event(Event(sample), spe_event());
}

Status PerfData::State::bound_queue() {
  if (queue.bytes() <= kMostQueued) return Done{};
  note("order", "warning", 1,
       "more records wait for older ones than are kept; records may be out of order");
  return leave_all();
}

// What a tracer wrote stands behind its record.
Status PerfData::State::read_trace(std::uint64_t offset, std::span<const std::byte> record,
                                   std::uint64_t size) {
  const std::uint64_t end = header.data.offset + header.data.size;
  std::uint64_t at = offset + record.size();
  if (size > end - at) size = end - at;  // the file is cut off, which others tell
  if (const PerfEvent* event = spe_event(); event && !event->is_frequency)
    spe.set_period(event->period);
  spe.set_processor(std::strtoull(header.facts.cpu_id.c_str(), nullptr, 16));
  spe.begin(record.subspan(kHeaderBytes), queue.newest());
  stream::Bytes room;
  Status bounded = Done{};
  while (size > 0 && bounded) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, size));
    auto window = source->read(at, wanted, room);
    if (!window)
      return Error{name + " cannot be read at byte " + std::to_string(at), window.error().why, ""};
    spe.feed(*window, [&](std::uint64_t time, auto made) { queue.push(time, offset, made); });
    bounded = bound_queue();
    at += wanted;
    size -= wanted;
  }
  spe.end();
  return bounded;
}

Status PerfData::State::take_kernel(std::uint64_t offset, std::span<const std::byte> record) {
  const RecordHeader record_header = header_of(record);
  if (header.events.empty())
    return damaged(name, offset, "a record comes before the events are described");
  if (record_header.type > kLastOfKernel) {
    note("newer_records", "info", 1, "records of kinds that a newer kernel writes were left out");
    return Done{};
  }
  const PerfEvent* event = event_of(record, record_header);
  auto parsed = parse(record, (event ? *event : header.events.front()).layout);
  if (!parsed) return damaged(name, offset, parsed.error().why);
  const std::uint64_t time = time_of(*parsed);
  if (time == 0 || time == kNoTime) return deliver(offset, record);
  if (spe.described()) spe.hear(*parsed);
  queue.push(time, offset, record);
  return bound_queue();
}

void PerfData::State::take_attribute(std::span<const std::byte> payload) {
  PerfEvent event;
  if (header.events.size() >= kMostEvents || !read_attribute(payload, event)) return;
  Cursor in(payload);
  in.u32();
  const std::size_t size = in.u32();
  if (size >= payload.size()) return;
  Cursor ids(payload.subspan(size));
  for (std::size_t i = 0; i < (payload.size() - size) / 8; ++i) event.ids.push_back(ids.u64());
  event.name = event_name(event);
  for (const std::uint64_t id : event.ids) event_of_id.emplace(id, header.events.size());
  header.events.push_back(std::move(event));
}

void PerfData::State::take_update(std::span<const std::byte> payload) {
  constexpr std::uint64_t kName = 2;
  Cursor in(payload);
  const std::uint64_t what = in.u64();
  const std::uint64_t id = in.u64();
  const auto found = event_of_id.find(id);
  if (what != kName || in.failed() || found == event_of_id.end()) return;
  header.events[found->second].name = in.text(in.left());
}

Status PerfData::State::unpack(std::uint64_t offset, std::span<const std::byte> packed) {
  const std::size_t told = header.unpacked_bytes ? header.unpacked_bytes : kMostUnpacked;
  const std::size_t before = unpacked.size();
  if (Status done = unpacker.append(packed, std::min(told, kMostUnpacked), unpacked); !done)
    return damaged(name, offset, "a compressed record: " + done.error().why);
  unpacked_in_all += unpacked.size() - before;
  if (unpacked_in_all / kMostUnpackedTimes > source->size())
    return damaged(name, offset, "it unpacks to more than a thousand times its size");
  std::size_t at = 0;
  while (unpacked.size() - at >= kHeaderBytes) {
    const auto rest = std::span<const std::byte>(unpacked).subspan(at);
    const RecordHeader inner = header_of(rest);
    if (inner.size < kHeaderBytes)
      return damaged(name, offset, "a compressed record holds one without a length");
    if (inner.size > rest.size()) break;
    if (inner.type == kCompressed || inner.type == kPacked)
      return damaged(name, offset, "a compressed record holds another");
    std::uint64_t behind = 0;
    unpacking = true;
    Status done = take(offset, rest.first(inner.size), behind);
    unpacking = false;
    if (!done) return done;
    if (behind > rest.size() - inner.size)
      return damaged(name, offset, "a compressed record ends inside a tracer's data");
    at += inner.size + static_cast<std::size_t>(behind);
  }
  unpacked.erase(unpacked.begin(), unpacked.begin() + static_cast<std::ptrdiff_t>(at));
  return Done{};
}

// A tracer's packets may be older than the round that brings them: with them nothing leaves early.
Status PerfData::State::end_round() {
  if (spe.described()) return Done{};
  return queue.end_round([this](std::uint64_t at, auto record) { return deliver(at, record); });
}
Status PerfData::State::leave_all() {
  return queue.leave_all([this](std::uint64_t at, auto record) { return deliver(at, record); });
}

Status PerfData::State::take_written(std::uint64_t offset, std::span<const std::byte> record,
                                     std::uint64_t& behind) {
  const RecordHeader record_header = header_of(record);
  const auto payload = record.subspan(kHeaderBytes);
  Cursor in(payload);
  switch (record_header.type) {
    case kAttribute:
      if (header.piped) take_attribute(payload);
      break;
    case kTracingData:
      behind = (std::uint64_t{in.u32()} + 7) / 8 * 8;
      break;
    case kAuxTraceInfo:
      spe.describe(payload);
      break;
    case kTimeConversion:
      spe.set_timer(payload);
      break;
    case kAuxTrace:
      behind = in.u64();
      if (spe.described() && !unpacking) return read_trace(offset, record, behind);
      note("tracer", "warning", 1,
           "data of a hardware tracer (Intel PT, CoreSight) was left out; perf inject --itrace "
           "makes samples of it");
      break;
    case kBuildId:
      read_feature(static_cast<unsigned>(Feature::build_id), record, header);
      break;
    case kRoundEnd:
      return end_round();
    case kEventUpdate:
      take_update(payload);
      break;
    case kFeature: {
      const std::uint64_t feature = in.u64();
      if (header.piped && feature < 256)
        read_feature(static_cast<unsigned>(feature), in.bytes(in.left()), header);
      break;
    }
    case kCompressed:
      return unpack(offset, payload);
    case kPacked: {
      const std::uint64_t size = in.u64();
      return unpack(offset, in.bytes(std::min<std::uint64_t>(size, in.left())));
    }
    default:
      if (record_header.type > kLastWritten)
        note("newer_records", "info", 1, "records of kinds that a newer perf writes were left out");
  }
  return Done{};
}

Status PerfData::State::take(std::uint64_t offset, std::span<const std::byte> record,
                             std::uint64_t& behind) {
  return header_of(record).type < kAttribute ? take_kernel(offset, record)
                                             : take_written(offset, record, behind);
}

Status PerfData::State::read_records() {
  std::uint64_t position = header.data.offset;
  const std::uint64_t end = position + header.data.size;
  stream::Bytes room;
  while (end - position >= kHeaderBytes) {
    const std::size_t wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, end - position));
    auto window = source->read(position, wanted, room);
    if (!window)
      return Error{name + " cannot be read at byte " + std::to_string(position), window.error().why,
                   ""};
    std::uint64_t at = 0;
    while (at + kHeaderBytes <= wanted) {
      const auto rest = window->subspan(static_cast<std::size_t>(at));
      const RecordHeader record = header_of(rest);
      if (record.size < kHeaderBytes) return damaged(name, position + at, "a record has no length");
      if (record.size > rest.size()) break;
      std::uint64_t behind = 0;
      if (Status done = take(position + at, rest.first(record.size), behind); !done) return done;
      at += record.size;
      if (behind > end - position - at) {
        header.cut_off = true;
        return Done{};
      }
      at += behind;  // may lie beyond the window
    }
    if (at == 0) break;
    position += at;
  }
  if (position != end) header.cut_off = true;
  return Done{};
}

void PerfData::State::tell_spe() {
  const auto tell = [this](const char* kind, const char* severity, std::uint64_t count,
                           const char* explanation) {
    if (count) note(kind, severity, count, explanation);
  };
  tell("spe_damaged", "warning", spe.damaged(),
       "records of Arm's SPE hold bytes that are no packets, or are cut off; they were left out");
  tell("spe_truncated", "warning", spe.truncated(),
       "the buffer of Arm's SPE was full, and records were lost; record with a larger -m ,SIZE");
  tell("spe_without_thread", "warning", spe.without_thread(),
       "records of Arm's SPE do not say which thread they are of; they were left out");
  tell("spe_without_time", "info", spe.without_time(),
       "records of Arm's SPE have no time; they have that of what was written before them");
  tell("spe_without_data", "info", spe.without_data(),
       "records of Arm's SPE tell of operations without data; they were left out");
}

void PerfData::State::tell() {
  tell_spe();
  if (header.unfinished)
    note("truncated", "warning", 1, "perf did not live to finish the file; what it wrote was read");
  if (header.cut_off)
    note("truncated", "warning", 1, "the file is cut off; what is there was read");
  if (header.newer)
    note("newer_perf", "info", 1,
         "a newer perf wrote parts that are not known here; they were left out");
}

PerfData::PerfData(std::unique_ptr<State> state) : state_(std::move(state)) {}
PerfData::PerfData(PerfData&&) noexcept = default;
PerfData& PerfData::operator=(PerfData&&) noexcept = default;
PerfData::~PerfData() = default;

Result<PerfData> PerfData::open(const std::string& path) {
  auto source = stream::open_file(path);
  if (!source) return source.error();
  return open(std::move(*source), path);
}

Result<PerfData> PerfData::open(std::unique_ptr<stream::Source> source, std::string name) {
  auto header = read_header(*source, name);
  if (!header) return header.error();
  auto state = std::make_unique<State>();
  state->source = std::move(source);
  state->name = std::move(name);
  state->header = std::move(*header);
  state->index_ids();
  return PerfData(std::move(state));
}

Status PerfData::read(PerfSink& sink) {
  state_->sink = &sink;
  Status done = state_->read_records();
  // What stood in front of damage is worth having, unless it is damaged too.
  if (Status rest = state_->leave_all(); done && !rest) done = rest;
  if (done && state_->header.events.empty())
    return damaged(state_->name, state_->source->size(), "it describes no events");
  state_->tell();
  return done;
}

const PerfFacts& PerfData::facts() const { return state_->header.facts; }
const std::vector<PerfEvent>& PerfData::events() const { return state_->header.events; }
const std::vector<PerfNote>& PerfData::notes() const { return state_->notes; }

}  // namespace stallscope::sources
