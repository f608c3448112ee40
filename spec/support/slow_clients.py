"""Clients of the board at a port that are slow on purpose; a line for each that the board has ended: what it was,
and after how many seconds.

crowd: more connections than it takes, all silent, of which it has ended 300; half: half of a request; drip: a byte of it now and then; deaf:
reads no events.
"""
import select
import socket
import sys
import time

PORT, CROWD, MOST, WAIT_S, DRIP_S, DEAF_S = int(sys.argv[1]), 400, 300, 60, 2, 45


def connect(receive=None):
    made = socket.socket()
    if receive:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    made.settimeout(5)
    made.connect(("127.0.0.1", PORT))
    return made


def is_ended(one):
    """Has it nothing more to give?"""
    try:
        return bool(select.select([one], [], [], 0)[0]) and one.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


def ends_when_read(one):
    """Is there an end to what was sent while nobody read it? The next event would come within a second."""
    until = time.monotonic() + 5
    try:
        while time.monotonic() < until:
            if not one.recv(1 << 16):
                return True
    except ConnectionError:
        return True
    return False


def say(what, since):
    print(what, round(time.monotonic() - since), flush=True)


def crowd():
    began, all_ = time.monotonic(), []
    for _ in range(CROWD):
        try:
            all_.append(connect())
        except OSError:
            break
    while time.monotonic() - began < WAIT_S and sum(map(is_ended, all_)) < MOST:
        time.sleep(0.2)
    if sum(map(is_ended, all_)) >= MOST:
        say("crowd", began)
    for one in all_:
        one.close()


def main():
    crowd()
    began = time.monotonic()
    half, drip, deaf = connect(), connect(), connect(4096)
    half.sendall(b"GET /data.json HTTP/1.1\r\nHost: 127")
    deaf.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    rest = iter(b"GET /data.json HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 1000)
    left, next_drip = {"half": half, "drip": drip}, began
    while left and time.monotonic() - began < WAIT_S:
        if "drip" in left and time.monotonic() >= next_drip:
            next_drip += DRIP_S
            try:
                drip.send(bytes([next(rest)]))
            except OSError:
                pass
        for what, one in list(left.items()):
            if is_ended(one):
                say(what, began)
                del left[what]
        time.sleep(0.1)
    time.sleep(max(0, DEAF_S - (time.monotonic() - began)))
    if ends_when_read(deaf):
        say("deaf", began)


main()
