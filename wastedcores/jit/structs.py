"""Structs over rows of the world's table: ``p.cpu`` for column 21 of row ``p``, in compiled code and in plain Python.

A struct is declared once, as a class whose fields name the columns::

    class SchedEntity(Struct):
        weight: int = integer(0)
        cfs_rq: CfsRq = pointer("CfsRq", 1)

The annotations are for type checkers. Structs refer to each other by name, so they may be declared in any order and in any
module. The struct named ``Kernel`` is row 0, and it stands for the whole table: ``Kernel.of(m)``.

Compiled code takes a reference as the table's address and a row (:mod:`wastedcores.jit.struct_types`). In plain Python a
reference is an object that ctypes lays over the memory of the row, so what it reads and writes is the NumPy table. One row of
one struct is always the same object, and ``==`` compares identity. A row or column outside of the table and a field of NULL are
errors there, which compiled code does not notice. A stored value must be a Python integer or bool, not one of
NumPy's; it wraps as int64 does.
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
        """The number of the column, that of the first one for an array."""
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
    """Declare an array of integers; ``column`` is that of its first element."""
    return Field("array", column, length=length)  # type: ignore[return-value]


def method(column: int) -> Callable[[F], F]:
    """Declare a field that holds the address of a function (:func:`wastedcores.jit.units.install`).

    What is decorated is its prototype: ``self`` is the struct, and the annotations of the other parameters are those of the
    function. ``k.fair.task_tick(k, p)`` calls the function without ``self``.
    """

    def declare(prototype: F) -> F:
        field = Field("function", column)
        field.prototype = prototype
        return field  # type: ignore[return-value]

    return declare


#: functions of plain Python whose addresses are in tables: the address is the place in this list
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
            return table._kernel._tables[cls.__name__][row]


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


class Reference(ctypes.Union):
    """Base class of the objects that stand for rows in plain Python; a subclass for each struct adds its fields."""

    __slots__ = ("__weakref__", "_kernel", "row")
    _kernel: Any
    row: int

    def __getitem__(self, column: int) -> int:
        return self._kernel[self.row, column]  # type: ignore[no-any-return]

    def __setitem__(self, column: int, value: int) -> None:
        self._kernel[self.row, column] = value

    def __repr__(self) -> str:
        return f"{type(self).__name__}(row={self.row})"


class _Kernel(Reference):
    """Base class of the object that stands for the kernel in plain Python."""

    __slots__ = ("_memory", "_tables", "about", "functions")
    _memory: memoryview
    _tables: _Tables
    #: the functions whose addresses are in its tables
    functions: list[Callable[..., Any]]
    #: the machine and the program in Python, for callers that examine the kernel from outside
    about: Any

    def __getitem__(self, place: Any) -> int:
        if place[0] < 0 or place[1] < 0:
            raise IndexError(f"expected a row and a column of the table, got {place}.")
        return self._memory[place]  # type: ignore[no-any-return]

    def __setitem__(self, place: Any, value: int) -> None:
        if place[0] < 0 or place[1] < 0:
            raise IndexError(f"expected a row and a column of the table, got {place}.")
        try:
            self._memory[place] = value
        except (TypeError, ValueError):  # the value is a bool of NumPy, or does not fit
            self._memory[place] = (int(value) + 2**63) % 2**64 - 2**63


class _Tables(dict[str, "_Rows"]):
    """The rows of each struct of a kernel by the name of the struct."""

    def __init__(self, kernel: Any, m: np.ndarray) -> None:
        self.kernel = kernel
        self.m = m

    def __missing__(self, struct: str) -> _Rows:
        self[struct] = rows = _Rows(self.kernel, struct, self.m)
        return rows


class _Rows(dict[int, Any]):
    """The objects of one struct by their rows."""

    def __init__(self, kernel: Any, struct: str, m: np.ndarray) -> None:
        self.kernel = kernel
        self.struct = struct
        self.m = m
        self[-1] = _null(struct)

    def __missing__(self, row: int) -> Any:
        row = int(row)
        if not 0 <= row < len(self.m):
            raise IndexError(
                f"{self.struct}: expected a row from 0 to {len(self.m) - 1} or -1 for NULL, got {row}."
            )
        if self.struct == KERNEL:
            raise TypeError(f"{KERNEL} is row 0 of its table: use it as it is, or Kernel.of(m).")
        self[row] = found = _class_of(self.struct).from_buffer(self.m, row * TABLE_WIDTH * 8)
        _fill(found, self.kernel, row, self.m)
        return found


def _fill(found: Any, kernel: Any, row: int, m: Any) -> None:
    """Give a new object the attributes that do not lie in the table's memory: the objects of its embedded structs and arrays."""
    found.row = row
    found._kernel = kernel
    for name, field in fields(type(found).__name__).items():
        if field.kind == "embedded":
            setattr(found, name, kernel._tables[field.target][row])
        elif field.kind == "array":
            kind = ctypes.c_int64 * field.length
            setattr(found, name, kind.from_buffer(m, (row * TABLE_WIDTH + field.column) * 8))
        elif field.kind == "pointer":
            setattr(found, f"_{field.target}_rows", kernel._tables[field.target])


def _function_at(address: str) -> Callable[[Any], Callable[..., Any]]:
    return lambda reference: reference._kernel.functions[getattr(reference, address)]


_classes: dict[str, Any] = {}


def _class_of(struct: str) -> Any:
    """Return the class of the objects of a struct."""
    if struct not in _classes:
        _classes[struct] = _make_class(struct)
    return _classes[struct]


def _make_class(struct: str) -> Any:
    """Make the class of the objects of a struct.

    Its integers are fields of ctypes at their columns, which C code reads and writes. It is a union of structures with one
    field each, because two fields may name the same column.
    """
    slots: list[str] = []
    members: list[tuple[str, Any]] = []
    body: dict[str, Any] = {}
    for name, field in fields(struct).items():
        if field.kind in ("embedded", "array"):
            slots.append(name)
            continue
        raw = name
        if field.kind == "function":
            raw = f"_{name}_address"
            body[name] = property(_function_at(raw))
        if field.kind == "pointer":
            raw, rows = f"_{name}_row", f"_{field.target}_rows"
            slots += [rows] * (rows not in slots)
            exec(
                f"def get(self): return self.{rows}[self.{raw}]\n"
                f"def set(self, value): self.{raw} = value.row\n"
                f"{name} = property(get, set)",
                {},
                body,
            )
        gap = [(f"_{name}_gap", ctypes.c_int64 * field.column), (raw, ctypes.c_int64)]
        members.append((f"_{name}_at", type(raw, (ctypes.Structure,), {"_fields_": gap})))
    body.pop("get", None)
    body.pop("set", None)
    body |= {n: v for n, v in vars(declared(struct)).items() if isinstance(v, property)}
    body |= {"__slots__": slots, "_anonymous_": [n for n, _ in members], "_fields_": members}
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
        kernel._tables = _Tables(kernel, m)
        kernel.functions = plain_functions
        _fill(kernel, kernel, 0, m)
        _kernels[id(m)] = kernel
    _last[:] = [kernel]
    return kernel
