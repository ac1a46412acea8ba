// SPDX-License-Identifier: Apache-2.0
#include "code/references.h"

#include <elf.h>

#include <algorithm>

namespace stallscope::code {
namespace {

class Collector {
 public:
  Collector(const ElfImage& image, const Functions& functions, const Pointers& pointers)
      : image_(image), functions_(functions), pointers_(pointers) {
    out_.asks_cpu.resize(functions.size());
    out_.in_table.resize(functions.size());
    out_.started.resize(functions.size());
  }

  References run(std::uint64_t most_instructions) {
    std::uint64_t left = most_instructions;
    for (std::size_t i = 0; i < functions_.size() && out_.complete; ++i) visit(i, left);
    out_.decoded = most_instructions - left;
    mark_tables();
    mark_started();
    std::sort(out_.edges.begin(), out_.edges.end(),
              [](const Edge& a, const Edge& b) { return a.from < b.from; });
    return std::move(out_);
  }

 private:
  void visit(std::size_t index, std::uint64_t& left) {
    Bytes bytes = functions_.bytes(index);
    std::uint64_t address = functions_[index].start;
    for (std::size_t at = 0; at < bytes.size();) {
      if (left == 0) {
        out_.complete = false;
        return;
      }
      --left;
      auto instruction = decode(bytes.subspan(at), Address(address + at));
      if (!instruction) {
        ++at;  // data between instructions: find the next one
        continue;
      }
      note(index, *instruction);
      at += instruction->length;
    }
  }

  void note(std::size_t index, const Instruction& instruction) {
    out_.asks_cpu[index] |= instruction.asks_cpu;
    bool fixed = image_.type() == ET_EXEC;
    for (std::uint64_t named : named_addresses(instruction, fixed, pointers_)) {
      std::size_t to = functions_.find(named);
      if (to == functions_.size() || to == index) continue;
      // Jumps may enter another function's middle (cold parts); anything else there is chance.
      if (instruction.target || functions_[to].start == named)
        out_.edges.push_back({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(to)});
    }
    for (const MemoryOperand& m : instruction.memory()) {
      if (!m.fixed || !image_.writable(m.fixed->value)) continue;
      bool stores = m.write || !m.read;
      out_.data.push_back({static_cast<std::uint32_t>(index), stores, m.fixed->value});
    }
    if (fixed && instruction.immediate && image_.writable(*instruction.immediate))
      out_.data.push_back({static_cast<std::uint32_t>(index), true, *instruction.immediate});
  }

  // Only whole functions: other words that look like code addresses are numbers by chance.
  void mark(std::vector<std::uint8_t>& flags, std::uint64_t address) {
    std::size_t found = functions_.find(address);
    if (found < functions_.size() && functions_[found].start == address) flags[found] = 1;
  }

  void mark_tables() {
    for (const Relocation& r : pointers_.relative()) mark(out_.in_table, r.addend);
    if (image_.type() != ET_EXEC) return;
    for (const Section& s : image_.sections()) {
      if (!(s.flags & SHF_ALLOC) || (s.flags & SHF_EXECINSTR) || s.type != SHT_PROGBITS) continue;
      if (s.name.starts_with(".eh_frame")) continue;
      std::uint64_t size = image_.contents(s).size();
      for (std::uint64_t at = 0; at + 8 <= size; at += 8) {
        auto word = image_.word_at(s.address + at);
        if (word) mark(out_.in_table, *word);
      }
    }
  }

  void mark_started() {
    mark(out_.started, image_.entry());
    bool library = image_.type() == ET_DYN && !image_.segment(PT_INTERP);
    for (const Symbol& s : image_.symbols())
      if (library && s.exported && s.defined && s.type == STT_FUNC) mark(out_.started, s.address);
    for (const Section& s : image_.sections()) {
      bool runs =
          s.type == SHT_INIT_ARRAY || s.type == SHT_FINI_ARRAY || s.type == SHT_PREINIT_ARRAY;
      std::uint64_t size = runs ? image_.contents(s).size() : 0;
      for (std::uint64_t at = 0; at + 8 <= size; at += 8)
        if (auto word = pointers_.at(s.address + at)) mark(out_.started, *word);
    }
  }

