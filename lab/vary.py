"""Conversations that vary: what one client sends to a real server, from a seed.

Each function of SPEAKERS opens one or more connections to a server of the lab. The seed chooses the requests, their case,
spelling, folding and encoding, whether several are sent before the first answer, how the bytes are cut into segments,
and whether one side makes a mistake or leaves early. The servers' logs say what they understood, and lab/check-servers
compares that with a monitor's records.

No function looks at what the servers answer, but for the end of an answer where the protocol has turns.
"""

import base64
import socket
import struct
import time

WWW, MAIL, FILES = "10.99.0.1", "10.99.0.2", "10.99.0.3"
# A server that waits for more gets this long, in seconds.
PATIENCE = 0.4


class Line:
    """A TCP connection whose bytes are cut in a way that the seed chooses."""

    def __init__(self, rng, address, port):
        self.rng = rng
        self.socket = socket.create_connection((address, port), timeout=5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(PATIENCE)
        self.cut = rng.choice((0, 0, 1, 3, 17, 200))
        self.received = b""

    def port(self):
        return self.socket.getsockname()[1]

    def send(self, data):
        """Sends in one segment, or in pieces of up to `cut` bytes; the first hundred pieces are small."""
        pieces = 0
        while data:
            size = self.rng.randint(1, self.cut) if self.cut and pieces < 100 else len(data)
            try:
                self.socket.sendall(data[:size])
            except (BrokenPipeError, ConnectionResetError):
                return
            data, pieces = data[size:], pieces + 1
            if pieces % 7 == 0:
                time.sleep(0.001)

    def send_all(self, parts, mark):
        """Sends the parts at once, or each of them after the answer to the one before it, as the seed chooses."""
        if self.rng.random() < 0.5:
            self.send(b"".join(parts))
            return
        for part in parts:
            self.send(part)
            self.until(mark)

    def until(self, *marks):
        """Receives until the answer ends with one of the marks, or nothing more comes."""
        start = len(self.received)
        while not any(mark in self.received[start:] for mark in marks):
            try:
                data = self.socket.recv(65536)
            except (TimeoutError, ConnectionResetError):
                return
            if not data:
                return
            self.received += data

    def rest(self):
        """Receives until the server closes or falls silent."""
        self.until(b"\0never\0")

    def close(self, how="close"):
        """Closes, half closes and reads on, or resets."""
        if how == "half":
            try:
                self.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            self.rest()
        elif how == "reset":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def case(rng, word):
    """The word as it is, in small letters, in capitals, or in both."""
    return rng.choice((word, word, word.lower(), word.upper(), "".join(rng.choice((c.lower(), c.upper())) for c in word)))


def dashes(rng, count):
    return "".join(rng.choice("abcdefghij-_0123456789") for _ in range(count))


# ---- HTTP ----------------------------------------------------------------------------------------

def http_target(rng):
    path = rng.choice(("/index.html", f"/doc/{rng.randint(1, 9)}.txt", "/no-such-page", "/private/", "/old", "/data.json",
                       "/d%6fc/1.txt", "/doc//2.txt", "/doc/../doc/3.txt", "/" + dashes(rng, rng.choice((20, 60, 900)))))
    path += rng.choice(("", "", "", "?", "?a=1&b=2", "?q=%41%20b", "?x=a;b=/c", "?u=http://h/p", f"?n={rng.randrange(10**6)}"))
    return rng.choice((path,) * 6 + (f"http://www.weir.test{path}", f"HTTP://WWW.WEIR.TEST:80{path}"))


def http_request(rng, last):
    """A request that nginx understands; the last one of a connection may close it."""
    method = rng.choice(("GET",) * 5 + ("HEAD", "HEAD", "POST", "POST", "PUT", "OPTIONS", "DELETE", "PATCH", "BREW"))
    version = "1.0" if last and rng.random() < 0.2 else "1.1"
    end = rng.choice(("\r\n",) * 5 + ("\n",))
    headers = [(case(rng, "Host"), rng.choice(("www.weir.test", "www.weir.test:80", "WWW.weir.test", WWW)))]
    for name, values in (("User-Agent", ("Gauge/2.0", "Mozilla/5.0 (X11; Linux x86_64)", "", "a  b\tc")), ("Accept", ("*/*",)),
                         ("Referer", ("http://www.weir.test/index.html", "-")), ("Cookie", ("a=1; b=2", "c=")),
                         ("X-Forwarded-For", ("192.0.2.7", "192.0.2.7, 198.51.100.2")), ("Accept-Encoding", ("gzip", "identity")),
                         ("X-" + dashes(rng, 5).replace("_", "x"), (dashes(rng, rng.choice((0, 10, 2000))),)),
                         ("Authorization", ("Basic " + base64.b64encode(b"alice:garden").decode(),))):
        if rng.random() < 0.4:
            headers.append((case(rng, name), rng.choice(values)))
    body = b""
    if method in ("POST", "PUT", "PATCH"):
        body = rng.randbytes(rng.choice((0, 1, 100, 5000)))
        if version == "1.1" and rng.random() < 0.5:
            headers.append((case(rng, "Transfer-Encoding"), "chunked"))
            body = chunked(rng, body)
        else:
            headers.append((case(rng, "Content-Length"), str(len(body))))
    if last and version == "1.1":
        headers.append((case(rng, "Connection"), case(rng, "close")))
    rng.shuffle(headers)
    colon = lambda: rng.choice((": ",) * 4 + (":", ":   ", ": \t"))
    lines = [f"{method} {http_target(rng)} HTTP/{version}"] + [f"{name}{colon()}{value}" for name, value in headers]
    if method == "PUT":
        lines[0] = f"PUT /dav/{dashes(rng, 6)}.bin HTTP/{version}"
    return (rng.choice(("",) * 6 + ("\r\n",)) + end.join(lines) + end + end).encode() + body


def chunked(rng, body):
    parts = b""
    while body:
        size = rng.randint(1, max(1, len(body)))
        digits = rng.choice((b"%x", b"%X", b"%04x")) % size
        parts += digits + rng.choice((b"",) * 4 + (b";name=value", b" ")) + b"\r\n" + body[:size] + b"\r\n"
        body = body[size:]
    return parts + b"0\r\n" + rng.choice((b"",) * 3 + (b"X-Sum: 1\r\n",)) + b"\r\n"


HTTP_MISTAKES = (
    b"GET /doc/1.txt\r\n", b"GET /doc/1.txt HTTP/2.5\r\nHost: www.weir.test\r\n\r\n", b"GET  /doc/1.txt  HTTP/1.1\r\nHost: www.weir.test\r\n\r\n",
    b"get /doc/1.txt HTTP/1.1\r\nHost: www.weir.test\r\n\r\n", b"GET /doc/1.txt HTTP/1.1\r\n\r\n", b"GET /doc/a b.txt HTTP/1.1\r\nHost: www.weir.test\r\n\r\n",
    b"GET /doc/1.txt HTTP/1.1\r\nHost: www.weir.test\r\nHost: other.weir.test\r\n\r\n", b"GET /doc/1.txt HTTP/1.1\r\nHost www.weir.test\r\n\r\n",
    b"POST /form HTTP/1.1\r\nHost: www.weir.test\r\nContent-Length: x\r\n\r\n", b"POST /form HTTP/1.1\r\nHost: www.weir.test\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /doc/1.txt HTTP/1.1\r\nHost: www.weir.test\r\nX-Folded: one\r\n two\r\n\r\n", b"\x16\x03\x01\0\0", b"GET\r\n\r\n", b"\0\0\0\0\r\n\r\n",
    b"CONNECT www.weir.test:443 HTTP/1.1\r\nHost: www.weir.test\r\n\r\n", b"TRACE / HTTP/1.1\r\nHost: www.weir.test\r\n\r\n",
)


def http(rng, host):
    for _ in range(8):
        count = rng.choice((1, 1, 2, 3, 6))
        requests = [http_request(rng, at + 1 == count) for at in range(count)]
        mistake = rng.random()
        line = Line(rng, WWW, 80)
        if mistake < 0.25:
            # In whole segments: a server that answers within the line of a request answers something else.
            requests[-1], line.cut = rng.choice(HTTP_MISTAKES), 0
        elif mistake < 0.4:
            # The client leaves within its last request.
            requests[-1] = requests[-1][: rng.randint(1, len(requests[-1]) - 1)]
        line.send_all(requests, b"\r\n\r\n")
        line.rest()
        line.close(rng.choice(("close", "half", "half", "reset")))


# ---- FTP -----------------------------------------------------------------------------------------

def ftp(rng, host):
    for _ in range(4):
        line = Line(rng, FILES, 21)
        line.until(b"\n")
        commands = [f"{case(rng, 'USER')} {host.user}", f"{case(rng, 'PASS')} {rng.choice((host.password,) * 4 + ('wrong',))}"]
        for _ in range(rng.randint(2, 9)):
            commands.append(case(rng, rng.choice(("PWD", "SYST", "FEAT", "NOOP", "TYPE I", "TYPE A", "CWD .ssh", "CWD ..", "CDUP", "CWD /", "MKD with blanks",
                                                   "RMD with blanks", "SIZE report.txt", "MDTM report.txt", "STAT", "HELP", "REST 100", "XYZZY", "CWD no/such", "SITE HELP"))
                                 if rng.random() < 0.9 else "RNFR absent"))
        if rng.random() < 0.7:
            commands.append(case(rng, "QUIT"))
        end = rng.choice(("\r\n",) * 4 + ("\n",))
        # Commands are sent one by one, or those after the login all at once.
        at_once = rng.random() < 0.4
        for command in commands[:2] if at_once else commands:
            line.send((command + end).encode())
            line.until(b"\n")
        if at_once:
            line.send(end.join(commands[2:] + [""]).encode())
        line.rest()
        line.close(rng.choice(("close", "half", "reset")))


# ---- mail ----------------------------------------------------------------------------------------

def mail(rng, host):
    """A mail with folded and encoded headers, and lines that begin with dots."""
    subject = rng.choice(("Level", "=?utf-8?B?UGVnZWw=?=", "=?iso-8859-1?Q?Pegel=FCber?=", "A long subject\r\n that goes on\r\n\tand on", ""))
    headers = [f"From: {rng.choice((f'<{host.user}@weir.test>', f'{host.user}@weir.test', f'H {host.number} <{host.user}@weir.test>'))}",
               "To: alice@weir.test,\r\n bob@weir.test", f"Subject: {subject}", "Date: Mon, 05 Jan 2026 12:00:00 +0000",
               f"Message-ID: <{dashes(rng, 12)}@h{host.number}.weir.test>"]
    rng.shuffle(headers)
    headers = [case(rng, name) + ":" + rest for name, rest in (header.split(":", 1) for header in headers)]
    lines = [rng.choice(("", "..", "..text", "a line", dashes(rng, 400), ".")) for _ in range(rng.randint(0, 20))]
    # A single dot ends a mail, and is doubled within.
    body = "\r\n".join(".." if text == "." else text for text in lines)
    return ("\r\n".join(headers) + "\r\n\r\n" + body + "\r\n.\r\n").encode()


def smtp(rng, host):
    for _ in range(3):
        line = Line(rng, MAIL, 25)
        line.until(b"\n")
        line.send(f"{case(rng, rng.choice(('HELO', 'EHLO')))} h{host.number}.weir.test\r\n".encode())
        line.until(b"250 ", b"5")
        for _ in range(rng.randint(1, 3)):
            if rng.random() < 0.3:
                for command in rng.sample(("RSET", "NOOP", "VRFY alice", "HELP", "DATA", "WHAT", "RCPT TO:<alice@weir.test>"), 2):
                    line.send(f"{case(rng, command)}\r\n".encode())
                    line.until(b"\n")
            separator = rng.choice((":", ":", ": "))
            line.send(f"{case(rng, 'MAIL')} {case(rng, 'FROM')}{separator}{rng.choice((f'<{host.user}@weir.test>', '<>'))}\r\n".encode())
            line.until(b"\n")
            for to in rng.sample(("alice", "bob", "carol", "nobody@elsewhere.test", "dave"), rng.randint(1, 3)):
                line.send(f"{case(rng, 'RCPT')} {case(rng, 'TO')}{separator}<{to if '@' in to else to + '@weir.test'}>\r\n".encode())
                line.until(b"\n")
            if rng.random() < 0.15:
                line.send(b"RSET\r\n")
                line.until(b"\n")
                continue
            line.send(f"{case(rng, 'DATA')}\r\n".encode())
            line.until(b"\n")
            text = mail(rng, host)
            if rng.random() < 0.1:
                # The client leaves within the mail.
                line.send(text[: len(text) // 2])
                break
            line.send(text)
            line.until(b"\n")
        else:
            line.send(rng.choice((b"QUIT\r\n", b"quit\r\n", b"")))
        line.rest()
        line.close(rng.choice(("close", "half", "reset")))


def pop3(rng, host):
    for _ in range(3):
        line = Line(rng, MAIL, 110)
        line.until(b"\n")
        good = rng.random() < 0.8
        password = host.password if good else "wrong"
        if rng.random() < 0.3:
            plain = base64.b64encode(f"\0{host.user}\0{password}".encode()).decode()
            login = [f"AUTH PLAIN {plain}"]
        else:
            login = [f"{case(rng, 'USER')} {host.user}", f"{case(rng, 'PASS')} {password}"]
        for command in login:
            line.send(f"{command}\r\n".encode())
            line.until(b"\n")
        if good:
            commands = [case(rng, rng.choice(("STAT", "LIST", "UIDL", "NOOP", "RETR 1", "RETR 2", "TOP 1 3", "LIST 1", "RETR 99", "CAPA", "WHAT", "RSET")))
                        for _ in range(rng.randint(1, 6))] + [case(rng, "QUIT")]
            line.send_all([f"{command}\r\n".encode() for command in commands], b"\r\n")
        line.rest()
        line.close(rng.choice(("close", "half")))


def imap(rng, host):
    for _ in range(3):
        line = Line(rng, MAIL, 143)
        line.until(b"\n")
        tag = lambda: rng.choice(("a", "A0", "x.", "t")) + str(rng.randrange(1000))
        form = rng.randrange(4)
        if form == 0:
            # Name and password as literals, each announced by its size.
            line.send(f"{tag()} {case(rng, 'LOGIN')} {{{len(host.user)}}}\r\n".encode())
            line.until(b"\n")
            line.send(f"{host.user} {{{len(host.password)}}}\r\n".encode())
            line.until(b"\n")
            line.send(f"{host.password}\r\n".encode())
        elif form == 1:
            line.send(f"{tag()} {case(rng, 'AUTHENTICATE')} PLAIN\r\n".encode())
            line.until(b"\n")
            line.send(base64.b64encode(f"\0{host.user}\0{host.password}".encode()) + b"\r\n")
        else:
            name = f'"{host.user}"' if form == 2 else host.user
            line.send(f"{tag()} {case(rng, 'LOGIN')} {name} {host.password}\r\n".encode())
        line.until(b"\n")
        commands = [case(rng, rng.choice(("CAPABILITY", "NOOP", "SELECT INBOX", "EXAMINE inbox", "STATUS INBOX (MESSAGES UNSEEN)", 'LIST "" *', "FETCH 1 FLAGS",
                                          "FETCH 1 BODY[]", "UID SEARCH ALL", "CHECK", "WHAT", "CLOSE"))) for _ in range(rng.randint(1, 6))]
        data = [f"{tag()} {command}\r\n".encode() for command in commands + ["LOGOUT"]]
        line.send_all(data, b"\n")
        line.rest()
        line.close(rng.choice(("close", "half")))


# ---- names, terminals ----------------------------------------------------------------------------

def question(rng, number):
    """A query: the number, flags, one name in letters of either case, perhaps an option of EDNS."""
    name, kind = rng.choice((("www.weir.test", 1), ("www.weir.test", 28), ("ftp.weir.test", 1), ("weir.test", 15), ("weir.test", 16), ("mail.weir.test", 255),
                             ("_irc._tcp.weir.test", 33), ("weir.test", 257), (f"n{dashes(rng, 30)}.weir.test", 1), ("4.0.99.10.in-addr.arpa", 12)))
    labels = b"".join(bytes([len(label)]) + case(rng, label).encode() for label in name.split("."))
    edns = rng.random() < 0.4
    head = struct.pack("!HHHHHH", number, rng.choice((0x0100, 0x0000, 0x0120, 0x0110)), 1, 0, 0, int(edns))
    return head + labels + b"\0" + struct.pack("!HH", kind, 1) + (b"\0" + struct.pack("!HHIH", 41, rng.choice((512, 1232, 4096)), 0x8000 if rng.random() < 0.5 else 0, 0) if edns else b"")


def dns(rng, host):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(PATIENCE)
        s.connect((WWW, 53))
        numbers = rng.sample(range(65536), 8)
        # Several queries before the first answer.
        for number in numbers:
            s.send(question(rng, number))
        for _ in numbers:
            try:
                s.recv(65536)
            except TimeoutError:
                break
    line = Line(rng, WWW, 53)
    queries = [question(rng, number) for number in rng.sample(range(65536), 3)]
    line.send(b"".join(struct.pack("!H", len(query)) + query for query in queries))
    line.rest()
    line.close("half")


def ssh(rng, host):
    """Clients that speak before the server, slowly, not at all, or another protocol."""
    for _ in range(3):
        line = Line(rng, FILES, 22)
        if rng.random() < 0.5:
            line.until(b"\n")
        line.send(rng.choice((b"SSH-2.0-Gauge_1.0\r\n", b"SSH-2.0-Gauge_1.0 a comment\n", b"SSH-1.99-Old\r\n", b"GET / HTTP/1.0\r\n\r\n", b"")))
        line.rest()
        line.close(rng.choice(("close", "half", "reset")))


def tftp(rng, host):
    """Requests with options, in any case, whose blocks are acknowledged once or twice."""
    for name in rng.sample(("boot.cfg", "image.bin", "absent"), 2):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(PATIENCE)
            words = [name, case(rng, "octet")]
            if rng.random() < 0.5:
                words += [case(rng, "blksize"), str(rng.choice((8, 512, 1024, 1428)))]
            if rng.random() < 0.5:
                words += [case(rng, "tsize"), "0"]
            s.sendto(b"\0\1" + b"".join(word.encode() + b"\0" for word in words), (FILES, 69))
            size, last = 512, None
            while last is None or last == size:
                try:
                    data, server = s.recvfrom(65536)
                except TimeoutError:
                    break
                kind, number = struct.unpack("!HH", data[:4])
                if kind == 6:
                    # The accepted options are acknowledged as block 0.
                    options = dict(zip(*[iter(data[2:-1].lower().split(b"\0"))] * 2))
                    size, number = int(options.get(b"blksize", size)), 0
                elif kind == 3:
                    last = len(data) - 4
                else:
                    break
                for _ in range(rng.choice((1, 1, 1, 1, 2))):
                    s.sendto(struct.pack("!HH", 4, number), server)


SPEAKERS = (http, ftp, smtp, pop3, imap, dns, tftp, ssh)
