"""References to structs (:mod:`wastedcores.jit.structs`) as compiled code sees them: the address of the table, and a row.

The kernel is the address alone, because its row is 0. There are no reference counts and no bounds checks.
"""

from __future__ import annotations

import inspect
import operator
from functools import cache
from typing import Any

from llvmlite import ir
from numba.core import errors, types
from numba.core.imputils import lower_constant
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate
from numba.extending import (
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    register_model,
    type_callable,
    typeof_impl,
)

from wastedcores.jit.structs import KERNEL, Field, Null, StructClass, fields, structs_named
from wastedcores.jit.table import TableType, table_type

_INT = ir.IntType(64)
_ZERO = _INT(0)


class Reference(types.Type):
    """numba's type of a reference to a row as a struct."""

    def __init__(self, struct: str) -> None:
        self.struct = struct
        super().__init__(name=f"Reference({struct})")


class KernelType(TableType):
    """numba's type of the kernel: a table whose row 0 has fields."""

    struct = KERNEL

    def __init__(self) -> None:
        types.Type.__init__(self, name=KERNEL)


class ArrayType(types.Type):
    """numba's type of a field that is an array: the address of its first element."""

    def __init__(self) -> None:
        super().__init__(name="ArrayField")


class Maker(types.Callable, types.Opaque):  # type: ignore[misc]  # numba's classes have no types
    """numba's type of a struct's class, which makes references."""

    def __init__(self, struct: str) -> None:
        self.struct = struct
        super().__init__(name=f"class({struct})")

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """Type ``TaskStruct(x, row)``."""
        if (
            len(args) != 2
            or kws
            or not isinstance(args[0], (Reference, TableType))
            or self.struct == KERNEL
        ):
            raise errors.TypingError(
                f"{self.struct}: expected a reference and a row, got {args} {kws or ''}."
            )
        return signature(reference(self.struct), args[0], types.int64)

    def get_call_signatures(self) -> Any:
        """Return that there is no fixed signature: the arguments decide."""
        return (), True

    def get_impl_key(self, sig: Any) -> Any:
        """Return the key under which the call is lowered."""
        return type(self)


@cache
def reference(struct: str) -> Any:
    """Return numba's type for references to a struct."""
    return KernelType() if struct == KERNEL else Reference(struct)


array_type = ArrayType()


@register_model(Reference)
class _ReferenceModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, [("table", table_type), ("row", types.int64)])


@register_model(KernelType)
class _KernelModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, dmm.lookup(table_type).get_value_type())


@register_model(ArrayType)
class _ArrayModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _INT.as_pointer())


@register_model(Maker)
class _MakerModel(models.OpaqueModel):  # type: ignore[misc]
    pass


@typeof_impl.register(Null)
def _typeof_null(value: Null, context: Any) -> Any:
    return reference(value.struct)


@typeof_impl.register(StructClass)
def _typeof_class(value: StructClass, context: Any) -> Any:
    return Maker(value.__name__)


@lower_constant(Reference)
def _constant_null(context: Any, builder: Any, kind: Any, value: Null) -> Any:
    model = context.get_value_type(kind)
    return ir.Constant(model, [ir.Constant(model.elements[0], None), _INT(-1)])


