// SPDX-License-Identifier: Apache-2.0
#include "types/inference.h"

#include <algorithm>

namespace stallscope::types {
namespace {

using symbols::kNoType;
using symbols::Symbols;
using symbols::TypeId;
using symbols::TypeKind;

constexpr std::uint64_t kMostSteps = 5'000'000;  // instructions looked at, all functions together
constexpr std::uint64_t kMostOfFunction = 200'000;  // instructions of one function
constexpr std::size_t kMostUses = 4'000;            // of one kind of blocks, the most frequent ones
constexpr double kLeastShare = 0.1;  // of the votes, to count those for its parts as its own

// The one type that all of them are, by its name, or kNoType.
class Agreement {
 public:
  explicit Agreement(Symbols& symbols) : types_(*symbols.types()) {}
  void add(TypeId type) {
    if (type == kNoType) return;
    if (found_ != kNoType && types_.get(type).plain != types_.get(found_).plain) differs_ = true;
    found_ = type;
  }
  TypeId found() const { return differs_ ? kNoType : found_; }
  bool empty() const { return found_ == kNoType; }

 private:
  symbols::TypeTable& types_;
  TypeId found_ = kNoType;
  bool differs_ = false;
};

// What a call's result was put into. Where optimisation left nothing of the variable, its
// declaration still stands on the line of the call.
TypeId assigned(const Followed& followed, std::uint64_t call, Symbols& symbols) {
  auto at = std::lower_bound(followed.assignments.begin(), followed.assignments.end(), call,
                             [](const Assignment& a, std::uint64_t c) { return a.call < c; });
  Agreement agreement(symbols);
  for (; at != followed.assignments.end() && at->call == call; ++at) agreement.add(at->type);
  if (!agreement.empty()) return agreement.found();
  for (const symbols::Frame& frame : symbols.frames_at(call - 1))
    for (const symbols::Declared& one : followed.declared)
      if (frame.line != 0 && one.line == frame.line)
        agreement.add(symbols.types()->get(one.type).target);
  return agreement.found();
}

}  // namespace

struct Inference::Tally {
  std::vector<Candidate> candidates;
  std::uint64_t largest = 0;  // bytes of a block
  std::uint64_t known = 0;    // accesses whose pointer is known
  std::uint64_t all = 0;

  bool add(Symbols& symbols, TypeId id, std::uint64_t votes) {
    const symbols::Type& type = symbols.types()->get(id);
    if (type.kind == TypeKind::kNone || (largest != 0 && type.size > largest)) return false;
    const std::string_view name = symbols.text(type.plain);
    for (Candidate& one : candidates) {
      if (one.name != name || one.size != type.size) continue;
      one.votes += votes;
      return true;
    }
    candidates.push_back({&symbols, id, name, type.size, votes});
    return true;
  }

