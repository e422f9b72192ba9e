// The page for fleets. The worker gets readings and returns decrypted results. This page has no
// key. With a fleet's name after the #, the page is for people without a key, and has no worker.

import { asking } from "./asking.js";
import { bin_name, draw, table } from "./bins.js";
import { show } from "./digit.js";
import { Server } from "./server.js";
import { $, admitted, alarm, hex, not_served, origin, plan, say, server_of, size, state, time } from "./words.js";

const SIMULATED = 50;
const SENDING = 20;
const SIDE = 28;
const LOOK_MS = 2000; // how often a page without a key updates

const search = new URLSearchParams(location.search);
const WINDOW_S = Math.min(60, Math.max(2, Number(search.get("window")) || 10));
const view = { server: server_of(location, "sense"), offered: null, fleet: null, times: {}, last: null, held: null, ahead: 0, leave: null, opened: 0 };
let ask = null;

const REFUSALS = {
  quota: "The server has no room for another fleet. They end after a while: try again in a few minutes.",
  spent: "The fleet has sent all that the server takes of one, and has ended. Make another.",
  fleet: "The fleet has ended: the server keeps none for longer. Make another.",
  busy: "The server is busy. Try again in a moment.",
  enough: "That is as often as a device counts in a window. Wait for the next one.",
  reading: "That is beyond what this thermometer measures.",
};
const failed = (error) => alarm(REFUSALS[error.word] ?? `It did not work: ${error.message}.`);

const degrees = (value) => `${value.toFixed(1)} °C`;
const clock_of = (ms) => new Date(ms).toLocaleTimeString("en", { hour12: false });
const figure = (figures, kind) => figures?.find((one) => one.kind === kind);

// ---- the server's data, the same for everybody

function bytes_of(text) {
  return Uint8Array.from(text.match(/../g) ?? [], (byte) => parseInt(byte, 16));
}

function held(told) {
  view.held = told;
  view.ahead = told.now_ms - Date.now();
  $("frame").textContent = hex(bytes_of(told.frame).subarray(-400));
  $("answer").textContent = hex(bytes_of(told.answer).subarray(0, 400));
  $("held-objects").textContent = size(told.object_bytes);
  $("held-frames").textContent = told.frames === 0 ? "none yet" : `${told.frames.toLocaleString("en")} of ${told.frame.length / 2} bytes`;
  $("held-answers").textContent = told.answers === 0 ? "none yet" : `${told.answers.toLocaleString("en")}, the newest of ${size(told.answer_bytes)}`;
  $("held-bytes").textContent = `${size(told.up)}, ${size(told.down)}`;
  $("left").textContent = `The fleet ends in ${Math.ceil(told.left_s / 60)} min at the latest.`;
  Object.assign($("steps").dataset, { frames: told.frames, answers: told.answers });
}

// ---- with the key

async function begin(token) {
  view.offered = await admitted(ask, { url: view.server, token }, "no room for devices. Start it with: tobari serve --sense FOLDER");
  if (!view.offered) return;
  $("work").hidden = $("plan").hidden = false;
  await make();
}

/// Makes keys and devices; nothing is sent.
async function make() {
  [$("begin").hidden, $("live").hidden, $("ways").hidden] = [false, true, true];
  Object.assign(view, { fleet: null, last: null, leave: null });
  $("start").disabled = true;
  state("Making keys…");
  view.fleet = await ask("make", { devices: SIMULATED, window_s: WINDOW_S });
  const { fleet } = view;
  Object.assign(view.times, fleet.times);
  $("most").textContent = fleet.devices - 1;
  $("size").textContent = size(fleet.bytes);
  $("life").textContent = `${Math.round(view.offered.passing.life_s / 60)} minutes`;
  $("mobile").hidden = !(matchMedia("(pointer: coarse)").matches || navigator.connection?.saveData);
  $("start").textContent = `Send ${size(fleet.bytes)} and begin`;
  const [least, most, step] = fleet.range;
  Object.assign($("reading"), { min: least, max: most, step });
  Object.assign($("sending"), { max: fleet.devices - 1, value: SENDING });
  $("threshold").textContent = fleet.alarm;
  $("own-said").textContent = `Above ${fleet.alarm} °C rings the alarm.`;
  $("least").textContent = fleet.least_devices;
  $("outside").href = `#fleet=${fleet.fleet}`;
  draw($("bins"), fleet.edges);
  table($("numbers"), fleet.edges);
  sending();
  steps();
  $("start").disabled = false;
  state("Not begun");
}

