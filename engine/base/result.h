// SPDX-License-Identifier: Apache-2.0
// Errors as values. Nothing in the engine prints, exits or throws for something that input or the
// operating system can cause: it returns an Error with the three parts that a person reads.
#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace stallscope {

struct Error {
  std::string what;  // what is wrong, with the file or option
  std::string why;   // the reason, as measured (may be empty)
  std::string now;   // what to do about it (may be empty)
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& value() {
    assert(ok());
    return std::get<0>(state_);
  }
  const T& value() const {
    assert(ok());
    return std::get<0>(state_);
  }
  const Error& error() const {
    assert(!ok());
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

struct Done {};  // Result<Done>: success that carries nothing
using Status = Result<Done>;

}  // namespace stallscope
