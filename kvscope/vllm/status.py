"""How this process is instrumented. Written once by the plugin, read by whoever describes the engine."""

how: str = "not loaded"
"""`import`, `disk`, `import and disk`, `by function`, `off`, `failed`; `not loaded` until the plugin has run."""
release: str | None = None
"""The supported release whose patches are in force."""
patch_hash: str | None = None
"""16 hex of the patch set in force."""
missing: tuple[str, ...] = ()
"""Functions without their moments (by function only)."""
reason: str | None = None
"""Why vLLM runs uninstrumented, one sentence."""
