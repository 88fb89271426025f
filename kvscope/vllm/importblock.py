"""The lines that give a patched module its `_kvs`: the tracepoints, or something inert where they are absent.

A file patched on disk may meet an environment without kvscope, or with one that cannot be imported. The
inert object answers any call with None and needs nothing but the language.
"""

NAME = "_kvs"

LINES: tuple[str, ...] = (
    "try:",
    f"    import kvscope.vllm.tracepoints as {NAME}",
    "except Exception:",
    f'    {NAME} = type("{NAME}", (), {{"__getattr__": lambda *_: lambda *_: None}})()',
)
