// SPDX-License-Identifier: Apache-2.0
// The parts of the symbols room that need no compiled program, and this test program itself.
#include <dlfcn.h>
#include <doctest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "symbols/byte_reader.h"
#include "symbols/demangle.h"
#include "symbols/interval_map.h"
#include "symbols/line_table.h"
#include "symbols/string_table.h"
#include "symbols/symbol_cache.h"

namespace stallscope::symbols {

// Found again by its own address, so it must not be inlined.
[[gnu::noinline]] int a_function_with_a_known_name(int value) { return value * 3 + 1; }
int a_variable_with_a_known_name[7] = {1};

namespace {

std::uint32_t naive_find(const std::vector<Interval>& intervals, std::uint64_t address) {
  const Interval* best = nullptr;
  for (const Interval& i : intervals) {
    if (address < i.low || address >= i.high) continue;
    if (best == nullptr || i.priority > best->priority ||
        (i.priority == best->priority && i.value > best->value)) {
      best = &i;
    }
  }
  return best ? best->value : kNothing;
}

// A line table written by hand: opcode base 13, line base -5, line range 14.
class LineProgram {
 public:
  LineProgram& bytes(std::initializer_list<int> values) {
    for (int value : values) text_.push_back(static_cast<std::uint8_t>(value));
    return *this;
  }
  LineProgram& number(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) text_.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
    return *this;
  }
  LineProgram& text(std::string_view value) {
    text_.insert(text_.end(), value.begin(), value.end());
    text_.push_back(0);
    return *this;
  }
  LineProgram& set_address(std::uint64_t address) { return bytes({0, 9, 2}).number(address, 8); }
  LineProgram& end_sequence() { return bytes({0, 1, 1}); }
  const std::vector<std::uint8_t>& done() const { return text_; }

