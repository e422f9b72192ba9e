// Reads one person's alleles from a VCF, as text, gzip or BGZF, by the rules of
// `tobari_search_files::variants`. Nothing of the file leaves the tab.

const MOST_LINE = 1 << 24; // characters
const READ = 1 << 20; // bytes at a time
// The empty block at the end of every complete BGZF file (SAM specification, 4.1.2).
const LAST_BLOCK = [31, 139, 8, 4, 0, 0, 0, 0, 0, 255, 6, 0, 66, 67, 2, 0, 27, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];

const fail = (what) => {
  throw new Error(what);
};

/// The length of the BGZF block at `at`; 0 if there is none, or too little of it.
function block_length(bytes, at) {
  const number = (i) => bytes[at + i] + 256 * bytes[at + i + 1];
  if (!(bytes[at] === 31 && bytes[at + 1] === 139 && bytes[at + 3] & 4)) return 0;
  const end = 12 + number(10);
  for (let i = 12; i + 6 <= end; i += 4 + number(i + 2)) {
    if (bytes[at + i] === 66 && bytes[at + i + 1] === 67 && number(i + 2) === 2) return number(i + 4) + 1;
  }
  return 0;
}

async function* parts(stream) {
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read().catch(() => fail("the file is damaged, or was cut short"));
    if (done) return;
    yield value;
  }
}

const inflate = (stream) => stream.pipeThrough(new DecompressionStream("gzip"));

/// Inflates a BGZF file block by block, because browsers inflate one gzip member and each block is
/// one.
async function* blocks(file) {
  let [at, last] = [0, []];
  while (at < file.size) {
    const bytes = new Uint8Array(await file.slice(at, at + READ).arrayBuffer());
    let used = 0;
    for (let length; (length = block_length(bytes, used)) > 0 && used + length <= bytes.length; used += length) {
      last = bytes.subarray(used, used + length);
      yield* parts(inflate(new Blob([last]).stream()));
    }
    if (used === 0) fail("the file is damaged, or was cut short");
    at += used;
  }
  if (last.length !== LAST_BLOCK.length || LAST_BLOCK.some((byte, i) => byte !== last[i])) fail("the file was cut short: its last block is missing");
}

async function* inflated(file) {
  const head = new Uint8Array(await file.slice(0, READ).arrayBuffer());
  if (block_length(head, 0) > 0) yield* blocks(file);
  else yield* parts(head[0] === 31 && head[1] === 139 ? inflate(file.stream()) : file.stream());
}

/// The lines, many at a time.
async function* lines(file) {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const text = (bytes, more) => {
    try {
      return decoder.decode(bytes, more);
    } catch {
      return fail("the file is not text in UTF-8");
    }
  };
  let [rest, begun] = ["", false];
  for await (const bytes of inflated(file)) {
    if (!begun && bytes[0] === 66 && bytes[1] === 67 && bytes[2] === 70) fail("expected a VCF, found BCF: bcftools view makes a VCF of it");
    begun = true;
    const all = (rest + text(bytes, { stream: true })).split("\n");
    rest = all.pop();
    if (rest.length > MOST_LINE) fail(`expected lines of at most ${MOST_LINE} characters`);
    yield all;
  }
  rest += text();
  if (rest) yield [rest];
}

/// An allele for comparison: bases in upper case, except names in <> and the places of breakends.
const canonical = (allele) => (allele.startsWith("<") ? allele : allele.split(/(\[[^[]*\[|\][^\]]*\])/).map((part, i) => (i % 2 ? part : part.toUpperCase())).join(""));

/// A structural variant's allele with its extent, as in tables: <DEL>@5000, <INS>+300.
function told_alleles({ chromosome, position, alternates, info }) {
  const value = (key) => info.split(";").find((field) => field.startsWith(`${key}=`))?.slice(key.length + 1).replace(/^\.$/, "") || undefined;
  const number = (key, text) => (text === undefined || text === "." ? undefined : /^-?\d+$/.test(text) ? Math.abs(Number(text)) : fail(`expected a number in ${key}, found ${JSON.stringify(text.slice(0, 40))}`));
  return alternates.map((alternate, i) => {
    if (!alternate.startsWith("<") || ["<*>", "<NON_REF>"].includes(alternate)) return canonical(alternate);
    const [end, length, other] = [number("END", value("END")), number("SVLEN", value("SVLEN")?.split(",")[i]), value("CHR2")];
    if (alternate.startsWith("<INS")) return length === undefined ? alternate : `${alternate}+${length}`;
    if (other !== undefined && other !== chromosome) return end === undefined ? alternate : `${alternate}@${other}@${end}`;
    const by_length = length === undefined ? undefined : position + length;
    const reach = alternates.length === 1 ? (end ?? by_length) : (by_length ?? end);
    return reach === undefined ? alternate : `${alternate}@${reach}`;
  });
}

