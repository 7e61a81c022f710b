"""The mathematics of the connection walk: transports, walk, edges, generator."""

from conwalk.connection.connection_walk import ConnectionWalk
from conwalk.connection.edges import edge_effective_ranks, edge_square_norms
from conwalk.connection.laplacian import ConnectionLaplacian
from conwalk.connection.transport import HeadTransports

__all__ = [
    "ConnectionLaplacian",
    "ConnectionWalk",
    "HeadTransports",
    "edge_effective_ranks",
    "edge_square_norms",
]
