// SPDX-License-Identifier: Apache-2.0
#include "symbols/demangle.h"

// libiberty would declare basename in its own way.
#define HAVE_DECL_BASENAME 1
#include <libiberty/demangle.h>

#include <csetjmp>
#include <cstring>

#include "symbols/string_table.h"

namespace stallscope::symbols {
namespace {

// libiberty refuses longer C++ names itself while its recursion limit is on; Rust names get the
// same bound.
constexpr std::size_t kMaxMangled = DEMANGLE_RECURSION_LIMIT / 2;

struct Output {
  char text[kMaxNameBytes];
  std::size_t size = 0;
  std::jmp_buf overflow;
};

// The only way to stop libiberty before an exponential expansion ends is to jump out of its
// callback. Between here and `run` lie only C frames; at worst the small buffer of a Rust
// identifier is left behind.
void append(const char* text, std::size_t size, void* opaque) {
  auto* output = static_cast<Output*>(opaque);
  if (size > sizeof output->text - output->size) std::longjmp(output->overflow, 1);
  std::memcpy(output->text + output->size, text, size);
  output->size += size;
}

using Demangler = int (*)(const char*, int, demangle_callbackref, void*);

bool run(Demangler demangler, const char* name, Output& output) {
  output.size = 0;
  if (setjmp(output.overflow) != 0) return false;
  return demangler(name, DMGL_PARAMS | DMGL_ANSI, append, &output) != 0 && output.size > 0;
}

}  // namespace

std::string demangle(const char* name) {
  if (std::strncmp(name, "_Z", 2) != 0 && std::strncmp(name, "_R", 2) != 0) return {};
  if (strnlen(name, kMaxMangled + 1) > kMaxMangled) return {};
  Output output;
  // Rust first: its legacy form is also a valid C++ name, but with a hash for its last part.
  for (Demangler demangler : {rust_demangle_callback, cplus_demangle_v3_callback}) {
    if (run(demangler, name, output)) return std::string(output.text, output.size);
  }
  return {};
}

}  // namespace stallscope::symbols
