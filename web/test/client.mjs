// Tests the browser's client in this JavaScript engine: node web/test/client.mjs
// Browsers test calls. These tests look at a module by itself.
import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import { readFileSync } from "node:fs";

globalThis.crypto ??= webcrypto;
const { Client } = await import(new URL("../client.js", import.meta.url));
const { Ring, ringMemory } = await import(new URL("../ring.js", import.meta.url));
const { Sense } = await import(new URL("../sense-client.js", import.meta.url));

const module = await WebAssembly.compile(readFileSync(new URL("../dist/tobari.wasm", import.meta.url)));
assert.deepEqual(WebAssembly.Module.imports(module), [], "the client can reach nothing");
const exported = WebAssembly.Module.exports(module).map(({ name }) => name);
assert.ok(exported.every((name) => name.startsWith("tobari_") || ["memory", "__data_end", "__heap_base"].includes(name)), exported.join());

const [, sensing, agreeing] = await Promise.all(
  ["ask", "sense", "tobari-mls"].map(async (name) => {
    const other = await WebAssembly.compile(readFileSync(new URL(`../dist/${name}.wasm`, import.meta.url)));
    assert.deepEqual(WebAssembly.Module.imports(other), [], `${name} can reach nothing`);
    return other;
  }),
);

const make = () => Client.make(module, (bytes) => crypto.getRandomValues(bytes));
const order = { server: "https://h:7610", room: "r", shared: false, spurts: false, lobby: true, host: true, mls: false, speakers: 1024 };
const client = await make();
const { link, host_link } = client.links(order);
assert.match(link, /^https:\/\/h:7610\/call\/r#[\w-]+$/);
assert.equal(client.guests(host_link), link);
assert.notEqual((await make()).links(order).link, link, "another module, another secret");
assert.equal(client.links({ ...order, speakers: 0 }), null);
const about = client.describe(host_link);
assert.equal(about.address, "wss://h:7610/call/v3/r");
assert.ok(about.host && about.lobby && about.mode === "mask" && about.keys === "link" && !JSON.stringify(about).includes(link.split("#")[1]));
assert.match(client.describe("https://h/call/r").error, /expected the room's secret/);

assert.equal(client.poll(false), null, "nothing is said before a join");
assert.equal(client.join({ link, name: "Ada", speak: true, rate: 48000 }).room, "r");
assert.equal(client.poll(false), null, "nothing is said before the server's challenge");
const challenge = `{"type":"challenge","nonce":"${"07".repeat(16)}"}`;
client.text(challenge);
const joining = client.poll(false);
assert.equal(JSON.parse(joining.message).host, "h");
assert.ok(JSON.parse(joining.message).type === "join" && !joining.sound);
client.capture(new Float32Array(4096).fill(0.1));
assert.equal(client.poll(false), null, "no packet before the welcome");
assert.equal(client.play().length, 960 - 96, "the first 20 ms, less what the filter looks ahead");
assert.equal(client.play().length, 960);
client.text('{"type":"welcome","room":"0707070707070707","member":3,"tick":5,"window":32,"waiting":false}');
assert.deepEqual(client.news(), { news: "welcome", member: 3, waiting: false });
const { message: hello, sound } = client.poll(false);
assert.equal(sound, false, "a line that is full keeps it");
assert.ok(hello instanceof Uint8Array && hello.length === 174 && !Buffer.from(hello).includes("Ada"), "the name is sealed");
client.text("?");
assert.equal(client.news().news, "alarm");
assert.ok(client.say({ type: "hand", raised: true }) && !client.say({ type: "shout" }));

// after leaving, a client's memory no longer holds the secret
const secret = Buffer.from(link.split("#")[1], "base64url").subarray(4, 36);
assert.ok(Buffer.from(client.exports.memory.buffer).includes(secret), "the test looks in the right place");
client.leave();
client.describe("x");
assert.ok(!Buffer.from(client.exports.memory.buffer).includes(secret), "wiped");
assert.ok(!Buffer.from(client.exports.memory.buffer).includes(link.split("#")[1]), "the link too");

// only one module joins calls with agreed keys; every module makes their links
const agreed = client.links({ ...order, lobby: false, host: false, mls: true }).link;
assert.equal(client.describe(agreed).keys, "mls");
assert.match(client.join({ link: agreed, name: "Ada", speak: true, rate: 48000 }).error, /expected the client that has MLS/);
const grouped = await Client.make(agreeing, (bytes) => crypto.getRandomValues(bytes));
assert.equal(grouped.join({ link: agreed, name: "Ada", speak: true, rate: 48000 }).keys, "mls");
grouped.text(challenge);
assert.equal(JSON.parse(grouped.poll(false).message).type, "join");
grouped.text('{"type":"welcome","room":"0707070707070707","member":0,"tick":5,"window":32,"waiting":false}');
const [greeting, offer] = [grouped.poll(false), grouped.poll(false)];
assert.deepEqual([greeting, offer].map(({ message, sound }) => [message[1], sound]), [[hello[1], false], [0x20, false]], "a hello and an offer of a key");
assert.equal(grouped.poll(false), null);
grouped.leave();

// a fleet: keys and frames, and nothing left after deletion
const holder = await Sense.make(sensing, (bytes) => crypto.getRandomValues(bytes));
assert.throws(() => holder.begin({ devices: 4, window_s: 10 }), /expected 5 to 60 devices/);
assert.equal(holder.seal([[0, 20]]), null, "no fleet, no frame");
const fleet = holder.begin({ devices: 40, window_s: 10 });
assert.match(fleet.fleet, /^[0-9a-f]{16}$/);
assert.notEqual(holder.begin({ devices: 40, window_s: 10 }).fleet, fleet.fleet, "another fleet, other keys");
const told = holder.begin({ devices: 40, window_s: 10 });
for (const [index, [name, length]] of told.objects.entries()) {
  const object = holder.object(index);
  assert.equal(object.length, length);
  assert.equal(Buffer.from(await crypto.subtle.digest("SHA-256", object)).toString("hex"), name);
}
assert.equal(holder.object(told.objects.length), null);
const bundle = JSON.parse(Buffer.from(holder.bundle()));
assert.ok(bundle.fleet === told.fleet && bundle.devices.length === 40 && JSON.parse(Buffer.from(holder.order())).length_ms === told.window_ms);
const frames = holder.seal([[0, -40], [39, 87.5], [0, -40]]);
assert.equal(frames.length, 3 * told.frame_bytes);
assert.ok(!Buffer.from(frames.subarray(0, told.frame_bytes)).equals(Buffer.from(frames.subarray(2 * told.frame_bytes))), "the same reading, another frame");
assert.equal(holder.seal([[0, 88]]), null);
assert.equal(holder.seal([[40, 20]]), null);
assert.throws(() => holder.open(0, new Uint8Array(100)), /expected a result of the registered query/);
holder.forget();
assert.equal(holder.order(), null);

const ring = new Ring(ringMemory());
const out = new Float32Array(1000);
let [next, expected] = [0, 0];
for (let round = 0; round < 500; round++) {
  const size = (round * 37) % 900;
  const written = ring.write(Float32Array.from({ length: size }, (_, i) => next + i));
  next += written;
  const read = ring.read(out.subarray(0, (round * 53) % 800));
  for (let i = 0; i < read; i++) assert.equal(out[i], expected++);
  assert.equal(ring.level(), next - expected);
}
assert.ok(expected > 100_000);
console.log("the browser's client does by itself what it should");
