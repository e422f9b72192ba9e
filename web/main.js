// The page of a call: its display and controls. The worker has the keys and the sound.

import { Alarms } from "./alarms.js";
import { SoundCard } from "./audio.js";
import { fingerprint } from "./bundle.js";
import { People } from "./people.js";
import { Scope } from "./scope.js";

const $ = (id) => document.getElementById(id);
const query = new URLSearchParams(location.search);
const tapped = query.has("tap"); // for tests: the worker records sent and played sound

// settings stored on this machine; browsers without storage work, too
const kept = {
  get: (key) => {
    try {
      return localStorage.getItem(`tobari.${key}`) ?? "";
    } catch {
      return "";
    }
  },
  set: (key, value) => {
    try {
      localStorage.setItem(`tobari.${key}`, value);
    } catch {
      // not stored
    }
  },
};

const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
const asked = new Map();
let questions = 0;

/// Asks the worker, and waits for the answer.
function ask(what, details = {}, transfer = []) {
  const id = ++questions;
  return new Promise((resolve, reject) => {
    asked.set(id, { resolve, reject });
    worker.postMessage({ ask: what, id, ...details }, transfer);
  });
}

const view = { link: null, about: null, card: null, speak: true, muted: false, hand: false, state: "", meter: 0 };
/// The count of own late packets, and the earliest time of the next warning.
const late = { count: 0, until: 0 };
const people = new People($("people"), $("count"), $("now"), $("words"), act);
const scope = new Scope($("held"), $("heard"), $("held-text"));

worker.onmessage = ({ data }) => {
  if (data.answer !== undefined) {
    const { resolve, reject } = asked.get(data.answer) ?? {};
    asked.delete(data.answer);
    if (data.error) reject?.(new Error(data.error));
    else resolve?.(data.value);
  }
  if (data.state) changed(data);
  // after leaving, the page shows only alarms of the call
  const shown = (data.news ?? []).filter(({ news }) => view.state !== "over" || news === "alarm");
  shown.forEach(heard_of);
  if (data.show) show(data.show);
  if (data.rates) rates(data.rates);
};
worker.onerror = () => alarm("the client has failed: reload the page");

function only(name) {
  for (const id of ["begin", "door", "room", "over"]) $(id).hidden = id !== name;
  document.body.dataset.view = name;
}

function say(text) {
  $("say").textContent = text;
}

const alarms = new Alarms();

/// Shows alarms of one kind in one line: the last text, the count, and the time of the last alarm.
function alarm(text, kind = text) {
  const { count, last } = alarms.add(kind, text);
  const box = $("alarms");
  const line = Array.from(box.children).find((line) => line.dataset.kind === kind) ?? box.appendChild(alarm_line(kind));
  Object.assign(line.dataset, { text, count });
  line.querySelector("span").textContent = text;
  line.querySelector("b").textContent = count > 1 ? ` × ${count}, last at ${new Date(last).toLocaleTimeString()}` : "";
  for (const other of Array.from(box.children)) if (!alarms.kinds.has(other.dataset.kind)) other.remove();
}

function alarm_line(kind) {
  const line = document.createElement("p");
  line.dataset.kind = kind;
  const close = document.createElement("button");
  Object.assign(close, { type: "button", textContent: "Dismiss", onclick: () => no_alarm(kind) });
  line.append(document.createElement("span"), document.createElement("b"), close);
  return line;
}

/// Removes an alarm, after a person has seen it or its cause is gone.
function no_alarm(kind) {
  alarms.remove(kind);
  for (const line of Array.from($("alarms").children)) if (line.dataset.kind === kind) line.remove();
}

// ---- links

