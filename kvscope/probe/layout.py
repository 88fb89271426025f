"""The byte layout of a ring file, and why each part lies where it does.

One file per process, `<engine pid>-<start ticks>.ring`, in the run directory:

    0     header page (HEADER_BYTES): identity, control word, clock pair, loss counters
    4096  started area (STARTED_BYTES): u64 version, u32 length, JSON; a seqlock (odd = being written)
    then  segments, one per thread that ever recorded, each posix_fallocate'd before it is mapped:
          segment header (SEGMENT_HEADER_BYTES), events ring, texts ring

* Native endianness, told by the magic read as a u64: a reader on the other kind refuses by name.
* A record is RECORD_BYTES, 8-byte aligned, its last-written word first: `sequence` = index + 1, where
  index counts records of this ring since it was made. A writer slice-assigns the body, then stores the
  sequence word (one aligned 8-byte store, which never tears; a longer copy can). A reader copies the
  record, then reads the sequence word again: equal before and after, and congruent to the slot, means
  whole. An overwritten record is a gap in the sequence: losses are counted exactly, never guessed.
* Texts (request ids, engine names, reasons of the engine's own) are written once per process to the
  texts ring of the thread that saw them first, in chunks of TEXT_CHUNK bytes: never truncated.
"""

import struct

MAGIC = 0x31_45_50_4F_43_53_56_4B  # "KVSCOPE1" as bytes, little-endian
VERSION = 1

HEADER_BYTES = 4096
STARTED_BYTES = 12288
SEGMENT_HEADER_BYTES = 4096

VALUES = 6

# sequence, t, request key, peer key, (moment, leg, thread, state, rank, peer_rank), step, reason, flags,
# values. `sequence` is packed as 0 and stored last.
BODY = struct.Struct("<q16s16sBBBBHHIHH6q")
RECORD_BYTES = 8 + BODY.size  # 112

# sequence, key, chunk index, chunks, bytes used, kind, chunk
TEXT_CHUNK = 80
TEXT_BODY = struct.Struct("<16sHHHH80s")
assert 8 + TEXT_BODY.size == RECORD_BYTES == 112

# flags in a record
FLAG_CLOCK_STEP = 1  # a converted wall time that lies after the moment that follows it
FLAG_RECOMPUTE = 2
FLAG_REMOTE_PREFILL = 4  # queued: the router asked for a remote prefill
FLAG_REMOTE_DECODE = 8  # queued: the router asked to hand over
FLAG_AGAIN = 16  # queued again after the first time, e.g. preempted

NO_KEY = bytes(16)
