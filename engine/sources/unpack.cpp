// SPDX-License-Identifier: Apache-2.0
#include "sources/unpack.h"

#include <zstd.h>

#include <algorithm>

namespace stallscope::sources {

Unpacker::Unpacker() : context_(ZSTD_createDCtx()) {
  // A window larger than this would be memory that nobody asked for.
  if (context_ != nullptr) ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, 27);
}

Unpacker::~Unpacker() { ZSTD_freeDCtx(context_); }

Status Unpacker::append(std::span<const std::byte> packed, std::size_t most,
                        std::vector<std::byte>& out) {
  constexpr std::size_t kStep = 256U << 10;
  if (context_ == nullptr) return Error{"there is no memory to unpack records", "", ""};
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  const std::size_t start = out.size();
  for (;;) {
    const std::size_t used = out.size();
    const std::size_t room = std::min(kStep, most + 1 - (used - start));
    out.resize(used + room);
    ZSTD_outBuffer to{out.data() + used, room, 0};
    const std::size_t code = ZSTD_decompressStream(context_, &to, &in);
    out.resize(used + to.pos);
    if (ZSTD_isError(code)) return Error{"", "it cannot be unpacked", ""};
    if (out.size() - start > most) return Error{"", "it unpacks to more than it may", ""};
    // Everything is out when the input is used up and there was room left.
    if (in.pos == in.size && to.pos < room) return Done{};
  }
}

}  // namespace stallscope::sources
