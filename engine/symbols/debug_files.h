// SPDX-License-Identifier: Apache-2.0
// Finds the separate debug file of a stripped file, and the supplementary file that dwz made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "symbols/image.h"
#include "symbols/limits.h"

namespace stallscope::symbols {

// `folders` are searched before /usr/lib/debug. Every file is checked before it is taken: by build
// id, or by the checksum of the link where there is no build id.
class DebugFiles {
 public:
  DebugFiles(std::vector<std::string> folders, const Limits& limits);

  // Null when there is none.
  std::unique_ptr<Image> for_build_id(const std::string& build_id) const;
  std::unique_ptr<Image> for_image(const Image& image) const;
  std::unique_ptr<Image> alternate_of(const Image& debug) const;

 private:
  std::unique_ptr<Image> by_link(const Image& image) const;
  std::unique_ptr<Image> open_checked(const std::string& path, const std::string& build_id) const;

  std::vector<std::string> folders_;
  const Limits& limits_;
};

std::string hexadecimal(std::string_view bytes);

}  // namespace stallscope::symbols
