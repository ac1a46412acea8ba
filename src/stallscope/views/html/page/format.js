// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them.

export function count(number) {
  if (number === null || number === undefined) return "–";
  const size = Math.abs(number);
  for (const [limit, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= limit) {
      const scaled = number / (unit === "k" ? 1e3 : limit);
      return `${scaled.toFixed(Math.abs(scaled) >= 100 ? 0 : 1)} ${unit}`;
    }
  }
  return Number.isInteger(number) ? number.toLocaleString("en") : number.toFixed(2);
}

export function whole(number) {
  return number === null || number === undefined ? "–" : Math.round(number).toLocaleString("en");
}

export function bytes(number) {
  if (number === null || number === undefined) return "–";
  let size = number;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (size < 1024 || unit === "GiB") return `${unit === "B" ? size : size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
  return "";
}

export function percent(share) {
  if (share === null || share === undefined) return "–";
  if (share > 0 && share < 0.001) return "<0.1%";
  return `${(share * 100).toFixed(share < 0.1 ? 1 : 0)}%`;
}

export function words(name) {
  return name.replaceAll("_", " ");
}

// The first of the calls that made a heap block says most.
export function short(name, most = 32) {
  const first = name.split(" < ")[0].split("/").pop();
  return first.length <= most ? first : `${first.slice(0, most - 1)}…`;
}

export function base(file) {
  return file.split("/").pop();
}
