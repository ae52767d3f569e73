"""Lets shared libraries linked against glibc 2.38 load on an older one: relax_glibc.py FILE...

A program compiled on glibc 2.38 or later calls __isoc23_strtol instead of strtol (likewise strtoul, strtoull, sscanf),
which differs only in accepting C23's "0b" prefix. Nothing else ties the prebuilt llama.cpp of llama-cpp-py-sync to 2.38.
So those undefined symbols are pointed at the old names, in the version that has them. Only the dynamic symbol table
changes; the code, and all that a ggml backend sees of its host, stays what its makers shipped.
Files that need anything else of glibc 2.38 are refused, files that need nothing of it are left alone.
"""

import struct
import sys

TOO_NEW = b"GLIBC_2.38"
BASE = b"GLIBC_2.2.5"  # the version of strtol and the others on x86-64
PREFIX = b"__isoc23_"
DYNSYM, VERNEED, VERSYM = 11, 0x6FFFFFFE, 0x6FFFFFFF  # section types


def relax(data):
    """Edits `data` (an ELF file) in place; returns the names that were pointed elsewhere."""
    if data[:6] != b"\x7fELF\x02\x01":
        sys.exit("not a 64-bit little-endian ELF file")
    table, = struct.unpack_from("<Q", data, 0x28)
    header_size, header_count = struct.unpack_from("<HH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQII", data, table + i * header_size) for i in range(header_count)]
    by_type = {header[1]: header for header in headers}
    _, _, _, _, symbols, symbols_size, strings_index, _ = by_type[DYNSYM]
    versions = by_type[VERSYM][4]  # one 16-bit version index a symbol
    strings = headers[strings_index][4]

    def text(offset):
        return bytes(data[strings + offset : data.index(0, strings + offset)])

    # Each library that is needed has a chain of the versions wanted of it: {version: where its entry is}, of libc's.
    wanted = {}
    need = by_type[VERNEED][4]
    for _ in range(by_type[VERNEED][7]):
        _, count, library, entry, next_need = struct.unpack_from("<HHIII", data, need)
        entry += need
        for _ in range(count):
            _, _, _, name, next_entry = struct.unpack_from("<IHHII", data, entry)
            if text(library) == b"libc.so.6":
                wanted[text(name)] = entry
            elif text(name) == TOO_NEW:
                sys.exit(f"needs {TOO_NEW.decode()} of {text(library).decode()}")
            entry += next_entry
        need += next_need
    if TOO_NEW not in wanted:
        return []

    changed = []
    _, _, too_new_index, _, _ = struct.unpack_from("<IHHII", data, wanted[TOO_NEW])
    for number in range(symbols_size // 24):
        name, = struct.unpack_from("<I", data, symbols + number * 24)
        if struct.unpack_from("<H", data, versions + number * 2)[0] != too_new_index:
            continue
        if not text(name).startswith(PREFIX):
            sys.exit(f"needs {text(name).decode()} of {TOO_NEW.decode()}")
        # A name is an offset into the string table: past the prefix, the same string reads as the old name.
        struct.pack_into("<I", data, symbols + number * 24, name + len(PREFIX))
        changed.append(text(name + len(PREFIX)).decode())
    # Hash and name of the version: those of BASE, under the index that these symbols have.
    base_hash, _, _, base_name, _ = struct.unpack_from("<IHHII", data, wanted[BASE])
    struct.pack_into("<I", data, wanted[TOO_NEW], base_hash)
    struct.pack_into("<I", data, wanted[TOO_NEW] + 8, base_name)
    return changed


for path in sys.argv[1:]:
    with open(path, "r+b") as file:
        content = bytearray(file.read())
        names = relax(content)
        file.seek(0)
        file.write(content)
    if names:
        print(f"relax_glibc: {path.rsplit('/', 1)[-1]}: any glibc's {', '.join(names)} will do")
