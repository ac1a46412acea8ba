// SPDX-License-Identifier: Apache-2.0
#include "pipeline/predictor.h"

namespace stallscope::pipeline {
namespace {

constexpr std::uint32_t kBaseBits = 13, kTableBits = 10, kTagBits = 9;
constexpr std::uint32_t kTournamentBits = 14, kTournamentHistory = 11;
constexpr std::uint32_t kLengths[] = {8, 20, 50, 120};

void count(std::uint8_t& counter, bool up) {
  if (up && counter < 3) ++counter;
  if (!up && counter > 0) --counter;
}

void count(std::int8_t& counter, bool up) {
  if (up && counter < 3) ++counter;
  if (!up && counter > -4) --counter;
}

}  // namespace

void Predictor::Folded::update(unsigned in, unsigned out) {
  value = value << 1 | in;
  value ^= out << (length % bits);
  value ^= value >> bits;
  value &= (1u << bits) - 1;
}

Predictor::Predictor(const CoreConfig& config)
    : is_tage_(config.predictor == "tage"),
      base_(1u << (is_tage_ ? kBaseBits : kTournamentBits), 1),
      targets_(is_tage_ ? 2048 : 32),
      stack_(config.return_stack) {
  if (!is_tage_) {
    global_.assign(1u << kTournamentBits, 1);
    choice_.assign(1u << kTournamentBits, 1);
    return;
  }
  for (unsigned i = 0; i < kTables; ++i) {
    tables_[i].resize(1u << kTableBits);
    index_[i] = {0, kLengths[i], kTableBits};
    tag_[i] = {0, kLengths[i], kTagBits};
    other_tag_[i] = {0, kLengths[i], kTagBits - 1};
  }
}

bool Predictor::conditional(std::uint64_t address, bool taken) {
  const bool right = is_tage_ ? tage(address, taken) : tournament(address, taken);
  remember(taken);
  return right;
}

bool Predictor::tournament(std::uint64_t address, bool taken) {
  constexpr std::uint64_t kMask = (1u << kTournamentBits) - 1;
  const std::uint64_t pc = address ^ address >> kTournamentBits;
  const std::uint64_t history = outcomes_ & ((1u << kTournamentHistory) - 1);
  std::uint8_t& local = base_[pc & kMask];
  std::uint8_t& global = global_[(pc ^ history << 3) & kMask];
  std::uint8_t& choice = choice_[(pc ^ history << 3) & kMask];
  const bool by_local = local > 1, by_global = global > 1;
  const bool predicted = choice > 1 ? by_global : by_local;
  if (by_local != by_global) count(choice, by_global == taken);
  count(local, taken);
  count(global, taken);
  return predicted == taken;
}

bool Predictor::tage(std::uint64_t address, bool taken) {
  const std::uint64_t pc = address ^ address >> 11;
  std::uint32_t indices[kTables];
  std::uint16_t tags[kTables];
  int best = -1, second = -1;
  for (unsigned i = 0; i < kTables; ++i) {
    indices[i] = (pc ^ pc >> (i + 3) ^ index_[i].value) & ((1u << kTableBits) - 1);
    tags[i] = static_cast<std::uint16_t>((pc ^ tag_[i].value ^ other_tag_[i].value << 1) &
                                         ((1u << kTagBits) - 1));
    if (tables_[i][indices[i]].tag != tags[i]) continue;
    second = best;
    best = static_cast<int>(i);
  }
  std::uint8_t& base = base_[pc & ((1u << kBaseBits) - 1)];
  const bool by_base = base > 1;
  bool predicted = by_base;
  if (best < 0) {
    count(base, taken);
  } else {
    Entry& entry = tables_[best][indices[best]];
    const bool other = second < 0 ? by_base : tables_[second][indices[second]].counter >= 0;
    predicted = entry.counter >= 0;
    if (predicted != other && predicted == taken && entry.useful < 3) ++entry.useful;
    if (predicted != other && predicted != taken && entry.useful > 0) --entry.useful;
    count(entry.counter, taken);
  }
  if (predicted != taken && best + 1 < static_cast<int>(kTables))
    allocate(static_cast<unsigned>(best + 1), taken, indices, tags);
  return predicted == taken;
}

// A longer history may tell what this one could not: an entry that was of no use gives way.
void Predictor::allocate(unsigned above, bool taken, const std::uint32_t* indices,
                         const std::uint16_t* tags) {
  const unsigned start = above + (above + 1 < kTables && (++turn_ & 1));
  for (unsigned i = start; i < kTables; ++i) {
    Entry& entry = tables_[i][indices[i]];
    if (entry.useful == 0) {
      entry = {tags[i], static_cast<std::int8_t>(taken ? 0 : -1), 0};
      return;
    }
  }
  for (unsigned i = start; i < kTables; ++i) --tables_[i][indices[i]].useful;
}

void Predictor::remember(bool taken) {
  outcomes_ = outcomes_ << 1 | taken;
  if (!is_tage_) return;
  const unsigned in = taken;
  for (unsigned i = 0; i < kTables; ++i) {
    const unsigned out = past_[(at_ - kLengths[i]) & 255];
    index_[i].update(in, out);
    tag_[i].update(in, out);
    other_tag_[i].update(in, out);
  }
  past_[at_++ & 255] = taken;
}

bool Predictor::indirect(std::uint64_t address, std::uint64_t target) {
  const std::uint64_t path = is_tage_ ? path_ & 0xffff : 0;
  const std::uint64_t hash = (address >> 1 ^ path ^ path >> 5) * 0x9e3779b97f4a7c15;
  Target& entry = targets_[(hash >> 40) & (targets_.size() - 1)];
  const bool right = entry.address == address && entry.target == target;
  entry = {address, target};
  return right;
}

bool Predictor::returns(std::uint64_t target) {
  top_ = (top_ + stack_.size() - 1) % stack_.size();
  return stack_[top_] == target;
}

void Predictor::call(std::uint64_t return_address) {
  stack_[top_] = return_address;
  top_ = (top_ + 1) % stack_.size();
}

}  // namespace stallscope::pipeline
