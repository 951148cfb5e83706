//! Two hosts on a bare forwarder: veth, namespaces and ports as the switch has them, without the switch.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)] // each test file uses its part

use plimsoll_classify::Class;
use plimsoll_core::{Nanos, Pool};
use plimsoll_port::namespace::Namespace;
use plimsoll_port::netlink::{Netlink, VethEnd};
use plimsoll_port::{Kick, Port, PortCounters, PortError, PortOptions, Tally, Umem, UmemOptions};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Hosts `a` and `b`, each with an interface `eth0` whose other end is the switch's `pa` and `pb`.
pub struct Bench {
    pub a: Namespace,
    pub b: Namespace,
    pub switch: Namespace,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(1, None)
    }

    /// Interfaces with so many queues each way, and this MTU.
    pub fn with(queues: u32, mtu: Option<u32>) -> Self {
        let bench = Self {
            a: Namespace::new().unwrap(),
            b: Namespace::new().unwrap(),
            switch: Namespace::new().unwrap(),
        };
        let mut netlink = Netlink::open_in(&bench.switch).unwrap();
        for (host, name, last) in [(&bench.a, "pa", 1), (&bench.b, "pb", 2)] {
            host.set_sysctl("ipv6/conf/default/accept_dad", "0").unwrap();
            let port = VethEnd { queues: (queues, queues), mtu, ..VethEnd::new(name, &bench.switch) };
            let end = VethEnd {
                queues: (queues, queues),
                mtu,
                mac: Some([2, 0, 0, 0, 0, last]),
                ..VethEnd::new("eth0", host)
            };
            netlink.create_veth(&port, &end).unwrap();
            let link = netlink.link(name).unwrap();
            netlink.set_up(&link, true).unwrap();
            let mut inside = Netlink::open_in(host).unwrap();
            let link = inside.link("eth0").unwrap();
            inside.set_up(&link, true).unwrap();
            for address in [ip4(last), ip6(last)] {
                inside.add_address(&link, address, if address.is_ipv4() { 24 } else { 64 }).unwrap();
            }
            // No ARP, no neighbour discovery: the tests count frames.
            let other = 3 - last;
            for address in [ip4(other), ip6(other)] {
                inside.add_neighbour(&link, address, [2, 0, 0, 0, 0, other]).unwrap();
            }
        }
        bench
    }

    pub fn open(&self, umem: &mut Umem, name: &str, options: &PortOptions) -> Result<Port, PortError> {
        self.switch.run_in(|| Port::open(umem, name, options)).unwrap()
    }

    /// Both ports in a memory of their own, forwarding on a thread.
    pub fn forward(&self, options: &PortOptions) -> Forwarder {
        let mut umem = umem(options, 4, 2);
        let a = self.open(&mut umem, "pa", options).unwrap();
        let b = self.open(&mut umem, "pb", options).unwrap();
        Forwarder::start(umem, a, b, |class| class)
    }

    /// A UDP socket of a host.
    pub fn udp(&self, host: &Namespace, address: IpAddr, port: u16) -> UdpSocket {
        let socket = host.run_in(|| UdpSocket::bind((address, port)).unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    }
}

pub fn ip4(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 99, 0, last))
}

pub fn ip6(last: u8) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, u16::from(last)))
}

/// A memory for so many ports of so many queues.
pub fn umem(options: &PortOptions, queues: u32, ports: u32) -> Umem {
    Umem::new(UmemOptions { chunks: ports * options.chunks(queues) + 64, chunk_size: 2048 }).unwrap()
}

/// Options that need little memory.
pub fn small() -> PortOptions {
    PortOptions { held: 2048, tx_ring: 512, ..PortOptions::default() }
}

pub fn now() -> Nanos {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// One round from every ring of `from` to `to`; frames moved.
pub fn round(from: &mut Port, to: &mut Port, umem: &mut Umem, see: impl Fn(Class) -> Class) -> usize {
    from.refresh(now());
    let mut moved = 0;
    for ring in 0..from.rings() {
        for _ in 0..64 {
            let Some(received) = from.take(ring, umem) else { break };
            moved += 1;
            if to.transmit(umem, received.frame, &see(received.class)).is_err() {
                umem.free(received.frame);
            }
        }
    }
    for _ in 0..64 {
        let kick = to.kick();
        to.reap(umem);
        if kick != Kick::Pending {
            break;
        }
    }
    from.refill(umem);
    moved
}

/// What a forwarder had counted when it stopped.
pub struct Stopped {
    pub umem: Umem,
    pub a: PortCounters,
    pub b: PortCounters,
    /// Of the moment before the ports were closed.
    pub running: Tally,
}

/// Two ports on a thread.
pub struct Forwarder {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Stopped>>,
}

impl Forwarder {
    pub fn start(
        mut umem: Umem,
        mut a: Port,
        mut b: Port,
        see: impl Fn(Class) -> Class + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut rounds = 0_u32;
            while !asked.load(Ordering::Relaxed) {
                let moved = round(&mut a, &mut b, &mut umem, &see) + round(&mut b, &mut a, &mut umem, &see);
                rounds = rounds.wrapping_add(1);
                if rounds.is_multiple_of(256) {
                    let tally = umem.tally([&a, &b]);
                    assert!(tally.is_whole(), "{tally:?}");
                }
                if moved == 0 {
                    std::thread::yield_now();
                }
            }
            let running = umem.tally([&a, &b]);
            let stopped = (a.counters(), b.counters());
            a.close(&mut umem);
            b.close(&mut umem);
            Stopped { umem, a: stopped.0, b: stopped.1, running }
        });
        Self { stop, thread: Some(thread) }
    }

    pub fn stop(mut self) -> Stopped {
        self.stop.store(true, Ordering::Relaxed);
        let stopped = self.thread.take().unwrap().join().unwrap();
        assert!(stopped.running.is_whole(), "{:?}", stopped.running);
        let tally = stopped.umem.tally([]);
        assert_eq!((tally.free, tally.withdrawn), (tally.total, 0), "{tally:?}");
        stopped
    }
}

/// Waits until `done`, at most five seconds.
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(5);
    while !done() {
        assert!(Instant::now() < until, "{what}: not within 5 s");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Open descriptors of this process.
pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