async function start() {
  $("start").disabled = true;
  $("busy").hidden = false;
  $("busy-what").textContent = "On its way…";
  try {
    const { times, leave } = await ask("begin", { sending: Number($("sending").value) });
    Object.assign(view.times, times);
    view.leave = leave;
    [$("begin").hidden, $("live").hidden, $("ways").hidden] = [true, false, false];
    state("Live", "joined");
    say("The fleet is live");
    steps();
  } catch (error) {
    failed(error);
    $("start").disabled = false;
  }
  $("busy").hidden = true;
}

async function over(word, text) {
  failed({ word, message: text });
  state("Ended", "over");
  await make().catch(failed);
}

function sending() {
  const count = Number($("sending").value);
  $("sending-said").textContent = `${count} simulated thermometers`;
  return count;
}

function opened({ release, plain, exact, times, down }) {
  const [group] = release.groups;
  const counts = figure(group.figures, "histogram").counts;
  const known = figure(plain, "histogram")?.counts;
  const { edges } = view.fleet;
  view.opened += 1;
  view.last = { ...view.last, ...times, down, devices: group.devices };
  draw($("bins"), edges, counts, known);
  table($("numbers"), edges, counts, known);
  const mean = group.figures.find((one) => one.statistic === "mean");
  const above = figure(group.figures, "above");
  $("when").textContent = `${clock_of(release.start_ms)} to ${clock_of(release.end_ms)}, ${group.devices} devices`;
  $("mean").textContent = degrees(mean.value);
  $("count").textContent = String(figure(group.figures, "count").value);
  $("above").textContent = above.alarm ? `${above.count}: alarm` : `${above.count}`;
  $("above").classList.toggle("rings", above.alarm);
  $("exact").textContent = exact === null ? "not known" : exact ? "the same" : "differs";
  $("exact").title = exact ? `Both say ${mean.exact} in steps of bytes` : "";
  if (exact === false) alarm("What was opened is not what this tab has sent: the server summed something else.");
  const said = counts.flatMap((count, bin) => (count > 0 ? [`${bin_name(edges, bin)}: ${count}`] : [])).join(", ");
  $("bins-said").textContent = `Histogram of the window to ${clock_of(release.end_ms)}. ${said}.`;
  say(`Mean ${degrees(mean.value)}${above.alarm ? ", alarm" : ""}`);
  Object.assign($("steps").dataset, { opened: view.opened, exact: String(exact), counts: counts.join(), plain: (known ?? []).join(), start: release.start_ms, alarm: String(above.alarm) });
  steps();
}

function without(start, why) {
  const { edges } = view.fleet;
  draw($("bins"), edges);
  table($("numbers"), edges);
  $("when").textContent = `${clock_of(start)} to ${clock_of(start + view.fleet.window_ms)}: ${why}`;
  $("bins-said").textContent = `No histogram: ${why}.`;
  for (const id of ["mean", "count", "above", "exact"]) $(id).textContent = "–";
  $("above").classList.remove("rings");
  say(why);
  $("steps").dataset.few = start;
}

function heard({ progress, batch, opened: out, few, withheld, held: told, problem }) {
  if (progress) {
    Object.assign($("progress"), { max: progress.total, value: progress.sent });
    $("busy-what").textContent = progress.sent < progress.total ? `Sending ${size(progress.sent)} of ${size(progress.total)}` : "The server reads them…";
  }
  if (batch) {
    view.last = { ...view.last, seal: batch.times.seal / batch.sent, send: batch.times.send, up: batch.up };
    steps();
  }
  if (out) opened(out);
  if (few) without(few.start, "too few devices");
  if (withheld) without(withheld.start, "withheld: what came is no result of the question");
  if (told) {
    held(told);
    if ($("state").dataset.state === "reconnecting") state("Live", "joined");
  }
  if (problem?.over) over(problem.word, problem.text);
  else if (problem) state("Trying again…", "reconnecting");
}

