"""How a function compiled apart is entered: its body and all it calls in one piece, with nothing around it.

numba makes a C callback of two functions: an entry that asks whether the other, which it may not inline, failed, and reports
that to Python. It also leaves every helper callable by others, so each goes on saying whether it failed. The engine's functions
cannot fail, a tick goes through ten of them, and nobody else calls their helpers: the body moves into the entry, and what is
linked in is known to be called from here only. Without this an event took 17 to 23 % longer (measured 2026-11-21).

This leans on numba's insides, so only the numba that it was made for is changed; with others events take that much longer.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from llvmlite.binding import Linkage
from numba.core import compiler, lowering
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import BaseNativeLowering, NativeLowering

#: numba's versions whose lowering this fits
MADE_FOR = ("0.68.",)


def options(version: str = numba.__version__) -> dict[str, Any]:
    """What ``numba.cfunc`` is to be told besides."""
    return {"pipeline_class": EntryCompiler} if version.startswith(MADE_FOR) else {}


class _Lower(lowering.Lower):  # type: ignore[misc]  # numba's classes have no types
    def create_cfunc_wrapper(self) -> None:
        """In the place of numba's, which calls ``CPUContext.create_cfunc_wrapper()``."""
        context, fndesc, library = self.context, self.fndesc, self.library
        module = context.create_module("entry")
        convention = context.call_conv
        kind = convention.get_function_type(fndesc.restype, fndesc.argtypes)
        body = ir.Function(module, kind, fndesc.llvm_func_name)
        arguments = [context.get_value_type(t) for t in fndesc.argtypes]
        entry = ir.Function(
            module,
            ir.FunctionType(context.get_value_type(fndesc.restype), arguments),
            fndesc.llvm_cfunc_wrapper_name,
        )
        builder = ir.IRBuilder(entry.append_basic_block("entry"))
        _, out = convention.call_function(
            builder, body, fndesc.restype, fndesc.argtypes, entry.args, attrs=("alwaysinline",)
        )
        builder.ret(out)
        library.add_ir_module(module)
        library.get_function(fndesc.llvm_func_name).linkage = "internal"
        _close(library)


def _close(library: Any) -> None:
    """Nobody outside of the library calls what is linked into it."""
    optimize = library._optimize_final_module

    def closed() -> None:
        for function in library._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                function.linkage = "internal"
        optimize()

    library._optimize_final_module = closed


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(BaseNativeLowering):  # type: ignore[misc]
    _name = "wastedcores_entry_lowering"  # type: ignore[assignment]

    @property
    def lowering_class(self) -> Any:
        return _Lower


class EntryCompiler(compiler.CompilerBase):  # type: ignore[misc]
    """numba's compiler, but for the entry."""

    def define_pipelines(self) -> list[Any]:
        """The usual passes with another lowering."""
        pm = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        pm.passes = [(_Lowering if p is NativeLowering else p, why) for p, why in pm.passes]
        pm.finalize()
        return [pm]
