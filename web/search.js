// The page for tables. The worker gets the question and returns the answer. This page has no key.

import { asking } from "./asking.js";
import { $, admitted, alarm, hex, not_served, origin, plan, say, server_of, size, state, time } from "./words.js";

const worker = new Worker(new URL("search-worker.js", import.meta.url), { type: "module" });
const ask = asking(worker, () => {}, alarm);
const LEAST = 100; // places of a cell, below which a question is not sent
const view = { server: server_of(location, "search"), tables: [], about: null, registered: 0, last: null, file: null };

const REFUSALS = {
  hidden: "This server hides no places in this table: show the place, or ask another server.",
  budget: "You have asked this table as often as its owner allows.",
  region: "You have asked about this part of the table as often as its owner allows.",
  busy: "The server is busy. Try again in a moment.",
  clients: "The server takes no more clients.",
  table: "The table is no longer there: reload the page.",
};

function failed(error) {
  alarm(REFUSALS[error.word] ?? `It did not work: ${error.message}.`);
}

async function begin(token) {
  view.tables = await admitted(ask, { url: view.server, token }, "no table to ask. Start it with: tobari serve --search TABLE.tsi");
  if (!view.tables) return;
  const known = view.tables.filter(({ mode }) => ["plain", "labels"].includes(mode));
  if (known.length === 0) {
    return not_served("This server's tables are served in a mode that this page does not know: ask them by the command line, tobari search query.");
  }
  view.tables = known;
  $("table").replaceChildren(...known.map(({ name, label }) => new Option(label || name.slice(0, 8), name)));
  $("tables").hidden = known.length < 2;
  await choose(known[0]);
}

async function choose(table) {
  view.about = await ask("take", { chosen: table });
  const { kind, label, entries, sites, examples, least, longest } = view.about;
  const count = (number) => number.toLocaleString("en");
  const words = {
    panel: `${count(entries)} haplotypes at ${count(sites)} sites; up to ${longest} alleles in a question.`,
    variants: `${count(entries)} alleles at each of ${count(sites)} sites, without phase: one allele in a question.`,
    keys: `${count(entries)} keys.`,
  };
  $("about").textContent = `${label ? `“${label}”: ` : ""}${words[kind]}${least > 1 ? ` Counts below ${least} are told as 0.` : ""}`;
  [$("of-sites").hidden, $("of-keys").hidden] = [kind === "keys", kind !== "keys"];
  const { at, alleles, key, longest: whether, sites: number } = $("question").elements;
  [at.required, alleles.required, key.required] = [kind !== "keys", kind !== "keys", kind === "keys"];
  // disable hidden fields, so that the browser does not require them
  [at.disabled, alleles.disabled, key.disabled] = [kind === "keys", kind === "keys", kind !== "keys"];
  at.placeholder = examples[0] ?? "";
  alleles.maxLength = Math.max(1, longest);
  // hide the number where only one is possible
  number.disabled = number.closest("label").hidden = longest < 2;
  if (longest > 1) [number.max, number.value] = [longest, Math.min(number.value, longest)];
  [view.file, $("haplotypes").hidden] = [null, true];
  whether.closest("label").hidden = kind !== "panel";
  longest_shows();
  $("example").hidden = !view.about.example;
  $("examples").replaceChildren(...examples.map((name) => new Option(name)));
  [$("work").hidden, $("plan").hidden] = [false, false];
  steps();
  state("Ready", "joined");
}

/// A longest match shows the place: every number of sites would be a question of its own.
function longest_shows() {
  const { longest, place } = $("question").elements;
  const shown = place.value === "shown";
  longest.disabled = !shown;
  if (!shown) longest.checked = false;
}

/// A question that makes sense for the table. It is nobody's secret, so its place is shown where
/// too few others are beside it.
function example() {
  const { at, alleles, place, longest } = $("question").elements;
  const { example } = view.about;
  [at.value, alleles.value, longest.checked] = [example.at, example.alleles, false];
  const hides = example.places >= (view.least ?? LEAST) || hidden_for(example.alleles.length);
  place.value = hides ? "hidden" : "shown";
  longest_shows();
}

/// Whether the server hides the place among all places of the table, for this number of alleles.
function hidden_for(length) {
  const { hidden = [] } = view.tables.find(({ name }) => name === ($("table").value || name)) ?? {};
  return hidden.includes(String(length));
}

/// Reads a person's alleles at the place of the question, and offers them.
async function take_from(file) {
  const { at, sites } = $("question").elements;
  view.file = file;
  $("file-help").textContent = `Reading ${file.name}…`;
  $("haplotypes").hidden = true;
  try {
    const told = await ask("sample", { file, at: at.value.trim(), count: Math.max(1, Number(sites.value)) });
    if (view.file === file) offer(file.name, told);
  } catch (error) {
    $("file-help").textContent = `${file.name} cannot be used.`;
    alarm(`${file.name}: ${error.message}.`);
  }
}

