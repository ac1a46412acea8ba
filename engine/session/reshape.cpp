// SPDX-License-Identifier: Apache-2.0
#include "session/reshape.h"

#include <algorithm>
#include <string>

#include "stream/record.h"

namespace stallscope::session {
namespace {

constexpr std::uint64_t kLargestElement = 1 << 22;  // its table is 16 times that

}  // namespace

Status Reshape::check(const Shape& shape) {
  const auto wrong = [](const std::string& why) {
    return Error{"a shape that cannot be", why, ""};
  };
  if (shape.element == 0 || shape.element > kLargestElement)
    return wrong("an element of " + std::to_string(shape.element) + " bytes");
  if (shape.groups.empty()) return wrong("it has no group");
  for (const ShapePart& part : shape.parts) {
    if (part.group >= shape.groups.size()) return wrong("a part is in no group");
    if (part.size == 0 || part.start >= shape.element || part.size > shape.element - part.start)
      return wrong("a part lies outside of the element");
  }
  return Done{};
}

// Bytes in no part stay in the first group, where they were.
Reshape::Known Reshape::known_of(const Shape& shape) {
  Known known{shape.element, shape.groups, {}, {}, 0};
  known.bytes.resize(shape.element);
  for (std::uint64_t i = 0; i < shape.element; ++i) known.bytes[i] = {0, i};
  for (const ShapePart& part : shape.parts)
    for (std::uint64_t i = 0; i < part.size; ++i)
      known.bytes[part.start + i] = {part.group, part.to + i};
  return known;
}

Result<Reshape> Reshape::make(const std::vector<Shape>& shapes) {
  Reshape made;
  for (const Shape& shape : shapes) {
    if (Status good = check(shape); !good) return good.error();
    const auto number = static_cast<std::uint32_t>(made.shapes_.size());
    made.shapes_.push_back(known_of(shape));
    for (const std::uint32_t site : shape.sites) made.by_site_[site] = number;
    if (shape.sites.empty() && shape.size) made.keep(shape.address, shape.size, number);
  }
  return made;
}

void Reshape::keep(std::uint64_t start, std::uint64_t size, std::uint32_t shape) {
  Known& known = shapes_[shape];
  const std::uint64_t elements = (size + known.element - 1) / known.element;
  std::uint64_t first = known.next;
  if (auto freed = known.freed.find(elements);
      freed != known.freed.end() && !freed->second.empty()) {
    first = freed->second.back();
    freed->second.pop_back();
  } else {
    known.next += elements;
  }
  auto number = static_cast<std::uint32_t>(blocks_.size());
  if (unused_.empty()) {
    blocks_.push_back({});
  } else {
    number = unused_.back();
    unused_.pop_back();
  }
  blocks_[number] = {start, size, first, shape};
  live_.insert(start, size, number);
  by_start_[start] = number;
  const std::uint64_t end = extent_ ? std::max(lowest_ + extent_, start + size) : start + size;
  lowest_ = extent_ ? std::min(lowest_, start) : start;
  extent_ = end - lowest_;
}

void Reshape::release(std::uint64_t start) {
  const auto found = by_start_.find(start);
  if (found == by_start_.end()) return;
  const Block& block = blocks_[found->second];
  Known& known = shapes_[block.shape];
  known.freed[(block.size + known.element - 1) / known.element].push_back(block.first);
  live_.erase(block.start, block.size);
  unused_.push_back(found->second);
  by_start_.erase(found);
}

void Reshape::on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  if (count < record_shape(tag).words) return;
  if (tag == SS_ALLOC) {
    const auto& record = *reinterpret_cast<const ss_alloc*>(words);
    if (!record.address || record.address + record.size < record.address) return;
    release(record.address);  // its free may have gone unseen
    const auto shape = by_site_.find(static_cast<std::uint32_t>(record.site));
    if (shape != by_site_.end() && record.size) keep(record.address, record.size, shape->second);
  } else if (tag == SS_FREE) {
    release(reinterpret_cast<const ss_free*>(words)->address);
  }
}

std::uint64_t Reshape::look_up(std::uint64_t address) {
  const probes::BucketId number = live_.find(address);
  if (number == probes::kNoBucket) return address;
  const Block& block = blocks_[number];
  const Known& known = shapes_[block.shape];
  const std::uint64_t offset = address - block.start;
  const std::uint64_t index = offset / known.element;
  const To& to = known.bytes[offset % known.element];
  const ShapeGroup& group = known.groups[to.group];
  const std::uint64_t base = group.base ? group.base + block.first * group.stride : block.start;
  return base + index * group.stride + to.place;
}

}  // namespace stallscope::session
