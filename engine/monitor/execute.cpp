// SPDX-License-Identifier: Apache-2.0
// What each instruction of a monitor core does.
#include "monitor/monitor.h"

namespace stallscope::monitor {
namespace {

std::int64_t with_sign(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::uint64_t shifted_right(std::uint64_t value, std::uint64_t by) {
  return static_cast<std::uint64_t>(with_sign(value) >> (by & 63));
}

}  // namespace

const Monitor::Decoded* Monitor::decoded(std::uint32_t word) {
  if (word == 0) return nullptr;  // also where nothing can be fetched from
  Decoded& known = decoded_[pc_ / sizeof word];
  if (known.word != word) {
    const auto found = decode(word);
    if (!found) return nullptr;
    known = {word, *found, &entry_of(found->opcode)};
  }
  return &known;
}

void Monitor::execute(std::uint32_t word) {
  const Decoded* const known = decoded(word);
  if (!known) {
    spend(1, account_.busy);
    return fault("there is no such instruction");
  }
  const Entry& entry = *known->entry;
  const Instruction* const found = &known->instruction;
  spend(entry.cycles, account_.busy);
  ++account_.instructions;
  if (entry.code == kMonitorCode) return execute_monitor(*found);
  if (entry.format == Format::branch || entry.format == Format::jump || entry.format == Format::reg)
    return execute_branch(*found);
  const std::uint64_t address =
      registers_[found->ra] + static_cast<std::uint64_t>(std::int64_t{found->literal});
  if (found->opcode == Opcode::ld) {
    std::uint64_t value = 0;
    if (!load(address, value)) return fault("it reads where nothing is");
    registers_[found->rd] = value;
  } else if (found->opcode == Opcode::st) {
    if (!store(address, registers_[found->rd])) return fault("it writes where nothing is");
  } else {
    registers_[found->rd] = calculate(*found);
  }
  registers_[0] = 0;
  pc_ += sizeof word;
}

std::uint64_t Monitor::calculate(const Instruction& what) const {
  const std::uint64_t a = registers_[what.ra];
  const bool has_literal = entry_of(what.opcode).format == Format::literal;
  const std::uint64_t b =
      has_literal ? static_cast<std::uint64_t>(std::int64_t{what.literal}) : registers_[what.rb];
  switch (what.opcode) {
    case Opcode::add:
    case Opcode::addi:
      return a + b;
    case Opcode::sub:
      return a - b;
    case Opcode::mul:
      return a * b;
    case Opcode::band:
    case Opcode::andi:
      return a & b;
    case Opcode::bor:
    case Opcode::ori:
      return a | b;
    case Opcode::bxor:
    case Opcode::xori:
      return a ^ b;
    case Opcode::shl:
    case Opcode::shli:
      return a << (b & 63);
    case Opcode::shr:
    case Opcode::shri:
      return a >> (b & 63);
    default:
      return shifted_right(a, b);
  }
}

bool Monitor::compare(const Instruction& what) const {
  const std::uint64_t a = registers_[what.ra], b = registers_[what.rb];
  switch (what.opcode) {
    case Opcode::beq:
      return a == b;
    case Opcode::bne:
      return a != b;
    case Opcode::blt:
      return with_sign(a) < with_sign(b);
    case Opcode::bge:
      return with_sign(a) >= with_sign(b);
    case Opcode::bltu:
      return a < b;
    default:
      return a >= b;
  }
}

void Monitor::execute_branch(const Instruction& what) {
  const std::uint64_t next = pc_ + sizeof(std::uint32_t);
  const std::uint64_t there =
      next + static_cast<std::uint64_t>(std::int64_t{what.literal}) * sizeof(std::uint32_t);
  const bool taken = entry_of(what.opcode).format != Format::branch || compare(what);
  if (taken) spend(1, account_.busy);  // what was fetched meanwhile is thrown away
  if (what.opcode == Opcode::jr) {
    pc_ = registers_[what.ra];
    return;
  }
  if (what.opcode == Opcode::jal && what.rd != 0) registers_[what.rd] = next;
  pc_ = taken ? there : next;
}

void Monitor::execute_monitor(const Instruction& what) {
  const auto number = static_cast<std::uint32_t>(what.literal);
  const std::uint64_t a = registers_[what.ra], b = registers_[what.rb];
  const bool names_signal = entry_of(what.opcode).format == Format::signal;
  if (names_signal && number >= kSignals) return fault("there is no such signal");
  const bool names_feature = what.opcode == Opcode::pmchk || what.opcode == Opcode::pmsig;
  if (names_feature && number >= kFeatures) return fault("the machine has no such feature");
  switch (what.opcode) {
    case Opcode::wcmpm:
      if (a == 0) return fault("a mask of 0 lets nothing through");
      detectors_[number].every = a;
      break;
    case Opcode::wepm:
      set_handler(number, a);
      break;
    case Opcode::pmhalt:
      return end_task();
    case Opcode::cpm:
      clear();
      break;
    case Opcode::pmchk:
      if (what.rd != 0) registers_[what.rd] = machine_->check(static_cast<Feature>(number));
      break;
    case Opcode::pmsig:
      machine_->signal(static_cast<Feature>(number), a, b, now_);
      break;
    case Opcode::pmsend:
      if (sends_.size() >= config_.send_buffer)
        ++account_.dropped_sends;
      else
        sends_.push_back({number, static_cast<std::uint32_t>(b), a});
      break;
    default:  // pmtask
      if (table_[number] != 0)
        queue(number, {Event::message, static_cast<std::uint32_t>(registers_[3]), registers_[1], a},
              detectors_[number].high);
  }
  pc_ += sizeof(std::uint32_t);
}

}  // namespace stallscope::monitor
