# SPDX-License-Identifier: MIT
"""PyTorch's group of processes over gloo, for scripts that torchrun or scripts/netns_cluster.sh starts."""
import os

import torch.distributed as dist

# Of the first host of scripts/netns_cluster.sh.
ADDRESS, PORT = "198.18.0.1", "29500"


def join_group(interface):
    """Joins the ranks of mpirun by a network interface, or those that RANK and WORLD_SIZE name."""
    if "RANK" not in os.environ:
        os.environ.update(RANK=os.environ["OMPI_COMM_WORLD_RANK"], WORLD_SIZE=os.environ["OMPI_COMM_WORLD_SIZE"])
        os.environ.setdefault("MASTER_ADDR", ADDRESS)
        os.environ.setdefault("MASTER_PORT", PORT)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    dist.init_process_group("gloo")
