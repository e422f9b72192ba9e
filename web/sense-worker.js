// The worker of the page for fleets: the key holder, the devices, their requests, and the clock.

import { Sense } from "./sense-client.js";
import { Refusal, Server, answering, bearer } from "./server.js";

const compiled = WebAssembly.compileStreaming(fetch(new URL("dist/sense.wasm", import.meta.url)));
const random = (bytes) => crypto.getRandomValues(bytes);
const TICK_MS = 200;
const LOOK_MS = 1000; // how often the worker asks for the server's state
const AFTER_MS = 150; // wait after a window's end, as two clocks differ
const PARTS = [0.06, 0.26, 0.46, 0.66]; // of a window: a quarter of simulated devices sends

let client = null;
let server = null;
let fleet = null; // its description and progress
let ahead = 0; // milliseconds by which the server's clock is ahead

const since = (began) => performance.now() - began;
const digits = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/// Does one thing after the other, because there is one module.
let last = Promise.resolve();
const in_turn = (work) => (last = last.then(work, work));

function clock(told_ms, asked) {
  ahead = told_ms - (asked + Date.now()) / 2;
}

// ---- simulated devices

const bell = () => Math.random() + Math.random() + Math.random() + Math.random() - 2; // mean 0, deviation 0.58

/// Rooms, somewhat warmer or colder than others, with their temperatures now.
const simulated = (count) =>
  Array.from({ length: count }, () => {
    const usual = 20 + 4 * bell();
    return { usual, now: usual };
  });

function drift(devices) {
  for (const device of devices) device.now += 0.2 * (device.usual - device.now) + 0.8 * bell();
}

// ---- frames

/// Seals readings and sends them for storage. Returns the time of storage, and the durations.
async function send(readings) {
  const times = {};
  let began = performance.now();
  const frames = client.seal(readings);
  if (frames === null) throw new Refusal("expected a reading in the range of the device, found another", "reading");
  times.seal = since(began);
  began = performance.now();
  let stored = 0;
  try {
    const response = await server.ask(`${fleet.path}/frames`, { method: "POST", body: frames });
    const { taken } = await response.json();
    if (taken === readings.length) stored = Number(response.headers.get("Tobari-Stored"));
  } finally {
    // comparisons leave out frames that may be lost
    if (stored) client.stored(stored);
    else client.lost();
  }
  times.send = since(began);
  return { stored, times, sent: readings.length, up: frames.length };
}

// ---- a window

async function windows() {
  const question = `${fleet.path}/questions/${fleet.question}/windows`;
  const came = fleet.came;
  const { windows } = await (await server.ask(question)).json();
  // Fetch all results before decrypting one, so the server learns nothing from the decryption.
  // Decrypt every fetched result, even after an error: the server may have deleted it.
  const fetched = [];
  try {
    for (const start of windows) await fetchWindow(question, start, came, fetched);
  } finally {
    fetched.forEach(openWindow);
  }
}

async function fetchWindow(question, start, came, fetched) {
  if (!came.has(start)) {
    const times = {};
    const began = performance.now();
    const response = await server.ask(`${question}/${start}`, { method: "POST" }, [404]);
    const few = response.status === 404 && response.headers.get("Tobari-Refusal") === "empty";
    if (response.status === 404 && !few) throw new Refusal((await response.text()).trim(), response.headers.get("Tobari-Refusal") ?? "404");
    const answer = few ? null : new Uint8Array(await response.arrayBuffer());
    times.wait = since(began);
    times.compute = Number((response.headers.get("Server-Timing") ?? "").match(/answer;dur=([\d.]+)/)?.[1] ?? 0);
    came.add(start);
    if (few) postMessage({ few: { start } });
    else fetched.push({ start, answer, times });
  }
  await server.ask(`${question}/${start}`, { method: "DELETE" });
}

function openWindow({ start, answer, times }) {
  const began = performance.now();
  try {
    const opened = client.open(start, answer);
    times.open = since(began);
    postMessage({ opened: { ...opened, times, down: answer.length } });
  } catch {
    postMessage({ withheld: { start } });
  }
}

