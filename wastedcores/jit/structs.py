"""Structs over rows of the world's table: ``p.cpu`` for column 21 of row ``p``, in compiled code and in plain Python.

A struct is declared once, as a class whose fields name the columns::

    class SchedEntity(Struct):
        weight: int = integer(0)
        cfs_rq: CfsRq = pointer("CfsRq", 1)

The annotations are for type checkers. Structs refer to each other by name, so they may be declared in any order and in any
module. The struct named ``Kernel`` is row 0, and it stands for the whole table: ``Kernel.of(m)``.

Compiled code takes a reference as the table's address and a row (:mod:`wastedcores.jit.struct_types`). In plain Python a
reference is an object that ctypes lays over the memory of the row, so it reads and writes the NumPy table itself. One row of one
struct is always represented by the same object, and ``==`` compares identity. In plain Python, a row or column outside of the
table and a field of NULL are errors, which compiled code does not notice; the only exception is ``p[-1]``, the last column of a
row. A stored value must be a Python integer or bool, not one of NumPy's; it wraps as int64 does.
"""

from __future__ import annotations

import ctypes
import hashlib
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self, TypeVar, overload

import numpy as np

from wastedcores.jit import TABLE_WIDTH

KERNEL = "Kernel"
_declared: dict[str, type[Struct]] = {}

F = TypeVar("F", bound=Callable[..., Any])


class Field(int):
    """One field of a struct. It is the number of its column, so that it indexes the NumPy table."""

    kind: str
    target: str
    length: int
    prototype: Callable[..., Any] | None = None

    def __new__(cls, kind: str, column: int = -1, target: str = "", length: int = 1) -> Self:
        """Make a field."""
        field = super().__new__(cls, column)
        field.kind, field.target, field.length = kind, target, length
        return field

    @property
    def column(self) -> int:
        """The number of the column; for an array, the number of its first column."""
        return int(self)

    def __repr__(self) -> str:
        annotations = self.prototype.__annotations__ if self.prototype else ""
        return f"Field({self.kind!r}, {int(self)}, {self.target!r}, {self.length}{annotations})"

    def __get__(self, instance: None, owner: type) -> Any:
        """Return the field itself or, of an embedded struct, the class of that struct."""
        return declared(self.target) if self.kind == "embedded" else self


if TYPE_CHECKING:
    T = TypeVar("T")

    class Integer:
        """The type of an integer field: on an object it is the integer, on the class the number of the column."""

        def __get__(self, instance: Struct | None, owner: type) -> int: ...
        def __set__(self, instance: Struct, value: int) -> None: ...

    class Pointer(Generic[T]):
        """The type of a pointer: on an object it is a reference, on the class the number of the column."""

        @overload
        def __get__(self, instance: None, owner: type) -> int: ...
        @overload
        def __get__(self, instance: Struct, owner: type) -> T: ...
        def __get__(self, instance: Struct | None, owner: type) -> Any: ...
        def __set__(self, instance: Struct, value: T) -> None: ...

    class Embedded(Generic[T]):
        """The type of an embedded struct: on an object it is a reference, on the class the struct."""

        @overload
        def __get__(self, instance: None, owner: type) -> type[T]: ...
        @overload
        def __get__(self, instance: Struct, owner: type) -> T: ...
        def __get__(self, instance: Struct | None, owner: type) -> Any: ...

    class Integers:
        """The type of an array: on an object it gives the elements, on the class the number of the first column."""

        @overload
        def __get__(self, instance: None, owner: type) -> int: ...
        @overload
        def __get__(self, instance: Struct, owner: type) -> Array: ...
        def __get__(self, instance: Struct | None, owner: type) -> Any: ...


def integer(column: int) -> Integer:
    """Declare an integer."""
    return Field("integer", column)  # type: ignore[return-value]


def pointer(struct: str, column: int) -> Any:
    """Declare a pointer to a struct; the column holds a row, and -1 is NULL."""
    return Field("pointer", column, struct)


