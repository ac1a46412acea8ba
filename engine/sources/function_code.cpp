// SPDX-License-Identifier: Apache-2.0
#include "sources/function_code.h"

#include <elf.h>

#include <algorithm>

namespace stallscope::sources {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;  // of one function: more is no function

}  // namespace

std::size_t FunctionCode::find(std::uint64_t address) const {
  const auto at = std::lower_bound(steps.begin(), steps.end(), address,
                                   [](const Step& s, std::uint64_t a) { return s.address < a; });
  if (at == steps.end() || at->address != address) return kNowhere;
  return static_cast<std::size_t>(at - steps.begin());
}

FunctionCode read_function(code::Bytes bytes, std::uint64_t start) {
  FunctionCode out;
  out.start = start;
  out.end = start + bytes.size();
  for (std::size_t at = 0; at < bytes.size();) {
    const code::Bytes rest = bytes.subspan(at);
    auto decoded = code::decode(rest, Address(start + at));
    if (!decoded) break;
    Step step{start + at, *decoded, {}};
    step.effect = code::effect_of(rest.first(decoded->length), *decoded);
    const code::Flow flow = decoded->flow;
    if (decoded->target && (flow == code::Flow::kJump || flow == code::Flow::kBranch)) {
      const std::uint64_t target = decoded->target->value;
      out.jumps.emplace(target, out.steps.size());
      if (target <= step.address) {
        std::uint64_t& farthest = out.loops[target];
        farthest = std::max(farthest, step.address);
      }
    }
    out.steps.push_back(step);
    at += decoded->length;
  }
  return out;
}

std::unique_ptr<CodeFile> CodeFile::open(const std::string& path) {
  auto image = code::ElfImage::open(path);
  // Instructions of other processors are not decoded: their bytes would mean something else.
  if (!image || image->machine() != EM_X86_64) return nullptr;
  return std::unique_ptr<CodeFile>(new CodeFile(std::move(*image)));
}

const FunctionCode* CodeFile::at(std::uint64_t address) {
  const std::size_t number = functions_.find(address);
  if (number >= functions_.size()) return nullptr;
  auto [found, fresh] = read_.try_emplace(number);
  if (fresh) {
    const code::Bytes bytes = functions_.bytes(number);
    if (bytes.size() <= kMostBytes)
      found->second =
          std::make_unique<FunctionCode>(read_function(bytes, functions_[number].start));
  }
  return found->second.get();
}

}  // namespace stallscope::sources
