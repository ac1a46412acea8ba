// SPDX-License-Identifier: Apache-2.0
// Words that a reader may not know, explained where they stand and all together in the last part.
import { h } from "./dom.js";

export const WORDS = {
  "miss": "An access to data that is not in a cache, so that the next, slower level is asked.",
  "latency": "Cycles from asking for data until it is there. The sum over all misses is what an object costs when nothing overlaps.",
  "cache line": "The 64 bytes (on most machines) that move between memory and caches together, however few of them are used.",
  "eviction": "A line that leaves a cache because another one needs its place. Who evicts whom tells which data compete.",
  "object": "A variable, or all heap blocks that were made at one place of the program, by the same chain of calls.",
  "CPI": "Cycles per instruction: work (completion) plus what the processor waited for, by cause. Lower is faster.",
  "stall": "Cycles in which no instruction completes, charged to what the oldest one waits for.",
  "phase": "A stretch of the run in which the processor waits for the same things in the same proportions.",
  "false sharing": "Threads write different data that lies in one cache line, so that the line wanders between their caches for nothing.",
  "remote miss": "A miss that the cache of another chip serves: slower than one that is served nearby.",
  "footprint": "All pages that the program touches.",
  "knee": "The size of memory below which page misses grow quickly, and above which more memory helps little.",
  "TLB": "The cache of page addresses. Its misses cost a walk through the page tables.",
  "delinquent load": "One of the few load instructions that cause most misses.",
  "slice": "Just the code that computes the address of a load: small enough to run ahead of the program and fetch the data early.",
  "sample": "One moment at which a timer or counter looked what the program was doing.",
};

let number = 0;

export function term(word, text) {
  const id = `word-${number++}`;
  const note = h("span", { id, popover: "auto", class: "note", role: "note" }, h("strong", {}, word), ": ", WORDS[word]);
  return [h("button", { type: "button", class: "term", popovertarget: id }, text ?? word), note];
}

export function glossary() {
  return h("dl", {}, Object.entries(WORDS).map(([word, meaning]) => [h("dt", {}, word), h("dd", {}, meaning)]));
}