/// The numbers of a genotype's alleles (null for an uncalled allele), whether their order is that
/// of the haplotypes, and the phase set (PS).
function genotype(format, value, alternates) {
  const keys = format.split(":");
  const place = keys.indexOf("GT");
  if (place < 0) fail("expected genotypes (GT), found none");
  const text = value.split(":")[place] ?? ".";
  const alleles = text.replace(/^[|/]/, "").split(/[|/]/).map((allele) => (allele === "." ? null : /^\d{1,5}$/.test(allele) ? Number(allele) : -1));
  if (alleles.length > 2 || alleles.some((allele) => allele !== null && (allele < 0 || allele > alternates))) {
    fail(`expected a genotype as 0|1, 0/1, 1 or ./., found ${JSON.stringify(text.slice(0, 40))}`);
  }
  const set = keys.includes("PS") ? (value.split(":")[keys.indexOf("PS")] ?? ".") : ".";
  if (set !== "." && !/^-?\d+$/.test(set)) fail(`expected a number in PS, found ${JSON.stringify(set.slice(0, 40))}`);
  return { alleles, phased: !text.includes("/") && !keys.includes("PSL"), set };
}

/// One genotype or none for each of `sites`, from the records of `file`.
async function told(file, sites) {
  const name = ({ position, reference, alternate }) => `${position}\t${canonical(reference)}\t${canonical(alternate)}`;
  const wanted = new Map(sites.map((site, at) => [name(site), at]));
  const [chromosome, first, end] = [sites[0].chromosome, sites[0].position, sites.at(-1).position];
  const found = sites.map(() => null);
  const before = new Set();
  let [records, header, here, last] = [0, 0, null, 0];
  const where = (what) => `record ${records}: ${what}`;
  for await (const some of lines(file)) {
    for (let line of some) {
      line = line.endsWith("\r") ? line.slice(0, -1) : line;
      if (here === null) {
        if (header++ === 0 && !line.startsWith("##fileformat=VCF")) fail("expected a VCF, which begins with ##fileformat=VCF, found another file");
        if (line.startsWith("##")) continue;
        const columns = line.split("\t");
        if (columns[0] !== "#CHROM" || columns.length < 8) fail("expected a header that ends with the line #CHROM, found other lines");
        if (columns.length !== 10) fail(`expected one sample, found ${Math.max(0, columns.length - 9)}`);
        here = "";
        continue;
      }
      if (line === "") continue;
      records += 1;
      const of = line.slice(0, Math.max(0, line.indexOf("\t")));
      if (of === "") fail(where("expected the column CHROM, found none"));
      if (of !== here) {
        if (here === chromosome) return found;
        if (before.has(of)) fail(where(`expected records chromosome by chromosome, found ${of} again`));
        before.add(of);
        [here, last] = [of, 0];
      }
      if (of !== chromosome) continue;
      const columns = line.split("\t");
      const position = /^\d{1,10}$/.test(columns[1]) ? Number(columns[1]) : 0;
      if (position < Math.max(1, last)) fail(where(`expected positions in their order, found ${of}:${columns[1].slice(0, 20)} after ${last}`));
      last = position;
      if (position > end) return found;
      if (position < first) continue;
      if (columns.length !== 10) fail(where(`expected 10 columns, found ${columns.length}`));
      const [, , , reference, alternates, , , info, format, value] = columns;
      const others = alternates === "." ? [] : told_alleles({ chromosome, position, alternates: alternates.split(","), info });
      others.forEach((alternate, i) => {
        const at = wanted.get(name({ position, reference, alternate }));
        if (at === undefined) return;
        if (found[at] !== null) {
          if (/^<.*>$/.test(alternate)) fail(where(`expected END or SVLEN, which tell structural variants apart, found two ${alternate} without`));
          return; // keep the first of two equal records
        }
        const { alleles, phased, set } = genotype(format, value, others.length);
        const here = alleles.map((allele) => allele && Number(allele === i + 1));
        // equal alleles have no phase set
        const own = here.length < 2 || here[0] === here[1] ? null : set;
        found[at] = { alleles: here, phased: phased || alleles.length < 2 || alleles[0] === alleles[1], set: own };
      });
    }
  }
  if (here === null) fail(header === 0 ? "expected a VCF, found an empty file" : "expected a header that ends with the line #CHROM, found the end of the file");
  return found;
}

/// The alleles of the one person of `file` (a Blob) at `sites`, neighbours in a table, as 0 and 1
/// for each haplotype. They stop at the first site without alleles in the file; `ended` has the
/// place and the reason.
export async function haplotypes(file, sites) {
  const found = await told(file, sites);
  const known_set = found.find((one) => one !== null && one.set !== null)?.set;
  const why = (one) => {
    if (one === null) return "is not in the file";
    if (one.set !== null && one.set !== known_set) return "is of another phase set (PS)";
    if (one.alleles.includes(null)) return "was not called";
    if (!one.phased && sites.length > 1) return "has no phase (as 0|1)";
    return one.alleles.length === found[0].alleles.length ? "" : "has another number of alleles";
  };
  const end = found.findIndex((one) => why(one) !== "");
  const known = end < 0 ? found : found.slice(0, end);
  const ended = end < 0 ? null : { site: sites[end], why: why(found[end]) };
  const of = (i) => known.map(({ alleles }) => alleles[i]).join("");
  return { haplotypes: known.length === 0 ? [] : known[0].alleles.map((_, i) => of(i)), ended };
}
