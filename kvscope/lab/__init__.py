"""A real prefill/decode pair on this machine: its environment, model, engines, router and load."""
