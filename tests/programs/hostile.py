#!/usr/bin/env python3
"""Makes shared libraries and executables whose ELF notes are traps, from good ones built with cc.

usage: hostile.py DIR

Each trap gives DIR/exe_TRAP, an executable with the trap in itself, and DIR/use_TRAP, a good executable linked
against DIR/libTRAP.so, which has it. Each is run as it is: those that exit with 0 are printed, one path a
line, and the others named on stderr. What reads notes by their headers alone crashes, hangs or lies on them.
Exit status 1: a trap that should run does not.
"""

import os
import struct
import subprocess
import sys

PT_LOAD, PT_NOTE, PT_GNU_EH_FRAME = 1, 4, 0x6474E550
PF_R = 4
NT_GNU_BUILD_ID = 3
PAGE = 0x1000

LIBRARY = "int hostile(void) { return 0; }"
USER = "int hostile(void); int main(void) { return hostile(); }"
PROGRAM = "int main(void) { return 0; }"


class Header:
    """One program header, written back with `Elf.save`."""

    LAYOUT = struct.Struct("<IIQQQQQQ")

    def __init__(self, raw):
        (self.type, self.flags, self.offset, self.vaddr, self.paddr, self.filesz, self.memsz, self.align) = (
            self.LAYOUT.unpack(raw)
        )

    def pack(self):
        return self.LAYOUT.pack(
            self.type, self.flags, self.offset, self.vaddr, self.paddr, self.filesz, self.memsz, self.align
        )


class Elf:
    """A 64-bit little-endian ELF file whose program headers and bytes can be changed."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = bytearray(file.read())
        (self.at,) = struct.unpack_from("<Q", self.data, 32)
        size, count = struct.unpack_from("<HH", self.data, 54)
        assert self.data[:6] == b"\x7fELF\x02\x01" and size == Header.LAYOUT.size
        self.headers = [Header(self.data[i : i + size]) for i in range(self.at, self.at + size * count, size)]

    def save(self, path):
        raw = b"".join(header.pack() for header in self.headers)
        self.data[self.at : self.at + len(raw)] = raw
        # A new file, not new bytes in the old one: somebody may have it mapped.
        if os.path.exists(path):
            os.unlink(path)
        with open(path, "wb") as file:
            file.write(self.data)
        os.chmod(path, 0o755)

    def note(self):
        """The note segment that holds the build-id, and the offset of that note in the file."""
        for header in (h for h in self.headers if h.type == PT_NOTE):
            at, end = header.offset, header.offset + header.filesz
            while at + 12 <= end:
                namesz, descsz, kind = struct.unpack_from("<III", self.data, at)
                if kind == NT_GNU_BUILD_ID and self.data[at + 12 : at + 16] == b"GNU\0":
                    return header, at
                at += 12 + (namesz + 3 & ~3) + (descsz + 3 & ~3)
        raise ValueError("no build-id")

    def new_segment(self, content, beyond=0, flags=PF_R):
        """Loads `content` from the end of the file, and `beyond` more bytes that the file does not have.

        The header of the unwinder's table is given up for it: it stands behind the other loaded segments, as
        one with the highest address must.
        """
        header = next(h for h in self.headers if h.type == PT_GNU_EH_FRAME)
        self.data.extend(bytes(-len(self.data) % PAGE))
        top = max(h.vaddr + h.memsz for h in self.headers if h.type == PT_LOAD)
        header.type, header.flags, header.align = PT_LOAD, flags, PAGE
        header.offset = len(self.data)
        header.vaddr = header.paddr = (top + PAGE - 1 & -PAGE) + PAGE
        header.filesz = header.memsz = len(content) + beyond
        self.data.extend(content)
        return header

    def move_note(self, load, size, skip=0):
        """Makes the note segment the `size` bytes of `load` that begin behind `skip`."""
        header, _ = self.note()
        header.offset, header.vaddr, header.paddr = load.offset + skip, load.vaddr + skip, load.paddr + skip
        header.filesz = header.memsz = size


def note(owner, kind, desc):
    name = owner + b"\0" if owner else b""
    pad = lambda text: text + bytes(-len(text) % 4)
    return struct.pack("<III", len(name), len(desc), kind) + pad(name) + pad(desc)


def build_id(size):
    return note(b"GNU", NT_GNU_BUILD_ID, bytes(i & 0xFF for i in range(size)))


TRAPS = {}


def trap(function):
    TRAPS[function.__name__] = function
    return function


@trap
def plain(_elf):
    """No trap: shows that the way of making them is sound."""


@trap
def moved(elf):
    """A good build-id of 32 bytes in a segment of its own: it should be found."""
    content = build_id(32)
    elf.move_note(elf.new_segment(content), len(content))


@trap
def sigbus(elf):
    """The note lies where the mapping has no file behind it: touching it raises SIGBUS."""
    load = elf.new_segment(b"\0" * 16, beyond=4 * PAGE)
    elf.move_note(load, 36, skip=2 * PAGE)


@trap
def sigbus_half(elf):
    """The note begins on the file's last page and ends behind it."""
    content = bytes(PAGE - 16) + build_id(1000)[:16]
    elf.move_note(elf.new_segment(content, beyond=2 * PAGE), 1016, skip=PAGE - 16)


