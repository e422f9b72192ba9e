// Times modes elgamal-shared and mask, frames of devices and a lattice encryption in this JavaScript engine:
// node bench/wasm/run.mjs MODULE.wasm [ROUNDS] [portable]
// A decryption begins with the bytes of a compressed packet.
import { readFileSync } from "node:fs";

const curves = [
  "secp160k1", "p160_1", "secp192k1", "secp224k1", "secp256k1", "secp384r1", "NIST_P192", "NIST_P224", "NIST_P256",
];
const [file, rounds = "21", choice] = process.argv.slice(2);
const { instance } = await WebAssembly.instantiate(readFileSync(file), {});
const engine = `node ${process.versions.node}`;

function time(work) {
  const started = process.hrtime.bigint();
  if (work() !== 1) throw new Error("a packet came back wrong");
  return Number(process.hrtime.bigint() - started) / 320;
}

// One speaker on every curve, and the sum of 1,024 on the one that rooms have; the share is that of one core, with what a member sends beside what it hears.
for (const [number, curve] of curves.entries()) {
  const { prepare, encrypt, send, decrypt, crowd } = instance.exports;
  if (prepare(number) !== 1) throw new Error(`${curve}: no tables`);
  const timed = (...parts) => {
    const figures = parts.map(() => []);
    for (let round = -20; round < Number(rounds); round++) {
      parts.forEach((part, at) => {
        if (part === decrypt) send();
        const took = time(part);
        if (round >= 0) figures[at].push(took); // before that the engine's compiler warms up
      });
    }
    return figures.map((all) => all.sort((a, b) => a - b));
  };
  const told = (what, all, more) => console.log(JSON.stringify({
    job: "call", what, engine: "tobari", params: { curve, mode: "elgamal-shared", timing: "constant", ...more }, backend: `portable wasm32, ${engine}`,
    threads: 1, unit: "ns/sample", median: all[all.length >> 1], min: all[0], max: all.at(-1), runs: all.length, labels: [],
    ...(more ? { core_percent: (100 * 320 * (encrypted[all.length >> 1] + all[all.length >> 1])) / 20e6 } : {}),
  }));
  const [encrypted, one] = timed(encrypt, decrypt);
  told("encrypt", encrypted);
  told("decrypt", one, { bits: 16, from: "compressed" });
  if (curve === "secp256k1") {
    if (crowd(10) !== 1) throw new Error("no sum");
    told("decrypt", timed(decrypt)[0], { bits: 27, from: "compressed" });
  }
}

// A tick of a live room, as one of its members opens it: 20 ms of sound. The share is that of one core.
for (const senders of [1, 16, 128, 1024]) {
  const { mask_prepare, mask_say, mask_open } = instance.exports;
  if (mask_prepare(senders) !== 1) throw new Error("no keys");
  const all = [];
  for (let round = -20; round < Number(rounds); round++) {
    if (mask_say() !== 1) throw new Error("nothing was said");
    const ns = time(mask_open);
    if (round >= 0) all.push(ns);
  }
  all.sort((a, b) => a - b);
  console.log(JSON.stringify({
    job: "call", what: "decrypt", engine: "tobari", params: { mode: "mask", senders }, backend: `wasm128, ${engine}`, threads: 1,
    unit: "ns/sample", median: all[all.length >> 1], min: all[0], max: all.at(-1), runs: all.length, labels: [],
    core_percent: (100 * 320 * all[all.length >> 1]) / 20e6,
  }));
}

// Frames of a device: 256 readings sealed.
for (const [number, profile] of ["p1", "u25"].entries()) {
  const { frames_seal, frames_check } = instance.exports;
  const all = [];
  for (let round = -20; round < Number(rounds); round++) {
    const ns = time(() => frames_seal(number));
    if (frames_check(number) !== 1) throw new Error("a frame came back wrong");
    if (round >= 0) all.push(ns);
  }
  all.sort((a, b) => a - b);
  console.log(JSON.stringify({
    job: "sense", what: "seal_frame", engine: "tobari", params: { profile, readings: 256 }, backend: `wasm32, ${engine}`, threads: 1,
    unit: "ns", median: all[all.length >> 1], min: all[0], max: all.at(-1), runs: all.length, labels: [],
  }));
}

const { choose_portable, lattice_prepare, lattice_encrypt, lattice_check, transform_prepare, transform } = (
  await WebAssembly.instantiate(readFileSync(file), {})
).instance.exports;
if (choice === "portable" && choose_portable() !== 1) throw new Error("the portable loops came too late");

function lattice(what, params, labels, work) {
  const all = [];
  for (let round = -20; round < Number(rounds); round++) {
    const ns = work();
    if (round >= 0) all.push(ns);
  }
  all.sort((a, b) => a - b);
  console.log(JSON.stringify({
    job: "lattice", what, engine: "tobari", params, backend: `${choice ?? "fastest"} wasm32, ${engine}`, threads: 1, unit: "ns",
    median: all[all.length >> 1], min: all[0], max: all.at(-1), runs: all.length, labels,
  }));
}

for (const bits of [26, 30, 50]) {
  for (const [inverse, what] of ["ntt_forward", "ntt_inverse"].entries()) {
    if (transform_prepare(13, bits) !== 1) throw new Error("no prime");
    const eight = () => Number(Array.from({ length: 8 }, () => transform(inverse)).every((done) => done === 1));
    lattice(what, { n: 8192, log_q: bits }, [], () => 40 * time(eight));
  }
}
if (lattice_prepare() !== 1) throw new Error("no parameters");
const params = { set: "infer-f", scheme: "ckks", n: 8192, level: 5, dnum: 5, log_qp: 204 };
lattice("encrypt_secret", params, ["encoding-included"], () => {
  const ns = 320 * time(lattice_encrypt);
  if (lattice_check() !== 1) throw new Error("a ciphertext came back wrong");
  return ns;
});
