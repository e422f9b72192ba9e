// The worker of a call: the client with the keys, its WebSocket, and the rings of the sound card.
// All slow work is here.

import { Client } from "./client.js";
import { Ring } from "./ring.js";

const RETRY_MS = [300, 700, 1500, 3000, 6000];
const SHOW_MS = 80; // how often the page gets data to draw
const LEAST_MS = 6; // samples that wait for playback: at least, and at most
const MOST_MS = 80;
const SPARE_MS = 6; // samples that should remain when the worker wakes
const WINDOW = 300; // wakings with spare samples before the wait shrinks
// Older microphone samples are not sent. After a pause they would all be ahead of their time.
const STALE_MS = 200;
// Without messages of a sound card for so long, the worker's clock drives the call.
const ALIVE_MS = 250;
// Without a tick for so long, the connection counts as lost.
const STALL_MS = 1500;
const ANSWER_MS = 10_000; // the same without an answer to the join
// The most data in a full line: so many bytes, or half a second of packets if that is more.
const FULL_BYTES = 64_000;
const FULL_PACKETS = 25;

const random = (bytes) => crypto.getRandomValues(bytes);
const load = async (file) => Client.make(await WebAssembly.compileStreaming(fetch(new URL(file, import.meta.url))), random);
const plain = load("dist/tobari.wasm");
plain.catch(() => {}); // the caller that awaits it gets the error
let grouped = null;
let call = null;

/// The client that can agree on keys. Its file is larger, so only rooms that need it load it.
function with_groups() {
  grouped ??= load("dist/tobari-mls.wasm").catch((error) => {
    grouped = null;
    throw error;
  });
  return grouped;
}

const tell = (message, transfer = []) => postMessage(message, transfer);

class Call {
  constructor(client, start, ends, tapped) {
    this.client = client;
    this.start = start;
    this.port = ends.port;
    this.captured = ends.capture ? new Ring(ends.capture) : null;
    this.playback = ends.playback ? new Ring(ends.playback) : null;
    this.socket = null;
    this.attempts = 0;
    this.over = false;
    this.muted = false;
    this.hand = false;
    this.target = 12; // milliseconds of samples that should wait
    this.calm = 0; // wakings since the last change, and the least wait in them
    this.spare = MOST_MS;
    this.level = 0; // without shared memory: waiting samples, and all posted samples
    this.posted = 0;
    this.hearing = false;
    this.bytes = { up: 0, down: 0, packets: 0, sums: 0, busy: 0 };
    this.packet = 0; // bytes of the last packet
    this.since = performance.now();
    this.shown = 0;
    this.sum = null;
    this.said = [];
    this.heard = [];
    this.peak = 0;
    this.tap = tapped ? { said: [], heard: [], missing: 0 } : null;
    this.woken = this.watched = performance.now();
    this.ticking = false; // a listed member gets a message with every tick
    this.due = Infinity; // the deadline of the next message
    this.port.onmessage = ({ data }) => this.wake(data);
    this.clock = setInterval(() => this.stand_in(), 20);
    this.connect();
  }

  connect() {
    const described = this.client.join(this.start);
    if (described === null || described.error) return this.end(null, described?.error ?? "not a link of a call");
    this.client.mute(this.muted);
    this.state(this.attempts === 0 ? "connecting" : "reconnecting");
    const socket = new WebSocket(described.address);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    [this.ticking, this.due] = [false, performance.now() + ANSWER_MS];
    this.answered = false;
    socket.onopen = () => this.flush();
    socket.onmessage = ({ data }) => this.receive(data);
    socket.onclose = () => this.lost(socket);
  }

  /// Reconnects after a pause.
  lost(socket) {
    if (this.socket !== socket || this.over) return;
    this.socket = null;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
    this.due = Infinity;
    if (!this.answered) this.look(socket.url);
    const wait = RETRY_MS[Math.min(this.attempts, RETRY_MS.length - 1)];
    this.attempts += 1;
    this.state("reconnecting");
    setTimeout(() => this.over || this.socket || this.connect(), wait * (0.8 + 0.4 * Math.random()));
  }