async function look() {
  const asked = Date.now();
  const held = await (await server.ask(`${fleet.path}/held`)).json();
  clock(held.now_ms, asked);
  postMessage({ held });
}

// ---- time

async function step() {
  if (!fleet?.running) return;
  const now = Math.round(Date.now() + ahead);
  const start = now - (now % fleet.window_ms);
  if (start !== fleet.start) {
    Object.assign(fleet, { start, parts: 0, own: 0, due: true });
    drift(fleet.simulated);
  }
  const parts = PARTS.filter((part) => now - start >= part * fleet.window_ms).length;
  if (parts > fleet.parts) {
    const from = fleet.parts;
    fleet.parts = parts;
    const turn = (device) => device % PARTS.length >= from && device % PARTS.length < parts;
    const readings = fleet.simulated.slice(0, fleet.sending).flatMap(({ now }, device) => (turn(device) ? [[device, now]] : []));
    if (readings.length > 0) postMessage({ batch: await send(readings) });
  }
  if (fleet.due && now - start >= AFTER_MS) {
    await windows();
    fleet.due = false;
  }
  if (now - fleet.looked >= LOOK_MS) {
    fleet.looked = now;
    await look();
  }
}

function stop() {
  fleet = null;
  client.forget();
}

async function tick() {
  try {
    await step();
  } catch (error) {
    // an ended or spent fleet is over; after other errors the worker tries again
    const over = ["fleet", "spent"].includes(error.word);
    if (over) stop();
    postMessage({ problem: { word: error.word ?? "connection", text: error.message, over } });
  }
  setTimeout(() => in_turn(tick), TICK_MS);
}

const handlers = {
  /// The offer of a server.
  list: async ({ url, token }) => {
    client ??= await Sense.make(await compiled, random);
    server = new Server(url, { ...bearer(token), "Tobari-Passing": digits(random(new Uint8Array(32))) });
    const asked = Date.now();
    const offered = await (await server.ask("/sense/v1")).json();
    clock(offered.now_ms, asked);
    return offered;
  },
  /// Makes keys and devices; nothing is sent.
  make: async ({ devices, window_s }) => {
    const began = performance.now();
    const told = client.begin({ devices: devices + 1, window_s });
    fleet = { ...told, path: `/sense/v1/fleets/${told.fleet}`, running: false, simulated: simulated(devices), sending: 0, own_device: devices, looked: 0, own: 0, came: new Set() };
    return { ...told, times: { make: since(began) } };
  },
  /// Sends keys and descriptions to the server, and begins.
  begin: async ({ sending }) => {
    const began = performance.now();
    const total = fleet.bytes;
    let sent = 0;
    for (const [index, [name, length]] of fleet.objects.entries()) {
      await server.upload(`${fleet.path}/objects/${name}`, client.object(index), (gone) => postMessage({ progress: { sent: sent + gone, total } }));
      sent += length;
    }
    await server.ask(fleet.path, { method: "POST", body: client.bundle() });
    await server.ask(`${fleet.path}/questions/${fleet.question}`, { method: "POST", body: client.order() });
    Object.assign(fleet, { running: true, sending });
    await look();
    // the page's request when it closes
    return { times: { publish: since(began) }, leave: { url: server.url + fleet.path, headers: server.as } };
  },
  /// Sets the number of simulated devices that send.
  sending: async ({ count }) => {
    if (fleet) fleet.sending = count;
    return true;
  },
  /// Sends the person's own reading.
  own: async ({ reading }) => {
    if (!fleet?.running) throw new Refusal("the fleet has ended", "fleet");
    if (fleet.own >= fleet.frames) throw new Refusal(`${fleet.frames} of a device count in a window`, "enough");
    const done = await send([[fleet.own_device, reading]]);
    fleet.own += 1;
    return done;
  },
  /// Ends the fleet: the server deletes its data, and the tab its keys.
  end: async () => {
    const path = fleet?.path;
    const running = fleet?.running;
    if (fleet) stop();
    if (running) await server.ask(path, { method: "DELETE" }, [404]);
    return true;
  },
};

answering(Object.fromEntries(Object.entries(handlers).map(([name, work]) => [name, (data) => in_turn(() => work(data))])));
setTimeout(() => in_turn(tick), TICK_MS);
