// SPDX-License-Identifier: Apache-2.0
// A trace as if a nest of loops had been tiled: the turns of its innermost loop that were recorded,
// in another order. All loops but the outermost are cut into tiles of so many turns, and the
// outermost runs through within a tile:
//   for (jj..) for (kk..) for (i..) for (j in jj) for (k in kk)
// Turns of the innermost loop stay in order for each turn of the others, so that what it sums up is
// summed up in the same order.
//
// What the nest does around its innermost loop stays with the first or last turn of that. Refused
// are nests whose loops do not always run equally often, whose accesses are not a sum of strides,
// and those where an access would change its place among others to the same bytes, one of which
// writes. What registers carry from turn to turn is not seen here.
// Not modelled: the instructions of the new loops, and what has to be kept from tile to tile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "session/loop_code.h"
#include "stallscope_records.h"
#include "stream/code_table.h"

namespace stallscope::session {

struct TiledLoop {
  std::uint64_t header, end;  // first and last instruction
};
struct Tiling {
  std::vector<TiledLoop> loops;  // outermost first, 2 or 3
  std::uint32_t tile = 0;        // turns
};

// Gathers one run of the nest, and tells its parts in the new order.
class Tiles {
 public:
  // Both outlive this.
  Tiles(const Tiling& tiling, const stream::CodeTable& code);

  // Whether control is in the nest, or the block may be part of it: then add() wants it.
  bool concerns(std::uint32_t block);
  // A block's execution, part by part; tell(info, addresses, from, to) for what is to be run now:
  // instructions `from` to before `to` of the block.
  template <typename Tell>
  void add(const stream::Exit& info, const std::uint64_t* addresses, Tell&& tell) {
    std::uint32_t from = 0;
    executions_.push_back({info, pool_.size()});
    pool_.insert(pool_.end(), addresses, addresses + info.operations);
    for (const std::uint32_t point : known_.points(info.block)) {
      if (point >= info.instructions) break;
      add_part(info, from, point, tell);
      from = point;
    }
    add_part(info, from, info.instructions, tell);
    if (!inside_) forget();
  }
  // Something else comes, or nothing more.
  template <typename Tell>
  void flush(Tell&& tell) {
    if (units_.empty())
      for (const Part& part : parts_) tell_part(part, tell);
    for (const std::uint32_t unit : order()) {
      const Unit& one = units_[unit];
      for (std::uint32_t i = 0; i < one.parts; ++i) tell_part(parts_[one.first + i], tell);
    }
    units_.clear();
    parts_.clear();
    inside_ = false;
  }
  void forget() {
    executions_.clear();
    pool_.clear();
  }
  bool inside() const { return inside_; }
  std::uint64_t tiled() const { return tiled_; }           // runs of the nest
  const std::string& refused() const { return refused_; }  // why; empty: it was not

 private:
  static constexpr std::size_t kMostParts = 1u << 23;
  struct Execution {
    stream::Exit info;
    std::size_t addresses;  // in pool_
  };
  struct Part {
    std::uint32_t execution;
    std::uint16_t from, to;
    bool innermost;
  };
  struct Unit {  // a turn of the innermost loop
    std::uint32_t first, parts;
    std::int32_t turn[3];  // of each loop
  };

  template <typename Tell>
  void add_part(const stream::Exit& info, std::uint32_t from, std::uint32_t to, Tell&& tell) {
    const Part part{static_cast<std::uint32_t>(executions_.size() - 1),
                    static_cast<std::uint16_t>(from), static_cast<std::uint16_t>(to), false};
    const std::uint64_t at =
        code_.instructions[code_.blocks[info.block].first_instruction + from].address;
    if (inside_ && !within(at)) flush(tell);
    if (!inside_ && at != tiling_.loops[0].header) return tell_part(part, tell);
    gather(part, at);
    if (parts_.size() < kMostParts) return;
    refuse("it runs too long at a time");
    flush(tell);
  }
  template <typename Tell>
  void tell_part(const Part& part, Tell&& tell) const {
    const Execution& one = executions_[part.execution];
    tell(one.info, pool_.data() + one.addresses, part.from, part.to);
  }
  bool within(std::uint64_t at) const {
    return at >= tiling_.loops[0].header && at <= tiling_.loops[0].end;
  }
  void gather(Part part, std::uint64_t at);
  // Units as they are to be run.
  std::vector<std::uint32_t> order();
  std::vector<std::uint32_t> tiles(const std::vector<std::uint32_t>& turns) const;
  bool is_affine() const;
  bool keeps_order(const std::vector<std::uint32_t>& order) const;
  // visit(block, operation, address), of all that a unit accesses; or of its innermost parts alone
  template <typename Visit>
  void for_each_access(const Unit& unit, bool innermost, Visit&& visit) const;
  void refuse(const char* why) {
    if (refused_.empty()) refused_ = why;
  }

  const Tiling& tiling_;
  const stream::CodeTable& code_;
  LoopCode known_;
  std::vector<std::uint8_t> concerns_;  // by block: 1 yes, 2 no
  bool inside_ = false, begins_ = false;
  std::int32_t turn_[3] = {-1, -1, -1};
  std::vector<Execution> executions_;
  std::vector<std::uint64_t> pool_;
  std::vector<Part> parts_;
  std::vector<Unit> units_;
  std::uint64_t tiled_ = 0;
  std::string refused_;
};

// A sink that passes everything on, the nest in its new order.
template <typename Sink>
struct Tiled {
  Tiles& tiles;
  Sink& sink;

  auto tell() {
    return [this](const stream::Exit& info, const std::uint64_t* addresses, std::uint32_t from,
                  std::uint32_t to) { sink.on_part(info, addresses, from, to); };
  }
  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    if (!tiles.refused().empty()) return;  // nobody wants to know any more
    if (tiles.concerns(info.block))
      tiles.add(info, addresses, tell());
    else
      sink.on_block(exit, info, addresses);
  }
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
    if (tag != SS_BLOCK) finish();  // whatever it is, it must not move
    return sink.on_record(tag, words, count);
  }
  void finish() {
    if (!tiles.inside()) return;
    tiles.flush(tell());
    tiles.forget();
  }
};

}  // namespace stallscope::session
