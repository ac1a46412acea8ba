// SPDX-License-Identifier: Apache-2.0
// Linker names back to source names, for C++ (Itanium) and Rust (legacy and v0).
#pragma once

#include <string>

namespace stallscope::symbols {

// Empty when `name` is no mangled name, is longer than the demangler's recursion limit allows, or
// would expand beyond the longest name that we keep (a short mangled name can expand
// exponentially).
std::string demangle(const char* name);

}  // namespace stallscope::symbols
