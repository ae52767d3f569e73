"""Decodes the golden records from docs/formats.md and docs/numerics.md alone: a second reader of the formats, in another language.

usage: decode_golden.py FOLDER
"""
import functools
import math
import pathlib
import struct
import sys

LEVELS = {
    1: [0.797885],
    2: [0.452780, 1.510418],
    3: [0.245094, 0.756005, 1.343909, 2.151946],
    4: [0.128395, 0.388048, 0.656759, 0.942340, 1.256231, 1.618046, 2.069017, 2.732590],
}
DIGIT_LEVELS = {5: [0.764568, 1.724147], 11: [0.367458, 0.752367, 1.178826, 1.692639, 2.425746]}
FRAMES = {"q8_0_rot": ("hadamard", "hadamard64"), "q4_0_rot": ("hadamard", "hadamard64")}
# Positive levels of the trellis codes in steps, and the step.
TRELLIS = {
    1: ([29, 95], 0.01254422),
    2: ([12, 37, 66, 114], 0.01622094),
    3: ([5, 15, 26, 37, 50, 65, 86, 119], 0.02068682),
    4: ([2, 6, 10, 14, 18, 22, 27, 31, 36, 41, 47, 53, 61, 70, 82, 100], 0.03043518),
    5: ([1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 26, 28, 30, 33, 35, 38, 40, 43, 46, 49, 52, 55, 59, 63, 68, 73, 79, 86,
        96, 110], 0.03328655),
    6: ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 21, 22, 23, 24, 25, 26, 27, 29, 30, 31, 32, 33,
        35, 36, 37, 39, 40, 41, 43, 44, 46, 47, 49, 50, 52, 54, 55, 57, 59, 61, 63, 65, 67, 70, 73, 75, 78, 82, 85, 89, 93,
        98, 104, 113, 127], 0.03265110),
}
BLOCKS = {"planar": 2, "isofast": 4, "isofull": 4, "rotor": 3}
FRAMES.update({f"{name}{bits}": (name, name) for name in ("planar", "rotor") for bits in (3, 4)})
FRAMES.update({f"iso{bits}": ("isofast", "isofast") for bits in (3, 4)})
FRAMES.update({f"iso{bits}_full": ("isofull", "isofull") for bits in (3, 4)})
SIGNED = ("turbo", "polar", "rabitq", "tcq")  # turbo2.5 and turbo3.5 excepted
# Angles of polar at levels 2, 3 and 4; those above pi/4 mirror them.
ANGLES = [[0.309756117, 0.633980240], [0.426249693, 0.674384998], [0.524214091, 0.705909406]]


def splitmix64(counter):
    mask = (1 << 64) - 1
    z = (counter + 1) * 0x9E3779B97F4A7C15 & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    return z ^ z >> 31


def u16(group, at):
    return group[at] | group[at + 1] << 8


def f16(bits):
    return struct.unpack("<e", struct.pack("<H", bits))[0]


def f32(bits):
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0]


