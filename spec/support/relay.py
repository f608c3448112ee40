"""relay.py MODE HOST:PORT [SOCKET]: on the way to a server. Prints where it listens, then a line for each thing that it was
asked. MODE:
  proxy   an HTTP proxy for everybody: any host leads to HOST:PORT; CONNECT too
  prefix  a server with a path before its own, /behind/it, which is taken away
  unix    a socket SOCKET
"""
import socket, sys, threading

mode, target = sys.argv[1], sys.argv[2].rsplit(":", 1)


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    for each in (source, sink):
        try:
            each.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def head_of(peer):
    head = b""
    while b"\r\n\r\n" not in head:
        data = peer.recv(65536)
        if not data:
            return None, b""
        head += data
    first, rest = head.split(b"\r\n", 1)
    return first.decode(), rest


# One request on each connection, so that only the first line need be read.
def serve(client):
    server = socket.create_connection((target[0], int(target[1])))
    if mode == "unix":
        say("a connection")
    else:
        first, rest = head_of(client)
        if first is None:
            return
        say(first)
        method, url, version = first.split(" ")
        if method == "CONNECT":
            client.sendall(b"HTTP/1.1 200 Connected\r\nX-Opaque-Id: the-proxys\r\n\r\n")
        else:
            if mode == "proxy":
                url = "/" + url.split("/", 3)[3]
            elif not url.startswith("/behind/it/"):
                client.sendall(b"HTTP/1.1 404 Not Here\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                client.close()
                return
            else:
                url = url[len("/behind/it"):]
            server.sendall(f"{method} {url} {version}\r\nConnection: close\r\n".encode() + rest)
            threading.Thread(target=pump, args=(client, server), daemon=True).start()
            first, rest = head_of(server)
            client.sendall(f"{first}\r\nConnection: close\r\n".encode() + rest) # not every server says it itself
            pump(server, client)
            return
    threading.Thread(target=pump, args=(client, server), daemon=True).start()
    pump(server, client)


if mode == "unix":
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[3])
    listener.listen(64)
    say(sys.argv[3])
else:
    family = socket.AF_INET6 if mode == "prefix" and socket.has_ipv6 and "v6" in sys.argv[3:] else socket.AF_INET
    listener = socket.socket(family)
    listener.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
    listener.listen(64)
    say(str(listener.getsockname()[1]))
while True:
    connection, _ = listener.accept()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
