// SPDX-License-Identifier: Apache-2.0
// Does a program's own code need AVX-512, AVX10 or AMX? Valgrind 3.19 hides them from CPUID and
// dies with SIGILL when a program uses them all the same.
//
// Almost every program carries such instructions in variants that run only after asking CPUID. Not
// held against it: variants that an indirect function's resolver returns, and what only they use.
// Held to be guarded (a reason to warn, not to refuse): functions that read what a CPUID-asking
// function has stored, or that only such functions refer to; in a program that asks CPUID, also
// functions that are reached through tables alone or have the instruction set in their name; code
// that nothing refers to; bytes outside any known function.
// Not seen: a guard in another module, generated code, libraries (scan them on their own).
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "code/elf_image.h"

namespace stallscope::code {

enum class Avx512Verdict : std::uint8_t {
  kAbsent,   // none outside variants that CPUID masks
  kGuarded,  // some, probably behind a check of the processor
  kUnknown,  // the limit was reached before an answer
  kNeeded,   // some, and nothing stands before them
};

struct Avx512Report {
  Avx512Verdict verdict = Avx512Verdict::kAbsent;
  // The lowest instruction that led to the verdict; empty text when it is kAbsent.
  std::uint64_t address = 0;
  std::string instruction;
  std::string function;      // empty when unknown
  std::uint64_t needed = 0;  // instructions by kind of function
  std::uint64_t guarded = 0;
  std::uint64_t variants = 0;
  std::uint64_t decoded = 0;  // work done: instructions decoded to find out
  std::string reason;         // why it is held to be guarded or unknown
};

inline constexpr std::uint64_t kMostInstructions = 48'000'000;  // some ten seconds

Avx512Report scan_avx512(const ElfImage& image,
                         std::uint64_t most_instructions = kMostInstructions);
Result<Avx512Report> scan_avx512(const std::string& path);

}  // namespace stallscope::code