def embedded(struct: str) -> Any:
    """Declare a struct that lies in the same row."""
    return Field("embedded", target=struct)


def array(column: int, length: int) -> Integers:
    """Declare an array of integers; ``column`` is the column of its first element."""
    return Field("array", column, length=length)  # type: ignore[return-value]


def method(column: int) -> Callable[[F], F]:
    """Declare a field that holds the address of a function (:func:`wastedcores.jit.units.install`).

    The decorated function is its prototype: ``self`` is the struct, and the annotations of the other parameters are those of the
    function. ``k.fair.task_tick(k, p)`` calls the function without ``self``.
    """

    def declare(prototype: F) -> F:
        field = Field("function", column)
        field.prototype = prototype
        return field  # type: ignore[return-value]

    return declare


#: functions of plain Python whose addresses are in tables: the address is the index in this list
plain_functions: list[Callable[..., Any]] = []


class Array:
    """The type of a field that is an array of integers."""

    if TYPE_CHECKING:

        def __getitem__(self, index: int) -> int: ...
        def __setitem__(self, index: int, value: int) -> None: ...


class StructClass(type):
    """The class of the declarations."""

    if not TYPE_CHECKING:

        def __call__(cls, table, row):
            """Return the reference to a row of the table in which the reference ``table`` lies."""
            try:
                return table._tables[cls.__name__][row]
            except KeyError:
                return referred(table, cls.__name__, row)


class Struct(metaclass=StructClass):
    """Base class of declarations; ``TaskStruct(k, row)`` makes a reference to a row."""

    __fields__: ClassVar[dict[str, Field]]

    if TYPE_CHECKING:
        row: int
        _kernel: Any
        about: Any

        def __init__(self, table: Struct, row: int) -> None: ...
        def __getitem__(self, column: Any) -> int: ...
        def __setitem__(self, column: Any, value: int) -> None: ...

    def __init_subclass__(cls) -> None:
        other = _declared.setdefault(cls.__name__, cls)
        if other is not cls and other.__module__ != cls.__module__:
            raise TypeError(
                f"struct {cls.__name__} is declared in {other.__module__} and in {cls.__module__}: give one another name."
            )
        _declared[cls.__name__] = cls
        _classes.pop(cls.__name__, None)
        for kernel in _kernels.values():
            kernel._tables.setdefault(cls.__name__, {-1: _null(cls.__name__)})
        cls.__fields__ = {n: f for n, f in vars(cls).items() if isinstance(f, Field)}
        for name, field in cls.__fields__.items():
            if field.kind != "embedded" and not 0 <= field.column <= TABLE_WIDTH - field.length:
                raise TypeError(
                    f"{cls.__name__}.{name}: expected columns from 0 to {TABLE_WIDTH - 1}, got {field.column} "
                    f"and {field.length} in all."
                )

    @classmethod
    def of(cls, m: np.ndarray) -> Self:
        """Return the kernel of a NumPy table; it is the same object as long as it is referenced or was used last."""
        if cls.__name__ != KERNEL:
            raise TypeError(
                f"only {KERNEL} has of(): for {cls.__name__} write {cls.__name__}(k, row)."
            )
        return kernel_of(m)


S = TypeVar("S", bound=Struct)


def declared(struct: str) -> type[Struct]:
    """Return the declaration of a struct."""
    if struct not in _declared:
        raise LookupError(
            f"struct {struct} is not declared: import the module that declares it before this is used."
        )
    return _declared[struct]


def fields(struct: str) -> dict[str, Field]:
    """Return the fields of a struct by their names."""
    return declared(struct).__fields__


def structs_named(function: Callable[..., Any]) -> dict[str, str]:
    """Return the structs that annotations of a function name, by parameter, and by ``return`` for the result."""
    names = {p: str(getattr(a, "__name__", a)) for p, a in function.__annotations__.items()}
    return {p: name.strip("'\"") for p, name in names.items() if name.strip("'\"") in _declared}


