"""Recordings that can be given away: what is allowed into them, field by field, and nothing else."""