  // Bytes are how one touches anything; they are a type only where there is no other.
  void drop_bytes() {
    auto is_byte = [](const Candidate& c) { return c.size == 1; };
    if (!std::all_of(candidates.begin(), candidates.end(), is_byte))
      std::erase_if(candidates, is_byte);
  }
};

Inference::Inference(std::vector<Module> modules, symbols::SymbolCache& cache)
    : cache_(cache), steps_left_(kMostSteps) {
  for (Module& module : modules) {
    File file;
    file.module = std::move(module);
    files_.push_back(std::move(file));
  }
}

Inference::File* Inference::file_of(std::uint64_t address) {
  for (File& file : files_) {
    if (address < file.module.start || address >= file.module.end) continue;
    if (!file.is_open) {
      file.is_open = true;
      auto opened = cache_.open(file.module.path, file.module.build_id);
      if (opened && (*opened)->types() != nullptr) file.symbols = *opened;
    }
    if (file.symbols) return &file;
  }
  return nullptr;
}

const Followed* Inference::followed(File& file, std::uint64_t address) {
  auto after = file.functions.upper_bound(address);
  if (after != file.functions.begin()) {
    --after;
    if (address < file.ends[after->first]) return after->second.get();
  }
  const auto function = file.symbols->function_at(address);
  auto found = std::make_shared<Followed>();
  if (!function) {
    file.ends[address] = address + 1;
    file.functions[address] = found;
    return found.get();
  }
  if (steps_left_ > 0) {
    *found = follow(*file.symbols, *function, std::min(kMostOfFunction, steps_left_));
    steps_left_ -= std::min(steps_left_, found->steps);
  }
  for (const symbols::AddressRange& range : function->ranges) {
    file.ends[range.low] = range.high;
    file.functions[range.low] = found;
  }
  return found.get();
}

// An access must meet something that the type has, or the pointer was not what it seemed.
bool Inference::fits(Symbols& symbols, TypeId type, const Access& access) {
  const std::uint64_t size = symbols.types()->get(type).size;
  auto offset = static_cast<std::uint64_t>(access.at.offset);
  if (size > 0) offset = ((access.at.offset % static_cast<std::int64_t>(size)) + size) % size;
  return !symbols.types()->field(type, offset).is_padding;
}

void Inference::vote(const Use& use, Tally& tally) {
  tally.all += use.times;
  File* file = file_of(use.address);
  if (file == nullptr) return;
  const std::uint64_t address = use.address - file->module.bias;
  const Followed* found = followed(*file, address);
  auto at = std::lower_bound(found->accesses.begin(), found->accesses.end(), address,
                             [](const Access& a, std::uint64_t b) { return a.address < b; });
  for (; at != found->accesses.end() && at->address == address; ++at) {
    if (use.writes ? !at->writes : !at->reads) continue;
    TypeId type = at->at.type;
    if (at->at.kind == Value::Kind::kResult) type = assigned(*found, at->at.call, *file->symbols);
    if (type == kNoType || !fits(*file->symbols, type, *at)) continue;
    if (tally.add(*file->symbols, type, use.times)) tally.known += use.times;
    return;
  }
}

void Inference::vote_allocation(const Blocks& blocks, std::uint64_t votes, Tally& tally) {
  for (std::uint64_t call : blocks.calls) {
    File* file = file_of(call - 1);
    if (file == nullptr) continue;
    const std::uint64_t behind = call - file->module.bias;
    const Followed* found = followed(*file, behind - 1);
    const TypeId type = assigned(*found, behind, *file->symbols);
    if (type != kNoType && tally.add(*file->symbols, type, std::max<std::uint64_t>(votes, 1)))
      return;
  }
}

Guess Inference::infer(const Blocks& blocks) {
  Tally tally;
  tally.largest = blocks.largest;
  std::vector<Use> uses = blocks.uses;
  std::stable_sort(uses.begin(), uses.end(),
                   [](const Use& a, const Use& b) { return a.times > b.times; });
  if (uses.size() > kMostUses) uses.resize(kMostUses);
  for (const Use& use : uses) vote(use, tally);
  vote_allocation(blocks, tally.all - tally.known, tally);
  tally.drop_bytes();
  std::uint64_t votes = 0;
  for (const Candidate& one : tally.candidates) votes += one.votes;
  const auto with_parts = [&](const Candidate& one) {
    std::uint64_t own = one.votes;
    for (const Candidate& part : tally.candidates)
      if (&part != &one && one.contains(part)) own += part.votes;
    return own;
  };
  const Candidate* best = nullptr;
  std::uint64_t most = 0;
  for (const Candidate& one : tally.candidates) {
    const bool counts = static_cast<double>(one.votes) >= kLeastShare * static_cast<double>(votes);
    const std::uint64_t own = counts ? with_parts(one) : one.votes;
    if (best == nullptr || own > most || (own == most && one.size > best->size)) {
      best = &one;
      most = own;
    }
  }
  // A class around nothing but this one is what the program calls it.
  for (const Candidate& one : tally.candidates)
    if (best != nullptr && one.size == best->size && one.contains(*best)) {
      best = &one;
      most = with_parts(one);
    }
  if (best == nullptr) return {};
  const double all = static_cast<double>(std::max<std::uint64_t>(tally.all, 1));
  return {best->symbols, best->type, static_cast<double>(most) / static_cast<double>(votes),
          static_cast<double>(tally.known) / all, tally.known == 0};
}

std::uint64_t element_size(const Guess& guess) {
  if (guess.symbols == nullptr) return 0;
  symbols::TypeTable& types = *guess.symbols->types();
  const symbols::Type& type = types.get(types.element(guess.type));
  if (type.members.empty()) return 0;
  if (type.members.size() == 1 && types.get(type.members[0].type).members.empty()) return 0;
  return type.members.back().size == 0 ? 0 : type.size;
}

Guess Inference::variable(std::uint64_t address) {
  File* file = file_of(address);
  if (file == nullptr) return {};
  const symbols::Variable* found = file->symbols->variable_at(address - file->module.bias);
  if (found == nullptr || found->type_id == kNoType) return {};
  return {file->symbols.get(), found->type_id, 1, 1, false};
}

}  // namespace stallscope::types