 private:
  std::vector<std::uint8_t> text_;
};

std::vector<std::uint8_t> version4_table(const std::vector<std::uint8_t>& program) {
  LineProgram names;
  names.bytes({1, 1, 1, -5, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1});
  names.text("include").bytes({0});
  names.text("a.c").bytes({0, 0, 0}).text("b.h").bytes({1, 0, 0}).bytes({0});
  LineProgram table;
  table.number(2 + 4 + names.done().size() + program.size(), 4).number(4, 2);
  table.number(names.done().size(), 4);
  std::vector<std::uint8_t> all = table.done();
  all.insert(all.end(), names.done().begin(), names.done().end());
  all.insert(all.end(), program.begin(), program.end());
  return all;
}

LineTable read_table(const std::vector<std::uint8_t>& bytes, std::uint32_t& rows_left) {
  static Budget budget(1'000'000'000);
  LineTable table;
  REQUIRE(table.read_header({bytes, {}, {}}, 0, "/src", budget));
  table.read_rows([](std::uint64_t address) { return address >= 0x1000; }, rows_left, budget);
  return table;
}

std::vector<std::uint8_t> own_bytes() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("names are stored as valid UTF-8 of bounded length") {
  CHECK(clean_text("plain") == "plain");
  CHECK(clean_text("gr\xC3\xBC\xC3\x9F") == "gr\xC3\xBC\xC3\x9F");
  CHECK(clean_text("a\xFFz") == "a\xEF\xBF\xBDz");
  CHECK(clean_text("\xC0\xAF") == "\xEF\xBF\xBD\xEF\xBF\xBD");                  // overlong
  CHECK(clean_text("\xED\xA0\x80") == "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // surrogate
  CHECK(clean_text("\xF4\x90\x80\x80").substr(0, 3) == "\xEF\xBF\xBD");         // beyond the end
  CHECK(clean_text("cut \xE2\x82") == "cut \xEF\xBF\xBD\xEF\xBF\xBD");
  std::string lengthy = clean_text(std::string(100'000, 'x'));
  CHECK(lengthy.size() <= kMaxNameBytes);
  CHECK(lengthy.ends_with("x\xE2\x80\xA6"));
}

TEST_CASE("equal names have one id, and unknown ids are empty") {
  StringTable strings;
  StringId first = strings.id("first");
  CHECK(strings.id("") == kNoString);
  CHECK(strings.id("second") != first);
  CHECK(strings.id("first") == first);
  CHECK(strings.id("bad\xFF") == strings.id("bad\xEF\xBF\xBD"));
  CHECK(strings.text(first) == "first");
  CHECK(strings.text(12345).empty());
}

TEST_CASE("C++ and Rust names are demangled, others are not") {
  CHECK(demangle("_ZN2ns5tableE") == "ns::table");
  CHECK(demangle("_ZNSt6vectorIiSaIiEE9push_backEOi") ==
        "std::vector<int, std::allocator<int> >::push_back(int&&)");
  CHECK(demangle("_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE") ==
        "core::fmt::Formatter::write_str");
  CHECK(demangle("_RNvNtCs1234_7mycrate3foo3bar") == "mycrate::foo::bar");
  CHECK(demangle("main").empty());
  CHECK(demangle("_Z").empty());
  CHECK(demangle("").empty());
}

TEST_CASE("a name that expands without end is given up") {
  // Each parameter refers twice to the one before, so that the text doubles with each.
  constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  auto doubling = [&](int times) {
    std::string mangled = "_Z1f1AIiE";
    for (int i = 0; i < times; ++i) {
      std::string previous = "S";
      if (2 * i >= 36) previous += kDigits[2 * i / 36];
      previous += kDigits[2 * i % 36];
      mangled += "1BI" + previous + "_" + previous + "_E";
    }
    return mangled;
  };
  CHECK(demangle(doubling(5).c_str()).size() > 500);
  CHECK(demangle(doubling(60).c_str()).empty());
  CHECK(demangle(("_Z1f" + std::string(5'000, 'P') + "i").c_str()).empty());
}

TEST_CASE("an interval map agrees with a search through all ranges") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Interval> intervals;
    for (std::uint32_t i = 0; i < random() % 20; ++i) {
      std::uint64_t low = random() % 60;
      intervals.push_back({low, low + random() % 30, static_cast<std::uint32_t>(random() % 3), i});
    }
    IntervalMap map = IntervalMap::build(intervals);
    for (std::uint64_t address = 0; address < 100; ++address) {
      CHECK(map.find(address) == naive_find(intervals, address));
    }
  }
}

TEST_CASE("reading past the end gives zeros and is remembered") {
  const std::vector<std::uint8_t> bytes = {0x80, 0x80};
  ByteReader reader(bytes);
  CHECK(reader.uleb() == 0);
  CHECK(reader.failed());
  CHECK(reader.u32() == 0);
  CHECK(ByteReader(bytes).text() == std::string_view());
  const std::vector<std::uint8_t> negative = {0x7F};
  CHECK(ByteReader(negative).sleb() == -1);
}

TEST_CASE("a line table gives the row in force, and nothing outside of its code") {
  LineProgram program;
  program.set_address(0x2000).bytes({3, 9, 1});             // line 10
  program.bytes({2, 4, 4, 2, 3, 5, 1});                     // 0x2004: file 2, line 15
  program.bytes({1 + 13 + 14 * 2 + 5});                     // special: +2 instructions, +1 line
  program.bytes({2, 2}).end_sequence();                     // ends at 0x2008
  program.set_address(0).bytes({1, 2, 16}).end_sequence();  // thrown away by the linker
  std::uint32_t rows_left = 100;
  const auto bytes = version4_table(program.done());  // which the table keeps looking at
  LineTable table = read_table(bytes, rows_left);
  CHECK(table.find(0x1FFF) == nullptr);
  CHECK(table.find(0x2000)->line == 10);
  CHECK(table.find(0x2003)->line == 10);
  CHECK(table.find(0x2004)->line == 15);
  CHECK(table.find(0x2006)->line == 16);
  CHECK(table.find(0x2007)->line == 16);
  CHECK(table.find(0x2008) == nullptr);
  CHECK(table.find(0x4) == nullptr);
  CHECK(table.file_path(table.find(0x2000)->file) == "/src/a.c");
  CHECK(table.file_path(table.find(0x2004)->file) == "/src/include/b.h");
  CHECK(table.file_path(99).empty());
}

TEST_CASE("a line table stops at the limit of rows and keeps whole sequences") {
  LineProgram program;
  for (int i = 0; i < 10; ++i) {
    program.set_address(0x2000 + 0x100u * static_cast<unsigned>(i));
    program.bytes({3, 1, 1, 2, 4}).end_sequence();
  }
  std::uint32_t rows_left = 9;
  LineTable table = read_table(version4_table(program.done()), rows_left);
  CHECK(rows_left == 0);
  CHECK(table.find(0x2300) != nullptr);
  CHECK(table.find(0x2900) == nullptr);
}

TEST_CASE("this program finds its own function and variable") {
  auto symbols = Symbols::open("/proc/self/exe", {}, nullptr);
  REQUIRE(symbols);
  std::uint64_t variable = 0;
  std::uint64_t size = 0;
  for (const Variable& v : (*symbols)->variables()) {
    if ((*symbols)->text(v.name) != "stallscope::symbols::a_variable_with_a_known_name") continue;
    variable = v.address;
    size = v.size;
  }
  CHECK(size == sizeof a_variable_with_a_known_name);
  std::uint64_t bias = reinterpret_cast<std::uint64_t>(a_variable_with_a_known_name) - variable;
  auto code = reinterpret_cast<std::uint64_t>(&a_function_with_a_known_name) - bias;
  auto frames = (*symbols)->frames_at(code);
  REQUIRE(frames.size() == 1);
  CHECK((*symbols)->text(frames[0].function) ==
        "stallscope::symbols::a_function_with_a_known_name(int)");
  CHECK((*symbols)->frames_at(~std::uint64_t{0}).empty());
  // Known without any name, from what unwinds it; not in front of it, nor where there is no code.
  CHECK((*symbols)->function_start(code) == code);
  CHECK((*symbols)->function_start(code + 1) == code);
  CHECK((*symbols)->function_start(code - 1) != code);
  CHECK_FALSE((*symbols)->function_start(variable));
  CHECK_FALSE((*symbols)->function_start(0));
  CHECK_FALSE((*symbols)->function_start(~std::uint64_t{0}));
}

TEST_CASE("the allocator is what lies around malloc, and nothing else") {
  const auto at = [](const void* function) {  // in a file of its own
    Dl_info found;
    REQUIRE(dladdr(function, &found));
    return std::pair(std::string(found.dli_fname),
                     reinterpret_cast<std::uint64_t>(function) -
                         reinterpret_cast<std::uint64_t>(found.dli_fbase));
  };
  const auto [library, malloc_at] = at(reinterpret_cast<const void*>(&malloc));
  auto symbols = Symbols::open(library, {}, nullptr);
  REQUIRE(symbols);
  CHECK((*symbols)->is_allocator(malloc_at));
  CHECK((*symbols)->is_allocator(at(reinterpret_cast<const void*>(&free)).second));
  CHECK((*symbols)->is_allocator(at(reinterpret_cast<const void*>(&calloc)).second + 8));
  CHECK_FALSE((*symbols)->is_allocator(at(reinterpret_cast<const void*>(&printf)).second));
  CHECK_FALSE((*symbols)->is_allocator(at(reinterpret_cast<const void*>(&qsort)).second));
  auto own = Symbols::open("/proc/self/exe", {}, nullptr);
  REQUIRE(own);
  CHECK_FALSE((*own)->is_allocator(0x401000));
}

TEST_CASE("a cache opens a file once, remembers failures and shares its strings") {
  SymbolCache cache;
  auto first = cache.open("/proc/self/exe");
  auto second = cache.open("/proc/self/exe");
  REQUIRE(first);
  CHECK(first->get() == second->get());
  CHECK(&(*first)->strings() == cache.strings().get());
  CHECK_FALSE(cache.open("/proc/self/exe", "no such build id"));
  CHECK_FALSE(cache.open("/nonexistent/program"));
  cache.clear();
  auto third = cache.open("/proc/self/exe");
  REQUIRE(third);
  CHECK(third->get() != first->get());
}

TEST_CASE("a limit that is reached costs names and is told") {
  std::vector<std::uint8_t> bytes = own_bytes();
  OpenOptions options;
  options.limits.symbols = 10;
  options.limits.variables = 10;  // those of debug information, where there is any
  auto symbols = Symbols::from_bytes(bytes, options, nullptr);
  REQUIRE(symbols);
  CHECK((*symbols)->variables().size() <= 20);
  CHECK((*symbols)->shortfall() == "too many symbols");
  Limits small;
  small.file_bytes = 1000;
  CHECK_FALSE(Symbols::open("/proc/self/exe", {"", {}, small}, nullptr));
}

TEST_CASE("a file above the size to keep is mapped, with the same result") {
  OpenOptions mapped;
  mapped.limits.resident_bytes = 0;
  auto one = Symbols::open("/proc/self/exe", {}, nullptr);
  auto other = Symbols::open("/proc/self/exe", mapped, nullptr);
  REQUIRE(one);
  REQUIRE(other);
  CHECK((*one)->facts().build_id == (*other)->facts().build_id);
  CHECK((*one)->variables().size() == (*other)->variables().size());
}

TEST_CASE("every cut of a file is opened or refused, never more") {
  std::vector<std::uint8_t> bytes = own_bytes();
  for (std::size_t size = 0; size < bytes.size(); size += bytes.size() / 97 + 1) {
    auto symbols = Symbols::from_bytes(std::span(bytes).first(size), {}, nullptr);
    if (!symbols) continue;
    CHECK((*symbols)->frames_at(0x1000).size() <= 1);
  }
}

}  // namespace stallscope::symbols
