#!/usr/bin/env python3
"""Writes nist.txt from NIST's response files: python3 make.py FOLDER > nist.txt, where FOLDER has CBC/ and GCM/."""

import pathlib
import sys

HEAD = """\
# Known answers of AES, from NIST's Cryptographic Algorithm Validation Program (public domain): all encryptions of the CBC response files
# (GFSbox, KeySbox, VarKey, VarTxt and MMT of 128, 192 and 256 bits), the first six of each group of gcmEncryptExtIV256.rsp with IVs of 96 and
# tags of 128 bits, and all refused ones of gcmDecrypt256.rsp with those. Made by make.py.
# cbc KEY IV PLAINTEXT CIPHERTEXT (whole blocks, without padding) | gcm KEY IV DATA PLAINTEXT CIPHERTEXT TAG | refuse KEY IV DATA - CIPHERTEXT TAG"""


def records(path):
    head, record = {}, {}
    for line in path.read_text().splitlines() + [""]:
        line = line.strip()
        if line.startswith("["):
            name, _, value = line.strip("[]").partition("=")
            head["section" if not value else name.strip()] = value.strip() or name.strip()
        elif not line:
            if record:
                yield head, record
            record = {}
        elif line == "FAIL":
            record["FAIL"] = ""
        elif not line.startswith("#"):
            name, _, value = line.partition("=")
            record[name.strip()] = value.strip() or "-"


def main():
    root = pathlib.Path(sys.argv[1])
    print(HEAD)
    for path in sorted((root / "CBC").glob("CBC*.rsp")):
        for head, record in records(path):
            if head["section"] == "ENCRYPT":
                print("cbc", *(record[name] for name in ("KEY", "IV", "PLAINTEXT", "CIPHERTEXT")))
    for file, kind in (("gcmEncryptExtIV256.rsp", "gcm"), ("gcmDecrypt256.rsp", "refuse")):
        for head, record in records(root / "GCM" / file):
            usual = head["IVlen"] == "96" and head["Taglen"] == "128"
            if usual and ("FAIL" in record if kind == "refuse" else int(record["Count"]) < 6):
                print(kind, *(record.get(name, "-") for name in ("Key", "IV", "AAD", "PT", "CT", "Tag")))


main()
