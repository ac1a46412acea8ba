// SPDX-License-Identifier: Apache-2.0
// Logs written by hand to the declared layout; what the library writes is read in
// tests/programs/test_heap_log.py.
#include <doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "heap_log_layout.h"
#include "sources/heap_log.h"

using namespace stallscope;
using sources::HeapLog;

namespace {

constexpr std::uint64_t kRegion = std::uint64_t{1} << HEAP_LOG_REGION_SHIFT;

class Written {
 public:
  Written() {
    file_ = mkstemp(path_);
    REQUIRE(ftruncate(file_, static_cast<off_t>(HEAP_LOG_FULL_BYTES)) == 0);
    header_.magic = HEAP_LOG_MAGIC;
    header_.version = HEAP_LOG_VERSION;
    header_.is_ready = 1;
    header_.file_bytes = HEAP_LOG_FULL_BYTES;
    header_.pid = 7;
    header_.sites = 10;
    put_header();
  }
  ~Written() {
    close(file_);
    unlink(path_);
  }

  void put(std::uint64_t at, const void* data, std::size_t bytes) {
    REQUIRE(pwrite(file_, data, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes));
  }
  void put_header() { put(0, &header_, sizeof header_); }
  void region(std::uint32_t number) {
    put(HEAP_LOG_REGIONS_AT + 4 * header_.regions++, &number, 4);
    put_header();
  }
  // `table` is the region's place in the list.
  void mark(std::uint32_t table, std::uint64_t granule, std::uint16_t first,
            std::uint16_t second = 0) {
    const std::uint16_t marks[] = {first, second};
    put(HEAP_LOG_TABLES_AT + table * std::uint64_t{HEAP_LOG_TABLE_BYTES} + 2 * granule, marks,
        second ? 4 : 2);
  }
  void let_pass(std::uint64_t address, std::uint8_t chunk = HEAP_LOG_STALE) {
    header_.sampled_since = 1;
    put_header();
    put(HEAP_LOG_CHUNKS_AT + (address >> HEAP_LOG_CHUNK_SHIFT) % HEAP_LOG_CHUNKS, &chunk, 1);
  }
  void live(const heap_log_live& block) {
    put(HEAP_LOG_LIVE_AT + sizeof block * header_.live++, &block, sizeof block);
    ++header_.live_version;
    put_header();
  }
  void record(std::uint32_t slot, const heap_log_record& record) {
    const std::uint64_t at = HEAP_LOG_SLOTS_AT + slot * sizeof(heap_log_slot);
    const std::uint32_t yes = 1;
    put(at + offsetof(heap_log_slot, ring) + (written_[slot]++ % HEAP_LOG_RING) * sizeof record,
        &record, sizeof record);
    put(at + offsetof(heap_log_slot, has_ring), &yes, sizeof yes);
    put(at + offsetof(heap_log_slot, written), &written_[slot], 8);
    header_.slots = std::max(header_.slots, slot + 1);
    put_header();
  }
  HeapLog open() {
    Result<HeapLog> log = HeapLog::open(path_);
    REQUIRE(log.ok());
    return std::move(*log);
  }
  std::string refusal() {
    Result<HeapLog> log = HeapLog::open(path_);
    REQUIRE(!log.ok());
    return log.error().why;
  }

  heap_log_header header_{};
  char path_[32] = "/tmp/heap_log_XXXXXX";
  int file_;
  std::uint64_t written_[8] = {};
};

constexpr std::uint16_t size_mark(std::uint16_t size) { return HEAP_LOG_IS_SIZE | size; }

}  // namespace

TEST_CASE("a small block is found from its first byte to its last") {
  Written log;
  log.region(5);
  log.mark(0, 100, 3, size_mark(40));
  HeapLog read = log.open();
  const std::uint64_t start = 5 * kRegion + 1600;
  for (std::uint64_t offset : {0, 15, 16, 39}) {
    auto block = read.find(Address{start + offset});
    REQUIRE(block.has_value());
    CHECK(block->site == 3);
    CHECK(block->start.value == start);
    CHECK(block->size == 40);
    CHECK(!block->is_large);
  }
  CHECK(!read.find(Address{start + 40}));
  CHECK(!read.find(Address{start - 1}));
  CHECK(!read.find_freed(Address{start}));
  log.mark(0, 100, 3 | HEAP_LOG_FREED, size_mark(40));
  CHECK(!read.find(Address{start}));
}

TEST_CASE("what a freed block held is its, until another lies there") {
  Written log;
  log.region(5);
  log.mark(0, 100, 3 | HEAP_LOG_FREED, size_mark(40));
  log.mark(0, 110, HEAP_LOG_FREED);  // of no site
  HeapLog read = log.open();
  const std::uint64_t start = 5 * kRegion + 1600;
  REQUIRE(read.find_freed(Address{start + 39}));
  CHECK(read.find_freed(Address{start + 39})->site == 3);
  CHECK(!read.find_freed(Address{start + 40}));
  CHECK(!read.find_freed(Address{start + 160}));
  log.mark(0, 98, 4, size_mark(100));  // over it
  CHECK(read.find(Address{start + 39})->site == 4);
  CHECK(!read.find(Address{start + 80}));
}