/// The link of this page: the page's own address, or, on another operator's page, the whole link
/// after the #.
function link_of({ hash, origin, pathname }) {
  const fragment = hash.slice(1);
  if (/^https?:\/\//.test(fragment)) return fragment;
  return fragment && /\/call\/[^/]+$/.test(pathname) ? `${origin}${pathname}#${fragment}` : null;
}

/// The server of this page, or null for a page without a server.
function server_of({ origin, pathname }) {
  const found = pathname.match(/^(.*)\/call\/[^/]*$/);
  return found ? origin + found[1] : null;
}

async function begin() {
  view.link = link_of(location);
  if (view.link === null) {
    $("server-field").hidden = server_of(location) !== null;
    $("made").hidden = true;
    return only("begin");
  }
  view.about = await ask("describe", { link: view.link });
  const { error, room, mode, keys, spurts, lobby, host, server } = view.about ?? { error: "this is not the link of a call" };
  only("door");
  $("door-form").hidden = Boolean(error);
  $("door-problem").textContent = error ?? "";
  if (error) return;
  document.title = `${room} · Tobari`;
  $("room-name").textContent = $("door-room").textContent = room;
  $("door-form").elements.name.value = kept.get("name");
  const words = [
    "Voices are added up while they are encrypted. The server cannot hear them",
    spurts ? ", but in this room it sees who talks and when" : ", nor tell who is talking",
    mode === "mask" ? "." : ` (mode ${mode}).`,
    keys === "mls" ? " The people in it agree on keys, anew whenever somebody comes or goes." : "",
    host ? " You are the host." : lobby ? " The host will let you in." : "",
    server === server_of(location) ? "" : ` The server is ${server}.`,
  ];
  $("door-what").textContent = words.join("");
  if (!globalThis.isSecureContext) problem("Browsers give a microphone to pages over HTTPS only: ask for an https address.");
}

$("begin-form").onsubmit = async (event) => {
  event.preventDefault();
  const { server, room, host, lobby, spurts, mls, shared } = event.target.elements;
  const order = {
    server: server_of(location) ?? server.value.replace(/\/+$/, ""),
    room: room.value, shared: shared.checked, spurts: spurts.checked, lobby: lobby.checked, host: host.checked, mls: mls.checked, speakers: 1024,
  };
  const links = await ask("links", { order });
  if (!links) return alarm("no link can be made of this: is the server's address whole, as in https://host:7610?");
  $("made-link").value = links.link;
  $("made-what").textContent = `Whoever has the link can ${order.mls ? "come into" : "hear"} the room: send it as you would send a key.`;
  $("made-host").hidden = !links.host_link;
  $("made-host-link").value = links.host_link ?? "";
  const enter = links.host_link ?? links.link;
  // another operator's page keeps its address
  $("made-enter").href = server_of(location) ? enter : `#${enter}`;
  $("made").hidden = false;
  $("made-enter").focus();
};

document.addEventListener("click", async ({ target }) => {
  const button = target.closest("[data-copy]");
  if (button) await copy($(button.dataset.copy).value, button);
});

async function copy(text, button) {
  const label = button.querySelector(".label") ?? button;
  const before = label.textContent;
  try {
    await navigator.clipboard.writeText(text);
    label.textContent = "Copied";
  } catch {
    label.textContent = "Copy it by hand";
  }
  say(label.textContent);
  setTimeout(() => (label.textContent = before), 1800);
}

addEventListener("hashchange", () => {
  if (view.card === null) begin();
});

// ---- joining and leaving

function problem(text) {
  $("door-problem").textContent = text;
}

$("door-form").onsubmit = async (event) => {
  event.preventDefault();
  const { name, listen } = event.target.elements;
  kept.set("name", name.value.trim());
  problem("");
  $("join").disabled = true;
  try {
    await enter(name.value.trim() || "Guest", !listen.checked);
  } catch (error) {
    await leave_card();
    const why = { NotAllowedError: "The microphone was not allowed.", NotFoundError: "There is no microphone." };
    problem(`${why[error.name] ?? error.message} You can join without one: “Only listen”.`);
  }
  $("join").disabled = false;
};

const choice = () => ({ microphone: kept.get("microphone"), speaker: kept.get("speaker"), plain: kept.get("plain") === "1" || query.has("plain") });

async function enter(name, speak) {
  view.card = await SoundCard.open(choice(), speak);
  [view.speak, view.muted, view.hand] = [speak, false, false];
  people.host = view.about.host;
  disconnected();
  alarms.clear();
  $("alarms").replaceChildren();
  Object.assign(late, { count: 0, until: 0 });
  $("fig-late").textContent = "none";
  $("figures").dataset.late = 0;
  const start = { link: view.link, name, speak, rate: view.card.rate };
  const ends = view.card.ends();
  await ask("join", { start, ends, tapped }, [ends.port]);
  only("room");
  controls();
  $("main").focus({ preventScroll: true });
  const holds = { mask: "321 masked samples", "elgamal-shared": "322 points of a curve", elgamal: "642 points of a curve" }[view.about.mode];
  $("heard-what").textContent = `the same sum, opened with the key ${view.about.keys === "mls" ? "that the people in the room agreed on" : "of your link"}`;
  $("held-note").textContent =
    `The server adds up packets of ${holds} every 20 ms, and sends everybody the same sum. Your client takes it only if it is what the people on its list have sent, and takes your own voice out of it.`;
}

async function leave_card() {
  await view.card?.close();
  view.card = null;
}

function changed({ state, reason }) {
  const words = { connecting: "Connecting…", reconnecting: "Connection lost: trying again…", waiting: "In the lobby", joined: "In the call", over: "Left" };
  view.state = state;
  $("state").textContent = words[state];
  $("state").dataset.state = state;
  $("lobby").hidden = state !== "waiting";
  if (state !== "joined") disconnected();
  if (state !== "over") return;
  $("over-why").textContent = reason ? sentence(reason) : "";
  leave_card();
  only("over");
  document.title = "Tobari call";
  $("again").focus();
}

/// Without a connection the page knows nothing of members, speech, mutes or losses, and nothing of
/// the line.
function disconnected() {
  people.forget();
  $("mute").classList.remove("by-host");
  for (const kind of ["far", "closing"]) no_alarm(kind);
  for (const figure of ["up", "down", "sums"]) $(`fig-${figure}`).textContent = "–";
  late.until = 0;
  say("");
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

// not a link, because the part after the # of this page is a key
$("skip").onclick = () => $("main").focus();
$("leave").onclick = () => ask("leave");
$("again").onclick = begin;

// ---- events

function heard_of(news) {
  const name = () => people.name(news.member);
  const handlers = {
    roster: () => {
      const { come, gone } = people.roster(news.members, news.words);
      const words = [...come.map((one) => `${people.name(one.member)} came`), ...gone.map((one) => `${one.name || "Somebody"} left`)];
      if (words.length > 0 && words.length < 6) say(words.join(", "));
    },
    talking: () => people.talks(news.member, news.talking),
    waiting: () => {
      people.waiting.set(news.member, news.name);
      people.render();
      say(`${name()} waits to be let in`);
    },
    left: () => {
      people.waiting.delete(news.member);
      people.hands.delete(news.member);
      people.render();
    },
    hand: () => {
      if (news.raised) people.hands.add(news.member);
      else people.hands.delete(news.member);
      people.render();
      say(`${name()} ${news.raised ? "wants to speak" : "has put the hand down"}`);
    },
    granted: () => granted(news.speak),
    muted: () => say(news.muted ? "The host has muted you" : "You are no longer muted by the host"),
    admitted: () => say("The host has let you in"),
    missing: () => {
      people.misses(news.member, news.missing);
      const you = people.members.some((one) => one.member === news.member && one.you);
      const who = you ? "You are" : `${name()} is`;
      say(news.missing ? `${who} missing from the sums: muted by the host, left out by the server, or on a line that carries nothing` : `${who} no longer missing from the sums`);
    },
    late: () => {
      late.count += 1;
      $("fig-late").textContent = `${late.count} packet${late.count === 1 ? "" : "s"}`;
      $("figures").dataset.late = late.count;
      // up to fifty a second, so one sentence covers ten seconds
      if (Date.now() < late.until) return;
      late.until = Date.now() + 10_000;
      say("Your packets come too late for the others: a slow line, or a server that says so");
    },
    far: () =>
      alarm(
        `Nobody hears you: a packet and its answer take about ${news.round_trip_ms} ms on your line, and this server waits ${news.most_ms} ms at most. You hear the others. Use a server that is nearer to you, or another line (a cable, no VPN). You are heard as soon as it takes less.`,
        "far",
      ),
    near: () => {
      no_alarm("far");
      say("Your line is fast enough again: you can be heard");
    },
    closing: () => alarm(`The server ends the call in ${news.seconds} s`, "closing"),
    alarm: () => alarm(`Not as it should be: ${news.alarm}.`, news.kind),
  };
  handlers[news.news]?.();
  if (news.news === "muted") $("mute").classList.toggle("by-host", news.muted);
}

async function granted(speak) {
  [view.speak, view.hand] = [speak, false];
  say(speak ? "You may speak" : "You are listening only");
  try {
    if (speak) await view.card?.listen(choice());
    else view.card?.silence();
  } catch {
    alarm("You may speak, but the microphone was not allowed.");
  }
  controls();
}

/// A host's buttons.
async function act(action, member) {
  const messages = {
    admit: { type: "admit", member },
    mute: { type: "mute", member, muted: true },
    unmute: { type: "mute", member, muted: false },
    grant: { type: "grant", member, speak: true },
    quiet: { type: "grant", member, speak: false },
    eject: { type: "eject", member },
  };
  if (!(await ask("say", { message: messages[action] }))) return;
  if (action === "mute") people.muted.add(member);
  if (action === "unmute") people.muted.delete(member);
  if (["admit", "eject"].includes(action)) people.waiting.delete(member);
  if (["grant", "quiet"].includes(action)) people.hands.delete(member);
  people.render();
}

function show({ heard, peak, sum, depth, target }) {
  scope.push(heard, sum);
  if (sum) $("held-what").textContent = `${sum.length.toLocaleString("en")} bytes every 20 ms, and no key`;
  view.meter = Math.max(view.muted ? 0 : peak / 32768, 0.8 * view.meter);
  $("mute").querySelector(".meter i").style.transform = `scaleY(${Math.min(1, 3 * Math.sqrt(view.meter / 3)).toFixed(3)})`;
  $("figures").dataset.depth = depth;
  $("figures").dataset.target = target;
}

function rates({ up, down, packets, sums, busy }) {
  const mega = (bits) => `${(bits / 1e6).toFixed(2)} Mbit/s`;
  $("fig-up").textContent = packets > 0 ? mega(up) : "nothing";
  $("fig-down").textContent = mega(down);
  $("fig-sums").textContent = `${Math.round(sums)} a second`;
  $("fig-busy").textContent = `${busy.toFixed(1)} % of a core`;
  Object.assign($("figures").dataset, { up: Math.round(up), down: Math.round(down), busy: busy.toFixed(2) });
}

// ---- controls

function controls() {
  const [mute, hand] = [$("mute"), $("hand")];
  mute.hidden = !view.speak;
  hand.hidden = view.speak;
  mute.setAttribute("aria-pressed", String(view.muted));
  mute.querySelector(".label").textContent = view.muted ? "Unmute" : "Mute";
  hand.setAttribute("aria-pressed", String(view.hand));
  hand.querySelector(".label").textContent = view.hand ? "Lower hand" : "Raise hand";
}

$("mute").onclick = () => {
  view.muted = !view.muted;
  ask("mute", { muted: view.muted });
  controls();
  say(view.muted ? "You are muted" : "You can be heard");
};

$("hand").onclick = () => {
  view.hand = !view.hand;
  ask("say", { message: { type: "hand", raised: view.hand } });
  controls();
};

$("invite").onclick = async () => {
  // never copy the host's own link
  copy((await ask("guests", { link: view.link })) ?? view.link, $("invite"));
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input:not([type=checkbox]), select, textarea, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || $("room").hidden) return;
  const button = { m: $("mute"), h: $("hand") }[event.key.toLowerCase()];
  if (button && !button.hidden) button.click();
});

