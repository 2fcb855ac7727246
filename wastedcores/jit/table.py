"""The world's table as compiled code sees it: a bare pointer to rows of int64, indexed as ``m[row, column]``.

An array of numba is seven values that every call passes on, and each index is checked for being negative. A pointer is one value
and a row is an address, so there is less to compile and less to run. There are no bounds checks; a test runs the uncompiled
engine on a table that has them. Outside of compiled code, and under ``NUMBA_DISABLE_JIT=1``, the table is a NumPy array.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing import signature
from numba.extending import lower_builtin, models, register_model, type_callable

from wastedcores.jit import TABLE_WIDTH


class TableType(types.Type):
    """numba's type of a table."""

    def __init__(self) -> None:
        super().__init__(name="Table")


table_type = TableType()


@register_model(TableType)
class _TableModel(models.PrimitiveModel):  # type: ignore[misc]  # numba's classes have no types
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, ir.ArrayType(ir.IntType(64), TABLE_WIDTH).as_pointer())


@type_callable(operator.getitem)
def _type_getitem(context: Any) -> Any:
    def typer(m: Any, index: Any) -> Any:
        return types.int64 if isinstance(m, TableType) else None

    return typer


@type_callable(operator.setitem)
def _type_setitem(context: Any) -> Any:
    def typer(m: Any, index: Any, value: Any) -> Any:
        if not isinstance(m, TableType):
            return None
        return signature(types.none, m, types.UniTuple(types.int64, 2), types.int64)

    return typer


def _address(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Compute the address of element ``args[1]``, a row and a column, of table ``args[0]``."""
    pair = cgutils.unpack_tuple(builder, args[1], 2)
    place = [
        context.cast(builder, value, kind, types.int64)
        for value, kind in zip(pair, sig.args[1], strict=True)
    ]
    return builder.gep(args[0], place, inbounds=True)


@lower_builtin(operator.getitem, TableType, types.BaseTuple)
def _lower_getitem(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.load(_address(context, builder, sig, args))


@lower_builtin(operator.setitem, TableType, types.BaseTuple, types.Integer)
def _lower_setitem(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    value = context.cast(builder, args[2], sig.args[2], types.int64)
    builder.store(value, _address(context, builder, sig, args))
    return context.get_dummy_value()