  /// Checks the address: a server older than this protocol lacks it, and browsers hide that error
  /// for a WebSocket.
  async look(address) {
    const found = await fetch(address.replace(/^ws/, "http")).catch(() => null);
    if (found?.status === 404 && !this.over) this.end("version", "the server is older than this page: update the server");
  }

  /// Detects a server that vanished without closing the connection.
  watch(now) {
    // after a pause of this worker, unread messages may be waiting
    if (now - this.watched > STALL_MS / 3) this.due = Math.max(this.due, now + STALL_MS);
    this.watched = now;
    if (now > this.due) this.lost(this.socket);
  }

  state(state) {
    tell({ state });
  }

  receive(data) {
    this.answered = true;
    const began = performance.now();
    if (typeof data === "string") {
      this.bytes.down += data.length;
      this.client.text(data);
    } else {
      const bytes = new Uint8Array(data);
      this.bytes.down += bytes.length;
      if (this.client.binary(bytes)) {
        this.sum = bytes;
        this.bytes.sums += 1;
        this.hearing = true;
      }
    }
    this.bytes.busy += performance.now() - began;
    this.flush();
    this.pass_on();
    if (this.ticking) this.due = performance.now() + STALL_MS;
  }

  /// Sends waiting messages, and handles events.
  flush() {
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    // A full line gets no more sound, which would be late. Messages to the group must all arrive.
    const poll = () => this.client.poll(this.socket.bufferedAmount > Math.max(FULL_BYTES, FULL_PACKETS * this.packet));
    for (let next = poll(); next !== null; next = poll()) {
      const { message, sound } = next;
      this.bytes.up += message.length;
      if (sound) {
        this.bytes.packets += 1;
        this.packet = message.length;
      }
      this.socket.send(message);
    }
  }

  pass_on() {
    const all = [];
    for (let news = this.client.news(); news !== null; news = this.client.news()) {
      all.push(news);
      if (news.news === "welcome") {
        [this.attempts, this.due] = [0, Infinity]; // a lobby gets no ticks
        this.state(news.waiting ? "waiting" : "joined");
        if (this.hand) this.say({ type: "hand", raised: true });
      } else if (news.news === "roster") {
        this.ticking = true;
      } else if (news.news === "admitted") {
        this.state("joined");
      } else if (news.news === "granted") {
        this.start.speak = news.speak;
        if (news.speak) this.hand = false;
      } else if (news.news === "over") {
        this.end(news.code, news.reason);
      }
    }
    if (all.length > 0) tell({ news: all });
  }

  say(message) {
    if (message.type === "hand") this.hand = message.raised;
    const said = this.client.say(message);
    this.flush();
    return said;
  }

  /// Handles a message of the sound card, after 256 samples in each direction.
  wake({ at, missing, taken, heard }) {
    this.woken = performance.now();
    if (!this.playback) this.level = this.posted - taken;
    this.adapt(missing);
    if (this.tap) this.tap.missing += missing;
    let samples = heard;
    if (this.captured) {
      samples = new Float32Array(this.captured.level());
      samples = samples.subarray(0, this.captured.read(samples));
    }
    // after a pause of the worker, old messages arrive all at once
    if (Date.now() - at < STALE_MS) this.take(samples, at);
    this.fill(at);
    this.show();
  }

  /// Increases the wait after a gap, and reduces it while there were always spare samples.
  adapt(missing) {
    const waiting = (1000 * (this.playback ? this.playback.level() : this.level)) / this.start.rate;
    this.spare = Math.min(this.spare, waiting);
    if (missing > 0 && this.hearing) {
      this.target = Math.min(this.target + 4, MOST_MS);
      [this.calm, this.spare] = [0, MOST_MS];
    } else if (++this.calm >= WINDOW) {
      this.target = Math.max(this.target - Math.max(0, this.spare - SPARE_MS) / 2, LEAST_MS);
      [this.calm, this.spare] = [0, MOST_MS];
    }
  }