def half_row(group, w, key, t, to_float):
    if key:
        return [to_float(u16(group, 2 * ((t // 16 * w + i) * 16 + t % 16))) for i in range(w)]
    return [to_float(u16(group, 2 * (t * w + i))) for i in range(w)]


def q8_0_row(group, w, t):
    row = []
    for block in range(w // 32):
        at = (t * (w // 32) + block) * 34
        codes = struct.unpack("<32b", bytes(group[at + 2 : at + 34]))
        row += [f16(u16(group, at)) * code for code in codes]
    return row


def q4_0_row(group, w, t):
    row = []
    for block in range(w // 32):
        at = (t * (w // 32) + block) * 18
        nibbles = [b & 15 for b in group[at + 2 : at + 18]] + [b >> 4 for b in group[at + 2 : at + 18]]
        row += [f16(u16(group, at)) * (code - 8) for code in nibbles]
    return row


def key_code(group, b, w, t, i):
    part = t // 32 * 4 * w * b
    second = t % 32 // 16
    lane = 4 * (t % 16) + i % 4
    if b == 4:
        return group[part + (second * (w // 8) + i // 8) * 64 + lane] >> i % 8 // 4 * 4 & 15
    quad = i % 16 // 4
    low = group[part + (second * (w // 16) + i // 16) * 64 + lane] >> 2 * quad & 3
    if b == 2:
        return low
    return low | (group[part + (2 * (w // 16) + i // 16) * 64 + lane] >> 4 * second + quad & 1) << 2


def value_code(group, b, w, t, i):
    column = t // 32 * 4 * w * b + i // 16 * b * 64
    lane = 4 * (i % 16) + t % 4
    t %= 32
    if b == 4:
        return group[column + t // 8 * 64 + lane] >> t % 8 // 4 * 4 & 15
    low = group[column + t // 16 * 64 + lane] >> t % 16 // 4 * 2 & 3
    if b == 2:
        return low
    return low | (group[column + 2 * 64 + lane] >> t // 4 & 1) << 2


def turbo_row(group, b, w, key, t):
    levels = [-x for x in reversed(LEVELS[b])] + LEVELS[b]
    scale = f32(u16(group, 16 * w * b + 2 * t) << 15)
    code = key_code if key else value_code
    return [scale * levels[code(group, b, w, t, i)] for i in range(w)]


def rabitq_row(group, b, w, key, t):
    scale = f32(u16(group, 16 * w * b + 2 * t) << 15)
    code = key_code if key else value_code
    return [scale * (2 * code(group, b, w, t, i) - 2**b + 1) / 2 ** (b - 1) for i in range(w)]


def trellis_row(group, b, w, key, t):
    passes = 4 if key else 16
    steps, step = TRELLIS[b]
    levels = [-x for x in reversed(steps)] + steps
    places = [i % passes * (w // passes) + i // passes for i in range(w)]
    u, m = [0] * (w + 3), [0] * w  # u_-1, u_-2 and u_-3 are the last three entries
    field = (b - 1) // 2 * 2
    for i, n in enumerate(places):
        at = (t // 32 * (w // 16) + i // 16) * 64 * b + (4 * (t % 16) + i % 4 if key else 4 * (i % 16) + t % 4)
        quad = i % 16 // 4 + 4 * (t % 32 // 16) if key else t % 32 // 4
        u[n] = group[at] >> quad & 1
        if b % 2 == 0:
            m[n] = (group[at + 64] >> quad & 1) << field
        if field:
            block = at + 64 * (2 - b % 2) + quad * field // 8 * 64
            m[n] |= group[block] >> quad * field % 8 & (1 << field) - 1
    scale = f32(u16(group, 16 * w * b + 2 * t) << 15)
    return [scale * step * levels[4 * m[n] + 2 * (u[n] ^ u[n - 1] ^ u[n - 3]) + u[n - 2]] for n in places]


class Row:
    """The bytes of one row where rows stand one after the other."""

    def __init__(self, group, t, size):
        self.bytes = group[t * size : t * size + size]

    def scale(self, number):
        return f32(u16(self.bytes, 2 * number) << 15)

    def bits(self, first, count):
        return int.from_bytes(self.bytes, "little") >> first & (1 << count) - 1


def rabitq1_row(group, w, t):
    row = Row(group, t, 2 + w // 8)
    return [row.scale(0) * (2 * row.bits(16 + i, 1) - 1) for i in range(w)]


def normal(index):
    """Entry `index` of the 576 x 576 Gaussian matrix, row by row."""
    for attempt in range(64):
        bits = splitmix64((0x514A4C << 32) + 64 * index + attempt)
        u = ((bits >> 32) + 0.5) / 2**31 - 1
        v = ((bits & 0xFFFFFFFF) + 0.5) / 2**31 - 1
        s = u * u + v * v
        if s < 1:
            return u * math.sqrt(-2 * math.log(s) / s)


@functools.cache
def projection(w, orthogonal):
    rows = [[normal(576 * i + j) for j in range(w)] for i in range(w)]
    if not orthogonal:
        return rows
    done = []
    for row in rows:
        for _ in range(2):
            for other in done:
                along = sum(x * y for x, y in zip(row, other))
                row = [x - along * y for x, y in zip(row, other)]
        norm = math.sqrt(sum(x * x for x in row))
        done.append([x / norm for x in row])
    return done


def signs_vector(row, first_bit, w, orthogonal):
    """S^T signs / (sqrt(w) E|<s,u>|)."""
    mean_abs = math.gamma(w / 2) / math.gamma((w + 1) / 2) / math.sqrt(math.pi) if orthogonal else math.sqrt(2 / math.pi)
    total = [0.0] * w
    for i, line in enumerate(projection(w, orthogonal)):
        sign = 1 if row.bits(first_bit + i, 1) else -1
        total = [x + sign * y for x, y in zip(total, line)]
    return [x / (math.sqrt(w) * mean_abs) for x in total]


def qjl_row(group, w, t, orthogonal):
    row = Row(group, t, 2 + w // 8)
    return [row.scale(0) * x for x in signs_vector(row, 16, w, orthogonal)]


def turboprod_row(group, b, w, key, t, orthogonal):
    row = Row(group, t, 4 + b * w // 8)
    levels = [-x for x in reversed(LEVELS[b - 1])] + LEVELS[b - 1]
    out = [row.scale(0) * levels[row.bits(32 + (b - 1) * i, b - 1)] for i in range(w)]
    if key:
        out = [x + row.scale(1) * y for x, y in zip(out, signs_vector(row, 32 + (b - 1) * w, w, orthogonal))]
    return out


def polar_row(group, w, t):
    row = Row(group, t, w // 8 + (46 * w // 16 + 7) // 8)
    out = []
    for block in range(w // 16):
        bit = w + 46 * block
        parts = [4 * row.scale(block)]
        for level, first in ((4, 44), (3, 40), (2, 32)):
            book = ANGLES[level - 2] + [math.pi / 2 - x for x in reversed(ANGLES[level - 2])]
            angles = [book[row.bits(bit + first + 2 * j, 2)] for j in range(len(parts))]
            parts = [r * f(psi) for r, psi in zip(parts, angles) for f in (math.cos, math.sin)]
        angles = [(row.bits(bit + 4 * j, 4) + 0.5) * math.pi / 8 for j in range(8)]
        out += [r * f(psi) for r, psi in zip(parts, angles) for f in (math.cos, math.sin)]
    return out


def digits_row(group, base, w, t):
    digits = 3 if base == 5 else 2
    levels = [-x for x in reversed(DIGIT_LEVELS[base])] + [0.0] + DIGIT_LEVELS[base]
    row = Row(group, t, row_bytes(f"turbo_n{base}", w))
    return [row.scale(0) * levels[row.bits(16 + 7 * (i // digits), 7) // base ** (i % digits) % base] for i in range(w)]


def split_row(group, b, w, t):
    row = Row(group, t, row_bytes(f"turbo{b}.5", w))
    scale, side = row.scale(0), row.bits(16, 16)
    e, m = side >> 7 & 15, side & 127
    ratio = (1 + m / 128) * 2.0 ** (e - 14) if e else m / 128 * 2.0**-13
    loud = [(a, c) for c in range(8) for a in range(c)][side >> 11]
    parts = {}
    bit = 32
    for name, count, bits, step in (("loud", w // 4, b + 1, scale), ("rest", w - w // 4, b, scale * ratio)):
        levels = [-x for x in reversed(LEVELS[bits])] + LEVELS[bits]
        codes = [row.bits(bit + bits * j, bits) for j in range(count)]
        parts[name] = inverse("signed", [step * levels[code] for code in codes])
        bit += count * bits
    return [parts["loud" if i // (w // 8) in loud else "rest"].pop(0) for i in range(w)]


def kivi_row(group, b, w, key, t):
    def value(header, codes, field):
        least = f16(u16(group, header + 2))
        code = group[codes + field * b // 8] >> field * b % 8 & (1 << b) - 1
        return least + code * f16(u16(group, header))

    if key:
        part = t // 32 * 4 * w * (1 + b)
        return [value(part + 4 * i, part + 4 * w + t % 32 * w * b // 8, i) for i in range(w)]
    blocks = [(t * w // 32 + i // 32) * 4 * (1 + b) for i in range(w)]
    return [value(block, block + 4, i % 32) for i, block in enumerate(blocks)]


class Directions:
    """The stream of uniform directions of a block frame; the seed is the frame's name in ASCII."""

    def __init__(self, name):
        self.counter = int.from_bytes(name.encode(), "big")

    def next(self, dimensions):
        while True:
            x = [2 * (splitmix64(self.counter + i) >> 40) + 1 - (1 << 24) for i in range(dimensions)]
            self.counter += dimensions
            if sum(v * v for v in x) <= 1 << 48:
                return [v / math.sqrt(sum(v * v for v in x)) for v in x]


def hamilton(a, b):
    return [
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    ]


def conjugate(q):
    return [q[0], -q[1], -q[2], -q[3]]


def unturn(angle, pair):
    return [angle[0] * pair[0] + angle[1] * pair[1], angle[0] * pair[1] - angle[1] * pair[0]]


def inverse_blocks(frame, row):
    size = BLOCKS[frame]
    directions = Directions(frame)
    out = []
    for start in range(0, len(row) - size + 1, size):
        part = row[start : start + size]
        if frame == "planar":
            out += unturn(directions.next(2), part)
        elif frame == "rotor":
            s, b12, b13, b23 = directions.next(4)
            q = [s, -b23, b13, -b12]
            out += hamilton(hamilton(conjugate(q), [0.0] + part), q)[1:]
        else:
            left = directions.next(4)
            out += hamilton(conjugate(left), part)
            if frame == "isofull":
                out[start:] = hamilton(out[start:], directions.next(4))
    rest = row[len(out) :]
    if len(rest) == 2:
        pairs = Directions("planar")
        angle = [pairs.next(2) for _ in range(len(out) // 2 + 1)][-1]
        rest = unturn(angle, rest)
    return out + rest


def inverse(frame, row):
    """Applies the transpose of the frame's matrix."""
    w = len(row)
    if frame is None:
        return row
    if frame in BLOCKS:
        return inverse_blocks(frame, row)
    n = 64 if frame == "hadamard64" else w & -w
    m = w // n
    if frame == "signed" and m > 1:
        sums = [sum(row[i + n * block] for block in range(m)) for i in range(n)]
        row = [x - 2 / m * sums[i % n] for i, x in enumerate(row)]
    out = []
    for block in range(m):
        part = row[block * n : block * n + n]
        out += [sum(-x if (i & j).bit_count() % 2 else x for j, x in enumerate(part)) / math.sqrt(n) for i in range(n)]
    if frame == "signed":
        out = [-x if splitmix64(0x5377697665 + i) >> 63 else x for i, x in enumerate(out)]
    return out


def decode(name, group, w, key, t):
    if name == "f16":
        row = half_row(group, w, key, t, f16)
    elif name == "bf16":
        row = half_row(group, w, key, t, lambda bits: f32(bits << 16))
    elif name.startswith("q8_0"):
        row = q8_0_row(group, w, t)
    elif name.startswith("q4_0"):
        row = q4_0_row(group, w, t)
    elif name.startswith("qjl"):
        row = qjl_row(group, w, t, name.endswith("_orth"))
    elif name.startswith("turboprod"):
        row = turboprod_row(group, int(name[9]), w, key, t, name.endswith("_orth"))
    elif name == "polar":
        row = polar_row(group, w, t)
    elif name == "rabitq1":
        row = rabitq1_row(group, w, t)
    elif name.startswith("kivi"):
        row = kivi_row(group, code_bits(name), w, key, t)
    elif name.startswith("tcq"):
        row = trellis_row(group, int(name[-1]), w, key, t)
    elif name.startswith("rabitq"):
        row = rabitq_row(group, int(name[-1]), w, key, t)
    elif name.startswith("turbo_n"):
        row = digits_row(group, int(name[7:]), w, t)
    elif name.endswith(".5"):
        row = split_row(group, int(name[5]), w, t)
    else:
        row = turbo_row(group, code_bits(name), w, key, t)
    signed = ("signed", "signed") if name.startswith(SIGNED) and not name.endswith(".5") else (None, None)
    return inverse(FRAMES.get(name, signed)[0 if key else 1], row)


def code_bits(name):
    return int(name.removesuffix("_full")[-1])


def row_bytes(name, w):
    """Of codecs whose groups are rows."""
    if name.startswith("turbo_n"):
        fields = (w + 2) // 3 if name == "turbo_n5" else w // 2
        return 2 + (7 * fields + 7) // 8
    return 4 + w // 4 * (int(name[5]) + 1) // 8 + w * 3 // 4 * int(name[5]) // 8


def group_bytes(name, w):
    if name.startswith("turboprod"):
        return 128 * (4 + w // 8 * int(name[9]))
    if name.startswith("qjl") or name == "rabitq1":
        return 128 * (2 + w // 8)
    if name == "polar":
        return 128 * (w // 8 + (46 * w // 16 + 7) // 8)
    if name.startswith("turbo_n") or name.endswith(".5"):
        return 128 * row_bytes(name, w)
    if name.startswith("kivi"):
        return 16 * w * (1 + code_bits(name))
    if name.startswith(("turbo", "rabitq", "planar", "iso", "rotor", "tcq")):
        return 16 * w * code_bits(name) + 256
    return {"f16": 256, "bf16": 256, "q8_0": 136, "q4_0": 72}[name.removesuffix("_rot")] * w


def check_file(path):
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    problems = []
    for record, data, floats in zip(lines[0::3], lines[1::3], lines[2::3]):
        fields = dict(item.split("=") for item in record.split()[1:])
        w, t, key = int(fields["width"]), int(fields["token"]), fields["side"] == "key"
        group = bytearray(group_bytes(path.stem, w))
        for run in data.split()[1:]:
            at, text = run.split(":")
            group[int(at) : int(at) + len(text) // 2] = bytes.fromhex(text)
        golden = [math.nan if x == "nan" else f32(int(x, 16)) for x in floats.split()[1:]]
        row = decode(path.stem, group, w, key, t)
        largest = max((abs(x) for x in golden if math.isfinite(x)), default=0.0)
        for ours, theirs in zip(row, golden, strict=True):
            # Not a number or beyond the range of a float: both must be. Otherwise float rounding apart.
            same = abs(ours - theirs) <= 1e-5 * largest if math.isfinite(theirs) else not math.isfinite(ours) or abs(ours) > 3.4e38
            if not same:
                problems.append(f"{path.name}: {record}: {ours} instead of {theirs}")
                break
    return len(lines) // 3, problems


def main():
    files = sorted(path for path in pathlib.Path(sys.argv[1]).glob("*.txt") if path.name != "CMakeLists.txt")
    records = 0
    failures = []
    for path in files:
        count, problems = check_file(path)
        records += count
        failures += problems
    print("\n".join(failures + [f"{records} records in {len(files)} files, {len(failures)} wrong"]))
    return 1 if failures or not files else 0


if __name__ == "__main__":
    sys.exit(main())
