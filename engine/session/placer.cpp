// SPDX-License-Identifier: Apache-2.0
#include "session/placer.h"

#include <sys/mman.h>

#include <cstddef>
#include <map>
#include <unordered_map>
#include <utility>

#include "pool.h"
#include "rules.h"

namespace stallscope::session {
namespace {

constexpr std::uint64_t kSmall = std::uint64_t{1} << 46;             // small blocks from here on
constexpr std::uint64_t kLarge = kSmall + (std::uint64_t{1} << 45);  // large ones
constexpr std::uint64_t kMostPages = std::uint64_t{16} << 30 >> 12;  // as the library reserves
constexpr std::uint64_t kLargest = std::uint64_t{1} << 40;           // bytes of one block
constexpr std::uint64_t kHeader = 16, kOwnMapping = 128 << 10;       // of glibc's malloc

// Descriptions of pages; the pages themselves are addresses only.
struct Pages : page_source {
  std::uint64_t given = 0;

  bool open() {
    void* start = mmap(nullptr, kMostPages * sizeof(page), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return false;
    infos = static_cast<page*>(start);
    take = take_one;
    return true;
  }
  Pages() : page_source{nullptr, nullptr} {}
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() {
    if (infos) munmap(infos, kMostPages * sizeof(page));
  }
  static page_number take_one(page_source* source, std::uint16_t pool) {
    auto& pages = *static_cast<Pages*>(source);
    if (pages.given == kMostPages) return 0;
    pages.infos[pages.given].pool = pool;
    return static_cast<page_number>(++pages.given);
  }
};

// Memory for large blocks: what was freed and fits exactly, else what follows the last.
class LargeBlocks {
 public:
  std::uint64_t make(std::uint64_t size, unsigned line) {
    std::uint64_t bytes = (size + RULE_PAGE + kHeader + 15) / 16 * 16;
    if (bytes >= kOwnMapping) bytes = (bytes + RULE_PAGE - 1) / RULE_PAGE * RULE_PAGE;
    std::vector<std::uint64_t>& free = free_[bytes];
    std::uint64_t start;
    if (free.empty()) {
      if (bytes >= kOwnMapping) next_ = (next_ + RULE_PAGE - 1) / RULE_PAGE * RULE_PAGE;
      start = std::exchange(next_, next_ + bytes);
    } else {
      start = free.back();
      free.pop_back();
    }
    const std::uint64_t block = rule_begin(start + kHeader, line);
    live_[block] = {start, bytes};
    return block;
  }
  void give_back(std::uint64_t block) {
    const auto found = live_.find(block);
    if (found == live_.end()) return;
    free_[found->second.second].push_back(found->second.first);
    live_.erase(found);
  }

 private:
  std::uint64_t next_ = kLarge;
  std::map<std::uint64_t, std::vector<std::uint64_t>> free_;  // by bytes
  std::unordered_map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> live_;
};

struct Rule {
  rule_site site = rule_none();
  std::uint64_t newest = 0;
};

}  // namespace

struct Placer::Near {
  Pages pages;
  pool pools[POOLS] = {};
  std::unordered_map<std::uint32_t, unsigned> pool_of_thread;
  LargeBlocks large;
  std::map<std::pair<std::string, std::uint64_t>, Rule> rules;
  std::unordered_map<std::uint64_t, Rule*> by_site;

  static bool take(const rule* line, void* data) {
    auto& near = *static_cast<Near*>(data);
    rule_add(&near.rules[{line->module, line->offset}].site, line);
    return true;
  }
  pool& own_pool(std::uint32_t thread) {
    const auto next = static_cast<unsigned>(pool_of_thread.size());
    return pools[pool_of_thread.try_emplace(thread, next % POOLS).first->second];
  }
  pool& pool_of(page_number number) { return pools[pages.infos[number - 1].pool - 1]; }
  std::uint64_t make_small(Rule& rule, std::uint64_t size, std::uint32_t thread);
};

std::uint64_t Placer::Near::make_small(Rule& rule, std::uint64_t size, std::uint32_t thread) {
  page_number hint = 0;
  unsigned line = 0;
  if (rule.newest) {
    hint = static_cast<page_number>((rule.newest - kSmall) / PAGE_BYTES + 1);
    line = static_cast<unsigned>(rule.newest % PAGE_BYTES / LINE_BYTES);
  }
  pool& from = hint ? pool_of(hint) : own_pool(thread);
  const struct place found = pool_place(&from, hint, line, wish_for(size ? size : 1));
  if (found.page == 0) return 0;
  return kSmall + std::uint64_t{found.page - 1} * PAGE_BYTES + found.start * GRANULE_BYTES;
}

Placer::Placer(std::unique_ptr<Near> near) : near_(std::move(near)) {}
Placer::~Placer() = default;

Result<std::unique_ptr<Placer>> Placer::make(const Policy& policy) {
  auto near = std::make_unique<Near>();
  if (!near->pages.open()) return Error{"there is no memory to predict a layout in", "", ""};
  for (unsigned i = 0; i < POOLS; ++i) {
    near->pools[i].number = static_cast<std::uint16_t>(i + 1);
    near->pools[i].source = &near->pages;
  }
  std::string text = policy.text;
  const rule_fault fault = rules_read(text.data(), Near::take, near.get());
  if (fault.line)
    return Error{"the policy is wrong in line " + std::to_string(fault.line), fault.why, ""};
  for (const ReturnAddress& one : policy.sites) {
    const auto found = near->rules.find({one.module, one.offset});
    if (found != near->rules.end()) near->by_site.emplace(one.site, &found->second);
  }
  return std::unique_ptr<Placer>(new Placer(std::move(near)));
}

bool Placer::places(std::uint64_t site, std::uint64_t size) const {
  const auto found = near_->by_site.find(site);
  return found != near_->by_site.end() && size <= kLargest &&
         rule_choose(&found->second->site, size) != RULE_PASS;
}

std::optional<std::uint64_t> Placer::place(std::uint64_t site, std::uint64_t size,
                                           std::uint32_t thread) {
  if (!places(site, size)) return std::nullopt;
  Rule& rule = *near_->by_site[site];
  if (rule_choose(&rule.site, size) == RULE_LARGE)
    return near_->large.make(size, rule_next_line(&rule.site));
  const std::uint64_t made = near_->make_small(rule, size, thread);
  if (made == 0) return std::nullopt;
  return rule.newest = made;
}

void Placer::give_back(std::uint64_t address) {
  if (address >= kLarge) return near_->large.give_back(address);
  const auto number = static_cast<page_number>((address - kSmall) / PAGE_BYTES + 1);
  pool_free(&near_->pool_of(number), number,
            static_cast<unsigned>(address % PAGE_BYTES / GRANULE_BYTES));
}

std::optional<Knowledge> Placer::knowledge(std::uint64_t address) const {
  if (address >= kLarge) return std::nullopt;
  const std::uint64_t start = kKnowledge + (address - kSmall) / PAGE_BYTES * sizeof(page);
  const std::uint64_t word = address % PAGE_BYTES / GRANULE_BYTES / 64 * 8;
  return Knowledge{start, start + offsetof(page, taken) + word,
                   start + offsetof(page, last) + word};
}

}  // namespace stallscope::session
