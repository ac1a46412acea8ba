// SPDX-License-Identifier: Apache-2.0
// Many numbers that change now and then, each summed up over time (value times duration), apart for
// each region that the program is in. A change costs a step for each region that ran since the
// number changed last, which is one in most cases; nothing is done for numbers that stay.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace stallscope::probes {

class Integrals {
 public:
  Integrals() { enter(0); }

  // Time never goes back.
  void advance(std::uint64_t now) { now_ = now; }
  // From now on time passes in this region.
  void enter(std::uint32_t region) {
    if (regions_.size() <= region) regions_.resize(region + 1);
    if (stay_ > 0) regions_[region_].spent += now_ - entered_;
    entered_ = now_;
    region_ = region;
    regions_[region].stay = ++stay_;
    if (auto at = std::find(recent_.begin(), recent_.end(), region); at != recent_.end())
      std::rotate(recent_.begin(), at, at + 1);
    else
      recent_.insert(recent_.begin(), region);
  }
  void change(std::size_t number, std::int64_t by) {
    if (numbers_.size() <= number) numbers_.resize(number + 1);
    catch_up(number);
    numbers_[number].value += by;
  }

  std::size_t numbers() const { return numbers_.size(); }
  std::size_t regions() const { return regions_.size(); }
  std::int64_t value(std::size_t number) const {
    return number < numbers_.size() ? numbers_[number].value : 0;
  }
  // Up to now.
  double sum(std::uint32_t region, std::size_t number) {
    if (number >= numbers_.size()) return 0;
    catch_up(number);
    const std::vector<Sum>& sums = regions_[region].sums;
    return number < sums.size() ? sums[number].sum : 0;
  }

 private:
  struct Number {
    std::int64_t value = 0;
    std::uint64_t stay = 0;  // during which it changed last
  };
  struct Sum {
    double sum = 0;
    std::uint64_t until = 0;  // of the region's own time
  };
  struct Region {
    std::uint64_t spent = 0;  // without the present stay
    std::uint64_t stay = 0;   // the last one in it
    std::vector<Sum> sums;    // by number
  };

  // Regions that have not run since the number changed last are up to date with it.
  void catch_up(std::size_t index) {
    Number& number = numbers_[index];
    for (const std::uint32_t r : recent_) {
      Region& region = regions_[r];
      if (region.stay < number.stay) break;
      if (region.sums.size() <= index) region.sums.resize(numbers_.size());
      Sum& sum = region.sums[index];
      const std::uint64_t spent = region.spent + (r == region_ ? now_ - entered_ : 0);
      sum.sum += static_cast<double>(number.value) * static_cast<double>(spent - sum.until);
      sum.until = spent;
    }
    number.stay = stay_;
  }

  std::vector<Number> numbers_;
  std::vector<Region> regions_;
  std::vector<std::uint32_t> recent_;  // regions that ran, the present one first
  std::uint64_t now_ = 0;
  std::uint64_t entered_ = 0;
  std::uint64_t stay_ = 0;  // stays are numbered from 1
  std::uint32_t region_ = 0;
};

}  // namespace stallscope::probes
