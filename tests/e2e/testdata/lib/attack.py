"""What hostile rows share: raw system calls, and the word that a row must never print."""
import ctypes
import errno
import os
import sys
import time

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

print("start", flush=True)


def escaped(what):
    print("ESCAPED:", what, flush=True)


def refused(what, number):
    print("refused:", what, errno.errorcode.get(number, number), flush=True)


def attempt(what, act, *args):
    """Does something forbidden in the language's own way."""
    try:
        act(*args)
    except OSError as e:
        refused(what, e.errno)
    else:
        escaped(what)


def syscall(what, number, *args):
    """Does something forbidden by a raw system call."""
    ctypes.set_errno(0)
    words = [ctypes.c_void_p(a) if isinstance(a, int) else ctypes.c_char_p(a) if isinstance(a, bytes) else a for a in args]
    if _libc.syscall(ctypes.c_long(number), *words) >= 0:
        escaped(what)
    else:
        refused(what, ctypes.get_errno())


def linger():
    """Waits: by now the sandbox must be gone."""
    sys.stdout.flush()
    time.sleep(6)
    escaped("the run went on after a violation")


def read(path):
    """Reads a few bytes of a file, or lists a directory."""
    fd = os.open(path, os.O_RDONLY)
    return os.listdir(fd) if os.path.isdir(path) else os.read(fd, 16)
