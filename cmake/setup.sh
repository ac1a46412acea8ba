#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the missing system packages when it may, else says in one line what to install; with
# names, those packages instead.
set -euo pipefail
packages=(g++ make cmake ninja-build python3-venv valgrind libzstd-dev libdw-dev libelf-dev libiberty-dev
          libzydis-dev libzycore-dev zlib1g-dev doctest-dev clang clang-format libclang-rt-14-dev
          gzip sqlite3 perl binutils libc6-dbg libjemalloc-dev libgoogle-perftools-dev)
# Whoever else put these there, they serve as well: npm bundles the page, chromium tests it.
command -v npm >/dev/null || packages+=(nodejs npm)
command -v chromium >/dev/null || packages+=(chromium)
[ $# -eq 0 ] || packages=("$@")
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
run=()
if [ "$(id -u)" -ne 0 ]; then
  if sudo -n true 2>/dev/null; then
    run=(sudo -n)
  else
    echo "stallscope needs system packages; install them with: sudo apt-get install ${missing[*]}" >&2
    exit 1
  fi
fi
echo "installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
"${run[@]}" apt-get update -qq
"${run[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
