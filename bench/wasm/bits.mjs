// Checks that encodings and decodings of approximate numbers in this JavaScript engine have the pinned bits:
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
process.exitCode = wrong.length === 0 ? 0 : 1;
