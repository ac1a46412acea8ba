// SPDX-License-Identifier: Apache-2.0
#include "sources/perf_samples.h"

namespace stallscope::sources {

void ThreadNames::on(const Named& named) { names_[named.tid] = named.name; }

void ThreadNames::on(const Forked& forked) {
  const auto parent = names_.find(forked.parent_tid);
  if (parent == names_.end()) return;
  const std::string name = parent->second;  // the new entry may move the old one
  names_.insert_or_assign(forked.tid, name);
}

std::string ThreadNames::name(std::uint32_t tid) const {
  if (tid == 0) return "swapper";
  const auto found = names_.find(tid);
  return found == names_.end() ? ":" + std::to_string(tid) : found->second;
}

Status SampleCollector::on_event(const Event& record, const PerfEvent* event) {
  if (const auto* named = std::get_if<Named>(&record)) names_.on(*named);
  if (const auto* forked = std::get_if<Forked>(&record)) names_.on(*forked);
  if (const auto* lost = std::get_if<Lost>(&record)) samples.lost += lost->count;
  if (const auto* sample = std::get_if<Sample>(&record)) add(*sample, event);
  return Done{};
}

void SampleCollector::add(const Sample& sample, const PerfEvent* event) {
  const DataSource source = decode_data_source(sample.data_source);
  samples.event.push_back(event ? event->name : "");
  samples.command.push_back(names_.name(sample.source.tid));
  samples.served.push_back(source.served());
  samples.operation.push_back(name_of(source.operation));
  samples.snoop.push_back(name_of(source.snoop));
  samples.tlb.push_back(source.tlb_text());
  samples.pid.push_back(sample.source.pid);
  samples.tid.push_back(sample.source.tid);
  samples.cpu.push_back(sample.source.cpu);
  samples.time.push_back(sample.source.time);
  samples.ip.push_back(sample.ip);
  samples.address.push_back(sample.address);
  samples.weight.push_back(sample.weight);
  samples.data_source.push_back(sample.data_source);
  samples.period.push_back(sample.period);
  samples.locked.push_back(source.locked ? 1 : 0);
  samples.mode.push_back(static_cast<std::uint8_t>(sample.mode));
}

}  // namespace stallscope::sources
