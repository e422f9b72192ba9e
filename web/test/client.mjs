// Looks at the browser's client in this JavaScript engine: node web/test/client.mjs
// What a call does is tested with browsers; here is what a module is by itself.
import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import { readFileSync } from "node:fs";

globalThis.crypto ??= webcrypto;
const { Client } = await import(new URL("../client.js", import.meta.url));
const { Ring, ringMemory } = await import(new URL("../ring.js", import.meta.url));

const module = await WebAssembly.compile(readFileSync(new URL("../dist/tobari.wasm", import.meta.url)));
assert.deepEqual(WebAssembly.Module.imports(module), [], "the client can reach nothing");
const exported = WebAssembly.Module.exports(module).map(({ name }) => name);
assert.ok(exported.every((name) => name.startsWith("tobari_") || ["memory", "__data_end", "__heap_base"].includes(name)), exported.join());

for (const name of ["../dist/ask.wasm"]) {
  const other = await WebAssembly.compile(readFileSync(new URL(name, import.meta.url)));
  assert.deepEqual(WebAssembly.Module.imports(other), [], `${name} can reach nothing`);
}

const make = () => Client.make(module, (bytes) => crypto.getRandomValues(bytes));
const order = { server: "https://h:7610", room: "r", shared: false, spurts: false, lobby: true, host: true, speakers: 1024 };
const client = await make();
const { link, host_link } = client.links(order);
assert.match(link, /^https:\/\/h:7610\/call\/r#[\w-]+$/);
assert.equal(client.guests(host_link), link);
assert.notEqual((await make()).links(order).link, link, "another module, another secret");
assert.equal(client.links({ ...order, speakers: 0 }), null);
const about = client.describe(host_link);
assert.equal(about.address, "wss://h:7610/call/v2/r");
assert.ok(about.host && about.lobby && about.mode === "mask" && !JSON.stringify(about).includes(link.split("#")[1]));
assert.match(client.describe("https://h/call/r").error, /expected the room's secret/);

assert.equal(client.poll(), null, "nothing is said before a join");
assert.equal(client.join({ link, name: "Ada", speak: true, rate: 48000 }).room, "r");
assert.equal(JSON.parse(client.poll()).type, "join");
client.capture(new Float32Array(4096).fill(0.1));
assert.equal(client.poll(), null, "no packet before the welcome");
assert.equal(client.play().length, 960 - 96, "the first 20 ms, less what the filter looks ahead");
assert.equal(client.play().length, 960);
client.text('{"type":"welcome","room":"0707070707070707","member":3,"tick":5,"window":32,"waiting":false}');
assert.deepEqual(client.news(), { news: "welcome", member: 3, waiting: false });
const hello = client.poll();
assert.ok(hello instanceof Uint8Array && hello.length === 142 && !Buffer.from(hello).includes("Ada"), "the name is sealed");
client.text("?");
assert.equal(client.news().news, "alarm");
assert.ok(client.say({ type: "hand", raised: true }) && !client.say({ type: "shout" }));

// the memory of a client that has left holds the secret no more
const secret = Buffer.from(link.split("#")[1], "base64url").subarray(4, 36);
assert.ok(Buffer.from(client.exports.memory.buffer).includes(secret), "the test looks in the right place");
client.leave();
client.describe("x");
assert.ok(!Buffer.from(client.exports.memory.buffer).includes(secret), "wiped");
assert.ok(!Buffer.from(client.exports.memory.buffer).includes(link.split("#")[1]), "the link too");

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
