// Tests a page's reader of one person's VCF: node web/test/vcf.mjs
import assert from "node:assert/strict";
import { crc32, deflateRawSync, gzipSync } from "node:zlib";

const { haplotypes } = await import(new URL("../vcf.js", import.meta.url));

const HEAD = "##fileformat=VCFv4.2\n##contig=<ID=20>\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\tA\n";
const record = (position, genotype, { chromosome = "20", alternate = "C", format = "GT" } = {}) =>
  `${chromosome}\t${position}\t.\tA\t${alternate}\t.\tPASS\t.\t${format}\t${genotype}\n`;
const sites = (...positions) => positions.map((position) => ({ chromosome: "20", position, reference: "A", alternate: "C" }));
const read = (text, wanted) => haplotypes(new Blob([text]), wanted);

/// A block of BGZF.
function block(text) {
  const [raw, bytes] = [deflateRawSync(text), Buffer.from(text)];
  const [head, tail] = [Buffer.from([31, 139, 8, 4, 0, 0, 0, 0, 0, 255, 6, 0, 66, 67, 2, 0, 0, 0]), Buffer.alloc(8)];
  head.writeUInt16LE(raw.length + 25, 16);
  tail.writeUInt32LE(crc32(bytes), 0);
  tail.writeUInt32LE(bytes.length, 4);
  return Buffer.concat([head, raw, tail]);
}

const LAST = Buffer.from("1f8b08040000000000ff0600424302001b0003000000000000000000", "hex");
const person = HEAD + record(5, "0|1", { chromosome: "1" }) + record(5, "1|1") + record(10, "0|1") + record(12, "1|0", { alternate: "G,C" })
  + record(12, "1/1", { alternate: "T" }) + record(20, "9:1|0", { format: "DP:GT" }) + record(30, "1/1") + record(40, "0/1") + record(50, ".|1");
const whole = await read(person, sites(5, 10, 12, 20, 30));
assert.deepEqual(whole, { haplotypes: ["10011", "11001"], ended: null });

// for every compression, and every end of a chunk
const cut = (size) => Array.from({ length: Math.ceil(person.length / size) }, (_, i) => block(person.slice(i * size, (i + 1) * size)));
for (const packed of [gzipSync(person), ...[7, 60, 1000].map((size) => Buffer.concat([...cut(size), LAST])), person.replaceAll("\n", "\r\n")]) {
  assert.deepEqual(await read(packed, sites(5, 10, 12, 20, 30)), whole);
}

// a site without alleles in the file ends the stretch
for (const [wanted, length, why] of [
  [sites(5, 10, 11, 12), 2, "is not in the file"],
  [sites(10, 20, 30, 40), 3, "has no phase (as 0|1)"],
  [sites(10, 50), 1, "was not called"],
  [sites(60), 0, "is not in the file"],
]) {
  const { haplotypes: found, ended } = await read(person, wanted);
  assert.deepEqual([found[0]?.length ?? 0, ended.site, ended.why], [length, wanted[length], why]);
}
assert.deepEqual(await read(person, sites(40)), { haplotypes: ["0", "1"], ended: null }, "one allele needs no phase");
assert.deepEqual((await read(HEAD + record(1, "1") + record(2, "0") + record(3, "0|1"), sites(1, 2, 3))).haplotypes, ["10"], "one haplotype");
assert.deepEqual((await read(HEAD + record(1, "0|1") + record(1, "1|1"), sites(1))).haplotypes, ["0", "1"], "the first of two alike stays");

// fault 19: alleles of two phase sets are not joined, and equal alleles have no phase set
const phased = HEAD + [["0|1", 5], ["1|1", 6], ["1|0", 5], ["0|1", 7], ["0|1", "."]].map(([call, set], i) => record(i + 1, `${call}:${set}`, { format: "GT:PS" })).join("");
const { haplotypes: joined, ended: other } = await read(phased, sites(1, 2, 3, 4));
assert.deepEqual([joined, other.why, other.site.position], [["011", "110"], "is of another phase set (PS)", 4]);
assert.equal((await read(phased, sites(4, 5))).ended.why, "is of another phase set (PS)");
assert.deepEqual((await read(phased, sites(4))).haplotypes, ["0", "1"], "one allele needs no phase");
assert.equal((await read(HEAD + record(1, "0|1:a", { format: "GT:PSL" }) + record(2, "0|1:a", { format: "GT:PSL" }), sites(1, 2))).ended.why, "has no phase (as 0|1)");
// fault 19: bases in lower case, and structural variants by their extent
assert.deepEqual((await read(HEAD + record(1, "0|1", { alternate: "c" }), sites(1))).haplotypes, ["0", "1"]);
const reaching = (info, alternate = "<DEL>", call = "0|1") => record(1, call, { alternate }).replace("PASS\t.", `PASS\t${info}`);
const long = HEAD + reaching("END=20") + reaching("END=90", "<DEL>", "1|1") + reaching("SVLEN=7", "<INS>", "1|0") + reaching("END=90;SVLEN=-4,5", "<DEL>,<DUP>", "1|2")
  + reaching("CHR2=5;END=8", "<TRA>") + reaching(".", "]chrx:5]a");