def layout(structs: Iterable[str]) -> str:
    """Return a digest of the columns of these structs and of all structs that can be reached from them."""
    reached = dict.fromkeys(sorted(structs))
    queue = list(reached)
    digest = hashlib.sha256()
    while queue:
        for field in fields(queue.pop()).values():
            if field.target and field.target not in reached:
                reached[field.target] = None
                queue.append(field.target)
    for struct in sorted(reached):
        digest.update(f"{struct}{sorted((n, repr(f)) for n, f in fields(struct).items())}".encode())
    return digest.hexdigest()[:16]


class Null:
    """The NULL of a struct: false, row -1, and without fields."""

    __slots__ = ("row", "struct")
    row: int
    struct: str

    def __init__(self, struct: str) -> None:
        object.__setattr__(self, "struct", struct)
        object.__setattr__(self, "row", -1)

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"null({self.struct})"

    def _refuse(self, what: Any, value: Any = None) -> NoReturn:
        raise AttributeError(f"a NULL pointer to {self.struct} was followed to {what}.")

    __getattr__ = __getitem__ = __setattr__ = __setitem__ = _refuse


_nulls: dict[str, Null] = {}


def null(struct: type[S]) -> S:
    """Return the NULL of a struct."""
    return _null(struct.__name__)  # type: ignore[return-value]


def _null(struct: str) -> Null:
    return _nulls.setdefault(struct, Null(struct))


class Reference(ctypes.Array[ctypes.c_int64]):
    """Base class of the objects that stand for rows in plain Python; a subclass for each struct adds its fields.

    It is an array, so that C code reads and writes ``p[column]``, too. If methods in Python did this, replays would take 4 %
    longer under v4.1, 8 % under v6.12 and 13 % under v6.1 (measured 2026-11-27).
    """

    __slots__ = ("__weakref__", "_kernel", "_tables", "row")
    _type_, _length_ = ctypes.c_int64, TABLE_WIDTH
    _kernel: Any
    #: the rows of each struct by its name
    _tables: dict[str, dict[int, Any]]
    row: int

    def __repr__(self) -> str:
        return f"{type(self).__name__}(row={self.row})"


class _Kernel(Reference):
    """Base class of the object that stands for the kernel in plain Python."""

    __slots__ = ("_memory", "about", "functions", "m")
    m: np.ndarray
    _memory: memoryview
    #: the functions whose addresses are in its tables
    functions: list[Callable[..., Any]]
    #: the machine and the program in Python, for callers that examine the kernel from outside
    about: Any

    def __getitem__(self, place: Any) -> int:  # type: ignore[override]  # it takes a row and a column
        if place[0] < 0 or place[1] < 0:
            raise IndexError(f"expected a row and a column of the table, got {place}.")
        return self._memory[place]  # type: ignore[no-any-return]

    def __setitem__(self, place: Any, value: int) -> None:  # type: ignore[override]
        if place[0] < 0 or place[1] < 0:
            raise IndexError(f"expected a row and a column of the table, got {place}.")
        try:
            self._memory[place] = value
        except (TypeError, ValueError):  # the value is a bool of NumPy, or does not fit
            self._memory[place] = (int(value) + 2**63) % 2**64 - 2**63


def referred(table: Any, struct: str, row: Any) -> Any:
    """Return the object of a row, and make it if this is the first time; ``table`` is any object of the same table.

    A caller that asks often looks into ``_tables`` first. As the rows there are mere dicts, without ``__missing__``, replays take
    3 to 6 % less time (measured 2026-11-27).
    """
    kernel, row = table._kernel, int(row)
    found = kernel._tables[struct].get(row)
    if found is not None:
        return found
    if not 0 <= row < len(kernel.m):
        raise IndexError(
            f"{struct}: expected a row from 0 to {len(kernel.m) - 1} or -1 for NULL, got {row}."
        )
    if struct == KERNEL:
        raise TypeError(f"{KERNEL} is row 0 of its table: use it as it is, or Kernel.of(m).")
    found = _class_of(struct).from_buffer(kernel.m, row * TABLE_WIDTH * 8)
    kernel._tables[struct][row] = found
    _fill(found, kernel, row, kernel.m)
    return found


