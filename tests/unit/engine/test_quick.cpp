// SPDX-License-Identifier: Apache-2.0
// The quick way against the one that goes access by access: same stream, same machine, same tables.
#include <doctest.h>

#include <random>
#include <span>

#include "machine_words.h"
#include "session/relay.h"
#include "session/simulation.h"
#include "sieve/sift.h"
#include "stream/parser.h"
#include "stream_words.h"

using namespace stallscope;
using namespace stallscope::session;
using stallscope::stream::words::Op;
using stallscope::stream::words::Stream;

namespace {

using machine::Holds;

machine::CacheConfig cache(const char* name, Holds holds, std::uint64_t sets, std::uint32_t ways,
                           std::uint32_t latency, const char* policy = "lru") {
  machine::CacheConfig config = machine::words::cache(name, sets, ways);
  config.holds = holds;
  config.latency = latency;
  config.policy = policy;
  return config;
}

machine::MachineConfig small_machine() {
  machine::MachineConfig config = machine::words::of(
      {cache("L1I", Holds::instructions, 4, 8, 4), cache("L1D", Holds::data, 8, 8, 4),
       cache("L2", Holds::both, 32, 16, 14), cache("L3", Holds::both, 64, 16, 50)});
  config.tlbs = {{"ITLB", Holds::instructions, 8, 4, 4096, 0},
                 {"DTLB", Holds::data, 8, 4, 4096, 0},
                 {"STLB", Holds::both, 64, 8, 4096, 7}};
  config.memory_latency = 200;
  config.page_walk_latency = 40;
  return config;
}

std::vector<machine::MachineConfig> machines() {
  std::vector<machine::MachineConfig> all(1, small_machine());
  all.push_back(small_machine());
  all.back().tlbs.clear();
  all.push_back(small_machine());  // ways and sets that no vector has
  all.back().caches[1] = cache("L1D", Holds::data, 4, 3, 4);
  all.back().caches[2] = cache("L2", Holds::both, 24, 5, 14);
  all.push_back(small_machine());  // another policy, and no cache for instructions
  all.back().caches = {cache("L1D", Holds::data, 8, 4, 4, "plru"),
                       cache("L2", Holds::data, 16, 12, 14, "srrip")};
  all.back().tlbs = {{"DTLB", Holds::data, 16, 2, 4096, 0}};
  all.push_back(small_machine());  // lines that grow
  all.back().caches[3].line = 128;
  all.push_back(small_machine());  // and are longer than anything that is accessed
  for (machine::CacheConfig& one : all.back().caches) {
    one.size *= 8;
    one.line = 512;
  }
  return all;
}

// A program that does everything that a simulation looks at, at random.
class Program {
 public:
  // `near`: most accesses are to the same few lines, of small blocks with little in between.
  explicit Program(std::uint64_t seed, bool near = false) : random_(seed), near_(near) {
    for (int i = 0; i < 40; ++i) define();
  }
  std::vector<std::uint64_t> run(int steps) {
    for (int i = 0; i < steps; ++i) {
      const std::uint64_t choice = random_() % (near_ ? 8000 : 400);
      if (choice < 8)
        allocate();
      else if (choice < 12 && !blocks_.empty())
        release();
      else if (choice == 12)
        stream_.record(SS_UNMAP, {0x40000000 + random_() % 64 * 4096, 8192});
      else if (choice == 13)
        mark();
      else if (choice == 14)
        define();
      else
        execute();
    }
    return stream_.words;
  }

 private:
  struct Block {
    std::uint32_t exit;
    std::vector<Op> operations;
  };

