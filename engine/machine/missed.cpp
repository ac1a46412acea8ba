// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <utility>

#include "machine/batch.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stallscope::machine {
namespace {

constexpr std::uint8_t kWide = Missed::kLines | Missed::kPages;
constexpr std::uint32_t kFew = 16;  // accesses for each that was missed

// Both are aligned to 64 bytes, and have room for as many more.
void stream_out(void* to, const void* from, std::size_t bytes) {
#if defined(__SSE2__)
  auto* const out = static_cast<__m128i*>(to);
  const auto* const in = static_cast<const __m128i*>(from);
  for (std::size_t i = 0; i * sizeof *in < bytes; i += 4)
    for (std::size_t j = i; j < i + 4; ++j) _mm_stream_si128(out + j, _mm_load_si128(in + j));
#else
  std::memcpy(to, from, bytes);
#endif
}

void add_wide(const Batch& batch, Missed& to, std::uint64_t index, std::uint32_t at) {
  to.last[at] = batch.last[index];
  to.wide[to.wide_count++] = at;
}

// The data accesses from `done` to `end` that are marked.
using AddMarked = void (*)(const Batch& batch, Missed& to, std::uint32_t done, std::uint32_t end);

void add_marked(const Batch& batch, Missed& to, std::uint32_t done, std::uint32_t end) {
  std::uint32_t count = to.count;
  for (std::uint64_t base = done & ~63u; base < end; base += 64) {
    const std::uint64_t missed =
        ss_marked(batch.missed_lines.of + base) | ss_marked(batch.missed_pages.of + base);
    std::uint64_t marked = missed & ss_within(base, done, end);
    for (; marked; marked &= marked - 1) {
      const std::uint64_t index = base + static_cast<unsigned>(std::countr_zero(marked));
      to.addresses[count] = batch.gathered.addresses[index];
      to.operations[count] = batch.gathered.operations[index];
      to.what[count] = batch.missed_lines.of[index] | batch.missed_pages.of[index];
      if (to.what[count] & kWide) [[unlikely]]
        add_wide(batch, to, index, count);
      ++count;
    }
  }
  to.count = count;
}

#if defined(__x86_64__)
// Sixteen at a time. Writes up to sixteen behind the last.
__attribute__((target("avx512f,avx512vl,avx512bw,popcnt"))) void add_marked_avx512(
    const Batch& batch, Missed& to, std::uint32_t done, std::uint32_t end) {
  constexpr __mmask16 kAll = 0xffff;  // the unmasked forms make GCC 12 warn
  std::uint32_t count = to.count;
  for (std::uint32_t base = done; base < end; base += 16) {
    const std::uint32_t left = end - base;
    const __m128i marks = _mm_or_si128(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(batch.missed_lines.of + base)),
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(batch.missed_pages.of + base)));
    const auto within = static_cast<__mmask16>(left < 16 ? (1u << left) - 1 : 0xffff);
    const __mmask16 marked = _mm_mask_test_epi8_mask(within, marks, marks);
    const auto low = static_cast<__mmask8>(marked), high = static_cast<__mmask8>(marked >> 8);
    const std::uint64_t* const addresses = batch.gathered.addresses + base;
    const std::uint32_t half = static_cast<std::uint32_t>(_mm_popcnt_u32(low));
    _mm512_storeu_si512(to.addresses + count,
                        _mm512_maskz_compress_epi64(low, _mm512_loadu_si512(addresses)));
    _mm512_storeu_si512(to.addresses + count + half,
                        _mm512_maskz_compress_epi64(high, _mm512_loadu_si512(addresses + 8)));
    _mm512_storeu_si512(
        to.operations + count,
        _mm512_maskz_compress_epi32(marked, _mm512_loadu_si512(batch.gathered.operations + base)));
    const __m512i what =
        _mm512_maskz_compress_epi32(marked, _mm512_maskz_cvtepu8_epi32(kAll, marks));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to.what + count),
                     _mm512_maskz_cvtepi32_epi8(kAll, what));
    std::uint32_t wide = _mm_mask_test_epi8_mask(marked, marks, _mm_set1_epi8(kWide));
    for (; wide; wide &= wide - 1) [[unlikely]] {
        const auto bit = static_cast<unsigned>(std::countr_zero(wide));
        const std::uint32_t before = marked & ((1u << bit) - 1);
        add_wide(batch, to, base + bit, count + static_cast<std::uint32_t>(std::popcount(before)));
      }
    count += static_cast<std::uint32_t>(_mm_popcnt_u32(marked));
  }
  to.count = count;
}
#endif

AddMarked add_marked_here() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw"))
    return add_marked_avx512;
#endif
  return add_marked;
}

}  // namespace

void Missed::hand_over(Missed& to) const {
  to.count = count;
  stream_out(to.addresses, addresses, count * sizeof *addresses);
  stream_out(to.operations, operations, count * sizeof *operations);
  stream_out(to.what, what, count * sizeof *what);
  for (std::uint32_t i = 0; i < wide_count; ++i) to.last[wide[i]] = last[wide[i]];
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

MissedOf::MissedOf(Batch& batch, Missed& to)
    : batch_(batch),
      missed_(to),
      line_(batch.lines.entries),
      page_(batch.pages.entries),
      code_line_(batch.code_lines.entries),
      code_page_(batch.code_pages.entries),
      few_((batch.lines.count + batch.pages.count) * kFew < batch.gathered.data) {
  for (ss_list* list : {&batch.lines, &batch.pages, &batch.code_lines, &batch.code_pages})
    list->entries[list->count] = kNone;
}

// A block's fetches come before its data.
void MissedOf::add_until(std::uint32_t index) {
  for (;;) {
    const std::uint32_t entry = std::min(*code_line_, *code_page_);
    if (entry == kNone) break;
    const std::uint32_t before = batch_.gathered.before[index_of(entry)];
    if (before > index) break;
    add_data(before);
    add_fetch(entry);
  }
  add_data(index);
}

void MissedOf::add_fetch(std::uint32_t entry) {
  const std::uint32_t at = missed_.count++;
  missed_.addresses[at] = batch_.gathered.addresses[SS_FIRST_FETCH + index_of(entry)];
  missed_.operations[at] = Missed::kFetch;
  missed_.what[at] = 0;
  for (auto& [list, what] : {std::pair(&code_line_, Missed::kLine), {&code_page_, Missed::kPage}}) {
    if (**list != entry) continue;
    missed_.what[at] |= what;
    ++*list;
  }
}

void MissedOf::add_data(std::uint32_t to) {
  static const AddMarked add = add_marked_here();
  if (few_) return add_listed(to);
  add(batch_, missed_, done_, to);
  done_ = to;
}

void MissedOf::add_listed(std::uint32_t to) {
  for (;;) {
    const std::uint32_t index = std::min(index_of(*line_), index_of(*page_));
    if (index >= to) return;
    const std::uint32_t at = missed_.count++;
    missed_.addresses[at] = batch_.gathered.addresses[index];
    missed_.operations[at] = batch_.gathered.operations[index];
    missed_.what[at] = batch_.missed_lines.of[index] | batch_.missed_pages.of[index];
    if (missed_.what[at] & kWide) [[unlikely]]
      add_wide(batch_, missed_, index, at);
    line_ += index_of(*line_) == index;
    page_ += index_of(*page_) == index;
  }
}

}  // namespace stallscope::machine