TEST_CASE("a block with one granule ends with it") {
  Written log;
  log.region(5);
  log.mark(0, 7, 4);
  log.mark(0, 8, 6);
  HeapLog read = log.open();
  CHECK(read.find(Address{5 * kRegion + 7 * 16 + 15})->site == 4);
  CHECK(read.find(Address{5 * kRegion + 8 * 16})->site == 6);
  CHECK(!read.find(Address{5 * kRegion + 9 * 16}));
}

TEST_CASE("blocks reach over the ends of regions, in whatever order these came") {
  Written log;
  log.region(9);
  log.region(8);
  const std::uint64_t last = HEAP_LOG_REGION_MARKS - 1;
  log.mark(1, last - 3, 2, size_mark(32000));
  HeapLog read = log.open();
  CHECK(read.find(Address{9 * kRegion + 31000})->start.value == 9 * kRegion - 64);
  log.mark(1, last, 5, size_mark(300));
  CHECK(read.find(Address{9 * kRegion + 200})->size == 300);
  CHECK(!read.find(Address{9 * kRegion + 400}));
  log.region(10);  // while it is read
  log.mark(2, 0, 6, size_mark(8));
  CHECK(read.find(Address{10 * kRegion + 7})->site == 6);
}

TEST_CASE("a large block is found by the list of those that live") {
  Written log;
  HeapLog read = log.open();
  CHECK(!read.find(Address{1000000}));
  log.live({1000000, 50000, 1, 4, 7});
  CHECK(read.find(Address{1049999})->site == 4);
  CHECK(read.find(Address{1049999})->is_large);
  CHECK(!read.find(Address{1050000}));
}

TEST_CASE("births and deaths come once each, in time order, whatever thread told them") {
  Written log;
  log.record(0, {10, 1000, 40000, 3, 7, HEAP_LOG_BORN, 0});
  log.record(1, {5, 2000, 50000, 4, 8, HEAP_LOG_BORN, 0});
  log.record(0, {20, 1000, 40000, 3, 7, HEAP_LOG_DIED, 0});
  log.record(1, {6, 2000, 50000, 4, 8, 77, 0});  // of no kind that exists
  HeapLog read = log.open();
  const auto events = read.poll();
  REQUIRE(events.size() == 3);
  CHECK(events[0].time == 5);
  CHECK(events[1].is_birth);
  CHECK(!events[2].is_birth);
  CHECK(events[2].thread == 7);
  CHECK(read.poll().empty());
  for (std::uint32_t i = 0; i < HEAP_LOG_RING + 5; ++i)
    log.record(1, {30 + i, 1, 1, 1, 8, HEAP_LOG_BORN, 0});
  CHECK(read.poll().size() == HEAP_LOG_RING);
}

TEST_CASE("a mark is believed where nothing was freed unseen, and nowhere else") {
  Written log;
  log.region(5);
  const std::uint64_t kept = 5 * kRegion, gone = 5 * kRegion + 2048;
  log.mark(0, 0, 3, size_mark(40));
  log.mark(0, 128, 4, size_mark(40));
  HeapLog read = log.open();
  CHECK(!read.is_sampled());
  CHECK(read.find(Address{gone}));
  CHECK(!read.guess(Address{gone}));
  log.let_pass(gone);
  CHECK(read.is_sampled());
  CHECK(read.find(Address{kept})->site == 3);
  CHECK(!read.find(Address{gone}));
  REQUIRE(read.guess(Address{gone}));
  CHECK(read.guess(Address{gone})->site == 4);
  log.let_pass(gone, HEAP_LOG_HAS_LARGE);
  CHECK(!read.find(Address{gone}));
}

TEST_CASE("what has no mark is named by what lies beside it, the surer the more agree") {
  Written log;
  log.region(5);
  const std::uint64_t start = 5 * kRegion + 8192;
  const auto at = [&](std::uint64_t granule) { return Address{start + 16 * granule}; };
  log.let_pass(start);
  HeapLog read = log.open();
  CHECK(!read.guess(at(0)));
  log.mark(0, 512 + 10, 6, size_mark(64));
  const double alone = read.guess(at(0))->confidence;
  CHECK(read.guess(at(0))->site == 6);
  CHECK(alone == 0.5);
  log.mark(0, 512 - 10, 6 | HEAP_LOG_FREED, size_mark(64));
  CHECK(read.guess(at(0))->confidence > alone);
  log.mark(0, 512 - 20, 7, size_mark(64));
  CHECK(read.guess(at(0))->site == 6);
  CHECK(read.guess(at(0))->confidence == 0.5);
  CHECK(!read.guess(at(300)));  // too far from all of them
  CHECK(!read.guess(Address{~std::uint64_t{0}}));
}

