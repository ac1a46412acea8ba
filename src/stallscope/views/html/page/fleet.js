// SPDX-License-Identifier: Apache-2.0
// What many hosts recorded: programs, objects, what changed between builds.
import { axis, figure, plot, series } from "./chart.js";
import { add, clear, h } from "./dom.js";
import { percent, short, whole } from "./format.js";
import { sentence, toObject } from "./links.js";
import { ask, trouble } from "./serve.js";
import { tabbed, theme } from "./shell.js";
import { bar, table } from "./table.js";

const ID = 12; // characters of a build id that are shown
const signed = (share) => `${share < 0 ? "−" : "+"}${(Math.abs(share) * 100).toFixed(2)}%`;
const exact = (share) => `${(share * 100).toFixed(2)}%`;
const build = (id) => h("code", { title: id }, id.slice(0, ID));
const toProgram = (name) => h("a", { href: `#objects//${encodeURIComponent(name)}` }, name);

const overview = { id: "overview", title: "Verdict", render: renderOverview };
const objects = { id: "objects", title: "Objects", render: renderObjects };
const builds = { id: "builds", title: "Builds", render: renderBuilds };
const about = { id: "about", title: "About", render: renderAbout };

export function fleet(root, found, { compare = null } = {}) {
  const changes = { id: "changes", title: "Changes", render: (panel) => renderChanges(panel, found, compare) };
  const facts = [`${whole(found.recordings)} recordings of ${whole(found.hosts)} hosts`, `${found.first_day} to ${found.last_day}`];
  const head = [h("h1", {}, `Fleet ${found.fleet}`), h("p", { class: "quiet" }, facts.join(" · ")), theme()];
  tabbed(root, found, [overview, objects, changes, builds, about], head, found.fleet);
}

// Behind a server: any two builds can be compared.
export async function serveFleet(root, found) {
  const box = h("main", { id: "main" }, h("p", {}, "Working…"));
  clear(root, h("header", {}, h("h1", {}, `Fleet ${found.folder}`), theme()), box);
  try {
    fleet(root, await ask("api/fleet"), { compare: (question) => ask("api/fleet/diff", question) });
  } catch (error) {
    clear(box, trouble(error));
  }
}

function card(label, value) {
  return h("div", { class: "card" }, h("span", { class: "value" }, value), h("span", { class: "label" }, label));
}

function renderOverview(panel, found) {
  const { verdict } = found;
  add(panel, [
    h("div", { class: "verdict" }, h("h2", { id: "verdict" }, sentence(verdict.headline)),
      h("ul", {}, verdict.sentences.map((pieces) => h("li", {}, sentence(pieces))))),
    h("div", { class: "cards" }, card("hosts", whole(found.hosts)), card("recordings", whole(found.recordings)),
      card("programs", whole(found.programs.length)), card("builds", whole(found.builds.length))),
    h("h3", {}, "By program"),
    table({ caption: "programs by the time that all hosts together wait for memory", rows: found.programs, columns: [
      { key: "program", label: "program", wide: true, show: toProgram },
      { key: "share", label: "of all waiting", number: true, show: bar }, { key: "of_time", label: "of its time", number: true, show: bar },
      { key: "wait", label: "seconds waited", number: true, show: whole }, { key: "hosts", label: "hosts", number: true, show: whole },
      { key: "builds", label: "builds", number: true, show: whole }, { key: "recordings", label: "recordings", number: true, show: whole }] }),
    overTime(found),
    found.left_out.length ? h("ul", {}, found.left_out.map((text) => h("li", {}, `Left out of this page: ${text}.`))) : null,
  ]);
}

function overTime({ days }) {
  if (days.days.length < 2) return null;
  const picture = plot({ label: "share of time that programs wait for memory, by day", height: 300, make: () => ({
    data: [days.days.map((day) => Date.parse(`${day}T00:00:00Z`) / 1000), ...days.programs.map((one) => one.shares.map((share) => (share === null ? null : share * 100)))],
    options: {
      tzDate: (seconds) => new Date(seconds * 1000 + new Date(seconds * 1000).getTimezoneOffset() * 60000),
      scales: { y: { range: (u, low, high) => [0, Math.max(1, (high ?? 1) * 1.1)] } },
      axes: [axis("day", { space: 80, values: (u, ticks) => ticks.map((tick) => new Date(tick * 1000).toISOString().slice(5, 10)), incrs: [86400, 7 * 86400, 30 * 86400, 365 * 86400] }),
        axis("of the program's time", { size: 60, values: (u, ticks) => ticks.map((tick) => `${tick}%`) })],
      series: [{ label: "day", value: (u, v) => (v === null ? "–" : new Date(v * 1000).toISOString().slice(0, 10)) },
        ...days.programs.map((one, i) => ({
          label: short(one.program, 24), stroke: series(i), width: 2, spanGaps: true, value: (u, v) => (v === null || v === undefined ? "–" : `${v.toFixed(1)}%`) }))],
    },
  }) });
  const rows = days.days.map((day, i) => Object.fromEntries([["day", day], ...days.programs.map((one, n) => [`p${n}`, one.shares[i]])]));
  return [h("h3", {}, "From day to day"), figure({
    label: "The share of its time that each program waits for memory.",
    reading: "A step that stays is worth a look at the builds of that day. Drag to zoom, double-click to see all.", picture,
    fallback: table({ caption: "share of time waited, by day", filter: false, rows, columns: [
      { key: "day", label: "day" }, ...days.programs.map((one, n) => ({ key: `p${n}`, label: short(one.program, 24), number: true, show: percent }))] }) })];
}

