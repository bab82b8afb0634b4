#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures what a cable of scripts/netns_cluster.sh carries, which starts both ends:

    netns_rate.py receive ADDRESS                     waits for the sender; prints bytes per second, or nothing
    netns_rate.py send ADDRESS BYTES_PER_SECOND       sends as much as takes half a second at that rate

The rate is that of the payload at its receiver, from a quarter of it on: a connection starts slowly.
"""
import socket
import struct
import sys
import time

PORT = 9  # discard; ports below 1024 are given to nobody who does not ask for them
PATIENCE_S = 10  # until the other end is there; a busy machine starts programs slowly
DURATION_S = 0.5
LONGEST_S = 1  # where the machine does not hold the rate
CHUNK_BYTES = 1 << 16


def receive(address):
    """The rate of one connection, in bytes per second; None if all came at once."""
    with socket.create_server((address, PORT)) as listener:
        listener.settimeout(PATIENCE_S)
        connection, _ = listener.accept()
    arrivals = []
    with connection:
        connection.settimeout(PATIENCE_S)
        while connection.recv(CHUNK_BYTES):
            # What has reached the kernel, which receives while this process waits for a processor: tcpi_bytes_received.
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
            arrivals.append((time.monotonic(), struct.unpack_from("=Q", info, 128)[0]))
    start = next(((at, count) for at, count in arrivals if 4 * count >= arrivals[-1][1]), None)
    if start is None or start[0] == arrivals[-1][0]:
        return None
    return (arrivals[-1][1] - start[1]) / (arrivals[-1][0] - start[0])


def send(address, bytes_per_second):
    chunk, left, deadline = bytes(CHUNK_BYTES), int(bytes_per_second * DURATION_S), time.monotonic() + PATIENCE_S
    with socket.socket() as connection:
        while error := connection.connect_ex((address, PORT)):
            if time.monotonic() > deadline:
                raise OSError(error, f"cannot connect to {address}")
            time.sleep(0.01)
        end = time.monotonic() + LONGEST_S
        while left > 0 and time.monotonic() < end:
            left -= connection.send(chunk[:left])


if sys.argv[1] == "send":
    send(sys.argv[2], float(sys.argv[3]))
elif (rate := receive(sys.argv[2])) is not None:
    print(f"{rate:.0f}")
