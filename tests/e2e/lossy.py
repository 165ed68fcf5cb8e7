"""A road that loses, delays, reorders and doubles packets, between two networks.

Started in a network namespace of its own, it makes a second one and a TUN device in
each, and carries IP packets from one to the other as its options say. What is carried is
the kernel's own TCP. Who wants to go from the far network to `NEAR:port` connects to the
Unix socket of his address: TCP begins in the far network and is passed on as it is.

It says `ready`; a line of its input turns something (`down`, `up`, `lose ADDRESS`), which
it confirms by that line; at the end of its input it says what it did, as JSON, and ends.
Its choices follow the seed.
"""

import argparse
import asyncio
import ctypes
import errno
import fcntl
import functools
import json
import os
import random
import socket
import struct
import subprocess
import sys

NEAR = "10.77.0.1"
FAR = ["10.77.0.2", "10.77.0.3"]
# <linux/if_tun.h>, <sched.h>
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
CLONE_NEWNET = 0x40000000
LARGEST = 2048
READ_AT_ONCE = 64 * 1024


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def tun(name, *addresses):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    for address in addresses:
        ip("addr", "add", f"{address}/24", "dev", name)
    ip("link", "set", name, "up")
    return device


def leave_network():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "no second network namespace")
    ip("link", "set", "lo", "up")


class Road:
    """Carries packets between two devices."""

    def __init__(self, options):
        self.dice = random.Random(options.seed)
        self.loss, self.double = options.loss, options.double
        self.delay = [float(ms) / 1000 for ms in options.delay.split("-")]
        self.is_down = False
        self.lost_addresses = set()
        self.done = dict.fromkeys(["carried", "lost", "doubled", "overtaken"], 0)
        self.arrival = {}

    def carry(self, source, target):
        while True:
            try:
                packet = os.read(source, LARGEST)
            except BlockingIOError:
                return
            # Neighbour discovery of IPv6 is none of ours.
            if packet[0] >> 4 != 4:
                continue
            ends = {packet[12:16], packet[16:20]}
            if self.is_down or ends & self.lost_addresses or self.dice.random() < self.loss:
                self.done["lost"] += 1
                continue
            self.send(target, packet)
            if self.dice.random() < self.double:
                self.done["doubled"] += 1
                self.send(target, packet)

    def send(self, target, packet):
        loop = asyncio.get_running_loop()
        arrival = loop.time() + self.dice.uniform(*self.delay)
        self.done["carried"] += 1
        self.done["overtaken"] += arrival < self.arrival.get(target, 0)
        self.arrival[target] = max(arrival, self.arrival.get(target, 0))
        loop.call_at(arrival, self.deliver, target, packet)

    def deliver(self, target, packet):
        # What is on its way when the road breaks is lost as well.
        if self.is_down:
            self.done["lost"] += 1
            return
        try:
            os.write(target, packet)
        except OSError as error:
            if error.errno not in (errno.ENOBUFS, errno.EAGAIN):
                raise

    def turn(self, line):
        words = line.split()
        if words[0] == "lose":
            self.lost_addresses.add(socket.inet_aton(words[1]))
        else:
            self.is_down = {"down": True, "up": False}[words[0]]


async def passed_on(reader, writer):
    try:
        while piece := await reader.read(READ_AT_ONCE):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass


async def go(reader, writer, address, port):
    """Passes on what is said on a Unix socket; ends both ways when one does."""
    try:
        there, back = await asyncio.open_connection(NEAR, port, local_addr=(address, 0))
    except OSError:
        writer.close()
        return
    except asyncio.CancelledError:
        # The end of this program.
        return
    back.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ways = [passed_on(reader, back), passed_on(there, writer)]
    ways = [asyncio.ensure_future(way) for way in ways]
    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in ways:
        way.cancel()
    back.close()
    writer.close()


async def serve(options, devices):
    road = Road(options)
    loop = asyncio.get_running_loop()
    near, far = devices
    loop.add_reader(near, road.carry, near, far)
    loop.add_reader(far, road.carry, far, near)
    for address in FAR:
        accept = functools.partial(go, address=address, port=options.port)
        await asyncio.start_unix_server(accept, os.path.join(options.folder, address))
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print("ready", flush=True)
    while line := await lines.readline():
        road.turn(line.decode())
        print(line.decode().strip(), flush=True)
    print(json.dumps(road.done), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True, help="where the Unix sockets are made")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--loss", type=float, default=0.05)
    parser.add_argument("--double", type=float, default=0.01)
    parser.add_argument("--delay", default="50-150", help="milliseconds, each way")
    options = parser.parse_args()
    near = tun("near", NEAR)
    leave_network()
    far = tun("far", *FAR)
    asyncio.run(serve(options, (near, far)))
    # Connections that are still open end with this process.
    os._exit(0)


main()