  take(samples, at) {
    if (samples.length === 0) return;
    const began = performance.now();
    this.client.capture(samples);
    this.flush();
    this.peak = Math.max(this.peak, this.client.peak());
    const said = this.client.said();
    if (said.length > 0) {
      this.said.push(said);
      this.tap?.said.push({ at, samples: said });
    }
    this.bytes.busy += performance.now() - began;
  }

  /// Keeps enough samples ready until the worker wakes again.
  fill(at) {
    const wanted = (this.target * this.start.rate) / 1000;
    for (let round = 0; round < 10; round++) {
      const waiting = this.playback ? this.playback.level() : this.level;
      if (waiting >= wanted) return;
      const began = performance.now();
      const samples = this.client.play();
      this.bytes.busy += performance.now() - began;
      if (samples === null) return;
      const heard = this.client.heard();
      this.heard.push(heard);
      // these samples play after the waiting ones
      this.tap?.heard.push({ at: at + (1000 * waiting) / this.start.rate, samples: heard });
      if (this.playback) {
        this.playback.write(samples);
      } else {
        this.level += samples.length;
        this.posted += samples.length;
        this.port.postMessage(samples, [samples.buffer]);
      }
    }
  }

  /// Without a running sound card, for example in a suspended page, silence keeps the call alive.
  stand_in() {
    const now = performance.now();
    this.watch(now);
    if (now - this.woken > ALIVE_MS) {
      this.take(new Float32Array(Math.round(this.start.rate / 50)), Date.now());
      this.client.play();
    }
  }

  show() {
    const now = performance.now();
    if (now - this.shown < SHOW_MS) return;
    this.shown = now;
    const said = join(this.said), heard = join(this.heard);
    const message = { show: { said, heard, peak: this.peak, sum: this.sum, depth: this.client.depth(), target: Math.round(this.target) } };
    [this.said, this.heard, this.peak, this.sum] = [[], [], 0, null];
    if (now - this.since >= 1000) {
      const seconds = (now - this.since) / 1000;
      const { up, down, packets, sums, busy } = this.bytes;
      message.rates = {
        up: (8 * up) / seconds, down: (8 * down) / seconds, packets: packets / seconds, sums: sums / seconds,
        busy: busy / (10 * seconds),
      };
      this.bytes = { up: 0, down: 0, packets: 0, sums: 0, busy: 0 };
      this.since = now;
    }
    tell(message);
  }

  end(code, reason) {
    if (this.over) return;
    this.over = true;
    clearInterval(this.clock);
    this.port.onmessage = null;
    this.socket?.close();
    this.socket = null;
    this.client.leave();
    tell({ state: "over", code, reason });
  }
}

function join(pieces) {
  const whole = new Int16Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

const handlers = {
  links: async ({ order }) => (await plain).links(order),
  guests: async ({ link }) => (await plain).guests(link),
  describe: async ({ link }) => (await plain).describe(link),
  join: async ({ start, ends, tapped }) => {
    const agreed = (await plain).describe(start.link)?.keys === "mls";
    const client = await (agreed ? with_groups() : plain);
    call?.end(null, "");
    call = new Call(client, start, ends, tapped);
    return true;
  },
  say: ({ message }) => call?.say(message) ?? false,
  mute: ({ muted }) => {
    if (call) call.muted = muted;
    call?.client.mute(muted);
    return true;
  },
  leave: () => {
    call?.end(null, "you left");
    call = null;
    return true;
  },
  // for tests and measurements: sound sent and played since the last call, with times
  tap: () => {
    const tap = call?.tap ?? null;
    if (call?.tap) call.tap = { said: [], heard: [], missing: 0 };
    return tap;
  },
  // for tests: breaks the connection
  cut: () => {
    call?.socket?.close();
    return true;
  },
};

onmessage = async ({ data }) => {
  try {
    tell({ answer: data.id, value: await handlers[data.ask](data) });
  } catch (error) {
    tell({ answer: data.id, error: String(error) });
  }
};
