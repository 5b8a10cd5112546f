"""Tries what attempts.json says, all at once, and says of each what it came to."""

import concurrent.futures
import http.client
import json
import socket
import ssl
import struct
import textwrap
import urllib.error
import urllib.parse
import urllib.request

WAIT = 15  # seconds; the gateway gives clients 10 to say what they speak


def get(url, headers=None, at=None, sni="", version="HTTP/1.1"):
    """One request. at is where to connect instead; sni is the name to say, None for none."""
    u = urllib.parse.urlsplit(url)
    port = u.port or {"http": 80, "https": 443}[u.scheme]
    s = socket.create_connection(at or (u.hostname, port), WAIT)
    if u.scheme == "https":
        s = tls(s, u.hostname if sni == "" else sni)
    with s:
        return request(s, u.netloc, u.path, headers)


def tls(s, name):
    context = ssl.create_default_context()
    if name is None:
        context.check_hostname = False
    return context.wrap_socket(s, server_hostname=name)


def request(s, host, path, headers=None):
    """One request on a connection that is there; others may follow."""
    lines = [f"GET {path or '/'} HTTP/1.1"]
    if not any(h.lower() == "host" for h in headers or {}):
        lines.append(f"Host: {host}")
    lines += [f"{k}: {v}" for k, v in (headers or {}).items()]
    s.sendall("\r\n".join(lines + ["", ""]).encode())
    response = http.client.HTTPResponse(s)
    response.begin()
    body = response.read().decode()
    if response.status >= 400:
        raise OSError(f"{response.status} {body}")
    return f"{response.status} {body}"


def follow(url):
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=WAIT) as r:
        return r.read().decode()


def say(text, at):
    """What comes back when text is said to a server."""
    with socket.create_connection(at, WAIT) as s:
        s.sendall(text.encode())
        back = s.recv(1000)
        if not back:
            raise OSError("nothing came back")
        return back.decode(errors="replace")


def greeted(text, at):
    """What a server says first; then text is said."""
    with socket.create_connection(at, WAIT) as s:
        first = s.recv(1000)
        if not first:
            raise OSError("the server said nothing")
        s.sendall(text.encode() + b"\n")
        s.recv(1)  # the end: it has heard
        return first.decode()


def statuses(s, n):
    """The codes of n answers that are on their way; the last must not be an error, nor be missing."""
    codes, f = [], s.makefile("rb")
    for _ in range(n):
        line = f.readline().split()
        if len(line) < 2:
            raise OSError(f"{codes} and no more")
        codes.append(line[1].decode())
        length = 0
        while (header := f.readline().strip()) != b"":
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
        f.read(length)
    if int(codes[-1]) >= 400:
        raise OSError(" ".join(codes))
    return " ".join(codes)


def hello(at, name, ech=False, slowly=False):
    """A ClientHello by hand, as TLS 1.2 has it, and whether the server answers."""
    extensions = b""
    for kind, data in (
        (0, struct.pack(">HBH", len(name) + 3, 0, len(name)) + name.encode()),
        (10, struct.pack(">HH", 2, 23)),
        (11, b"\1\0"),
        (13, struct.pack(">HH", 2, 0x0403)),
        (0xFE0D, b"\0\0\1\0\1\7\0\x20" + bytes(range(32)) + b"\0\x20" + bytes(range(32))),
    ):
        if kind != 0xFE0D or ech:
            extensions += struct.pack(">HH", kind, len(data)) + data
    body = b"\3\3" + bytes(range(32)) + b"\0" + struct.pack(">HH", 2, 0xC02B) + b"\1\0" + struct.pack(">H", len(extensions)) + extensions
    message = b"\1" + struct.pack(">I", len(body))[1:] + body
    record = b"\x16\3\1" + struct.pack(">H", len(message)) + message
    with socket.create_connection(at, WAIT) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for b in [bytes([b]) for b in record] if slowly else [record]:
            s.sendall(b)
        answer = s.recv(1)
        if answer != b"\x16":
            raise OSError(f"the server answers {answer}")
        return "the server answers"


def send(text, at, family=socket.AF_INET):
    """What comes back when text is sent as a datagram."""
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(1)
        s.sendto(text.encode("latin1"), at)
        return s.recv(2000).decode("latin1")


RESOLVER = ("198.18.0.1", 53)


def query(name, kind=1, extra=b"", additional=0):
    labels = b"".join(bytes([len(l)]) + l.encode() for l in name.split(".") if l)
    return struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, additional) + labels + b"\0" + struct.pack(">HH", kind, 1) + extra


def ask(name, kind=1, tcp=False, at=RESOLVER, extra=b"", additional=0):
    """A query by hand: the code of the answer and how many records it has."""
    q = query(name, kind, extra, additional)
    if tcp:
        with socket.create_connection(at, WAIT) as s:
            s.sendall(struct.pack(">H", len(q)) + q)
            f = s.makefile("rb")
            answer = f.read(struct.unpack(">H", f.read(2))[0])
    else:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(1)
            s.sendto(q, at)
            answer = s.recv(4096)
    _, flags, _, count, _, _ = struct.unpack(">HHHHHH", answer[:12])
    if flags & 15:
        raise OSError(f"code {flags & 15}")
    return f"{count} answers"


def attempt(a):
    try:
        scope = {}
        exec("def it():\n" + textwrap.indent(a["do"], "    "), globals(), scope)
        said = scope["it"]()
        if said is None:
            raise AssertionError("it says nothing")
        return {"word": a["word"], "said": str(said)}
    except Exception as e:
        return {"word": a["word"], "error": f"{type(e).__name__}: {e}"}


if __name__ == "__main__":
    with open("attempts.json") as f:
        attempts = json.load(f)
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        for answer in pool.map(attempt, attempts):
            print(json.dumps(answer), flush=True)