function offer(name, { at, haplotypes, ended }) {
  const form = $("question").elements;
  const end = ended && `${ended.site.chromosome}:${ended.site.position} ${ended.why}`;
  if (haplotypes.length === 0) throw new Error(end);
  if (!form.at.value.trim()) form.at.value = at;
  $("file-help").textContent = `Read in this tab, and not sent.${end ? ` It ends before ${end}.` : ""}`;
  const choices = haplotypes.map((alleles, i) => {
    const [label, choice, text] = ["label", "input", "code"].map((what) => document.createElement(what));
    Object.assign(choice, { type: "radio", name: "haplotype", value: alleles, onchange: () => (form.alleles.value = alleles) });
    text.textContent = alleles;
    label.append(choice, haplotypes.length > 1 ? `Haplotype ${i + 1} ` : "", text);
    return label;
  });
  $("haplotypes").querySelector("legend").textContent = `${name}, from ${form.at.value.trim()} on`;
  $("haplotypes").querySelector("div").replaceChildren(...choices);
  $("haplotypes").hidden = false;
  choices[0].firstChild.click();
  say(`${haplotypes.length} haplotypes of ${haplotypes[0].length} alleles were read`);
}

$("question").elements.place.onchange = longest_shows;
$("example").onclick = example;

$("file").onchange = ({ target }) => {
  if (target.files.length > 0) take_from(target.files[0]);
  target.value = "";
};
for (const what of ["dragover", "dragleave", "drop"]) {
  $("person").addEventListener(what, (event) => {
    event.preventDefault();
    $("person").classList.toggle("over", what === "dragover");
    const [file] = what === "drop" ? event.dataTransfer.files : [];
    if (file) take_from(file);
  });
}
for (const name of ["at", "sites"]) {
  $("question").elements[name].addEventListener("change", () => view.file && take_from(view.file));
}

$("question").onsubmit = async (event) => {
  event.preventDefault();
  const { at, alleles, key, place, longest } = event.target.elements;
  const keys = view.about.kind === "keys";
  const [from, pattern] = keys ? ["", ""] : [at.value.trim(), alleles.value.trim()];
  const shown = place.value === "shown" ? "place" : hidden_for(pattern.length) ? "nothing" : "cell";
  const wanted = {
    at: from, alleles: pattern, key: keys ? key.value : "", shown: keys ? "place" : shown,
    least: view.least ?? LEAST, longest: !keys && longest.checked,
  };
  $("ask").disabled = true;
  $("busy").hidden = false;
  $("busy-what").textContent = "Encrypted, and on its way…";
  $("answer").classList.add("old");
  try {
    answered(await ask("search", { wanted }), wanted);
  } catch (error) {
    failed(error);
  }
  $("ask").disabled = false;
  $("busy").hidden = true;
};

function answered({ heard, seen, times, registered, up, down, sample }, wanted) {
  view.registered += registered;
  view.last = { times, up, down, seen };
  const { found, count, longest } = heard;
  const [big, more] =
    longest !== null
      ? [String(longest), `of ${wanted.alleles.length} alleles occur, from the first on`]
      : wanted.longest && !found
        ? ["0", `of ${wanted.alleles.length} alleles occur, from the first on`]
        : [String(count ?? (found ? "yes" : "no")), found ? "times in the table" : "it is not in the table, or too seldom to be told"];
  $("answer").textContent = big;
  $("answer").classList.remove("old");
  const odds = seen.false_matches === null ? "" : ` (wrong by chance: below 2^${Math.ceil(seen.false_matches)})`;
  $("answer-more").textContent = more + (found ? odds : "");
  say(`The answer is ${big}, ${more}`);
  $("held-key").textContent = size(view.registered);
  $("held-up").textContent = size(up);
  $("held-down").textContent = size(down);
  $("hex").textContent = hex(sample);
  const { place, cell, among } = seen;
  const many = wanted.alleles.length;
  $("seen").textContent =
    place !== null
      ? `That ${many} alleles are asked for from this site on, and not which:`
      : among === null
        ? "That a key is asked for, and of which table."
        : `That ${many} alleles are asked for, and not which, from one of ${among.toLocaleString("en")} sites on, and not from which${cell ? ". The sites are all of these bases:" : "."}`;
  const shown = [place ?? cell].filter(Boolean);
  $("places").replaceChildren(...shown.map((name) => Object.assign(document.createElement("li"), { textContent: name })));
  Object.assign($("steps").dataset, { up, down, registered: view.registered });
  steps();
}

function steps() {
  const { times = {}, up, down, seen } = view.last ?? {};
  const entries = view.about.entries.toLocaleString("en");
  plan([
    ["encrypt what is asked", "this tab", "the question", time(times.encrypt)],
    [`compare with ${seen?.cell ? "the entries of the cell" : `${entries} entries`}, mask what differs, shuffle`, "the server, a plain process", "ciphertext and its own table", "within the next"],
    [up ? `${size(up)} up, ${size(down)} down, and waiting` : "there and back", "the network", "ciphertext", time(times.wait)],
    ["decrypt the answer", "this tab", "the answer", time(times.decrypt)],
  ]);
}

$("door").onsubmit = (event) => {
  event.preventDefault();
  begin(event.target.elements.token.value.trim()).catch(failed);
};
$("table").onchange = () => choose(view.tables.find(({ name }) => name === $("table").value)).catch(failed);

origin();
if (new URLSearchParams(location.search).has("tap")) globalThis.tobari = { ask, view };
begin("").catch(failed);
