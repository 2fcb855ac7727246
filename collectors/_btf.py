# SPDX-License-Identifier: GPL-2.0-only
"""Kernel type information (BTF), read with the standard library.

The scheduler's structures are private to the kernel and no header package describes them. The headers that are found may
also belong to another kernel than the running one. So every offset comes from /sys/kernel/btf/vmlinux.
Format: Documentation/bpf/btf.rst.
"""

import functools
import struct

VMLINUX = "/sys/kernel/btf/vmlinux"
(
    INT,
    PTR,
    ARRAY,
    STRUCT,
    UNION,
    ENUM,
    FWD,
    TYPEDEF,
    VOLATILE,
    CONST,
    RESTRICT,
    FUNC,
    FUNC_PROTO,
    VAR,
    DATASEC,
    FLOAT,
    DECL_TAG,
    TYPE_TAG,
    ENUM64,
) = range(1, 20)
_ALIASES = (TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG)


class Btf:
    """The kernel's types by name, and the offsets of members inside structures."""

    def __init__(self, path=VMLINUX):
        with open(path, "rb") as f:
            data = f.read()
        magic, _, _, hdr_len, type_off, type_len, str_off, str_len = struct.unpack_from(
            "<HBBIIIII", data
        )
        if magic != 0xEB9F:
            raise ValueError("%s: not BTF (magic %#x)" % (path, magic))
        self.data = data
        self.strings = data[hdr_len + str_off : hdr_len + str_off + str_len]
        self.at = [0]  # position of each type; id 0 is void
        self.by_name = {}
        self._scan(hdr_len + type_off, hdr_len + type_off + type_len)

    def _scan(self, pos, end):
        unpack = struct.Struct("<III").unpack_from
        per_item = {ENUM: 8, ENUM64: 12, STRUCT: 12, UNION: 12, FUNC_PROTO: 8, DATASEC: 12}
        fixed = {INT: 4, ARRAY: 12, VAR: 4, DECL_TAG: 4}
        names = {STRUCT, UNION, TYPEDEF, FUNC, VAR, ENUM, ENUM64}
        while pos < end:
            name, info, _ = unpack(self.data, pos)
            kind = info >> 24 & 0x1F
            if kind in names and name:
                self.by_name.setdefault((kind, name), len(self.at))
            self.at.append(pos)
            pos += 12 + fixed.get(kind, 0) + per_item.get(kind, 0) * (info & 0xFFFF)

    def _string(self, off):
        return self.strings[off : self.strings.index(b"\0", off)].decode()

    def id_of(self, kind, name):
        """Return the type id of a named type or function, or 0."""
        off, needle = -1, b"\0" + name.encode() + b"\0"
        while True:  # an exact match between two NULs, as one string may be the end of another
            off = self.strings.find(needle, off + 1)
            if off < 0:
                return 0
            if (kind, off + 1) in self.by_name:
                return self.by_name[kind, off + 1]

    def _type(self, tid):
        name, info, size = struct.unpack_from("<III", self.data, self.at[tid])
        return self._string(name), info >> 24 & 0x1F, info & 0xFFFF, size, bool(info >> 31)

    def strip(self, tid):
        """Return the type behind typedefs and qualifiers."""
        while tid and self._type(tid)[1] in _ALIASES:
            tid = self._type(tid)[3]
        return tid

    def members(self, tid):
        """Yield (name, type, offset in bits) of a structure's members."""
        _, _, count, _, flagged = self._type(tid)
        for i in range(count):
            name, mtype, bits = struct.unpack_from("<III", self.data, self.at[tid] + 12 + 12 * i)
            yield self._string(name), mtype, bits & 0xFFFFFF if flagged else bits

    def _find(self, tid, name):
        for mname, mtype, bits in self.members(tid):
            if mname == name:
                return mtype, bits
            inner = self.strip(mtype)
            if not mname and self._type(inner)[1] in (STRUCT, UNION):  # anonymous: look inside
                hit = self._find(inner, name)
                if hit:
                    return hit[0], bits + hit[1]
        return None

    def offset(self, struct_name, *paths):
        """Return the offset in bytes of the first of the dotted paths that exists, or None.

        Several paths are the names that one member has had over the years.
        """
        for path in paths:
            tid, bits = self.id_of(STRUCT, struct_name), 0
            for part in path.split("."):
                hit = self._find(self.strip(tid), part) if tid else None
                if not hit:
                    tid = None
                    break
                tid, bits = hit[0], bits + hit[1]
            if tid is not None and bits % 8 == 0:
                return bits // 8
        return None

    def enum_value(self, enum, member):
        """Return the value of an enum's member, or None."""
        tid = self.id_of(ENUM, enum)
        for i in range(self._type(tid)[2] if tid else 0):
            name, value = struct.unpack_from("<Ii", self.data, self.at[tid] + 12 + 8 * i)
            if self._string(name) == member:
                return value
        return None

    def tracepoint_args(self, event):
        """Return for each argument of a raw tracepoint whether it is a pointer; None if this kernel lacks the tracepoint.

        This is enough to distinguish the historical argument lists: sched_switch had (preempt, prev, next) up to 5.17,
        (preempt, prev_state, prev, next) in 5.18, (preempt, prev, next, prev_state) since.
        """
        tid = self.id_of(TYPEDEF, "btf_trace_" + event)
        if not tid:
            return None
        proto = self._type(self._type(tid)[3])[3]
        _, kind, count, _, _ = self._type(proto)
        assert kind == FUNC_PROTO
        args = [
            struct.unpack_from("<II", self.data, self.at[proto] + 12 + 8 * i)[1]
            for i in range(1, count)
        ]
        return [self._type(self.strip(a))[1] == PTR for a in args]


#: the running kernel's types, read once; some 25 MB until kernel.cache_clear()
kernel = functools.lru_cache(maxsize=1)(Btf)
