// SPDX-License-Identifier: Apache-2.0
#include "code/avx512.h"

#include <elf.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "code/references.h"

namespace stallscope::code {
namespace {

// How control can come to a function.
enum class Standing : std::uint8_t {
  kDead,     // nothing refers to it
  kVariant,  // only through what a resolver returns
  kGuarded,  // only through functions that look at the processor's features
  kOpen,     // from the program's start, with neither in between
};

struct Candidate {
  std::size_t function = 0;
  std::uint64_t address = 0;  // of the first such instruction
  std::uint64_t count = 0;
  bool certain = true;  // inside a known function that decodes from end to end
  Standing standing = Standing::kOpen;
  const char* reason = "";
};

// A check of two or three bytes that every wanted instruction passes, and few others: most
// functions need no decoding at all.
bool could_start_here(const std::uint8_t* p, std::size_t left) {
  if (left < 4) return false;
  if (p[0] == 0x62) return (p[1] & 0x08) == 0 && (p[2] & 0x04) != 0;  // EVEX: fixed bits
  auto mask_opcode = [](std::uint8_t op) {
    return (op >= 0x41 && op <= 0x4b) || (op >= 0x90 && op <= 0x93) || op == 0x98 || op == 0x99;
  };
  if (p[0] == 0xc5) return mask_opcode(p[2]);
  if (p[0] != 0xc4) return false;
  std::uint8_t map = p[1] & 0x1f, op = p[3];
  if (map == 1) return mask_opcode(op);
  if (map == 2) return op == 0x49 || op == 0x4b || op == 0x5c || op == 0x5e || op == 0x6c;
  return map == 3 && op >= 0x30 && op <= 0x33;  // mask shifts
}

bool could_contain(Bytes bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::uint8_t b = bytes[i];
    if ((b == 0x62 || b == 0xc4 || b == 0xc5) && could_start_here(&bytes[i], bytes.size() - i))
      return true;
  }
  return false;
}

bool names_extension(std::string_view name) {
  constexpr std::string_view kWords[] = {
      "avx512", "evex",     "avx10",      "_amx",           "amx_",    "zmm",  "_skx",
      "_knl",   "skylakex", "cooperlake", "sapphirerapids", "icelake", "vnni", "ifma"};
  std::string lower(name.substr(0, 4096));
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

// Address ranges that hold what the program has learnt of the processor.
class FeatureData {
 public:
  FeatureData(const ElfImage& image, const References& references) {
    std::vector<std::uint8_t> learns = references.asks_cpu;
    for (const Edge& e : references.edges)
      if (references.asks_cpu[e.to]) learns[e.from] = 1;
    std::vector<Symbol> objects;
    for (const Symbol& s : image.symbols())
      if (s.type == STT_OBJECT && s.defined && s.size > 0) objects.push_back(s);
    std::sort(objects.begin(), objects.end(),
              [](const Symbol& a, const Symbol& b) { return a.address < b.address; });
    for (const DataUse& use : references.data)
      if (use.stores && learns[use.function]) add(use.address, objects);
    merge();
  }

  bool contains(std::uint64_t address) const {
    auto after =
        std::upper_bound(ranges_.begin(), ranges_.end(), address,
                         [](std::uint64_t a, const auto& range) { return a < range.first; });
    return after != ranges_.begin() && address < std::prev(after)->second;
  }

 private:
  // Without a symbol the size is unknown; feature words come in small groups.
  static constexpr std::uint64_t kGuess = 32;

  void add(std::uint64_t address, const std::vector<Symbol>& objects) {
    auto after = std::upper_bound(objects.begin(), objects.end(), address,
                                  [](std::uint64_t a, const Symbol& s) { return a < s.address; });
    if (after != objects.begin()) {
      const Symbol& s = *std::prev(after);
      if (address - s.address < s.size) {
        ranges_.push_back({s.address, s.address + s.size});
        return;
      }
    }
    ranges_.push_back({address, address + kGuess});
  }

  void merge() {
    std::sort(ranges_.begin(), ranges_.end());
    std::size_t kept = 0;
    for (const auto& range : ranges_) {
      if (kept > 0 && range.first <= ranges_[kept - 1].second)
        ranges_[kept - 1].second = std::max(ranges_[kept - 1].second, range.second);
      else
        ranges_[kept++] = range;
    }
    ranges_.resize(kept);
  }

  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges_;
};

// Spreads the known standings along references: kOpen first, then kGuarded, then kVariant, each
// only over functions that are still kDead.
class Standings {
 public:
  Standings(const References& references, std::vector<Standing> seeds)
      : edges_(references.edges), out_(std::move(seeds)) {}

  std::vector<Standing> find() {
    const std::vector<Standing> seeds = out_;
    for (Standing s : {Standing::kOpen, Standing::kGuarded, Standing::kVariant}) {
      for (std::size_t i = 0; i < seeds.size(); ++i)
        if (seeds[i] == s) pending_.push_back(i);
      while (!pending_.empty()) step(s);
    }
    return std::move(out_);
  }

 private:
  void step(Standing standing) {
    std::size_t from = pending_.back();
    pending_.pop_back();
    auto edge = std::lower_bound(edges_.begin(), edges_.end(), from,
                                 [](const Edge& e, std::size_t f) { return e.from < f; });
    for (; edge != edges_.end() && edge->from == from; ++edge) {
      if (out_[edge->to] != Standing::kDead) continue;
      out_[edge->to] = standing;
      pending_.push_back(edge->to);
    }
  }

  const std::vector<Edge>& edges_;
  std::vector<Standing> out_;
  std::vector<std::size_t> pending_;
};

class Scan {
 public:
  Scan(const ElfImage& image, std::uint64_t most_instructions)
      : image_(image), functions_(image), pointers_(image), left_(most_instructions) {}

  Avx512Report run() {
    std::uint64_t limit = left_;
    find_candidates();
    if (!candidates_.empty()) {
      mark_variants();
      if (any_open()) judge();
    }
    report_.decoded = limit - left_;
    summarise();
    return std::move(report_);
  }

 private:
  void find_candidates() {
    for (std::size_t i = 0; i < functions_.size(); ++i) {
      Bytes bytes = functions_.bytes(i);
      if (could_contain(bytes) && !examine(i, bytes)) return;
    }
  }

  // False when the limit is reached.
  bool examine(std::size_t index, Bytes bytes) {
    Candidate found{.function = index, .certain = !functions_[index].gap};
    for (std::size_t at = 0; at < bytes.size();) {
      if (left_ == 0) {
        complete_ = false;
        return false;
      }
      --left_;
      Shape shape = decode_shape(bytes.subspan(at));
      if (shape.length == 0) found.certain = false;
      if (shape.extension != Extension::kBase && found.count++ == 0)
        found.address = functions_[index].start + at;
      at += std::max<std::size_t>(shape.length, 1);
    }
    if (found.count > 0) candidates_.push_back(found);
    return true;
  }

  void mark_variants() {
    std::vector<std::size_t> targets = resolver_targets(image_, functions_, pointers_);
    for (Candidate& c : candidates_)
      if (std::binary_search(targets.begin(), targets.end(), c.function))
        c.standing = Standing::kVariant;
    variants_ = std::move(targets);
  }

  bool any_open() const {
    return std::any_of(candidates_.begin(), candidates_.end(),
                       [](const Candidate& c) { return c.standing == Standing::kOpen; });
  }

  void judge() {
    References references = find_references(image_, functions_, pointers_, left_);
    complete_ &= references.complete;
    left_ -= references.decoded;
    const auto& asking = references.asks_cpu;
    bool asks = asks_elsewhere() || std::find(asking.begin(), asking.end(), 1) != asking.end();
    std::vector<Standing> by_checks = seeds(references), by_names = by_checks;
    for (std::size_t i = 0; asks && i < functions_.size(); ++i)
      if (by_names[i] != Standing::kVariant && names_extension(functions_[i].name))
        by_names[i] = Standing::kGuarded;
    by_checks = Standings(references, std::move(by_checks)).find();
    by_names = Standings(references, std::move(by_names)).find();
    std::vector<std::uint8_t> outside_tables = references.started;
    for (const Edge& e : references.edges) outside_tables[e.to] = 1;
    for (Candidate& c : candidates_)
      if (c.standing == Standing::kOpen)
        settle(c, by_checks[c.function], by_names[c.function], asks && !outside_tables[c.function]);
  }

  // The C library or libgcc answers for the processor.
  bool asks_elsewhere() const {
    for (const Symbol& s : image_.symbols())
      if (!s.defined && (s.name == "__x86_get_cpuid_feature_leaf" || s.name == "__cpu_model" ||
                         s.name == "__cpu_features2"))
        return true;
    return false;
  }

  // Functions whose standing is known from themselves; the others are kDead here.
  std::vector<Standing> seeds(const References& references) const {
    std::vector<Standing> out(functions_.size(), Standing::kDead);
    FeatureData features(image_, references);
    std::vector<std::uint8_t> reads = references.asks_cpu;
    for (const DataUse& use : references.data)
      if (features.contains(use.address)) reads[use.function] = 1;
    for (const Edge& e : references.edges)
      if (reads[e.to] && is_predicate(e.to)) out[e.from] = Standing::kGuarded;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (reads[i]) out[i] = Standing::kGuarded;
      bool root = references.started[i] || references.in_table[i] || functions_[i].gap;
      if (root && out[i] == Standing::kDead) out[i] = Standing::kOpen;
    }
    for (std::size_t i : variants_) out[i] = Standing::kVariant;
    return out;
  }

  // Small enough to do nothing but answer, as in `if (has_avx512()) ...`.
  bool is_predicate(std::size_t i) const { return functions_[i].end - functions_[i].start <= 96; }

  void settle(Candidate& c, Standing checks, Standing names, bool table_only) const {
    auto guarded = [&](const char* reason) {
      c.standing = Standing::kGuarded;
      c.reason = reason;
    };
    // Two signs that agree, as in the C library's own variants, need no warning.
    bool both = checks == Standing::kGuarded && names_extension(functions_[c.function].name);
    if (checks == Standing::kVariant || both)
      c.standing = Standing::kVariant;
    else if (!c.certain)
      guarded("they may be data between functions");
    else if (checks == Standing::kGuarded)
      guarded("the code around them checks the processor first");
    else if (checks == Standing::kDead)
      guarded("nothing refers to the function");
    else if (names == Standing::kGuarded)
      guarded("function names say that they are one variant of several");
    else if (table_only)
      guarded("the function is called through a table, which a check may fill");
  }

  void summarise() {
    const Candidate* first = nullptr;
    auto rank = [](const Candidate& c) { return c.standing == Standing::kOpen ? 2 : 1; };
    for (const Candidate& c : candidates_) {
      if (c.standing == Standing::kVariant) report_.variants += c.count;
      if (c.standing == Standing::kGuarded) report_.guarded += c.count;
      if (c.standing == Standing::kOpen) report_.needed += c.count;
      if (c.standing != Standing::kVariant && (!first || rank(c) > rank(*first))) first = &c;
    }
    if (first) {
      report_.verdict = rank(*first) == 2 ? Avx512Verdict::kNeeded : Avx512Verdict::kGuarded;
      report_.address = first->address;
      report_.function = functions_[first->function].name;
      report_.reason = first->reason;
      std::size_t skip = first->address - functions_[first->function].start;
      report_.instruction =
          disassemble(functions_.bytes(first->function).subspan(skip), Address(first->address));
    }
    if (complete_) return;
    report_.reason = "the program is too large to look at all of its code";
    report_.verdict = Avx512Verdict::kUnknown;
  }

  const ElfImage& image_;
  Functions functions_;
  Pointers pointers_;
  std::uint64_t left_;
  bool complete_ = true;
  std::vector<Candidate> candidates_;
  std::vector<std::size_t> variants_;
  Avx512Report report_;
};

}  // namespace

Avx512Report scan_avx512(const ElfImage& image, std::uint64_t most_instructions) {
  return Scan(image, most_instructions).run();
}

Result<Avx512Report> scan_avx512(const std::string& path) {
  auto image = ElfImage::open(path);
  if (!image) return image.error();
  return scan_avx512(*image);
}

}  // namespace stallscope::code
