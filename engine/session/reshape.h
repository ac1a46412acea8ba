// SPDX-License-Identifier: Apache-2.0
// A recorded program as if some of its blocks had another layout: fields in another order, parts of
// every element in arrays of their own, elements further apart or closer together. Stands between a
// stream and whatever simulates it.
//
// A block is a row of elements. Every byte of an element belongs to a part, which goes to a place
// within its group; a group has one stride, and lies where the block lay (base 0) or in memory of
// its own, in which the blocks of a shape follow each other as they are allocated, and take the
// places of freed ones.
//
// Not modelled: an access across parts goes to where its first byte goes; what malloc did to the
// memory of blocks that lie elsewhere stays; instructions are those that were recorded.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "probes/object_map.h"
#include "stallscope_records.h"
#include "stream/code_table.h"

namespace stallscope::session {

struct ShapeGroup {
  std::uint64_t base;  // 0: where the block lies
  std::uint64_t stride;
};

struct ShapePart {
  std::uint64_t start, size;  // within an element
  std::uint32_t group;
  std::uint64_t to;  // within the group's stride
};

struct Shape {
  std::vector<std::uint32_t> sites;     // of its heap blocks; none: what lies at `address`
  std::uint64_t address = 0, size = 0;  // of a variable
  std::uint64_t element = 0;
  std::vector<ShapeGroup> groups;
  std::vector<ShapePart> parts;
};

class Reshape {
 public:
  static Result<Reshape> make(const std::vector<Shape>& shapes);

  // In the order of the stream, before whatever follows the record.
  void on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count);
  std::uint64_t moved(std::uint64_t address) {
    if (address - lowest_ >= extent_) return address;
    return look_up(address);
  }

 private:
  struct To {
    std::uint32_t group;
    std::uint64_t place;
  };
  struct Known {
    std::uint64_t element;
    std::vector<ShapeGroup> groups;
    std::vector<To> bytes;                                      // of an element
    std::map<std::uint64_t, std::vector<std::uint64_t>> freed;  // by elements: their first numbers
    std::uint64_t next = 0;                                     // element of the shape
  };
  struct Block {
    std::uint64_t start, size, first;
    std::uint32_t shape;
  };
  static Status check(const Shape& shape);
  static Known known_of(const Shape& shape);
  void keep(std::uint64_t start, std::uint64_t size, std::uint32_t shape);
  void release(std::uint64_t start);
  std::uint64_t look_up(std::uint64_t address);

  std::vector<Known> shapes_;
  std::unordered_map<std::uint32_t, std::uint32_t> by_site_;
  probes::ObjectMap live_;  // address -> blocks_
  std::vector<Block> blocks_;
  std::vector<std::uint32_t> unused_;                          // of blocks_
  std::unordered_map<std::uint64_t, std::uint32_t> by_start_;  // heap blocks
  std::uint64_t lowest_ = 0, extent_ = 0;
};

// A sink that passes everything on, data where its new layout has it. Records stay as they are.
template <typename Sink>
struct Reshaped {
  Reshape& reshape;
  Sink& sink;
  std::vector<std::uint64_t> words;

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    if (words.size() < info.operations) words.resize(info.operations);
    for (std::uint32_t i = 0; i < info.operations; ++i)
      words[i] = addresses[i] == SS_NO_ADDRESS ? SS_NO_ADDRESS : reshape.moved(addresses[i]);
    sink.on_block(exit, info, words.data());
  }
  Status on_record(unsigned tag, const std::uint64_t* record, std::uint32_t count) {
    reshape.on_record(tag, record, count);
    return sink.on_record(tag, record, count);
  }
};

}  // namespace stallscope::session
