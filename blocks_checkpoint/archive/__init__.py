"""The zip container of a checkpoint.

A checkpoint is a zip archive that any program can read, with promises that
zip archives as such do not make: array data are aligned, every byte is
covered by a CRC-32, and a reader that meets a file of a stranger refuses what
no honest writer makes. Who only wants to use it needs these names and none of
the modules they come from:

============================  ==================================================
`archive_writer`              puts members into a file, in one go
`archive_reader`              takes them out again
`archive_audit`               checks every byte
`directory`, `directory_end`  find and check the list of members
`member_bytes`                finds and checks the bytes of one member
`small_arrays`                many arrays at once
`member_pieces`               what a member is written from
`zip_structures`              the records of a zip file
`columns`                     the same of many members at once
`npy`, `array_destination`    the header of an array, its memory
`member_names`                which names are allowed
`byte_source`, `file_kinds`   spans of a file, what it is if no archive
`crc`, `summer`, `parallel`   sums, threads
============================  ==================================================

Examples
--------
>>> import io
>>> import numpy
>>> file = io.BytesIO()
>>> with ArchiveWriter(file) as writer:
...     member = writer.add_array("mlp/W.npy", numpy.arange(6.0).reshape(2, 3))
...     member.data_offset % 64
0
>>> with ArchiveReader(file) as reader:
...     reader.read_array("mlp/W.npy").tolist(), reader.verify()
([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], [])
>>> _ = file.seek(0)
>>> numpy.load(file)["mlp/W"].shape
(2, 3)
"""

from __future__ import annotations

from .archive_audit import Damage
from .archive_reader import ArchiveReader
from .archive_writer import ArchiveWriter
from .npy import ArrayHeader
from .zip_structures import Member

__all__ = ["ArchiveReader", "ArchiveWriter", "ArrayHeader", "Damage", "Member"]
