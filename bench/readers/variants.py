"""Indexes VCF and BCF files, and compares every count with those of htslib's reader."""

import collections
import concurrent.futures
import functools
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import pysam

pysam.set_verbosity(0)
NAME = re.compile(r"\.(vcf|bcf)(\.b?gz)?$", re.IGNORECASE)
INDEX = ["--multiallelic", "split", "--missing", "ref", "--json"]
Site = collections.namedtuple("Site", "name chromosome ones alleles haplotypes shape")


def upper(allele):
    """Bases in upper case; names of contigs in breakends, and symbols, stay."""
    if allele.startswith("<"):
        return allele
    parts = re.split(r"([\[\]])", allele)
    inside = 0
    for place, part in enumerate(parts):
        if part in ("[", "]"):
            inside ^= 1
        elif not inside:
            parts[place] = part.upper()
    return "".join(parts)


def fields(record):
    """INFO as text: the library would convert or reject some values."""
    columns = str(record).rstrip("\n").split("\t")
    told = {}
    for field in columns[7].split(";") if len(columns) > 7 else []:
        key, _, value = field.partition("=")
        told.setdefault(key, value)
    return told


def alternates(record, info):
    """The alternate alleles; structural ones with their end, or the length of an insertion."""
    end = int(info["END"]) if re.fullmatch(r"\d+", info.get("END", "")) else None
    lengths = [None if text in (".", "") else abs(int(float(text))) for text in info.get("SVLEN", ".").split(",")]
    other = info.get("CHR2", ".")
    for place, allele in enumerate(record.alts):
        length = lengths[place] if place < len(lengths) else None
        if not allele.startswith("<") or allele in ("<*>", "<NON_REF>"):
            yield upper(allele)
        elif allele.startswith("<INS"):
            yield allele if length is None else f"{allele}+{length}"
        elif other not in (".", record.chrom):
            yield allele if end is None else f"{allele}@{other}@{end}"
        else:
            by_length = None if length is None else record.pos + length
            first, second = (end, by_length) if len(record.alts) == 1 else (by_length, end)
            known = first if first is not None else second
            yield allele if known is None else f"{allele}@{known}"


def number(text):
    return int(text) if text is not None and text.isdigit() else None


def sites_of(path):
    """The sites with the counts of their alleles; the first of two equal records counts."""
    file = pysam.VariantFile(path)
    samples, sites, seen, last, ploidy = list(file.header.samples), [], set(), None, {}
    for record in file:
        if not record.alts:
            continue
        if (record.chrom, record.pos) != last:
            seen, last = set(), (record.chrom, record.pos)
        info, genotypes = fields(record), []
        for sample in samples if "GT" in record.format else []:
            genotype = tuple(record.samples[sample].get("GT") or (None,))
            if genotype == (None,) and ploidy.get(sample) != 1:
                genotype = (None, None)
            ploidy[sample] = len(genotype)
            genotypes.append(genotype)
        counts = info.get("AC", "").split(",")
        for place, allele in enumerate(alternates(record, info), 1):
            key = (upper(record.ref), allele)
            if key in seen:
                continue
            seen.add(key)
            name = f"{record.chrom}:{record.pos}:{key[0]}:{allele}"
            if genotypes:
                alleles = [one == place for genotype in genotypes for one in genotype]
                shape = tuple(map(len, genotypes))
                sites.append(Site(name, record.chrom, sum(alleles), len(alleles), alleles, shape))
            else:
                ones = number(counts[place - 1]) if len(counts) == len(record.alts) else None
                sites.append(Site(name, record.chrom, ones, number(info.get("AN")), None, None))
    return sites


def windows(sites):
    """Questions about haplotypes, some with one allele changed, and their counts."""
    chance = random.Random(7)
    for _ in range(60):
        start, length = chance.randrange(len(sites)), chance.randint(2, 8)
        window = sites[start : start + length]
        if len(window) < length or len({(site.chromosome, site.shape) for site in window}) > 1:
            continue
        haplotype = chance.randrange(len(window[0].haplotypes))
        pattern = [site.haplotypes[haplotype] for site in window]
        if chance.random() < 0.3:
            pattern[chance.randrange(length)] ^= True
        rows = zip(*(site.haplotypes for site in window), strict=True)
        yield window[0].name, "".join("01"[one] for one in pattern), sum(list(row) == pattern for row in rows)


def run(program, *arguments):
    done = subprocess.run([program, "search", *arguments], capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, done.stdout, done.stderr


def compare(program, path, folder, options=()):
    """The result for a file, and what tells more of it."""
    table, list_ = str(folder / "table.tsi"), str(folder / "questions")
    code, out, said = run(program, "index", path, "-o", table, *INDEX, *options)
    try:
        sites, fault = sites_of(path), None
    except Exception as error:  # whatever the other reader raises is its answer
        sites, fault = None, repr(error)
    if code != 0:
        return "refused", (said.strip().splitlines() or ["no message"])[-1]
    if fault:
        return "the other reader fails", fault
    told, expected = json.loads(out), []
    if told["kept"] != len(sites):
        return "DIFFERENT", f"{told['kept']} sites, and {len(sites)} of the other reader"
    for site in sites:
        zeros = None if site.alleles is None else site.alleles - site.ones
        expected += [(site.name, "1", site.ones), (site.name, "0", zeros)]
    if told["kind"] == "panel":
        expected += windows(sites)
    pathlib.Path(list_).write_text("".join(f"{name}\t{alleles}\n" for name, alleles, _ in expected), encoding="utf-8")
    code, out, said = run(program, "check", table, "--queries", list_, "--format", "tsv")
    rows = [row.split("\t") for row in out.splitlines()[1:]]
    if len(rows) != len(expected):
        return "DIFFERENT", f"{len(rows)} answers to {len(expected)} questions: {said[:200]}"
    for (name, alleles, count), row in zip(expected, rows, strict=True):
        if count is not None and row[2] != str(count):
            return "DIFFERENT", f"{name} {alleles}: {row[2]}, and {count} of the other reader"
    return "equal", f"{told['kind']}, {len(sites)} sites, {len(rows)} questions"


def check(program, path):
    """Compares a file, and the same as BCF where the other library can write it."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        result, more = compare(program, path, folder)
        if result == "refused" and "--unphased variants" in more:
            result, more = compare(program, path, folder, ("--unphased", "variants"))
            return (f"{result} with --unphased variants" if result == "equal" else result), more
        if result != "equal":
            return result, more
        binary = str(folder / "same.bcf")
        try:
            source = pysam.VariantFile(path)
            with pysam.VariantFile(binary, "wb", header=source.header) as out:
                for record in source:
                    out.write(record)
        except Exception:  # the library cannot write this file
            return result, more
        again, why = compare(program, binary, folder)
        return ("equal, as BCF too", more) if again == "equal" else (f"as BCF: {again}", why)


def main(program, *roots):
    found = [os.path.join(folder, file) for root in roots for folder, _, files in os.walk(root) for file in files]
    paths = sorted(path for path in found if NAME.search(path))
    with concurrent.futures.ProcessPoolExecutor() as workers:
        results = list(workers.map(functools.partial(check, program), paths))
    for path, (result, more) in zip(paths, results, strict=True):
        print(f"{result}\t{path}\t{more[:200]}")
    for result, count in sorted(collections.Counter(result for result, _ in results).items()):
        print(count, result, file=sys.stderr)
    return 1 if any("DIFFERENT" in result for result, _ in results) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