async function list_devices() {
  const devices = await SoundCard.devices();
  for (const [id, kind, key] of [["microphone", "audioinput", "microphone"], ["speaker", "audiooutput", "speaker"]]) {
    const options = devices.filter((device) => device.kind === kind && device.id);
    const first = new Option("The system's own", "");
    $(id).replaceChildren(first, ...options.filter(({ id }) => id !== "default").map(({ id, label }, n) => new Option(label || `${kind} ${n + 1}`, id)));
    $(id).value = kept.get(key);
    if ($(id).selectedIndex < 0) $(id).selectedIndex = 0;
  }
  $("speaker-field").hidden = !("setSinkId" in AudioContext.prototype);
  $("plain").checked = kept.get("plain") === "1";
}

$("devices").onclick = async () => {
  await list_devices();
  $("sound").showModal();
};
navigator.mediaDevices?.addEventListener?.("devicechange", list_devices);

for (const id of ["microphone", "plain"]) {
  $(id).onchange = async ({ target }) => {
    kept.set(id, target.type === "checkbox" ? (target.checked ? "1" : "") : target.value);
    if (view.card && view.speak) await view.card.listen(choice()).catch((error) => alarm(`This microphone cannot be used: ${error.message}`));
  };
}
$("speaker").onchange = ({ target }) => {
  kept.set("speaker", target.value);
  view.card?.speak_to(target.value).catch((error) => alarm(`This loudspeaker cannot be used: ${error.message}`));
};

addEventListener("pagehide", () => ask("leave"));

// ---- begin

$("origin").textContent = location.host;
fingerprint().then(
  (digest) => ($("bundle").textContent = digest),
  () => ($("bundle").textContent = "not known here"),
);
if (tapped) globalThis.tobari = { ask, view, people, alarm };
begin().catch((error) => {
  only("door");
  $("door-form").hidden = true;
  problem(`The client could not be loaded: ${error.message}`);
});
