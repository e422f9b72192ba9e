// Known answers for BGV from Microsoft SEAL, compiled to WebAssembly by node-seal 7.0.0:
//
//     node seal_bgv.mjs PACKAGE/dist/index_throws.js FOLDER
//
// SEAL's randomness is replaced by a stream of SHA-256, so that the output is the same to the byte. No file is written over.
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [library, folder] = process.argv.slice(2);
let drawn = 0;
Object.defineProperty(globalThis.crypto, "getRandomValues", {
  value: (view) => {
    const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    for (let at = 0; at < bytes.length; at += 32) {
      const block = createHash("sha256").update(`tobari/vectors/lattice/1 bgv ${drawn++}`).digest();
      bytes.set(block.subarray(0, Math.min(32, bytes.length - at)), at);
    }
    return view;
  },
});
const { default: SEAL } = await import(pathToFileURL(library).href);
const seal = await SEAL();
const DIGITS = 10; // primes have at most 40 bits

// The last words of an object that is saved without compression: its residues.
function words(object, count) {
  const bytes = Buffer.from(object.saveToArray(seal.ComprModeType.none));
  const at = bytes.length - 8 * count;
  if (Number(bytes.readBigUInt64LE(at - 8)) !== count) throw new Error(`not ${count} words`);
  return Array.from({ length: count }, (_, i) => bytes.readBigUInt64LE(at + 8 * i));
}

// The correction factor as it is saved, after parms_id, the form and four numbers: the binding's `correctionFactor()` says 1
// where the ciphertext holds another one.
function factor(ciphertext) {
  return Buffer.from(ciphertext.saveToArray(seal.ComprModeType.none)).readBigUInt64LE(16 + 32 + 1 + 4 * 8);
}

const hex = (all) => all.map((word) => word.toString(16).padStart(DIGITS, "0")).join("");

function make(name, { degree, bits, t, keep, operations }) {
  const lines = [];
  const parms = new seal.EncryptionParameters(seal.SchemeType.bgv);
  parms.setPolyModulusDegree(degree);
  parms.setCoeffModulus(seal.CoeffModulus.Create(degree, Int32Array.from(bits)));
  parms.setPlainModulus(new seal.Modulus(BigInt(t)));
  const context = new seal.SEALContext(parms, true, seal.SecLevelType.none);
  if (!context.parametersSet()) throw new Error("no parameters");
  const primes = bits.map((_, i) => parms.coeffModulus().get(i).value());
  const keys = new seal.KeyGenerator(context);
  const encoder = new seal.BatchEncoder(context);
  const encryptor = new seal.Encryptor(context, keys.createPublicKey());
  const decryptor = new seal.Decryptor(context, keys.secretKey());
  const kit = {
    evaluator: new seal.Evaluator(context),
    relinearisation: keys.createRelinKeys(),
    galois: keys.createGaloisKeysWithSteps(Int32Array.from([0, 1, 2, 3, -5])), // 0: the swap of rows
  };
  const version = Buffer.from(parms.saveToArray(seal.ComprModeType.none)).subarray(3, 5).join(".");
  lines.push(`# made by seal_bgv.mjs: node-seal 7.0.0, Microsoft SEAL 4.1.2 (its objects say ${version}); a toy that protects nothing`);
  lines.push(`degree ${degree}`, `modulus ${t}`, `primes ${primes.join(" ")}`);
  const secret = words(keys.secretKey(), degree * bits.length);
  const rows = Array.from({ length: bits.length }, (_, i) => hex(secret.slice(i * degree, (i + 1) * degree)));
  lines.push(`secret ${rows.slice(0, keep).join(" ")}`);

  const encoded = (which, of) => {
    const values = BigInt64Array.from({ length: degree }, (_, i) => of(BigInt(i)));
    const plaintext = new seal.Plaintext();
    encoder.encode(values, plaintext);
    const coefficients = words(plaintext, plaintext.coeffCount()).map((c) => c.toString(16));
    lines.push(`slots ${which} ${values.join(",")}`, `polynomial ${which} ${coefficients.join(",")}`);
    return plaintext;
  };
  const half = BigInt(t) / 2n;
  const plain = {
    a: encoded("a", (i) => ((i * i * 31n + 17n * i + 5n) % BigInt(t)) - half),
    b: encoded("b", (i) => ((i * i * i * 7n + 3n * i + 11n) % BigInt(t)) - half),
  };
  const fresh = (which) => {
    const ciphertext = new seal.Ciphertext();
    encryptor.encrypt(plain[which], ciphertext);
    return ciphertext;
  };
  const a = fresh("a");
  for (const [which, ciphertext] of operations(a, fresh("b"), kit)) {
    if (!ciphertext.isNttForm()) throw new Error("expected values, found coefficients");
    const [parts, level] = [ciphertext.size(), ciphertext.coeffModulusSize()];
    const all = words(ciphertext, parts * level * degree);
    const halves = Array.from({ length: parts }, (_, i) => hex(all.slice(i * level * degree, (i + 1) * level * degree)));
    lines.push(`ciphertext ${which} ${level} ${factor(ciphertext)} ${halves.join(" ")}`);
    const result = new seal.Plaintext();
    decryptor.decrypt(ciphertext, result);
    lines.push(`slots ${which} ${Array.from(encoder.decodeBigInt64(result)).join(",")}`);
  }
  writeFileSync(`${folder}/${name}`, lines.join("\n") + "\n", { flag: "wx" });
}

const through = (operation) => {
  const result = new seal.Ciphertext();
  operation(result);
  return result;
};

make("seal-bgv-64.txt", {
  degree: 64, bits: [36, 36, 36, 40], t: 257, keep: 4,
  operations: (a, b, { evaluator, relinearisation, galois }) => {
    const product = through((out) => evaluator.multiply(a, b, out));
    const relinearised = through((out) => evaluator.relinearize(product, relinearisation, out));
    const switched = through((out) => evaluator.cipherModSwitchToNext(relinearised, out));
    const rotated = [1, 2, -5].map((step) => [`rotated${step}`, through((out) => evaluator.rotateRows(a, step, galois, out))]);
    const swapped = through((out) => evaluator.rotateColumns(a, galois, out));
    return [["fresh-a", a], ["fresh-b", b], ["product", product], ["relinearised", relinearised], ["switched", switched],
      ...rotated, ["swapped", swapped]];
  },
});

make("seal-bgv-1024.txt", {
  degree: 1024, bits: [36, 36, 36, 40], t: 65537, keep: 1,
  operations: (a, b, { evaluator, relinearisation, galois }) => {
    const product = through((out) => evaluator.multiply(a, b, out));
    evaluator.relinearizeInplace(product, relinearisation);
    const rotated = through((out) => evaluator.rotateRows(product, 3, galois, out));
    evaluator.cipherModSwitchToNextInplace(rotated);
    evaluator.cipherModSwitchToNextInplace(rotated);
    return [["product-rotated3", rotated]];
  },
});