@trap
def no_access(elf):
    """The note lies in a segment that may not be read."""
    elf.move_note(elf.new_segment(build_id(20), flags=0), 36)


@trap
def name_4g(elf):
    struct.pack_into("<I", elf.data, elf.note()[1], 0xFFFFFFFF)


@trap
def desc_4g(elf):
    struct.pack_into("<I", elf.data, elf.note()[1] + 4, 0xFFFFFFFF)


@trap
def desc_wraps(elf):
    """The sum of header, name and description is 0 in 32 bits: a careless walk stays where it is."""
    struct.pack_into("<I", elf.data, elf.note()[1] + 4, 0xFFFFFFF0)


@trap
def memsz_2_63(elf):
    elf.note()[0].memsz = 1 << 63


@trap
def filesz_2_63(elf):
    elf.note()[0].filesz = 1 << 63


@trap
def sizes_max(elf):
    header, _ = elf.note()
    header.memsz = header.filesz = (1 << 64) - 1


@trap
def outside(elf):
    """The note's address is in no loaded segment."""
    elf.note()[0].vaddr = 0x7000_0000


@trap
def wraps(elf):
    """The note ends at address 16, behind the end of the address space."""
    header, _ = elf.note()
    header.vaddr, header.memsz = (1 << 64) - 16, 32


@trap
def offset_beyond(elf):
    """Good in memory, but the file's offset is behind its end."""
    elf.note()[0].offset = 1 << 40


@trap
def align_0(elf):
    elf.note()[0].align = 0


@trap
def align_2_63(elf):
    elf.note()[0].align = 1 << 63


@trap
def notes_10000(elf):
    """Ten thousand notes of nothing, and then the build-id."""
    content = note(b"", 0, b"") * 10000 + build_id(20)
    elf.move_note(elf.new_segment(content), len(content))


@trap
def build_id_4k(elf):
    content = build_id(4096)
    elf.move_note(elf.new_segment(content), len(content))


@trap
def build_id_empty(elf):
    elf.move_note(elf.new_segment(build_id(0)), len(build_id(0)))


def compile_c(source, out, *options):
    command = ["cc", "-O1", "-x", "c", "-", "-o", out, "-Wl,--build-id", "-Wl,--eh-frame-hdr", *options]
    subprocess.run(command, input=source.encode(), check=True)


def make(directory, name):
    """Makes both executables of a trap; gives their paths."""
    exe, use = (os.path.join(directory, f"{kind}_{name}") for kind in ("exe", "use"))
    library = os.path.join(directory, f"lib{name}.so")
    compile_c(PROGRAM, exe)
    compile_c(LIBRARY, library, "-shared", "-fPIC")
    # Without a soname the path goes into the program, which is linked while the library is still good.
    compile_c(USER, use, "-x", "none", library)
    for path in (exe, library):
        elf = Elf(path)
        TRAPS[name](elf)
        elf.save(path)
    return exe, use


def runs(path):
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    done = subprocess.run([path], env=environment, capture_output=True, text=True, check=False, timeout=20)
    if done.returncode != 0:
        print(f"{path}: {done.returncode} {done.stderr.strip()}", file=sys.stderr)
    return done.returncode == 0


def main():
    if len(sys.argv) != 2:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 64
    directory = os.path.abspath(sys.argv[1])
    os.makedirs(directory, exist_ok=True)
    made = [path for name in TRAPS for path in make(directory, name)]
    good = [path for path in made if runs(path)]
    print("\n".join(good))
    return 0 if good == made else 1


if __name__ == "__main__":
    sys.exit(main())
