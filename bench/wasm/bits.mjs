// Checks that encodings and decodings of approximate numbers in this JavaScript engine have the pinned bits, and that the vector loops
// return there what the portable ones do:
// node bench/wasm/bits.mjs MODULE.wasm vectors/lattice/ckks-bits.txt
import { readFileSync } from "node:fs";

const [file, vectors] = process.argv.slice(2);
const { instance } = await WebAssembly.instantiate(readFileSync(file), {});
const { bits, bits_count } = instance.exports;
const pinned = readFileSync(vectors, "utf8").split("\n").filter((line) => line && !line.startsWith("#"));
const digest = (number, which) => BigInt.asUintN(64, bits(number, which)).toString(16).padStart(16, "0");
if (pinned.length !== bits_count()) throw new Error(`expected ${pinned.length} cases, found ${bits_count()}`);
const wrong = pinned.filter((line, number) => {
  const [degree, kind, ...expected] = line.split(" ");
  const found = [digest(number, 0), digest(number, 1)];
  const same = expected.length === 2 && found.every((one, which) => one === expected[which]);
  if (!same) console.error(`2^${degree} ${kind}: expected ${expected}, found ${found}`);
  return !same;
});
console.log(`${pinned.length - wrong.length} of ${pinned.length} cases have the same bits in node ${process.versions.node}`);

// a second instance, where the portable loops are chosen
const portable = (await WebAssembly.instantiate(readFileSync(file), {})).instance.exports;
const vector = (await WebAssembly.instantiate(readFileSync(file), {})).instance.exports;
if (portable.choose_portable() !== 1) throw new Error("the portable loops came too late");
const both = [portable, vector];
let [compared, different] = [0, 0];
function compare(what, of) {
  const [expected, found] = both.map(of);
  compared++;
  if (expected === found && expected !== 0n) return;
  different++;
  console.error(`${what}: expected ${expected}, found ${found}`);
}
for (let log = 1; log <= 15; log++) {
  for (const bits of [23, 26, 27, 30, 31, 36, 46, 47, 49, 50]) {
    if (both.some((one) => one.transform_prepare(log, bits) !== 1)) throw new Error(`no prime of ${bits} bits for 2^${log}`);
    for (const inverse of [0, 1, 1, 0]) {
      compare(`2^${log}, ${bits} bits, ${inverse ? "back" : "forwards"}`, (one) => (one.transform(inverse), one.transform_digest()));
    }
  }
}
if (both.some((one) => one.lattice_prepare() !== 1)) throw new Error("no parameters");
for (let round = 0; round < 4; round++) compare(`encryption ${round}`, (one) => one.lattice_digest());
// sums of live rooms, of as many senders as fill vectors and not
for (const senders of [1, 3, 4, 5, 33]) {
  if (both.some((one) => one.mask_prepare(senders) !== 1)) throw new Error("no keys");
  for (let tick = 0; tick < 3; tick++) {
    if (both.some((one) => one.mask_say() !== 1 || one.mask_open() !== 1)) throw new Error(`${senders} senders: a sum came back wrong`);
    compare(`${senders} senders, tick ${tick}`, (one) => one.mask_digest());
  }
}
console.log(`${compared - different} of ${compared} results of the vector loops are the portable ones`);
process.exitCode = wrong.length + different === 0 ? 0 : 1;
