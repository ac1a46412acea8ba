// SPDX-License-Identifier: Apache-2.0
// One Symbols for each file, however many processes of a recording mapped it: fifty compiler
// processes read libc's symbols once. All share one StringTable. Not thread-safe: where several
// threads share one, each holds mutex() while it uses the cache or anything that came from it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "symbols/symbols.h"

namespace stallscope::symbols {

class SymbolCache {
 public:
  explicit SymbolCache(std::vector<std::string> debug_folders = {}, Limits limits = {});

  // `build_id` as recorded, in bytes; empty when it is not known. Failures are remembered too.
  // The result lives as long as anyone holds it.
  Result<std::shared_ptr<Symbols>> open(const std::string& path, const std::string& build_id = {});

  // From now on open() of this path fails: the file there is not the one that is meant.
  void refuse(const std::string& path) { refused_.insert(path); }

  const std::shared_ptr<StringTable>& strings() const { return strings_; }
  std::mutex& mutex() { return mutex_; }
  // Forgets every file, and so gives their memory back; strings and their ids stay.
  void clear() { files_.clear(); }

 private:
  std::mutex mutex_;
  std::vector<std::string> debug_folders_;
  Limits limits_;
  std::shared_ptr<StringTable> strings_;
  std::unordered_set<std::string> refused_;
  std::unordered_map<std::string, Result<std::shared_ptr<Symbols>>> files_;  // by id, zero, path
};

}  // namespace stallscope::symbols