  void define() {
    static constexpr unsigned kSizes[] = {1, 2, 4, 8, 8, 8, 16, 32, 64, 100, 300};
    std::vector<Op> operations;
    const std::uint64_t count = random_() % (near_ ? 100 : 20) == 0 ? 200 : random_() % 7;
    for (std::uint64_t i = 0; i < count; ++i)
      if (random_() % 8 == 0)
        operations.push_back({SS_OP_KIND_PREFETCH, 1, false});
      else
        operations.push_back({static_cast<unsigned>(random_() % 3),
                              kSizes[random_() % std::size(kSizes)], random_() % 9 == 0});
    const auto instructions = static_cast<std::uint32_t>(
        1 + count + (random_() % (near_ ? 100 : 10) == 0 ? 400 : random_() % (near_ ? 30 : 90)));
    code_.push_back({stream_.block(operations, instructions), operations});
  }
  std::uint64_t address() {
    if (near_ && random_() % 16) return 0x40000100 + random_() % 250;
    switch (random_() % 4) {
      case 0:
        return 0x7ff000000 + random_() % 512;
      case 1:
        return 0x40000000 + random_() % (1 << 20);
      case 2:
        return next_ += 24;
      default:
        return 0x50000000 + random_() % 40 * 4096 + random_() % 64;
    }
  }
  void execute() {
    const Block& block = code_[random_() % code_.size()];
    std::vector<std::uint64_t> addresses;
    for (const Op& op : block.operations)
      addresses.push_back(op.guarded && random_() % 2 ? SS_NO_ADDRESS : address());
    if (random_() % 40 == 0) return loop(block, addresses);
    for (std::uint64_t times = random_() % 4; times-- > 0;) stream_.run(block.exit, addresses);
  }
  // Each operation at its own pace.
  void loop(const Block& block, std::vector<std::uint64_t> addresses) {
    static constexpr std::uint64_t kSteps[] = {0, 1, 8, 8, 8, 40, 4096, 5600};
    std::vector<std::uint64_t> steps;
    for (std::size_t i = 0; i < addresses.size(); ++i)
      steps.push_back(kSteps[random_() % std::size(kSteps)]);
    const std::vector<std::uint64_t> first = addresses;
    const std::uint64_t times = random_() % 8 ? random_() % 60 : random_() % 1500;
    for (std::uint64_t time = 0; time < times; ++time) {
      for (std::size_t i = 0; i < addresses.size(); ++i) {
        const bool absent = block.operations[i].guarded && random_() % 2;
        addresses[i] =
            absent || first[i] == SS_NO_ADDRESS ? SS_NO_ADDRESS : first[i] + time * steps[i];
      }
      stream_.run(block.exit, addresses);
    }
  }
  void allocate() {
    const std::uint64_t size = random_() % 5 == 0 ? 20'000 : 8 + random_() % 300;
    const std::uint64_t at = 0x40000000 + random_() % (1 << 20) / 16 * 16;
    stream_.record(SS_ALLOC, {at, size, random_() % 6, 0, 0, 0});
    blocks_.push_back(at);
  }
  void release() {
    stream_.record(SS_FREE, {blocks_.back(), 0});
    blocks_.pop_back();
  }
  void mark() {
    static constexpr std::string_view kNames[] = {"a", "b"};
    const unsigned kind = random_() % 2 ? SS_MARK_KIND_REGION_BEGIN : SS_MARK_KIND_REGION_END;
    stream_.record(SS_MARK, {kind, 0}, kNames[random_() % 2]);
  }

  std::mt19937_64 random_;
  bool near_;
  Stream stream_;
  std::vector<Block> code_;
  std::vector<std::uint64_t> blocks_;
  std::uint64_t next_ = 0x60000000;
};

struct OneByOne {
  Simulation& simulation;
  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    simulation.on_block(exit, info, addresses);
  }
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
    return simulation.on_record(tag, words, count);
  }
};
struct InARow : OneByOne {
  const stream::CodeTable& code;
  std::vector<std::uint64_t> taken{};
  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    taken.resize(code.exits.size());
    ++taken[exit];
    OneByOne::on_block(exit, info, addresses);
  }
  std::size_t on_blocks(std::span<const std::uint64_t> words) {
    taken.resize(code.exits.size());
    return simulation.on_blocks(words, taken.data());
  }
};

// The capture tool's part, for a program whose code is known.
class Sifting {
 public:
  Sifting(const std::vector<std::uint64_t>& words, const machine::MachineConfig& config,
          const machine::Gates& gates)
      : data_(gates.data), fetch_(gates.code) {
    Nobody nobody;
    REQUIRE(stream::parse(words, code_, nobody).ok());
    std::uint32_t line = 0;
    for (const machine::CacheConfig& cache : config.caches)
      if (line == 0 && machine::on_fetch_path(cache.holds)) line = cache.line;
    CodeLines lines(code_, line);
    for (const stream::Operation& operation : code_.operations) {
      sizes_.push_back(operation.is_prefetch() ? SS_PREFETCH : operation.size);
      spans_.push_back(ss_span(sizes_.back(), operation.guarded));
    }
    for (std::uint32_t i = 0; i < code_.exits.size(); ++i) {
      const auto own = lines.of(i);
      const stream::Exit& exit = code_.exits[i];
      exits_.push_back(ss_sieve_exit_of(&fetch_.get(), own.data(), own.size(),
                                        static_cast<std::uint32_t>(lines_.size()),
                                        exit.first_operation, exit.operations,
                                        spans_.data() + exit.first_operation, exit.instructions));
      lines_.insert(lines_.end(), own.begin(), own.end());
    }
    lines_.resize(lines_.size() + SS_MOST_FETCHES);
    spans_.resize(spans_.size() + 4);
    taken.resize(exits_.size());
    sifter_->data = data_.get();
    sifter_->code = fetch_.get();
    sifter_->sizes = sizes_.data();
    sifter_->sieve = {exits_.data(), exits_.size(), lines_.data(), spans_.data(), SS_NO_LINE, 0};
    sifter_->stale = 1;
  }
  // Buffer by buffer, some as they are.
  std::vector<std::uint64_t> sift(const std::vector<std::uint64_t>& words, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::uint64_t> all = words, out;
    all.resize(all.size() + SS_DATA_AT_ONCE);  // are read behind the end
    for (std::size_t at = 0; at < words.size();) {
      std::size_t end = at;
      const std::size_t wanted = 1 + random() % 20'000;
      while (end < words.size() && end - at < wanted) end += SS_HEAD_WORDS(words[end]);
      if (random() % 3 == 0) {
        out.insert(out.end(), words.begin() + at, words.begin() + end);
        sifter_->stale = 1;
      } else {
        const std::size_t before = out.size();
        out.resize(before + (end - at) + SS_KEEP_SLACK);
        out.resize(before + ss_sift_stretch(sifter_.get(), all.data() + at, end - at, taken.data(),
                                            out.data() + before));
      }
      at = end;
    }
    return out;
  }

