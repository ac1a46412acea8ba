// SPDX-License-Identifier: Apache-2.0
import { add, h } from "../dom.js";
import { bytes, whole } from "../format.js";
import { glossary } from "../glossary.js";
import { table } from "../table.js";

export default { id: "about", title: "About", render };

function render(panel, found) {
  const { info } = found;
  const facts = [
    ["command", info.command.join(" ")], ["working folder", info.folder], ["recorded", info.created], ["source", info.source],
    ["machine", info.machine], ["trace kept", info.trace ? "yes" : "no"], ["host", [info.host.system, info.host.processor, info.host.cores ? `${info.host.cores} cores` : null].filter(Boolean).join(", ")],
    ["ended", `${info.ending}${info.exit_code === null ? "" : ` with status ${info.exit_code}`}${info.signal === null ? "" : ` by signal ${info.signal}`}`],
    ["instructions", whole(info.instructions)], ["loads", whole(info.loads)], ["stores", whole(info.stores)],
    ["heap blocks", `${whole(info.allocations)} made, ${whole(info.frees)} freed`], ["trace", bytes(info.stream_bytes)],
  ];
  add(panel, [
    h("h2", {}, "About this recording"),
    h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value || "–")])),
    info.processes.length > 1 ? table({ caption: "processes", rows: info.processes, columns: [
      { key: "pid", label: "process", number: true }, { key: "command", label: "command", wide: true, show: (words) => words.join(" ") },
      { key: "instructions", label: "instructions", number: true, show: whole }] }) : null,
    info.thread_rows.length > 1 ? table({ caption: "threads", rows: info.thread_rows, columns: [
      { key: "thread", label: "thread", number: true }, { key: "name", label: "name" }, { key: "instructions", label: "instructions", number: true, show: whole }] }) : null,
    h("h2", {}, "Glossary"), glossary(),
  ]);
  return {};
}