@lower_constant(Maker)
def _constant_class(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.get_dummy_value()


def _parts(builder: Any, kind: Any, value: Any) -> tuple[Any, Any]:
    """Return the table and the row of a reference."""
    if isinstance(kind, TableType):
        return value, _ZERO
    return builder.extract_value(value, 0), builder.extract_value(value, 1)


def _with_row(context: Any, builder: Any, kind: Any, value: Any, row: Any) -> Any:
    """Return a reference to another row of the table of a reference or kernel."""
    if isinstance(kind, TableType):
        pair = ir.LiteralStructType([value.type, _INT])
        value = builder.insert_value(ir.Constant(pair, ir.Undefined), value, 0)
    return builder.insert_value(value, row, 1)


def _address(builder: Any, kind: Any, value: Any, column: Any) -> Any:
    table, row = _parts(builder, kind, value)
    return builder.gep(table, [row, column], inbounds=True)


class _Attributes(AttributeTemplate):  # type: ignore[misc]
    def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
        """Return the type of a field, or None if the struct has no such field."""
        if name == "row":
            return types.int64
        field = fields(kind.struct).get(name)
        if field is not None and field.kind == "function":
            return types.BoundFunction(_method(kind.struct, name), kind)
        return None if field is None else _type_of(field)


def method_signature(struct: str, name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return the type of the result and the types of the arguments of a function whose address a field holds."""
    prototype: Any = fields(struct)[name].prototype
    structs = structs_named(prototype)
    parameters = list(inspect.signature(prototype).parameters)[1:]
    kinds = tuple(reference(structs[p]) if p in structs else types.int64 for p in parameters)
    result = types.void if prototype.__annotations__["return"] in ("None", None) else types.int64
    return reference(structs["return"]) if "return" in structs else result, kinds


@cache
def _method(struct: str, name: str) -> Any:
    """Return the template of a function whose address a field holds, and tell numba how to call it."""
    field = fields(struct)[name]
    result, kinds = method_signature(struct, name)
    this = reference(struct)

    class Method(AbstractTemplate):  # type: ignore[misc]
        key = f"{struct}.{name}"

        def generic(self, args: Any, kws: Any) -> Any:
            """Type the call."""
            if len(args) != len(kinds) or kws:
                raise errors.TypingError(
                    f"{self.key}: expected {len(kinds)} arguments, got {args} {kws or ''}."
                )
            return signature(result, *kinds, recvr=this)

    @lower_builtin(Method.key, this, *kinds)
    def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        convention = context.call_conv
        kind = convention.get_function_type(result, kinds)
        address = builder.load(_address(builder, this, args[0], _INT(field.column)))
        function = builder.inttoptr(address, kind.as_pointer())
        _, value = convention.call_function(builder, function, result, kinds, args[1:])
        return value

    return Method


class _Columns(AttributeTemplate):  # type: ignore[misc]
    key = Maker

    def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
        """Type ``TaskStruct.cpu``, the number of a column."""
        field = fields(kind.struct).get(name)
        return None if field is None or field.kind == "embedded" else types.int64


infer_getattr(_Columns)


@lower_getattr_generic(Maker)
def _load_column(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    return _INT(fields(kind.struct)[name].column)


def _type_of(field: Field) -> Any:
    if field.kind == "integer":
        return types.int64
    return array_type if field.kind == "array" else reference(field.target)


for _kind in (Reference, KernelType):
    infer_getattr(type(f"_{_kind.__name__}Attributes", (_Attributes,), {"key": _kind}))


def _load(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    if name == "row":
        return _parts(builder, kind, value)[1]
    field = fields(kind.struct)[name]
    if field.kind == "function":
        return value  # the receiver of the call
    if field.kind == "embedded":
        return (
            _with_row(context, builder, kind, value, _ZERO)
            if isinstance(kind, TableType)
            else value
        )
    place = _address(builder, kind, value, _INT(field.column))
    if field.kind == "array":
        return place
    loaded = builder.load(place)
    return loaded if field.kind == "integer" else _with_row(context, builder, kind, value, loaded)


def _store(context: Any, builder: Any, sig: Any, args: Any, name: str) -> None:
    kind = sig.args[0]
    field = fields(kind.struct).get(name)
    if field is None or field.kind not in ("integer", "pointer"):
        raise errors.LoweringError(f"{kind}.{name} cannot be assigned.")
    value = builder.extract_value(args[1], 1) if field.kind == "pointer" else args[1]
    builder.store(value, _address(builder, kind, args[0], _INT(field.column)))


for _kind in (Reference, KernelType):
    lower_getattr_generic(_kind)(_load)
    lower_setattr_generic(_kind)(_store)


@type_callable(operator.getitem)
def _type_getitem(context: Any) -> Any:
    def typer(x: Any, index: Any) -> Any:
        if isinstance(x, (Reference, ArrayType)) and isinstance(index, types.Integer):
            return signature(types.int64, x, types.int64)
        return None

    return typer


@type_callable(operator.setitem)
def _type_setitem(context: Any) -> Any:
    def typer(x: Any, index: Any, value: Any) -> Any:
        if isinstance(x, (Reference, ArrayType)) and isinstance(index, types.Integer):
            return signature(types.none, x, types.int64, types.int64)
        return None

    return typer


def _element(builder: Any, sig: Any, args: Any) -> Any:
    if isinstance(sig.args[0], ArrayType):
        return builder.gep(args[0], [args[1]], inbounds=True)
    return _address(builder, sig.args[0], args[0], args[1])


def _lower_getitem(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.load(_element(builder, sig, args))


def _lower_setitem(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    builder.store(args[2], _element(builder, sig, args))
    return context.get_dummy_value()


_indexed: list[Any] = [Reference, ArrayType]
for _kind in _indexed:
    lower_builtin(operator.getitem, _kind, types.int64)(_lower_getitem)
    lower_builtin(operator.setitem, _kind, types.int64, types.int64)(_lower_setitem)


def _type_compare(context: Any) -> Any:
    def typer(a: Any, b: Any) -> Any:
        return types.boolean if isinstance(a, Reference) and a == b else None

    return typer


def _lower_compare(sign: str) -> Any:
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        rows = [builder.extract_value(a, 1) for a in args]
        return builder.icmp_signed(sign, *rows)

    return lower


for _operator, _sign in ((operator.eq, "=="), (operator.ne, "!=")):
    type_callable(_operator)(_type_compare)
    lower_builtin(_operator, Reference, Reference)(_lower_compare(_sign))


def _type_truth(context: Any) -> Any:
    def typer(a: Any) -> Any:
        return types.boolean if isinstance(a, Reference) else None

    return typer


def _lower_truth(sign: str) -> Any:
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.icmp_signed(sign, builder.extract_value(args[0], 1), _ZERO)

    return lower


for _function, _sign in ((bool, ">="), (operator.not_, "<")):
    type_callable(_function)(_type_truth)
    lower_builtin(_function, Reference)(_lower_truth(_sign))


@lower_builtin(Maker, types.Any, types.int64)
def _lower_make(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _with_row(context, builder, sig.args[0], args[0], args[1])