  std::vector<std::uint64_t> taken{};  // by exit; of what was sifted

 private:
  struct Nobody {
    void on_block(std::uint32_t, const stream::Exit&, const std::uint64_t*) {}
    Status on_record(unsigned, const std::uint64_t*, std::uint32_t) { return Done{}; }
  };
  stream::CodeTable code_;
  machine::Gate data_, fetch_;
  std::vector<ss_sieve_exit> exits_;
  std::vector<std::uint64_t> lines_;
  std::vector<std::uint32_t> sizes_;
  std::vector<std::uint8_t> spans_;
  std::unique_ptr<ss_sifter> sifter_ = std::make_unique<ss_sifter>();
};

SimulationTables simulate(const std::vector<std::uint64_t>& words,
                          const machine::MachineConfig& config, bool watched, bool in_a_row,
                          const std::vector<std::uint64_t>& sifted = {}) {
  stream::CodeTable code;
  SimulationOptions options;
  options.evictions = watched;  // needs every access
  options.wanted = 500;
  auto made = Simulation::make(config, code, options);
  REQUIRE(made.ok());
  Simulation& simulation = **made;
  simulation.buckets().map("stack", "", 0x7ff000000 - 4096, 8192);
  simulation.buckets().map("mapping", "file", 0x50000000, 20 * 4096);
  simulation.buckets().name("global", "table", "int [9]", 0x50001010, 36);
  if (in_a_row) {
    InARow sink{{simulation}, code};
    REQUIRE(stream::parse(words, code, sink).ok());
    std::uint64_t instructions = 0;
    for (std::size_t i = 0; i < sink.taken.size(); ++i)
      instructions +=
          (sink.taken[i] + (i < sifted.size() ? sifted[i] : 0)) * code.exits[i].instructions;
    CHECK(instructions == simulation.instructions());
  } else {
    OneByOne sink{simulation};
    REQUIRE(stream::parse(words, code, sink).ok());
  }
  return simulation.tables();
}

void check_same(const SimulationTables& a, const SimulationTables& b) {
  CHECK(a.level.accesses == b.level.accesses);
  CHECK(a.level.misses == b.level.misses);
  CHECK(a.level.evictions == b.level.evictions);
  CHECK(a.bucket.site == b.bucket.site);
  CHECK(a.bucket.blocks == b.bucket.blocks);
  CHECK(a.miss.region == b.miss.region);
  CHECK(a.miss.bucket == b.miss.bucket);
  CHECK(a.miss.operation == b.miss.operation);
  CHECK(a.miss.misses == b.miss.misses);
  CHECK(a.miss.latency == b.miss.latency);
  CHECK(a.region_level.accesses == b.region_level.accesses);
  CHECK(a.region_level.misses == b.region_level.misses);
  CHECK(a.region.instructions == b.region.instructions);
  CHECK(a.sample.bucket == b.sample.bucket);
  CHECK(a.sample.victim == b.sample.victim);
  CHECK(a.sample.operation == b.sample.operation);
  CHECK(a.sample.address == b.sample.address);
  CHECK(a.sample.latency == b.sample.latency);
  CHECK(a.sample.served == b.sample.served);
  CHECK(a.sample_events == b.sample_events);
}

}  // namespace

