// SPDX-License-Identifier: Apache-2.0
#include "symbols/symbol_cache.h"

#include <sys/stat.h>

namespace stallscope::symbols {
namespace {

// A program may be built and run, built anew and run again, all in one recording.
std::string version(const std::string& path) {
  struct stat st;
  if (stat(path.c_str(), &st) != 0) return {};
  return std::to_string(st.st_ino) + ' ' + std::to_string(st.st_mtim.tv_sec) + ' ' +
         std::to_string(st.st_mtim.tv_nsec);
}

}  // namespace

SymbolCache::SymbolCache(std::vector<std::string> debug_folders, Limits limits)
    : debug_folders_(std::move(debug_folders)),
      limits_(limits),
      strings_(std::make_shared<StringTable>()) {}

Result<std::shared_ptr<Symbols>> SymbolCache::open(const std::string& path,
                                                   const std::string& build_id) {
  if (refused_.contains(path))
    return Error{path + " is another file than the one recorded", "", ""};
  std::string key = build_id + '\0' + path + '\0' + version(path);
  if (auto known = files_.find(key); known != files_.end()) return known->second;
  auto opened = Symbols::open(path, {build_id, debug_folders_, limits_}, strings_);
  Result<std::shared_ptr<Symbols>> result =
      opened ? Result<std::shared_ptr<Symbols>>(std::move(*opened))
             : Result<std::shared_ptr<Symbols>>(opened.error());
  return files_.emplace(std::move(key), std::move(result)).first->second;
}

}  // namespace stallscope::symbols
