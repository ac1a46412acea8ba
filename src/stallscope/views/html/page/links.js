// SPDX-License-Identifier: Apache-2.0
// Ways from one part to another: an object's lines, a line's objects, who evicts it.
import { h } from "./dom.js";
import { base, short } from "./format.js";

const at = (...parts) => `#${parts.map((part) => encodeURIComponent(part)).join("/")}`;

export function toObject(name, text) {
  return h("a", { href: at("objects", name), title: name }, text ?? name);
}

export function toFunction(name) {
  return h("a", { href: at("functions", name), title: name }, name);
}

export function toLine(file, line, text) {
  const shown = text ?? (file ? `${base(file)}:${line ?? "?"}` : "–");
  if (!file || line === null || line === undefined) return shown;
  return h("a", { href: at("source", file, line), title: `${file}:${line}` }, shown);
}

export function toEvictions(name) {
  return h("a", { href: at("evictions", name) }, `who evicts ${short(name, 40)}`);
}

export function toPart(id, text) {
  return h("a", { href: at(id) }, text);
}

// A sentence of the verdict.
export function sentence(pieces) {
  return pieces.map((piece) => {
    if (piece.kind === "object") return toObject(piece.name, piece.text);
    if (piece.kind === "function") return toFunction(piece.name);
    if (piece.kind === "line") return toLine(piece.name, piece.line, piece.text);
    if (piece.kind === "part") return toPart(piece.name, piece.text);
    return piece.text;
  });
}

// What a part says that has no data.
export function missing(part) {
  const { what, why, now } = part.missing;
  return h("div", { class: "missing" },
    h("p", {}, `Not in this recording: ${what}${why ? ` (${why})` : ""}.`),
    now ? h("p", {}, "To get it: ", h("code", {}, now)) : null);
}
