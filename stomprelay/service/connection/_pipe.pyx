# cython: language_level=3, boundscheck=False, wraparound=False
"""Sends at once (see `protocol.send_in_python`), and passes frames without the core (see `Pipe`)."""

from cpython.object cimport PyObject
from libc.errno cimport EAGAIN, EINTR, errno

from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST

from stomprelay.wire.run import Run

cdef extern from "Python.h":
    PyObject *PyBytes_FromStringAndSize(const char *content, Py_ssize_t size) except NULL
    char *PyBytes_AS_STRING(PyObject *chunk)
    int _PyBytes_Resize(PyObject **chunk, Py_ssize_t size) except -1
    void Py_DECREF(PyObject *chunk)
    Py_ssize_t PY_SSIZE_T_MAX

cdef extern from *:
    """
    #include <sys/socket.h>
    #include <sys/syscall.h>
    #include <unistd.h>

    /* As `send` and `recv`, but a thread cannot be cancelled in them: allowing that takes too long. */
    #if defined(SYS_sendto) && defined(SYS_recvfrom)
    #define SEND(descriptor, data, size, flags) syscall(SYS_sendto, descriptor, data, size, flags, NULL, 0)
    #define RECV(descriptor, into, size, flags) syscall(SYS_recvfrom, descriptor, into, size, flags, NULL, NULL)
    #else
    #define SEND send
    #define RECV recv
    #endif
    """
    ssize_t send_now "SEND"(int descriptor, const void *data, size_t size, int flags)
    ssize_t recv "RECV"(int descriptor, void *into, size_t size, int flags)

cdef enum:
    FEW = 16 * 1024     # up to so many bytes are received on the stack, and copied
    READ = 512 * 1024   # as in `sockets`


def send(connection, bytes data not None):
    """The twin of `protocol.send_in_python`."""
    cdef Py_ssize_t sent = 0, size = len(data)
    if connection.connected and not connection.dataBuffer and not connection._tempDataBuffer:
        sent = max(send_now(connection.socket.fileno(), <const char *>data, size, 0), 0)
        if sent == size:
            return
    connection.bufferSize = READ
    connection.write(data[sent:] if sent else data)


cdef class Pipe:
    """Reads from `source` (a `LegProtocol` with a `socket`) instead of the socket's own `doRead`, from `open` to
    `shut`.

    Received bytes are sent to `target` as long as `scan(data, at)` finds runs that `takes` accepts; a run's `instead`
    replaces its bytes. From the first other frame on, bytes go to `source.came`, as all bytes do without the pipe. If
    the source speaks WebSocket, only the bytes in its messages count. If the peer `trails`, a chunk without the LF
    behind its last frame does not pass. If any call raises, `failed` gets the exception, and the chunk is dropped. The
    recorder of a `recording` gets each run that passes; if a whole chunk passed, `record` is called. A `counter` gets
    frames of this `session` when it asks for them (`DestinationCounter.passed`).
    """

    cdef readonly object source
    cdef readonly object target
    cdef object _transport
    cdef object _scan
    cdef object _takes
    cdef object _seconds
    cdef object _failed
    cdef list _runs     # None: nothing is recorded
    cdef object _recorder
    cdef object _record
    cdef bint _trails, _wrapped
    cdef int _descriptor
    cdef object _counter    # None: frames are not counted by destination
    cdef object _session
    cdef Py_ssize_t _untold, _until
    cdef readonly Py_ssize_t frames
    cdef Py_ssize_t _size, _sent
    cdef double _at

    def __init__(self, source, target, scan, takes, trails, seconds, failed, recording=None, counter=None, session=None):
        self.source = source
        self.target = target
        self._transport = source.socket()
        self._wrapped = source.plain is None
        self._descriptor = self._transport.fileno()
        self._scan = scan
        self._takes = takes
        self._trails = trails
        self._seconds = seconds
        self._failed = failed
        self._counter = counter
        self._session = session
        self._until = PY_SSIZE_T_MAX if counter is None else 1
        if recording is not None:
            self._recorder = recording.recorder
            self._runs = recording.recorder.frames
            self._record = recording.record

    def open(self):
        """From now on the reactor calls this object when the socket can be read."""
        self._transport.doRead = self

    def shut(self):
        """From now on the reactor calls the transport again. If the transport was aborted, nothing changes."""
        if self._transport.__dict__.get("doRead") is self:
            del self._transport.doRead

    def take(self):
        """Return the number, received bytes, sent bytes and last time of the frames that passed since the last call."""
        taken = (self.frames, self._size, self._sent, self._at)
        self.frames = self._size = self._sent = 0
        return taken

    def __call__(self):
        """Read once. Returns and raises what `doRead` does (`IReadDescriptor`)."""
        cdef char few[FEW]
        cdef size_t room = self._transport.bufferSize
        cdef Py_ssize_t size
        cdef char *into = few
        cdef PyObject *chunk = NULL
        cdef int failure
        cdef bytes data
        if room > FEW:
            chunk = PyBytes_FromStringAndSize(NULL, room)
            into = PyBytes_AS_STRING(chunk)
        size = recv(self._descriptor, into, room, 0)
        if size <= 0:
            failure = errno
            if chunk is not NULL:
                Py_DECREF(chunk)
            if not size:
                return CONNECTION_DONE
            return None if failure in (EAGAIN, EINTR) else CONNECTION_LOST
        if chunk is NULL:
            data = few[:size]
        else:
            _PyBytes_Resize(&chunk, size)
            data = <bytes>chunk
            Py_DECREF(chunk)    # `data` has a reference of its own
        return self.hand_on(data, <size_t>size == room)

    cpdef hand_on(self, bytes data, bint more):
        """Hand on what was read. If it is part of `more`, the source then reads larger chunks, which is cheaper."""
        cdef Py_ssize_t size = len(data), frames = 0, at = 0, kept = 0, after, count
        cdef bytes out
        cdef list anew = []
        if self._wrapped:
            if more:
                self.source.dataReceived(data)
                return None
            data = self.source.unwrapped(data)
            size = len(data)
            if not size:
                return None
        try:
            if not more and not (self._trails and data[size - 1] == 0):
                while at < size:
                    run = self._scan(data, at)
                    if type(run) is not Run or not self._takes(run):
                        break
                    count = run.count
                    frames += count
                    self._untold += count
                    if self._untold >= self._until:
                        count = self._untold
                        self._untold = 0
                        self._until = self._counter.passed(run, self._session, self.source.leg.dialect, count)
                    after = run.after
                    if run.instead is not None:
                        if kept < at:
                            anew.append(data[kept:at])
                        anew.append(run.instead.data)
                        kept = after
                    at = after
                    if self._runs is not None:
                        self._runs.append(run)
            if at:
                self.frames += frames
                self._size += at
                self._at = self._seconds()
                # Recorded first, while the heads are in the processor's cache.
                if at == size and self._runs is not None:
                    self._record(self._recorder)
                if anew:
                    if kept < at:
                        anew.append(data[kept:at])
                    out = b"".join(anew)   # `join` does not copy a single item
                else:
                    out = data if at == size else data[:at]
                self._sent += len(out)
                plain = self.target.plain
                if plain is None:
                    self.target.write(out)
                else:
                    send(plain, out)    # as `write` does, but without a call in Python
        except Exception as error:
            self._failed(error)
            return None
        if at < size:
            self.source.came(data[at:] if at else data)
        return None
