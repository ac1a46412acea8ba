// SPDX-License-Identifier: Apache-2.0
#include "symbols/debug_files.h"

#include <array>
#include <cstring>

namespace stallscope::symbols {
namespace {

constexpr const char* kSystemFolder = "/usr/lib/debug";

std::string folder_of(const std::string& path) {
  std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xEDB8'8320u : 0);
    table[i] = value;
  }
  return table;
}

std::uint32_t crc32(std::span<const std::uint8_t> bytes) {
  static constexpr auto kTable = crc_table();
  std::uint32_t crc = 0xFFFF'FFFF;
  for (std::uint8_t byte : bytes) crc = crc >> 8 ^ kTable[(crc ^ byte) & 0xFF];
  return ~crc;
}

}  // namespace

std::string hexadecimal(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

DebugFiles::DebugFiles(std::vector<std::string> folders, const Limits& limits)
    : folders_(std::move(folders)), limits_(limits) {
  folders_.push_back(kSystemFolder);
}

std::unique_ptr<Image> DebugFiles::open_checked(const std::string& path,
                                                const std::string& build_id) const {
  auto image = Image::open(path, limits_);
  if (!image || (*image)->facts().build_id != build_id) return nullptr;
  return std::move(*image);
}

std::unique_ptr<Image> DebugFiles::for_build_id(const std::string& build_id) const {
  if (build_id.size() < 2) return nullptr;
  std::string text = hexadecimal(build_id);
  std::string file = "/.build-id/" + text.substr(0, 2) + "/" + text.substr(2) + ".debug";
  for (const std::string& folder : folders_) {
    if (auto image = open_checked(folder + file, build_id)) return image;
  }
  return nullptr;
}

std::unique_ptr<Image> DebugFiles::by_link(const Image& image) const {
  const Facts& facts = image.facts();
  // The link is a plain file name; anything else would lead out of the folders.
  if (facts.debug_link.empty() || facts.debug_link.find('/') != std::string::npos) return nullptr;
  std::string own_folder = folder_of(image.path());
  std::vector<std::string> paths = {own_folder + "/" + facts.debug_link,
                                    own_folder + "/.debug/" + facts.debug_link};
  for (const std::string& folder : folders_) {
    paths.push_back(folder + "/" + own_folder + "/" + facts.debug_link);
    paths.push_back(folder + "/" + facts.debug_link);
  }
  for (const std::string& path : paths) {
    auto debug = open_checked(path, facts.build_id);
    if (debug == nullptr || path == image.path()) continue;
    if (facts.build_id.empty() && crc32(debug->bytes()) != facts.debug_link_crc) continue;
    return debug;
  }
  return nullptr;
}

std::unique_ptr<Image> DebugFiles::for_image(const Image& image) const {
  auto debug = for_build_id(image.facts().build_id);
  if (debug == nullptr) debug = by_link(image);
  if (debug == nullptr || !(debug->facts().has_dwarf || debug->facts().has_symtab)) return nullptr;
  return debug;
}

// The link is a path, a zero, and the build id of the file that it names.
std::unique_ptr<Image> DebugFiles::alternate_of(const Image& debug) const {
  auto link = debug.section(".gnu_debugaltlink");
  const char* text = reinterpret_cast<const char*>(link.data());
  std::size_t length = link.empty() ? 0 : strnlen(text, link.size());
  if (length == 0 || length + 1 >= link.size() || length > 4096) return nullptr;
  std::string path(text, length);
  std::string build_id(text + length + 1, link.size() - length - 1);
  if (auto image = for_build_id(build_id)) return image;
  if (!path.starts_with('/')) path = folder_of(debug.path()) + "/" + path;
  return open_checked(path, build_id);
}

}  // namespace stallscope::symbols
