# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The hot path's loops over messages, compiled.

Each function is the twin of the Python function of the same name that stands under ``@compiled``, where its contract
is; None is what it leaves to that one: input out of the ordinary, and all errors.  It checks every length before it
reads, and changes nothing before it knows that it will go on to the end.
"""

from cpython cimport array
from cpython.buffer cimport PyBUF_READ, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.unicode cimport PyUnicode_DATA, PyUnicode_GET_LENGTH, PyUnicode_KIND, PyUnicode_READ
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

import array as arrays

from rocketha.wire.crc import crc32

cdef extern from *:
    void __builtin_prefetch(const void* at) noexcept nogil

ctypedef unsigned char byte

cdef enum:
    BATCH_FRAMING = 22
    SIZE_AT = 0
    MAGIC_AT = 4
    CRC_AT = 8
    FLAG_AT = 16
    QUEUE_OFFSET_AT = 20
    POSITION_AT = 28
    SYS_FLAG_AT = 36
    BODY_SIZE_AT = 84
    HEAD_MIN = 88
    QUEUE_UNIT = 20
    INDEX_UNIT = 20
    ENTRY_HEAD = 48
    ENTRY_UNIT = 32
    RECORD_MAX = 64 * 1024 * 1024
    RECORD_MIN = 91
    HOST_BITS = 0x30
    MAGIC = 0xDAA320A7
    MESSAGE_ID_OFFSET = 16
    PAGE_SLOTS = 1024
    PROPERTIES_MAX = 32767

cdef const char* DIGITS = b"0123456789ABCDEF"
cdef array.array INTS = arrays.array("i")
cdef array.array LONGS = arrays.array("q")


cdef inline uint32_t read_32(const byte* at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline uint64_t read_64(const byte* at) noexcept nogil:
    return (<uint64_t>read_32(at) << 32) | read_32(at + 4)


cdef uint32_t crc_of(const byte* at, Py_ssize_t size):
    return crc32(PyMemoryView_FromMemory(<char*>at, size, PyBUF_READ))


cdef inline void write_32(byte* at, uint32_t value) noexcept nogil:
    at[0], at[1], at[2], at[3] = <byte>(value >> 24), <byte>(value >> 16), <byte>(value >> 8), <byte>value


cdef inline void write_64(byte* at, uint64_t value) noexcept nogil:
    write_32(at, <uint32_t>(value >> 32))
    write_32(at + 4, <uint32_t>value)


# Properties


cdef struct Text:
    const byte* at  # NULL: there is none
    Py_ssize_t size


cdef struct Found:
    Text unique_key
    Text keys
    Text tags


cdef bint is_ascii(const byte* at, Py_ssize_t size) noexcept nogil:
    cdef uint64_t word, seen = 0
    while size >= 8:
        memcpy(&word, at, 8)
        seen |= word
        at += 8
        size -= 8
    while size > 0:
        seen |= at[0]
        at += 1
        size -= 1
    return seen & <uint64_t>0x8080808080808080 == 0


cdef inline Text text_of(bytes block):
    cdef Text text
    text.at, text.size = <const byte*>PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block)
    return text


cdef bint find(Text block, Found* found) noexcept nogil:
    """The three properties that count, of a block of ASCII; False where it is another one."""
    cdef const byte* at = block.at
    cdef const byte* end = at + block.size
    cdef const byte* stop
    found.unique_key.at = found.keys.at = found.tags.at = NULL
    if not is_ascii(at, end - at):
        return False
    while at < end:
        stop = <const byte*>memchr(at, 2, end - at)
        if stop == NULL:
            stop = end
        if stop - at > 5:  # a name, what separates it from its value, and one byte of that
            if memcmp(at, b"KEYS\1", 5) == 0:
                found.keys.at, found.keys.size = at + 5, stop - at - 5
            elif memcmp(at, b"TAGS\1", 5) == 0:
                found.tags.at, found.tags.size = at + 5, stop - at - 5
            elif stop - at > 9 and memcmp(at, b"UNIQ_KEY\1", 9) == 0:
                found.unique_key.at, found.unique_key.size = at + 9, stop - at - 9
        at = stop + 1
    return True


cdef inline uint32_t hash_on(uint32_t value, const byte* at, Py_ssize_t size) noexcept nogil:
    """``String.hashCode`` of ASCII behind text whose hash is ``value``."""
    while size >= 4:  # the products do not wait for each other
        value = value * 923521 + (at[0] * <uint32_t>29791 + at[1] * <uint32_t>961 + at[2] * <uint32_t>31 + at[3])
        at += 4
        size -= 4
    while size > 0:
        value = value * 31 + at[0]
        at += 1
        size -= 1
    return value


# A batch as it comes in


cdef struct Member:
    int32_t flag
    Text body
    Text properties
    Found found


cdef class Members:
    """The messages of a batch where they lie in its body; the columns are made for who asks for them."""

    cdef readonly bytes data
    cdef readonly Py_ssize_t count
    cdef bint plain  # all properties are ASCII, and found
    cdef bytearray memory
    cdef Member* first

    @property
    def flags(self):
        return [self.first[number].flag for number in range(self.count)]

    @property
    def bodies(self):
        return [as_bytes(self.first[number].body) for number in range(self.count)]

    @property
    def properties(self):
        return [as_bytes(self.first[number].properties) for number in range(self.count)]


cdef bytes as_bytes(Text text):
    return PyBytes_FromStringAndSize(<const char*>text.at, text.size)


cdef Py_ssize_t members_in(const byte* at, Py_ssize_t left) noexcept nogil:
    """How many there are; -1 where one is broken."""
    cdef Py_ssize_t total, body_bytes, properties_bytes, count = 0
    while left > 0:
        if left < BATCH_FRAMING:
            return -1
        total = <int32_t>read_32(at)
        body_bytes = <int32_t>read_32(at + 16)
        if total < BATCH_FRAMING or total > left or body_bytes < 0 or body_bytes > total - BATCH_FRAMING:
            return -1
        properties_bytes = (<Py_ssize_t>at[20 + body_bytes] << 8) | at[21 + body_bytes]
        if properties_bytes > PROPERTIES_MAX or properties_bytes != total - BATCH_FRAMING - body_bytes:
            return -1
        at += total
        left -= total
        count += 1
    return count


def split_batch(bytes data not None, Py_ssize_t most):
    cdef const byte* at = <const byte*>PyBytes_AS_STRING(data)
    cdef Py_ssize_t count = members_in(at, PyBytes_GET_SIZE(data)), number
    cdef Member* member
    if count < 0 or count > most:
        return None
    cdef Members members = Members.__new__(Members)
    members.data, members.count, members.plain = data, count, True
    members.memory = bytearray(count * sizeof(Member))
    members.first = <Member*>PyByteArray_AS_STRING(members.memory)
    for number in range(count):
        member = members.first + number
        member.flag = <int32_t>read_32(at + 12)
        member.body.at, member.body.size = at + 20, <int32_t>read_32(at + 16)
        at += 20 + member.body.size
        member.properties.at, member.properties.size = at + 2, (<Py_ssize_t>at[0] << 8) | at[1]
        at += 2 + member.properties.size
        members.plain = members.plain and find(member.properties, &member.found)
    return members


def ascii_tags_codes(members):
    cdef Py_ssize_t number
    cdef Text tags
    if type(members) is not Members or not (<Members>members).plain:
        return None
    cdef list codes = []
    for number in range((<Members>members).count):
        tags = (<Members>members).first[number].found.tags
        codes.append(<int32_t>hash_on(0, tags.at, tags.size) if tags.at != NULL else 0)
    return codes


# Its records and queue entries


cdef inline void write_entry_head(byte* at, int64_t index, int64_t term, int64_t position, Py_ssize_t body_bytes) noexcept nogil:
    """``spec.dledger.ENTRY_HEAD``."""
    write_32(at, 1)
    write_32(at + 4, <uint32_t>(ENTRY_HEAD + body_bytes))
    write_64(at + 8, <uint64_t>index)
    write_64(at + 16, <uint64_t>term)
    write_64(at + 24, <uint64_t>position)
    memset(at + 32, 0, 12)
    write_32(at + 44, <uint32_t>body_bytes)


def lay_out(
    batch,
    bytes head not None,
    bytes topic not None,
    int64_t queue_offset,
    int64_t position,
    Py_ssize_t size_max,
    int64_t entry_index=-1,
    int64_t term=0,
):
    cdef Py_ssize_t number, size, whole = 0, head_bytes = PyBytes_GET_SIZE(head), topic_bytes = PyBytes_GET_SIZE(topic)
    cdef Py_ssize_t fixed = head_bytes + topic_bytes + 2, lead = ENTRY_HEAD if entry_index >= 0 else 0
    cdef Member* member
    found = batch.members
    if type(found) is not Members or head_bytes < HEAD_MIN:
        return None
    cdef Members members = <Members>found
    for number in range(members.count):
        member = members.first + number
        size = fixed + member.body.size + member.properties.size
        if size > size_max:
            return None
        whole += lead + size
    records = PyBytes_FromStringAndSize(NULL, whole)
    cdef byte* at = <byte*>PyBytes_AS_STRING(records)
    cdef list offsets = []
    for number in range(members.count):
        member = members.first + number
        size = fixed + member.body.size + member.properties.size
        if lead:
            write_entry_head(at, entry_index + number, term, position, size)
            at += lead
            position += lead
        memcpy(at, PyBytes_AS_STRING(head), head_bytes)
        write_32(at + SIZE_AT, <uint32_t>size)
        write_32(at + CRC_AT, crc_of(member.body.at, member.body.size) & 0x7FFFFFFF)
        write_32(at + FLAG_AT, <uint32_t>member.flag)
        write_64(at + QUEUE_OFFSET_AT, <uint64_t>(queue_offset + number))
        write_64(at + POSITION_AT, <uint64_t>position)
        write_32(at + head_bytes - 4, <uint32_t>member.body.size)
        at += head_bytes
        memcpy(at, member.body.at, member.body.size)
        at += member.body.size
        memcpy(at, PyBytes_AS_STRING(topic), topic_bytes)
        at += topic_bytes
        at[0], at[1] = <byte>(member.properties.size >> 8), <byte>member.properties.size
        memcpy(at + 2, member.properties.at, member.properties.size)
        at += 2 + member.properties.size
        offsets.append(position)
        position += size
    return (records,), offsets, position


cdef bint is_head(const byte* at, Py_ssize_t left) noexcept nogil:
    """Whether the head of a whole entry stands there."""
    cdef int64_t size, body_bytes
    if left < ENTRY_HEAD or read_32(at) != 1:
        return False
    size, body_bytes = <int32_t>read_32(at + 4), <int32_t>read_32(at + 44)
    return 0 <= body_bytes <= RECORD_MAX and size == ENTRY_HEAD + body_bytes and size <= left


def units_of(bytes entries not None):
    cdef const byte* begin = <const byte*>PyBytes_AS_STRING(entries)
    cdef const byte* at = begin
    cdef const byte* end = begin + PyBytes_GET_SIZE(entries)
    cdef Py_ssize_t count = 0
    cdef uint64_t index = 0, term = 0, position = 0, size
    while end - at >= 8 and read_32(at) != <uint32_t>-1:
        if not is_head(at, end - at):
            return None
        size = read_32(at + 4)
        if (read_64(at + 8) | read_64(at + 16) | read_64(at + 24)) >> 63:
            return None
        if count and (read_64(at + 8) != index or read_64(at + 16) < term or read_64(at + 24) != position):
            return None
        index, term, position = read_64(at + 8) + 1, read_64(at + 16), read_64(at + 24) + size
        if (index | term | position) >> 63:
            return None
        at += size
        count += 1
    if at != end and end - at < 8:
        return None
    units = PyBytes_FromStringAndSize(NULL, count * ENTRY_UNIT)
    cdef byte* to = <byte*>PyBytes_AS_STRING(units)
    at = begin
    for _ in range(count):
        memcpy(to, at, 4)
        memcpy(to + 4, at + 24, 8)
        memcpy(to + 12, at + 4, 4)
        memcpy(to + 16, at + 8, 16)
        at += read_32(at + 4)
        to += ENTRY_UNIT
    return units


def queue_units(list offsets not None, int64_t end, codes, int64_t lead=0):
    cdef Py_ssize_t count = len(offsets), number
    units = PyBytes_FromStringAndSize(NULL, count * QUEUE_UNIT)
    cdef byte* at = <byte*>PyBytes_AS_STRING(units)
    cdef int64_t offset, after
    if len(codes) != count:
        return None
    for number in range(count):
        offset = offsets[number]
        after = offsets[number + 1] - lead if number + 1 < count else end
        write_64(at, <uint64_t>offset)
        write_32(at + 8, <uint32_t>(after - offset))
        write_64(at + 12, <uint64_t><int64_t>codes[number])
        at += QUEUE_UNIT
    return units


cdef bint is_plain(const byte* at, int64_t size):
    """Whether the record there is of the common kind, and undamaged."""
    cdef int64_t body_bytes = <int32_t>read_32(at + BODY_SIZE_AT)
    return (
        read_32(at + SIZE_AT) == <uint32_t>size
        and read_32(at + MAGIC_AT) == <uint32_t>MAGIC
        and not read_32(at + SYS_FLAG_AT) & HOST_BITS
        and 0 <= body_bytes <= size - RECORD_MIN
        and (not body_bytes or crc_of(at + HEAD_MIN, body_bytes) & 0x7FFFFFFF == read_32(at + CRC_AT))
    )


def take_intact(bytes data not None, int64_t base, list wanted not None):
    cdef const byte* bytes_ = <const byte*>PyBytes_AS_STRING(data)
    cdef int64_t end = PyBytes_GET_SIZE(data), begin = 0, stop = 0, at, offset, size
    cdef Py_ssize_t count = len(wanted)
    cdef list pieces = []
    if base < 0:
        return None
    for entry in wanted:
        offset, size = (<tuple?>entry)[0], (<tuple?>entry)[1]
        if offset < base or not RECORD_MIN <= size <= end:
            return None
        at = offset - base
        if at > end - size or not is_plain(bytes_ + at, size):
            return None
        if at != stop:
            if stop > begin:
                pieces.append(data[begin:stop])
            begin = at
        stop = at + size
    if stop > begin:
        pieces.append(data[begin:stop])
    return pieces, count


def message_ids(bytes prefix not None, offsets):
    cdef Py_ssize_t count = len(offsets), prefix_bytes = PyBytes_GET_SIZE(prefix), number
    cdef int digit, place
    cdef uint64_t offset
    if count == 0:
        return None
    ids = PyBytes_FromStringAndSize(NULL, count * (prefix_bytes + MESSAGE_ID_OFFSET + 1) - 1)
    cdef byte* at = <byte*>PyBytes_AS_STRING(ids)
    for number in range(count):
        offset = offsets[number]
        if number:
            at[0] = b","
            at += 1
        memcpy(at, PyBytes_AS_STRING(prefix), prefix_bytes)
        at += prefix_bytes
        for place in range(MESSAGE_ID_OFFSET):
            digit = (offset >> (4 * (MESSAGE_ID_OFFSET - 1 - place))) & 0xF
            at[place] = DIGITS[digit]
        at += MESSAGE_ID_OFFSET
    return ids


# Its index units


cdef inline int32_t key_hash(uint32_t value) noexcept nogil:
    """``IndexFile.indexKeyHashMethod``: the absolute value, 0 for the one that has none."""
    return <int32_t>((0 - value) & 0x7FFFFFFF if value >> 31 else value)


cdef uint32_t hash_text(uint32_t value, str text):
    """``String.hashCode`` of any text behind one whose hash is ``value``: UTF-16 units."""
    cdef Py_ssize_t number, size = PyUnicode_GET_LENGTH(text)
    cdef int kind = PyUnicode_KIND(text)
    cdef void* data = PyUnicode_DATA(text)
    cdef uint32_t unit
    if kind == 1:
        return hash_on(value, <const byte*>data, size)
    for number in range(size):
        unit = PyUnicode_READ(kind, data, number)
        if unit > 0xFFFF:
            value = value * 31 + 0xD800 + ((unit - 0x10000) >> 10)
            unit = 0xDC00 + (unit & 0x3FF)
        value = value * 31 + unit
    return value


cdef Py_ssize_t words_in(Text keys) noexcept nogil:
    cdef Py_ssize_t number, count = 0
    if keys.at == NULL:
        return 0
    for number in range(keys.size):
        if keys.at[number] != 32 and (number == 0 or keys.at[number - 1] == 32):
            count += 1
    return count


cdef Py_ssize_t keys_in(Found* found) noexcept nogil:
    return (found.unique_key.at != NULL) + words_in(found.keys) + (found.tags.at != NULL)


cdef Py_ssize_t hash_keys(Found* found, uint32_t behind, int* to) noexcept nogil:
    """The hashes of the keys in Java's order: UNIQ_KEY, each word of KEYS, ``T#`` and TAGS; how many."""
    cdef Py_ssize_t count = 0, at = 0, start
    if found.unique_key.at != NULL:
        to[count] = key_hash(hash_on(behind, found.unique_key.at, found.unique_key.size))
        count += 1
    while found.keys.at != NULL and at < found.keys.size:
        start = at
        while at < found.keys.size and found.keys.at[at] != 32:
            at += 1
        if at > start:
            to[count] = key_hash(hash_on(behind, found.keys.at + start, at - start))
            count += 1
        at += 1
    if found.tags.at != NULL:
        to[count] = key_hash(hash_on(hash_on(behind, b"T#", 2), found.tags.at, found.tags.size))
        count += 1
    return count