TEST_CASE("a mark that covers an address is heard with those of its size alone") {
  Written log;
  log.region(5);
  const std::uint64_t start = 5 * kRegion + 8192;
  log.let_pass(start);
  log.mark(0, 512, 3, size_mark(100));
  for (std::uint64_t i = 1; i < 6; ++i) log.mark(0, 512 + 10 * i, 9, size_mark(30));
  HeapLog read = log.open();
  CHECK(read.guess(Address{start + 90})->site == 3);
  CHECK(read.guess(Address{start + 90})->confidence == doctest::Approx(2.0 / 3));
  log.mark(0, 512 - 10, 3, size_mark(97));
  log.mark(0, 512 - 20, 8, size_mark(112));
  CHECK(read.guess(Address{start + 90})->confidence == doctest::Approx(3.0 / 5));
  // Over the end of a region, too.
  log.region(6);
  log.mark(0, HEAP_LOG_REGION_MARKS - 2, 4, size_mark(300));
  CHECK(read.guess(Address{6 * kRegion + 200})->site == 4);
}

TEST_CASE("sites have their frames, and the counts of every thread") {
  Written log;
  heap_log_site site{2, 0, 100, 1000, {0x11, 0x22}};
  log.put(HEAP_LOG_SITES_AT + 3 * sizeof site, &site, sizeof site);
  heap_log_hot hot{};
  hot.mark = 3 | HEAP_LOG_IS_SIZE << 16;
  hot.blocks = 5;
  hot.bytes = 50;
  for (std::uint32_t slot : {0, 1})
    log.put(HEAP_LOG_SLOTS_AT + slot * sizeof(heap_log_slot), &hot, sizeof hot);
  log.header_.slots = 2;
  log.put_header();
  HeapLog read = log.open();
  const auto sites = read.sites();
  REQUIRE(sites.ok());
  REQUIRE(sites->size() == 1);
  CHECK((*sites)[0].number == 3);
  CHECK((*sites)[0].frames == std::vector<Address>{Address{0x11}, Address{0x22}});
  CHECK((*sites)[0].blocks == 110);
  CHECK((*sites)[0].bytes == 1100);
}

TEST_CASE("what is no log, or another's, is refused with the reason") {
  Written log;
  log.header_.version = 9;
  log.put_header();
  CHECK(log.refusal() ==
        "its format is 9, and this program reads " + std::to_string(HEAP_LOG_VERSION));
  log.header_.version = HEAP_LOG_VERSION;
  log.header_.is_ready = 0;
  log.put_header();
  CHECK(log.refusal() == "it is still being made");
  log.header_.magic = 1;
  log.put_header();
  CHECK(log.refusal() == "it does not begin as a log does");
  REQUIRE(ftruncate(log.file_, 20) == 0);
  CHECK(log.refusal() == "it does not begin as a log does");
  CHECK(!HeapLog::open("/tmp").ok());
}

TEST_CASE("a path of too many frames is refused, counts that cannot be are not believed") {
  Written log;
  heap_log_site site{HEAP_LOG_FRAMES + 1, 0, 1, 1, {}};
  log.put(HEAP_LOG_SITES_AT + 3 * sizeof site, &site, sizeof site);
  HeapLog read = log.open();
  CHECK(!read.sites().ok());
  log.header_.sites = log.header_.slots = log.header_.live = log.header_.regions = 0xffffffff;
  log.put_header();
  HeapLog again = log.open();
  CHECK(again.sites()->empty());
  CHECK(again.poll().empty());
  CHECK(!again.find(Address{12345}));
}

TEST_CASE("no damage harms the reader") {
  Written log;
  log.region(5);
  log.mark(0, 100, 3, size_mark(40));
  log.live({1000000, 50000, 1, 4, 7});
  log.record(0, {10, 1000, 40000, 3, 7, HEAP_LOG_BORN, 0});
  const std::uint64_t places[] = {0,
                                  HEAP_LOG_REGIONS_AT,
                                  HEAP_LOG_SITES_AT,
                                  HEAP_LOG_LIVE_AT,
                                  HEAP_LOG_CHUNKS_AT,
                                  HEAP_LOG_SLOTS_AT + offsetof(heap_log_slot, thread),
                                  HEAP_LOG_SLOTS_AT + offsetof(heap_log_slot, ring),
                                  HEAP_LOG_TABLES_AT + 192};
  std::mt19937_64 random(3);
  unsigned opened = 0;
  for (int i = 0; i < 400; ++i) {
    const std::uint64_t word = random() >> (random() % 64);
    log.put(places[random() % std::size(places)] + random() % 128, &word, 1 + random() % 8);
    if (random() % 8 == 0) log.put_header();
    Result<HeapLog> read = HeapLog::open(log.path_);
    if (!read) continue;
    ++opened;
    (void)read->poll();
    (void)read->sites();
    (void)read->find(Address{5 * kRegion + 1600 + random() % 64});
    (void)read->find(Address{random() >> (random() % 64)});
    (void)read->guess(Address{5 * kRegion + 1600 + random() % 64});
    (void)read->guess(Address{random() >> (random() % 64)});
    (void)read->lost();
    (void)read->image();
  }
  CHECK(opened > 50);
}