def _fill(found: Any, kernel: Any, row: int, m: Any) -> None:
    """Give a new object the attributes that do not lie in the table's memory: the objects of its embedded structs and arrays."""
    found.row = row
    found._kernel, found._tables = kernel, kernel._tables
    for name, field in found._apart.items():
        if field.kind == "embedded":
            setattr(found, name, referred(kernel, field.target, row))
        elif field.kind == "array":
            kind = ctypes.c_int64 * field.length
            setattr(found, name, kind.from_buffer(m, (row * TABLE_WIDTH + field.column) * 8))
        else:
            setattr(found, name, kernel._tables[field.target])


def _function_at(address: str) -> Callable[[Any], Callable[..., Any]]:
    return lambda reference: reference._kernel.functions[getattr(reference, address)]


_classes: dict[str, Any] = {}


def _class_of(struct: str) -> Any:
    """Return the class of the objects of a struct."""
    if struct not in _classes:
        _classes[struct] = _make_class(struct)
    return _classes[struct]


class _Columns(ctypes.Structure):
    """The columns of a row; its fields read and write them in the objects of all structs."""

    _fields_: ClassVar = [(f"c{i}", ctypes.c_int64) for i in range(TABLE_WIDTH)]


def _make_class(struct: str) -> Any:
    """Make the class of the objects of a struct. Its integers are fields of ctypes, which C code reads and writes."""
    apart: dict[str, Field] = {}
    body: dict[str, Any] = {}
    for name, field in fields(struct).items():
        if field.kind in ("embedded", "array"):
            apart[name] = field
            continue
        column = getattr(_Columns, f"c{field.column}")
        if field.kind == "integer":
            body[name] = column
        elif field.kind == "function":
            body[f"_{name}_address"] = column
            body[name] = property(_function_at(f"_{name}_address"))
        else:
            rows = f"_{field.target}_rows"
            apart[rows] = field
            body[f"_{name}_row"] = column
            exec(
                f"def get(self):\n"
                f" try: return self.{rows}[self._{name}_row]\n"
                f" except KeyError: return referred(self, {field.target!r}, self._{name}_row)\n"
                f"def set(self, value): self._{name}_row = value.row\n"
                f"{name} = property(get, set)",
                {"referred": referred},
                body,
            )
    body = {n: v for n, v in body.items() if n not in ("get", "set")}
    body |= {n: v for n, v in vars(declared(struct)).items() if isinstance(v, property)}
    body |= {"__slots__": tuple(apart), "_apart": apart}
    return type(struct, (_Kernel if struct == KERNEL else Reference,), body)


_kernels: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_last: list[Any] = []


def kernel_of(m: Any) -> Any:
    """Return the kernel of a NumPy table; the one that was asked for last is kept."""
    kernel = _kernels.get(id(m))  # a kernel holds its table, so that no other table has this id
    if kernel is None:
        if (
            m.dtype != np.int64
            or m.ndim != 2
            or m.shape[1] != TABLE_WIDTH
            or not m.flags.c_contiguous
        ):
            raise TypeError(
                f"expected the engine's table, C-contiguous int64 with {TABLE_WIDTH} columns, "
                f"got {m.dtype} of shape {m.shape} with strides {m.strides}."
            )
        kernel = _class_of(KERNEL).from_buffer(m)
        kernel._memory = memoryview(m)
        kernel.m = m
        kernel._tables = {name: {-1: _null(name)} for name in _declared}
        kernel.functions = plain_functions
        _fill(kernel, kernel, 0, m)
        _kernels[id(m)] = kernel
    _last[:] = [kernel]
    return kernel