const at = (alternate) => [{ chromosome: "20", position: 1, reference: "a", alternate }];
for (const [alternate, expected] of [["<DEL>@20", "01"], ["<DEL>@90", "11"], ["<INS>+7", "10"], ["<DEL>@5", "10"], ["<DUP>@6", "01"], ["<TRA>@5@8", "01"], ["]chrx:5]A", "01"]]) {
  assert.equal((await read(long, at(alternate))).haplotypes.join(""), expected, alternate);
}
assert.equal((await read(long, at("<DEL>"))).ended.why, "is not in the file");
await assert.rejects(read(HEAD + reaching(".") + reaching("."), at("<DEL>")), /record 2: expected END or SVLEN/);
await assert.rejects(read(HEAD + reaching("END=x"), at("<DEL>")), /expected a number in END/);

for (const [wrong, why] of [
  ["", /empty file/],
  ["x\n", /begins with ##fileformat=VCF/],
  ["##fileformat=VCFv4.2\n", /#CHROM/],
  ["##fileformat=VCFv4.2\n20\t1\n", /#CHROM/],
  [HEAD.replace("\tA\n", "\tA\tB\n") + record(1, "0|1\t0|1"), /expected one sample, found 2/],
  [HEAD.replace("\tFORMAT\tA\n", "\n"), /expected one sample, found 0/],
  [HEAD + record(2, "0|1") + record(1, "0|1"), /record 2: expected positions in their order/],
  [HEAD + record(1, "0|1", { chromosome: "1" }) + record(1, "0|1", { chromosome: "2" }) + record(1, "0|1", { chromosome: "1" }), /1 again/],
  [HEAD + "20\t1\t.\tA\n", /expected 10 columns/],
  [HEAD + "20\n", /expected the column CHROM/],
  [HEAD + record(1, "2|0"), /expected a genotype/],
  [HEAD + record(1, "0|1|1"), /expected a genotype/],
  [HEAD + record("1", "3", { format: "DP" }), /expected genotypes \(GT\)/],
  [Buffer.concat([Buffer.from("BCF\x02\x02"), Buffer.alloc(40, 200)]), /bcftools view/],
  [Buffer.concat([Buffer.from(HEAD), Buffer.from([255, 254, 10])]), /UTF-8/],
  [gzipSync(person).subarray(0, 90), /damaged, or was cut short/],
  [Buffer.concat(cut(60)), /its last block is missing/],
  [Buffer.concat([...cut(60), LAST]).subarray(0, 200), /damaged, or was cut short|last block/],
]) {
  await assert.rejects(read(wrong, sites(1, 70)), why);
}

// for all bytes: alleles, or an error in words
let seed = 7;
const random = (below) => ((seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) >>> 8) % below;
const packed = [Buffer.from(person), gzipSync(person), Buffer.concat([...cut(100), LAST])];
let good = 0;
for (let i = 0; i < 1500; i++) {
  const bytes = Buffer.from(packed[i % 3]);
  for (let n = 1 + random(3); n > 0; n--) bytes[random(bytes.length)] = random(4) ? random(256) : "\t\n|/.01:,"[random(9)].charCodeAt(0);
  try {
    const { haplotypes: found, ended } = await read(bytes.subarray(0, random(5) ? bytes.length : random(bytes.length)), sites(5, 10, 12, 20, 30));
    assert.ok(found.every((one) => /^[01]+$/.test(one)) && found.length <= 2 && (ended !== null || found[0].length === 5));
    good += 1;
  } catch (error) {
    assert.match(error.message, /^(record \d+: )?(expected|the file)/, String(error.stack));
  }
}
assert.ok(good > 50 && good < 1450, `both happen: ${good}`);
console.log("a person's VCF is read as it should be");