def units_of_members(int64_t prefix, found, list offsets not None):
    cdef Py_ssize_t count = 0, number, filled = 0, size
    if type(found) is not Members or not (<Members>found).plain or (<Members>found).count != len(offsets):
        return None
    cdef Members members = <Members>found
    for number in range(members.count):
        count += keys_in(&members.first[number].found)
    cdef array.array hashes = array.clone(INTS, count, False), places = array.clone(LONGS, count, False)
    for number in range(members.count):
        size = hash_keys(&members.first[number].found, <uint32_t>prefix, hashes.data.as_ints + filled)
        fill(places.data.as_longlongs + filled, size, offsets[number])
        filled += size
    return hashes, places


cdef void fill(long long* at, Py_ssize_t count, int64_t offset) noexcept nogil:
    cdef Py_ssize_t number
    for number in range(count):
        at[number] = offset


def units_of_records(prefix_of, records):
    cdef Found found
    cdef Py_ssize_t count = 0, filled = 0, size
    cdef uint32_t behind = 0
    cdef str known = None
    for _, keys, _ in records:
        if type(keys) is bytes:
            if not find(text_of(<bytes>keys), &found):
                return None
            count += keys_in(&found)
        else:
            count += len(<tuple?>keys)
    cdef array.array hashes = array.clone(INTS, count, False), places = array.clone(LONGS, count, False)
    for topic, keys, offset in records:
        if topic is not known:
            behind, known = <uint32_t><int64_t>prefix_of(topic), topic
        if type(keys) is bytes:
            find(text_of(<bytes>keys), &found)
            size = hash_keys(&found, behind, hashes.data.as_ints + filled)
        else:
            size = 0
            for key in <tuple>keys:
                hashes.data.as_ints[filled + size] = key_hash(hash_text(behind, <str?>key))
                size += 1
        fill(places.data.as_longlongs + filled, size, offset)
        filled += size
    return hashes, places