/// The steps, with places and times.
function steps() {
  const { times, last, fleet } = view;
  const known = (value) => (value === undefined ? "–" : time(value));
  plan([
    ["make keys, devices and the question", "this tab", "the keys", known(times.make)],
    [`give the server secrets under encryption${fleet ? `, ${size(fleet.bytes)}` : ""}`, "the network", "ciphertext", known(times.publish)],
    ["seal a frame", "this tab, as a device", "its reading", known(last?.seal)],
    [last?.up ? `${size(last.up)} of frames up, checked and on the disk` : "frames up, checked and on the disk", "the server, a plain process", "ciphertext, and whose it is", known(last?.send)],
    ["take the devices’ secrets off and sum up", "the server, a plain process", "ciphertext", known(last?.compute)],
    [last?.down ? `${size(last.down)} down, and waiting` : "there and back", "the network", "ciphertext", last?.wait === undefined ? "–" : time(Math.max(0, last.wait - last.compute))],
    ["open and check the sums", "this tab", "the sums, and no reading", known(last?.open)],
  ]);
}

/// Shows the window's clock, in the server's time.
function tick() {
  if (!view.fleet || $("live").hidden) return;
  const { window_ms } = view.fleet;
  const into = (Date.now() + view.ahead) % window_ms;
  $("window").value = into / window_ms;
  const left = Math.ceil((window_ms - into) / 1000);
  if ($("clock").dataset.left === String(left)) return;
  $("clock").dataset.left = left;
  $("clock").textContent = `This window ends in ${left} s`;
}

$("door").onsubmit = (event) => {
  event.preventDefault();
  begin(event.target.elements.token.value.trim()).catch(failed);
};
$("start").onclick = start;
$("sending").oninput = () => ask("sending", { count: sending() }).catch(failed);
$("own").onsubmit = async (event) => {
  event.preventDefault();
  const reading = event.target.elements.reading.valueAsNumber;
  try {
    const { stored, up } = await ask("own", { reading });
    if (!stored) throw new Error("the server did not take it");
    const end = stored - (stored % view.fleet.window_ms) + view.fleet.window_ms;
    $("own-said").textContent = `${up} bytes are there; they count in the window that ends at ${clock_of(end)}.`;
    $("steps").dataset.own = end - view.fleet.window_ms;
  } catch (error) {
    $("own-said").textContent = REFUSALS[error.word] ?? error.message;
  }
};
$("end").onclick = async () => {
  view.leave = null;
  await ask("end").catch(failed);
  state("Ended", "over");
  await make().catch(failed);
};
addEventListener("pagehide", () => {
  if (view.leave) fetch(view.leave.url, { method: "DELETE", headers: view.leave.headers, keepalive: true }).catch(() => undefined);
});

// ---- without the key

async function look(fleet) {
  const server = new Server(view.server);
  document.body.dataset.view = "outside";
  $("title").textContent = "What somebody without the key sees";
  $("lead").textContent = "A fleet whose key is in another tab. The server holds what stands here, and so does whoever runs it.";
  $("trust").textContent = `No key is here. The page came from ${location.host}; its files have the SHA-256`;
  [$("holder").hidden, $("keyless").hidden, $("work").hidden] = [true, false, false];
  for (;;) {
    try {
      held(await (await server.ask(`/sense/v1/fleets/${fleet}/held`)).json());
      const { answer, answers, answer_bytes, window_ms, questions } = view.held;
      state("Looking", "joined");
      show($("noise"), bytes_of(answer), SIDE, (value) => [value, value, value, 255]);
      if (answers > 0) {
        $("noise-said").textContent = `The answer to the window from ${clock_of(window_ms)} to ${clock_of(window_ms + questions[0].length_ms)}: ${size(answer_bytes)}, of which ${SIDE * SIDE} are drawn.`;
      }
    } catch (error) {
      if (error.word === "fleet") return not_served("This fleet has ended, or there never was one of this name.");
      state("Trying again…", "reconnecting");
    }
    await new Promise((done) => setTimeout(done, LOOK_MS));
  }
}

// ---- begin

origin();
const outside = location.hash.match(/^#fleet=([0-9a-f]{16})$/)?.[1];
// a skip link changes the # too
addEventListener("hashchange", () => location.hash.startsWith("#fleet=") && location.reload());
if (outside) {
  look(outside);
} else {
  const worker = new Worker(new URL("sense-worker.js", import.meta.url), { type: "module" });
  ask = asking(worker, heard, alarm);
  if (search.has("tap")) globalThis.tobari = { ask, view };
  setInterval(tick, 250);
  begin("").catch(failed);
}
