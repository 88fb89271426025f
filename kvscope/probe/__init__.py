"""The probe: standard library only, no system call per event, never blocks, never raises."""