  const ElfImage& image_;
  const Functions& functions_;
  const Pointers& pointers_;
  References out_;
};

// Bounds for resolvers: real ones have some hundred instructions and call one or two others.
constexpr std::size_t kMostResolvers = 16384;
constexpr std::size_t kMostInstructionsPerResolver = 4096;
constexpr int kCallDepth = 1;

class Resolvers {
 public:
  Resolvers(const ElfImage& image, const Functions& functions, const Pointers& pointers)
      : fixed_(image.type() == ET_EXEC), functions_(functions), pointers_(pointers) {}

  void visit(std::uint64_t address, int depth) {
    std::size_t index = functions_.find(address);
    if (index == functions_.size()) return;
    Bytes bytes = functions_.bytes(index);
    std::uint64_t start = functions_[index].start;
    std::size_t at = address - start;
    for (std::size_t n = 0; at < bytes.size() && n < kMostInstructionsPerResolver; ++n) {
      auto instruction = decode(bytes.subspan(at), Address(start + at));
      if (!instruction) return;
      note(index, *instruction, depth);
      at += instruction->length;
    }
  }

  std::vector<std::size_t> targets() {
    std::sort(targets_.begin(), targets_.end());
    targets_.erase(std::unique(targets_.begin(), targets_.end()), targets_.end());
    return std::move(targets_);
  }

 private:
  void note(std::size_t from, const Instruction& instruction, int depth) {
    for (std::uint64_t named : named_addresses(instruction, fixed_, pointers_)) {
      std::size_t to = functions_.find(named);
      if (to == functions_.size() || to == from) continue;
      if (instruction.flow == Flow::kNext) {
        targets_.push_back(to);
      } else if (depth > 0) {
        visit(named, depth - 1);
      }
    }
  }

  bool fixed_;
  const Functions& functions_;
  const Pointers& pointers_;
  std::vector<std::size_t> targets_;
};

}  // namespace

Pointers::Pointers(const ElfImage& image) : image_(&image) {
  for (const Relocation& r : image.relocations())
    if (r.type == R_X86_64_RELATIVE) relative_.push_back(r);
  std::sort(relative_.begin(), relative_.end(),
            [](const Relocation& a, const Relocation& b) { return a.at < b.at; });
}

std::optional<std::uint64_t> Pointers::at(std::uint64_t address) const {
  auto found = std::lower_bound(relative_.begin(), relative_.end(), address,
                                [](const Relocation& r, std::uint64_t a) { return r.at < a; });
  if (found != relative_.end() && found->at == address) return found->addend;
  return image_->word_at(address);
}

std::vector<std::uint64_t> named_addresses(const Instruction& instruction, bool fixed_addresses,
                                           const Pointers& pointers) {
  std::vector<std::uint64_t> out;
  if (instruction.target) out.push_back(instruction.target->value);
  if (fixed_addresses && instruction.immediate) out.push_back(*instruction.immediate);
  for (const MemoryOperand& m : instruction.memory()) {
    if (!m.fixed) continue;
    if (!m.read && !m.write) out.push_back(m.fixed->value);
    if (m.read && m.size == 8)
      if (auto pointer = pointers.at(m.fixed->value)) out.push_back(*pointer);
  }
  return out;
}

References find_references(const ElfImage& image, const Functions& functions,
                           const Pointers& pointers, std::uint64_t most_instructions) {
  return Collector(image, functions, pointers).run(most_instructions);
}

std::vector<std::size_t> resolver_targets(const ElfImage& image, const Functions& functions,
                                          const Pointers& pointers) {
  std::vector<std::uint64_t> resolvers;
  for (const Symbol& s : image.symbols())
    if (s.type == STT_GNU_IFUNC && s.defined) resolvers.push_back(s.address);
  for (const Relocation& r : image.relocations())
    if (r.type == R_X86_64_IRELATIVE) resolvers.push_back(r.addend);
  std::sort(resolvers.begin(), resolvers.end());
  resolvers.erase(std::unique(resolvers.begin(), resolvers.end()), resolvers.end());
  if (resolvers.size() > kMostResolvers) resolvers.resize(kMostResolvers);
  Resolvers walk(image, functions, pointers);
  for (std::uint64_t address : resolvers) walk.visit(address, kCallDepth);
  return walk.targets();
}

}  // namespace stallscope::code
