//! A switch with every carrier on, between two hosts whose messages wait in its queues: what real peers must bear.

use crate::Scratch;
use crate::frames::ecn_capable;
use crate::inject::Flood;
use crate::net::{Host, Net, Stack};
use crate::switch::Switch;
use crate::truth::Truth;
use std::time::Duration;

/// Three hosts, and a switch that counts on PTP and NTP, marks ECN of all packets, makes those of clocks capable of it,
/// and records all. The third host loads the links to the other two.
#[derive(Debug)]
pub struct Congested {
    // Fields are dropped in order: first what sends.
    flood: Flood,
    /// The switch: its port `p0` is to the server, `p1` to the client.
    pub switch: Switch,
    scratch: Scratch,
    /// The hosts.
    pub net: Net,
}

/// Of each link. 1538 octets take 615 us.
const RATE: &str = "20mbit";
/// To the server and to the client, every time: a message waits up to 1.8 and 3.1 ms. More to the client: an answer
/// follows its request at once, and would find its queue empty whenever the request's just became so.
const BURSTS: [usize; 2] = [3, 5];
const PAUSE: Duration = Duration::from_millis(4);
/// What the switch recorded.
const RECORD: &str = "truth.csv";

impl Congested {
    /// Starts all of it; `counter` are further lines of `[marking]`.
    ///
    /// # Panics
    /// When something does not start.
    pub fn start(counter: &str) -> Self {
        Self::with(counter, "")
    }

    /// The same, with further lines of each `[[port]]`.
    ///
    /// # Panics
    /// As [`Congested::start`].
    pub fn with(counter: &str, keys: &str) -> Self {
        let net = Net::new(3, Stack::Addressed);
        for host in 0..2 {
            // veth hands partial sums on; without this offload of the port they are completed where a frame leaves it.
            net.ethtool_port(host, &["tx", "off"]);
        }
        let scratch = Scratch::new();
        let mut file = format!(
            "[marking]\ndelta = \"100us\"\nthresholds = 64\ncarriers = [\"ptp\", \"ntp\"]\necn-threshold = \"500us\"\n\
             ecn-scope = \"all\"\n{counter}\n[switch.s1]\nlatency = \"100us\"\n"
        );
        for port in ["p0", "p1", "p2"] {
            file += &format!(
                "[[port]]\nname = \"{port}\"\nrate = \"{RATE}\"\nremark = \"ect0\"\npass = [\"0e\"]\n{keys}\n"
            );
        }
        let file = scratch.write("switch.toml", &file);
        let record = scratch.path(RECORD);
        let arguments = [&file, &record].map(|path| path.to_str().unwrap());
        let switch = Switch::start(&net, &[arguments[0], "--record", arguments[1]]);
        let load = &net.hosts[2];
        let frames = |(host, burst): (&Host, usize)| vec![ecn_capable(load.mac, host.mac, 1514); burst];
        let frames = net.hosts.iter().zip(BURSTS).flat_map(frames).collect();
        // Hosts say nothing before they are asked: a first exchange makes the switch learn where they are.
        net.exchange(0, 1);
        let flood = Flood::start(load.injector(), frames, PAUSE);
        Self { flood, switch, scratch, net }
    }

    /// Ends it, and reads what the switch recorded.
    ///
    /// # Panics
    /// When the switch fails.
    pub fn stop(self) -> Truth {
        drop(self.flood);
        let _ = self.switch.stop().ok();
        Truth::read(&self.scratch.path(RECORD))
    }

    /// The host that serves.
    pub fn server(&self) -> &Host {
        &self.net.hosts[0]
    }

    /// The host that follows.
    pub fn client(&self) -> &Host {
        &self.net.hosts[1]
    }
}