function renderObjects(panel, found) {
  const rows = found.objects.map((row) => ({ ...row, interval: `${exact(row.low)} to ${exact(row.high)}` }));
  const list = table({ caption: "objects by the time that all hosts together wait for them", rows, columns: [
    { key: "object", label: "object", wide: true }, { key: "program", label: "program", show: toProgram },
    { key: "share", label: "of all waiting", number: true, show: bar }, { key: "of_time", label: "of its program's time", number: true, show: exact },
    { key: "interval", label: "mean over hosts, 95%", number: true }, { key: "hosts", label: "hosts", number: true, show: whole },
    { key: "samples", label: "samples", number: true, show: whole }, { key: "kind", label: "kind" }] });
  add(panel, [h("h2", {}, "Which data the fleet waits for"),
    h("p", {}, "Objects are told apart by their names without line numbers, so that builds can be compared. The interval is of the mean over hosts of the share of the program's time."),
    list]);
  return { focus: (name, program) => list.filterBy?.(name || program || "") };
}

function renderChanges(panel, found, compare) {
  add(panel, [h("h2", {}, "What changed from build to build"),
    h("p", {}, "Only what is more than chance, over all objects and hosts together, is shown. The 95% interval is of the mean change over hosts; “there” is the ratio on those hosts that changed."),
    compare ? chooser(found, compare) : null,
    found.changes.length ? found.changes.map(change) : h("p", {}, "No program has two builds.")]);
}

function change(one) {
  const title = h("h3", {}, one.program, ": ", build(one.before), " → ", build(one.after));
  const facts = `${whole(one.recordings)} recordings of ${whole(one.hosts)} hosts, ${one.paired ? "the same hosts" : "other hosts"} with both builds, ${whole(one.compared)} objects compared.`;
  const list = one.rows.length ? table({ caption: `changes of ${one.program}`, rows: one.rows, columns: [
    { key: "verdict", label: "", show: (text) => h("strong", { class: text }, text) }, { key: "object", label: "object", wide: true, show: (name) => toObject(name) },
    { key: "before", label: "before", number: true, show: exact }, { key: "after", label: "after", number: true, show: exact },
    { key: "change", label: "change", number: true, show: signed },
    { key: "low", label: "95%", number: true, show: (low, row) => `${signed(low)} to ${signed(row.high)}` },
    { key: "changed", label: "hosts changed", number: true, show: (n, row) => `${whole(n)} of ${whole(row.hosts)}` },
    { key: "ratio_there", label: "there", number: true, show: (ratio) => (ratio === null ? "–" : `× ${ratio.toFixed(2)}`) },
    { key: "since", label: "since", number: true }] })
    : h("p", {}, "Nothing changed that is more than chance.");
  return h("section", {}, title, h("p", { class: "quiet" }, facts), list);
}

function chooser(found, compare) {
  const programs = [...new Set(found.builds.map((row) => row.program))];
  const program = h("select", { name: "program" }, programs.map((name) => h("option", { value: name }, name)));
  const before = h("select", { name: "before" });
  const after = h("select", { name: "after" });
  const fill = () => {
    const own = found.builds.filter((row) => row.program === program.value);
    for (const [select, chosen] of [[before, own.length - 2], [after, own.length - 1]]) {
      clear(select, own.map((row, i) => h("option", { value: row.build, selected: i === chosen }, `${row.build.slice(0, ID)} since ${row.first_day}`)));
    }
  };
  program.addEventListener("change", fill);
  fill();
  const button = h("button", { type: "submit" }, "Compare");
  const answer = h("div", { "aria-live": "polite" });
  const form = h("form", { class: "form" }, [["program", program], ["before", before], ["after", after]]
    .map(([label, control]) => h("label", {}, h("span", {}, label), control)), button);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      clear(answer, change(await compare({ program: program.value, before: before.value, after: after.value })));
    } catch (error) {
      clear(answer, trouble(error));
    }
    button.disabled = false;
  });
  return [form, answer];
}

function renderBuilds(panel, found) {
  add(panel, [h("h2", {}, "Which builds ran when"), table({ caption: "builds by program and first day", rows: found.builds, columns: [
    { key: "program", label: "program", wide: true, show: toProgram }, { key: "build", label: "build", show: build },
    { key: "first_day", label: "first day", number: true }, { key: "last_day", label: "last day", number: true },
    { key: "hosts", label: "hosts", number: true, show: whole }, { key: "recordings", label: "recordings", number: true, show: whole }] })]);
}

function renderAbout(panel) {
  add(panel, [h("h2", {}, "About this page"),
    h("p", {}, "Every recording is a short look at a running program by a clock: at each tick it is noted whether the program waits for memory, and for which object. ",
      "Shares are of such samples, so they are estimates; times are samples times the period between them."),
    h("p", {}, "An object is a variable, or all heap blocks made at one place. ", h("code", {}, "<all memory>"), " in a comparison is waiting for whatever.")]);
}
