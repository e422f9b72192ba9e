"""Cycles of `glue/cortex-m4`'s program `sensor`, estimated from a trace of its instructions.

    python3 bench/estimator/cortex_m4.py target/glue/thumbv7em-none-eabi/release/sensor

QEMU (qemu-system-arm) writes the address of each instruction, arm-none-eabi-objdump tells what stands there. The times are those of
the Cortex-M4 Technical Reference Manual, section 3.3.1, without wait states of memory. The lower end counts pipelined loads and
stores, and branches that refill the pipeline in one cycle; the upper end loads and stores of two cycles, and three cycles to refill.
"""

import re
import subprocess
import sys


def cycles(operation, arguments, taken):
    """The lower and the upper number of cycles."""
    if operation.startswith(("push", "pop", "ldm", "stm")):
        registers = re.search(r"\{(.*?)\}", arguments)
        count = 1 + (len(registers[1].split(",")) if registers else 1)
        return count, count + (3 if "pc" in arguments and not operation.startswith(("push", "stm")) else 0)
    if operation.startswith(("ldrd", "strd")):
        return 3, 3
    if operation.startswith(("ldr", "str")):
        return 1, 2
    if operation in ("bl", "blx", "bx"):
        return 2, 4
    if re.fullmatch(r"b|b[a-z]{2}|cbz|cbnz", operation):
        return (2, 4) if taken else (1, 1)
    if operation.startswith("tb"):
        return 3, 5
    return (0, 1) if operation.startswith("it") else (1, 1)


def main():
    program = sys.argv[1]
    listing = subprocess.run(["arm-none-eabi-objdump", "-d", program], capture_output=True, text=True, check=True).stdout
    code = {}
    for line in listing.splitlines():
        found = re.match(r"\s+([0-9a-f]+):\t([0-9a-f ]+)\t(\S+)\s*(.*)", line)
        if found:
            length = len(found[2].replace(" ", "")) // 2
            code[int(found[1], 16)] = (found[3].split(".")[0], found[4], length)
    words = "qemu-system-arm -machine mps2-an386 -singlestep -d exec,nochain -D /dev/fd/2 -nographic -monitor none -serial none"
    words = words.split() + ["-semihosting-config", "enable=on,target=native", "-kernel", program]
    traced = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
    count, lower, upper, before = 0, 0, 0, None
    for line in traced.stderr:
        found = re.search(r"\[[0-9a-f]+/([0-9a-f]+)/", line)
        if not found:
            continue
        here = int(found[1], 16)
        if before in code:
            operation, arguments, length = code[before]
            low, high = cycles(operation, arguments, here != before + length)
            count, lower, upper = count + 1, lower + low, upper + high
        before = here
    print(f"{count} instructions, {lower} to {upper} cycles: {lower / count:.2f} to {upper / count:.2f} an instruction")


if __name__ == "__main__":
    main()
