"""Lets DeepSpeed 0.9.5 to 0.14.3 import under a current torch and numpy.

Those releases use three private names that torch and numpy have since removed. Newer releases need
nothing from here. Use it as `from deepspeed_compat import deepspeed`.
"""

import logging
import socket

import numpy
import torch.distributed.elastic.agent.server.api as elastic_api


def _socket_with_free_port() -> socket.socket:
    """Return a listening socket on a free local port, as the removed torch function did."""
    listener = socket.socket()
    listener.bind(("localhost", 0))
    listener.listen(0)
    return listener


def provide_removed_names() -> None:
    """Add the removed names where they are missing; newer modules are left as they are."""
    if not hasattr(numpy, "BUFSIZE"):
        numpy.BUFSIZE = 8192
    if not hasattr(elastic_api, "log"):
        elastic_api.log = logging.getLogger(elastic_api.__name__)
    if not hasattr(elastic_api, "_get_socket_with_port"):
        elastic_api._get_socket_with_port = _socket_with_free_port


provide_removed_names()

import deepspeed  # noqa: E402, F401  (only importable now)
