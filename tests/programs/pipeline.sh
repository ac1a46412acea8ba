#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A shell script with a pipeline, a loop, a substitution and a subshell. Exits with 3.
set -e
numbers=$(seq 1 50)
echo "$numbers" | sort -rn | sed -n '1,5s/$/ green bottles/p' | while read -r count rest; do
  echo "$count: $rest"
done
total=0
for number in $numbers; do
  total=$((total + number))
done
(cd / && echo "total $total in $(pwd)")
exit 3
