// SPDX-License-Identifier: Apache-2.0
#include "symbols/symbol_cache.h"

namespace stallscope::symbols {

SymbolCache::SymbolCache(std::vector<std::string> debug_folders, Limits limits)
    : debug_folders_(std::move(debug_folders)),
      limits_(limits),
      strings_(std::make_shared<StringTable>()) {}

Result<std::shared_ptr<Symbols>> SymbolCache::open(const std::string& path,
                                                   const std::string& build_id) {
  std::string key = build_id + '\0' + path;
  if (auto known = files_.find(key); known != files_.end()) return known->second;
  auto opened = Symbols::open(path, {build_id, debug_folders_, limits_}, strings_);
  Result<std::shared_ptr<Symbols>> result =
      opened ? Result<std::shared_ptr<Symbols>>(std::move(*opened))
             : Result<std::shared_ptr<Symbols>>(opened.error());
  return files_.emplace(std::move(key), std::move(result)).first->second;
}

}  // namespace stallscope::symbols
