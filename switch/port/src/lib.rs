//! The machine: AF_XDP rings, UMEM pool, XDP attach, netlink, the worker.
