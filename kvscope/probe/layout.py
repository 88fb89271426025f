"""The byte layout of a ring file, and why each part lies where it does.

One file per process, `<pid>-<start ticks>-<random>.ring`, in the run directory (the random part because
every container's engine may be pid 1). It is filled under another name, then renamed: what can be listed
is whole. It only ever grows; nobody truncates it, since a map cut short kills its reader.

    0      header page      HEADER_BYTES
             0     16 u64 words (HEADER_WORDS): identity, control word, clock pair, counters
             128   boot id, 64 bytes, NUL-padded ASCII
             256   note, 512 bytes: why the process records nothing, or less than it should
             768   why the probe switched itself off, 256 bytes
             1024  SEGMENTS u64: events refused, one word per thread, because an increment in Python is
                   not atomic and a word of its own makes each count exact; a reader adds them up. The
                   first is for events from before there was a file, the last for threads beyond the others
             1536  SEGMENTS pairs of u64: offset and size of each segment; a size of 0 is none, or not yet
                   (threads that begin together do not wait for each other, so an earlier one may come later)
    4096   started area     STARTED_BYTES: u64 version, u64 length, JSON; a seqlock (odd = being written)
    16384  segments, one per recording thread, each posix_fallocate'd before it is mapped (a hole in a
           full tmpfs kills with SIGBUS), offsets multiples of the map granularity:
             0     8 u64 words (SEGMENT_WORDS), then 64 bytes of thread name at 64
             4096  events ring: a power of two of records
             ...   texts ring: a power of two of text chunks, each the size of a record

* Native endianness and alignment, told by the magic read as a u64: a reader on the other kind refuses by
  name. Every word is an aligned u64: one store, which never tears.
* The control word is read by the writer on each event and written by `kvscope on|off`.
* A record is RECORD_BYTES, 8-byte aligned, its last-written word first: `sequence` = index + 1, where
  index counts records of this ring since it was made. A writer packs the body in place (a reader may see
  it half done, or zeros: it does not look before it is published), then stores the sequence word: one
  aligned 8-byte store by memoryview assignment, which neither tears nor shows zeros.
* A record of moment 0 (`none`) is void: its event could not be packed and is counted in `errors`.
* There is no head word: sequences rise within a lap, so a reader finds the head by bisection, and the
  writer saves a store per event. An exception raised by a signal handler inside a record leaves its slot
  unpublished; a reader looks up to GUARD slots past such a gap, and counts it as lost.
* While record i is written over record i - capacity, that slot still carries the old sequence. So a
  reader copies, then finds the head again, and trusts only indexes above head - capacity + GUARD. An
  overwritten record is a gap in the sequence: losses are counted exactly, never guessed.
* GUARD is more than one because a garbage collector's finalizer can record inside a record, and because
  some machines let stores be seen a little out of order.
* Texts (request ids, engine names, reasons of the engine's own) go to the texts ring of the thread that
  uses them, in chunks of TEXT_CHUNK bytes: never truncated. A thread writes a text again once half a ring
  of texts has passed since it forgot it, so an event's text outlives it by half a ring at least, and
  an engine name told once at start is still there hours later.
"""

import struct

MAGIC = 0x31_45_50_4F_43_53_56_4B  # "KVSCOPE1" as bytes, little-endian
SEGMENT_MAGIC = 0x31_47_45_53_53_56_4B_01
VERSION = 1

HEADER_BYTES = 4096
STARTED_BYTES = 12288
STARTED_PREFIX_BYTES = 16
SEGMENT_HEADER_BYTES = 4096
SEGMENTS = 64  # threads per process that can have a ring

# Indexes of u64 words in the header.
HEADER_WORDS: tuple[str, ...] = (
    "magic",
    "version",
    "control",  # 1: record, 0: do not
    "self_off",  # 1: the probe switched itself off; the reason is in the text
    "errors",  # internal errors: events lost to a fault of ours or of the caller
    "pid",  # as the process sees itself
    "start_ticks",  # field 22 of /proc/self/stat
    "monotonic_ns",  # the clock pair, taken at creation
    "realtime_ns",
    "clock_error_ns",  # how far apart the pair's two readings may lie
    "stated_bytes",  # the most this file will ever take
    "untold",  # texts longer than a texts ring: their key is in records, they are not
    "reserved_0",
    "reserved_1",
    "reserved_2",
    "reserved_3",
)
HEADER_WORD: dict[str, int] = {name: index for index, name in enumerate(HEADER_WORDS)}

BOOT_ID_AT, BOOT_ID_BYTES = 128, 64
NOTE_AT, NOTE_BYTES = 256, 512
SELF_OFF_AT, SELF_OFF_BYTES = 768, 256
REFUSED_AT = 1024
SEGMENT_TABLE_AT = 1536
STARTED_AT = HEADER_BYTES
SEGMENTS_AT = HEADER_BYTES + STARTED_BYTES

# Indexes of u64 words in a segment header.
SEGMENT_WORDS: tuple[str, ...] = (
    "magic",
    "events",  # capacity of the events ring, in records
    "texts",  # capacity of the texts ring, in chunks
    "events_at",  # offset within the segment
    "texts_at",
    "thread",  # code of the role of the last thread that used it
    "tid",
    "reserved",
)
SEGMENT_WORD: dict[str, int] = {name: index for index, name in enumerate(SEGMENT_WORDS)}
THREAD_NAME_AT, THREAD_NAME_BYTES = 64, 64

GUARD = 8
VALUES = 6

# After the sequence word: t, request key, peer key, moment, leg, thread, state, rank, peer_rank, step,
# reason, flags, values.
BODY = struct.Struct("@q16s16sBBBBHHIHH6q")
# The same bytes when values 2 to 5 are UNKNOWN, packed faster.
SHORT_BODY = struct.Struct("@q16s16sBBBBHHIHHqq32s")
SHORT_TAIL = struct.pack("@4q", *[-(2**63)] * 4)
assert SHORT_BODY.size == BODY.size
RECORD_BYTES = 8 + BODY.size
RECORD_WORDS = RECORD_BYTES // 8

# After the sequence word: key, chunk index, chunks, bytes used, kind, chunk. `kind` is 0.
TEXT_CHUNK = 80
TEXT_BODY = struct.Struct("@16sHHHH80s")
assert 8 + TEXT_BODY.size == RECORD_BYTES == 112

# flags in a record
FLAG_CLOCK_STEP = 1  # a converted wall time that lies after the moment that follows it
FLAG_RECOMPUTE = 2
FLAG_REMOTE_PREFILL = 4  # queued: the router asked for a remote prefill
FLAG_REMOTE_DECODE = 8  # queued: the router asked to hand over
FLAG_AGAIN = 16  # queued again after the first time, e.g. preempted
FLAG_CLEANUP = 32  # queued by the API server, to be aborted at once: another request's blocks are to be freed

NO_KEY = bytes(16)
