// The page for images. The worker gets the drawing and returns the result. This page has no key.

import { asking } from "./asking.js";
import { Pad, show } from "./digit.js";
import { $, admitted, alarm, hex, not_served, origin, plan, say, server_of, size, state, time } from "./words.js";

const SIDE = 28;

const worker = new Worker(new URL("infer-worker.js", import.meta.url), { type: "module" });
const ask = asking(worker, heard, alarm);
const view = { server: server_of(location, "infer"), models: [], model: null, key: null, sent: null, busy: false, last: null };
const pad = new Pad($("pad"), drawn);

// ---- the server and its models

const REFUSALS = {
  quota: "The server has no room for another key. Its operator can give it more.",
  busy: "The server is busy. Try again in a moment.",
  connection: "The connection broke off. Try again.",
  model: "The server no longer has this model: reload the page.",
};

function failed(error) {
  alarm(REFUSALS[error.word] ?? `It did not work: ${error.message}.`);
}

async function begin(token) {
  view.models = await admitted(ask, { url: view.server, token }, "no model to ask. Start it with: tobari serve --infer digits");
  if (!view.models) return;
  const takes = ({ image: [channels, height, width], large_keys }) =>
    channels === 1 && height === SIDE && width === SIDE && !large_keys;
  view.models = view.models.filter(takes);
  if (view.models.length === 0) {
    return not_served(`None of this server's models takes a grey image of ${SIDE} × ${SIDE} pixels and keys that fit a page.`);
  }
  $("model").replaceChildren(...view.models.map(({ name, digest }) => new Option(name, digest)));
  $("models").hidden = view.models.length < 2;
  await choose(view.models[0]);
}

async function choose(model) {
  Object.assign(view, { model, key: null, sent: null, last: null });
  for (const id of ["key-size", "make-size"]) $(id).textContent = size(model.key_bytes);
  $("mobile").hidden = !(matchMedia("(pointer: coarse)").matches || navigator.connection?.saveData);
  $("work").hidden = $("plan").hidden = false;
  $("plan-what").textContent = `CKKS, set ${model.set}, layout ${model.layout}. Every step is fixed before it runs, and does not depend on what is drawn.`;
  forget_answer();
  const kept = await ask("kept", { digest: model.digest });
  keyless();
  if (kept) await working("Looking for your key on the server…", () => keyed(kept, "kept in this browser"));
}

function keyless() {
  [$("keyless").hidden, $("keyed").hidden] = [false, true];
  $("held-keys").textContent = "none yet";
  state("No key yet");
  controls();
}

/// After the key is ready, sends missing keys to the server.
async function keyed(key, how, fresh = false) {
  const sent = await ask("send", { fresh });
  view.key = key;
  [$("keyless").hidden, $("keyed").hidden] = [true, false];
  $("key-name").textContent = key.keys.slice(0, 8);
  $("key-how").textContent = how ? `, ${how}` : "";
  $("held-keys").textContent = `${size(view.model.key_bytes)}${sent === 0 ? ", from before" : ""}`;
  view.sent = sent;
  state("Ready", "joined");
  controls();
}

// ---- slow work

async function working(words, work) {
  view.busy = true;
  $("busy").hidden = false;
  $("busy-what").textContent = words;
  $("progress").removeAttribute("value");
  controls();
  try {
    await work();
  } catch (error) {
    failed(error);
  } finally {
    view.busy = false;
    $("busy").hidden = true;
    controls();
  }
}

function heard({ progress }) {
  if (!progress) return;
  $("progress").max = progress.total;
  $("progress").value = progress.sent;
  $("busy-what").textContent = progress.sent < progress.total ? `Sending ${size(progress.sent)} of ${size(progress.total)}` : "The server makes the keys ready…";
}

function controls() {
  $("make").disabled = $("model").disabled = $("forget").disabled = view.busy;
  $("classify").disabled = view.busy || pad.empty || view.key === null;
}

// ---- the drawing and its answer

function forget_answer() {
  $("label").textContent = "–";
  $("label").classList.remove("old");
  $("next").textContent = "";
  view.last = null;
  steps();
}

function drawn() {
  const pixels = pad.pixels();
  show($("seen"), pixels, SIDE, (value) => [value, value, value, 255]);
  $("label").classList.toggle("old", view.last !== null);
  $("ghost").hidden = !pad.empty;
  controls();
}

function answered({ labels, close, times, steps: server, up, down, sample }) {
  view.last = { times, server, up, down };
  const [first, ...rest] = labels;
  $("label").textContent = String(first);
  $("label").classList.remove("old");
  $("next").textContent = close ? `or ${rest[0]}: too close to tell` : rest.length > 0 ? `then ${rest.join(", ")}` : "";
  say(close ? `The answer is ${first} or ${rest[0]}: they are too close to tell` : `The answer is ${first}`);
  $("held-up").textContent = size(up);
  $("held-down").textContent = size(down);
  show($("held"), sample, SIDE, (value) => [value, value, value, 255]);
  $("hex").textContent = hex(sample.subarray(0, 400));
  Object.assign($("steps").dataset, { up, down, label: first });
  steps();
}

/// The steps, with places and times.
function steps() {
  const { times = {}, server = [], up, down } = view.last ?? {};
  const stages = view.model?.stages ?? [];
  const known = server.length >= stages.length;
  const computed = server.reduce((sum, ms) => sum + ms, 0);
  const under = "ciphertext";
  const rows = [
    ["encrypt the image", "this tab", "the image", time(times.encrypt)],
    ...stages.map((name, at) => [name, "the server, a plain process", under, known ? time(server[at]) : "–"]),
    ...(server.length > stages.length ? [["hide what the answer does not need", "the server, a plain process", under, time(server.slice(stages.length).reduce((sum, ms) => sum + ms, 0))]] : []),
    [up ? `${size(up)} up, ${size(down)} down, and waiting` : "there and back", "the network", under, times.wait === undefined ? "–" : time(Math.max(0, times.wait - computed))],
    ["decrypt the answer", "this tab", "the label", time(times.decrypt)],
  ];
  plan(rows);
}

// ---- controls

$("door").onsubmit = (event) => {
  event.preventDefault();
  begin(event.target.elements.token.value.trim());
};
$("model").onchange = () => choose(view.models.find(({ digest }) => digest === $("model").value)).catch(failed);
$("clear").onclick = () => {
  pad.clear();
  forget_answer();
};
$("file").onchange = async ({ target }) => {
  const [file] = target.files;
  target.value = "";
  if (file) await pad.load(file).catch(() => alarm("This file is no picture that the browser can read."));
};
$("make").onclick = () =>
  working("Making a key in this tab…", async () => {
    const keep = $("keep").checked;
    const key = await ask("make", { digest: view.model.digest, keep });
    await keyed(key, keep ? "kept in this browser" : "gone with this tab", true);
    say("The key is ready");
  });
$("classify").onclick = () => working("Encrypted, and on its way…", async () => answered(await ask("classify", { pixels: pad.pixels() })));
$("forget").onclick = () =>
  working("Forgetting…", async () => {
    await ask("forget", { digest: view.model.digest });
    view.key = null;
    forget_answer();
    keyless();
  });
$("pad").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !$("classify").disabled) $("classify").click();
});

// ---- begin

origin();
drawn();
if (new URLSearchParams(location.search).has("tap")) globalThis.tobari = { ask, view, pad };
begin("").catch(failed);
