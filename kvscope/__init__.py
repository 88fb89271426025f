"""kvscope: where the time to first token goes in disaggregated vLLM serving."""

__version__ = "0.1.0"