TEST_CASE("a program in batches does what it does access by access") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const std::vector<std::uint64_t> words = Program(seed).run(3000);
    std::size_t number = 0;
    for (const machine::MachineConfig& config : machines()) {
      CAPTURE(seed);
      CAPTURE(number++);
      const SimulationTables expected = simulate(words, config, true, false);
      REQUIRE(expected.miss.rows() > 100);
      check_same(simulate(words, config, false, false), expected);
      check_same(simulate(words, config, false, true), expected);
    }
  }
}

TEST_CASE("a program that was sifted elsewhere, in part, does the same") {
  for (std::uint64_t seed = 21; seed <= 28; ++seed) {
    const std::vector<std::uint64_t> words = Program(seed, true).run(20000);
    std::size_t number = 0;
    for (const machine::MachineConfig& config : machines()) {
      CAPTURE(seed);
      CAPTURE(number++);
      const auto gates = Simulation::gates_of(config, {});
      REQUIRE(gates);
      Sifting sifting(words, config, *gates);
      const std::vector<std::uint64_t> sifted = sifting.sift(words, seed);
      std::size_t records = 0;
      for (std::size_t at = 0; at < sifted.size(); at += SS_HEAD_WORDS(sifted[at]))
        records += SS_HEAD_TAG(sifted[at]) == SS_SIFTED;
      CHECK(records > 5);
      CHECK(sifted.size() < words.size());
      check_same(simulate(sifted, config, false, true, sifting.taken),
                 simulate(words, config, true, false));
    }
  }
}

TEST_CASE("what was sifted is checked") {
  const machine::MachineConfig config = small_machine();
  Stream stream;
  const std::uint32_t exit = stream.block({{0, 8, false}}, 3);
  stream.run(exit, {0x1000});
  const std::size_t good = stream.words.size();
  const auto refused = [&](std::uint64_t kept, std::uint64_t fetches, const std::string& tail) {
    stream.words.resize(good);
    stream.record(SS_SIFTED, {1, 1, 0, 1, 64, 64, kept, fetches}, tail);
    stream::CodeTable code;
    auto made = Simulation::make(config, code, {});
    REQUIRE(made.ok());
    OneByOne sink{**made};
    return !stream::parse(stream.words, code, sink).ok();
  };
  const auto items = [](const std::vector<std::uint32_t>& numbers) {
    std::string tail;
    const std::uint64_t address = 0x40;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      tail += std::string(reinterpret_cast<const char*>(&address), 8);
    return tail + std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * 4);
  };
  constexpr std::uint32_t kBoth = 3u << SS_KEPT_SHIFT, kLines = 5u << SS_KEPT_SHIFT;
  CHECK_FALSE(refused(1, 0, items({kBoth})));
  CHECK_FALSE(refused(1, 0, items({kLines})));
  CHECK_FALSE(refused(0, 1, items({kBoth})));
  CHECK_FALSE(refused(2, 2, items({kBoth, kBoth, kBoth | 1, kBoth | 2})));
  CHECK(refused(1, 0, items({1 | kBoth})));                           // no such operation
  CHECK(refused(1, 1, items({kBoth, kBoth | 2})));                    // behind more than there is
  CHECK(refused(2, 2, items({kBoth, kBoth, kBoth | 2, kBoth | 1})));  // out of order
  CHECK(refused(0, 1, items({kLines})));                              // no fetch goes to several
  CHECK(refused(2, 0, items({kBoth})));
  CHECK(refused(0, 2, items({kBoth})));
  CHECK(refused(~0ULL / 12 + 2, 0, items({kBoth})));
  CHECK(refused(~0ULL, 2, items({kBoth})));
  CHECK(refused(0, 0, "x"));
  CHECK(refused(5000, 0, std::string(5000 * 12, 0)));  // more data than a batch holds
  CHECK(refused(0, 5000, std::string(5000 * 12, 0)));
}

TEST_CASE("a long program goes on in a second thread") {
  const std::vector<std::uint64_t> words = Program(77).run(150'000);
  check_same(simulate(words, small_machine(), false, true),
             simulate(words, small_machine(), true, false));
}

TEST_CASE("a relay hands on everything, in order, and waits when it is asked to") {
  std::uint64_t sum = 0, last = 0;
  bool in_order = true;
  Relay<std::uint64_t> relay([&](std::uint64_t& turn) {
    in_order &= turn == last + 1;
    last = turn;
    sum += turn;
  });
  for (std::uint64_t i = 1; i <= 5000; ++i) {
    relay.current() = i;
    relay.pass_on();
    if (i % 700 != 0) continue;
    relay.drain();
    CHECK(sum == i * (i + 1) / 2);
  }
  relay.drain();
  CHECK(in_order);
  CHECK(sum == 5000ULL * 5001 / 2);
}