def link_units(
    array.array hashes not None, array.array offsets not None, list seconds not None, slots, dirty, int32_t number
):
    cdef Py_buffer slots_view, dirty_view
    PyObject_GetBuffer(slots, &slots_view, PyBUF_WRITABLE)
    try:
        PyObject_GetBuffer(dirty, &dirty_view, PyBUF_WRITABLE)
        try:
            return link(hashes, offsets, seconds, &slots_view, &dirty_view, number)
        finally:
            PyBuffer_Release(&dirty_view)
    finally:
        PyBuffer_Release(&slots_view)


cdef object link(
    array.array hashes, array.array offsets, list seconds, Py_buffer* slots_view, Py_buffer* dirty_view, int32_t number
):
    cdef Py_ssize_t count = len(hashes), at, slot
    cdef Py_ssize_t slots_number = slots_view.len // <Py_ssize_t>sizeof(int32_t)
    cdef int32_t* slots = <int32_t*>slots_view.buf
    cdef byte* dirty = <byte*>dirty_view.buf
    cdef int32_t previous, zeros = 0
    cdef int* hash_at = hashes.data.as_ints
    cdef long long* offset_at = offsets.data.as_longlongs
    if len(offsets) != count or len(seconds) != count or not slots_number or dirty_view.len * PAGE_SLOTS < slots_number:
        return None
    units = PyBytes_FromStringAndSize(NULL, count * INDEX_UNIT)
    cdef byte* to = <byte*>PyBytes_AS_STRING(units)
    for at in range(count):
        if hash_at[at] < 0:
            return None
        __builtin_prefetch(slots + hash_at[at] % slots_number)  # they lie anywhere in 20 MB: many are fetched at once
        write_32(to, <uint32_t>hash_at[at])
        write_64(to + 4, <uint64_t>offset_at[at])
        write_32(to + 12, <uint32_t><int32_t>seconds[at])
        to += INDEX_UNIT
    to -= count * INDEX_UNIT
    for at in range(count):
        slot = hash_at[at] % slots_number
        previous = slots[slot]
        slots[slot] = number + <int32_t>at
        dirty[slot // PAGE_SLOTS] = 1
        zeros += previous == 0
        write_32(to + 16, <uint32_t>previous)
        to += INDEX_UNIT
    return units, zeros
