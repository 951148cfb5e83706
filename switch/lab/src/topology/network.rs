//! Nodes and how they are joined: unique names, no loop, a way between any two of a network.

use super::error::{Source, TopologyError};
use super::file::File;
use plimsoll_port::VETH_MTU_MAX;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// Interface of every host.
pub(super) const HOST_INTERFACE: &str = "net0";
/// IFNAMSIZ without the zero that ends it: ports are named after their neighbours.
const NAME_MAX: usize = 15;
/// Characters of a name that is no interface's.
const LABEL_MAX: usize = 64;
const MTU_MIN: u32 = 1280;

/// What a node is, with its index among its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// [`super::Topology::hosts`].
    Host(usize),
    /// [`super::Topology::switches`].
    Switch(usize),
    /// [`super::Topology::bridges`].
    Bridge(usize),
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CableEnd {
    /// Whose it is.
    pub node: Node,
    /// The interface in that node's namespace: `net0` on hosts, the neighbour's name on switches and bridges.
    pub interface: String,
}

/// A link as a pair of interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cable {
    /// Both ends.
    pub ends: [CableEnd; 2],
    /// MTU of both ends, in octets of the network layer.
    pub mtu: u32,
}

/// The nodes and links of a file.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) hosts: Vec<String>,
    pub(super) switches: Vec<String>,
    pub(super) bridges: Vec<String>,
    /// Links in the file's order.
    pub(super) links: Vec<([Node; 2], u32)>,
    by_name: HashMap<String, Node>,
    neighbours: HashMap<Node, Vec<Node>>,
}

impl Network {
    pub(super) fn new(source: &Source<'_>, raw: &File) -> Result<Self, TopologyError> {
        let mut network = Self {
            hosts: Vec::new(),
            switches: Vec::new(),
            bridges: Vec::new(),
            links: Vec::new(),
            by_name: HashMap::new(),
            neighbours: HashMap::new(),
        };
        // In the order of the file, so that numbers do not depend on the alphabet.
        let mut names: Vec<(Range<usize>, &str, &'static str)> = Vec::new();
        names.extend(raw.switch.keys().map(|n| (n.span(), n.get_ref().as_str(), "switch")));
        names.extend(raw.bridge.keys().map(|n| (n.span(), n.get_ref().as_str(), "bridge")));
        names.extend(raw.host.keys().map(|n| (n.span(), n.get_ref().as_str(), "host")));
        names.sort_by_key(|(span, ..)| span.start);
        for (span, name, kind) in names {
            network.add_node(source, span, name, kind)?;
        }
        for link in &raw.link {
            network.add_link(source, link)?;
        }
        network.check_hosts(source, raw)?;
        Ok(network)
    }

    fn add_node(
        &mut self,
        source: &Source<'_>,
        span: Range<usize>,
        name: &str,
        kind: &str,
    ) -> Result<(), TopologyError> {
        let key = format!("{kind}.{name}");
        check_name(source, &span, &key, name)?;
        let list = match kind {
            "switch" => &mut self.switches,
            "bridge" => &mut self.bridges,
            _ => &mut self.hosts,
        };
        list.push(name.to_owned());
        let index = list.len() - 1;
        let node = match kind {
            "switch" => Node::Switch(index),
            "bridge" => Node::Bridge(index),
            _ => Node::Host(index),
        };
        if let Some(other) = self.by_name.insert(name.to_owned(), node) {
            let other = match other {
                Node::Host(_) => "host",
                Node::Switch(_) => "switch",
                Node::Bridge(_) => "bridge",
            };
            let problem = format!("there is a {other} of this name already");
            return Err(source.error(Some(span), key, problem, "give every node a name of its own"));
        }
        Ok(())
    }

    fn add_link(
        &mut self,
        source: &Source<'_>,
        link: &toml::Spanned<super::file::Link>,
    ) -> Result<(), TopologyError> {
        let (span, link) = (link.span(), link.get_ref());
        let key = "link.between";
        let [one, other] = link.between.as_slice() else {
            let problem = format!("names {} nodes", link.between.len());
            return Err(source.error(Some(span), key, problem, "write two, as [\"client\", \"s1\"]"));
        };
        let ends = [self.node(source, one, key)?, self.node(source, other, key)?];
        let fail = |problem: &str, remedy: &str| {
            Err(source.error(Some(other.span()), key, problem.to_owned(), remedy))
        };
        if ends[0] == ends[1] {
            return fail("joins a node with itself", "name two different nodes");
        }
        for (end, name) in ends.iter().zip([one, other]) {
            if matches!(end, Node::Host(_)) && self.neighbours.contains_key(end) {
                let problem = format!("host {} has a link already", name.get_ref());
                let remedy = "a host has one link: put a switch between, or another host";
                return Err(source.error(Some(name.span()), key, problem, remedy));
            }
        }
        if self.neighbours.get(&ends[0]).is_some_and(|n| n.contains(&ends[1])) {
            return fail("these two are joined already", "write one link between two nodes");
        }
        if self.way(ends[0], ends[1]).is_some() {
            let remedy =
                "leave one link of the loop out: switches have no spanning tree, frames would go round";
            return fail("closes a loop", remedy);
        }
        let mtu = match &link.mtu {
            Some(mtu) if !(MTU_MIN..=VETH_MTU_MAX).contains(mtu.get_ref()) => {
                let problem = format!("is {}", mtu.get_ref());
                let remedy =
                    format!("write {MTU_MIN} to {VETH_MTU_MAX}: IPv6 needs the one, veth with XDP the other");
                return Err(source.error(Some(mtu.span()), "link.mtu", problem, remedy));
            }
            Some(mtu) => *mtu.get_ref(),
            None => 1500,
        };
        self.neighbours.entry(ends[0]).or_default().push(ends[1]);
        self.neighbours.entry(ends[1]).or_default().push(ends[0]);
        self.links.push((ends, mtu));
        Ok(())
    }

    fn check_hosts(&self, source: &Source<'_>, raw: &File) -> Result<(), TopologyError> {
        let alone = |name: &toml::Spanned<String>| {
            let node = self.by_name.get(name.get_ref());
            node.is_some_and(|node| !self.neighbours.contains_key(node))
        };
        for (kind, names) in [
            ("host", raw.host.keys().collect::<Vec<_>>()),
            ("switch", raw.switch.keys().collect()),
            ("bridge", raw.bridge.keys().collect()),
        ] {
            if let Some(name) = names.into_iter().find(|name| alone(name)) {
                let key = format!("{kind}.{}", name.get_ref());
                let remedy = "write a [[link]] with its name in `between`, or leave it out";
                return Err(source.error(Some(name.span()), key, "has no link", remedy));
            }
        }
        Ok(())
    }

    /// The node of a name that a key gives.
    pub(super) fn node(
        &self,
        source: &Source<'_>,
        name: &toml::Spanned<String>,
        key: &str,
    ) -> Result<Node, TopologyError> {
        self.by_name.get(name.get_ref()).copied().ok_or_else(|| {
            let mut known: Vec<_> = self.by_name.keys().map(String::as_str).collect();
            known.sort_unstable();
            let remedy = if known.is_empty() {
                format!("write [host.{}] or [switch.{}]", name.get_ref(), name.get_ref())
            } else {
                format!("the nodes are {}", known.join(", "))
            };
            source.error(Some(name.span()), key, format!("there is no node {:?}", name.get_ref()), remedy)
        })
    }

    /// The host of a name that a key gives.
    pub(super) fn host(
        &self,
        source: &Source<'_>,
        name: &toml::Spanned<String>,
        key: &str,
    ) -> Result<usize, TopologyError> {
        match self.by_name.get(name.get_ref()) {
            Some(Node::Host(index)) => Ok(*index),
            _ => {
                let problem = format!("there is no host {:?}", name.get_ref());
                let remedy = format!("the hosts are {}", self.hosts.join(", "));
                Err(source.error(Some(name.span()), key, problem, remedy))
            }
        }
    }

    /// Two hosts that a key joins: different ones, with a way between them.
    pub(super) fn pair(
        &self,
        source: &Source<'_>,
        one: (&toml::Spanned<String>, &str),
        other: (&toml::Spanned<String>, &str),
    ) -> Result<[usize; 2], TopologyError> {
        let pair = [self.host(source, one.0, one.1)?, self.host(source, other.0, other.1)?];
        let fail =
            |problem: String, remedy: &str| Err(source.error(Some(other.0.span()), other.1, problem, remedy));
        if pair[0] == pair[1] {
            return fail("is the same host at both ends".into(), "name two different hosts");
        }
        if self.way(Node::Host(pair[0]), Node::Host(pair[1])).is_none() {
            let problem = format!("there is no way from {} to {}", one.0.get_ref(), other.0.get_ref());
            return fail(problem, "join their switches by a [[link]]");
        }
        Ok(pair)
    }

    pub(super) fn name(&self, node: Node) -> &str {
        match node {
            Node::Host(i) => &self.hosts[i],
            Node::Switch(i) => &self.switches[i],
            Node::Bridge(i) => &self.bridges[i],
        }
    }

    /// The nodes on the way, both ends included; the only way, since there is no loop.
    pub(super) fn way(&self, from: Node, to: Node) -> Option<Vec<Node>> {
        let mut before: HashMap<Node, Node> = HashMap::new();
        let mut next = VecDeque::from([from]);
        while let Some(node) = next.pop_front() {
            if node == to {
                let mut way = vec![to];
                while let Some(&node) = before.get(way.last()?) {
                    way.push(node);
                }
                way.reverse();
                return Some(way);
            }
            for &neighbour in self.neighbours.get(&node).into_iter().flatten() {
                if neighbour != from && !before.contains_key(&neighbour) {
                    before.insert(neighbour, node);
                    next.push_back(neighbour);
                }
            }
        }
        None
    }

    /// The least MTU on the way.
    pub(super) fn mtu(&self, way: &[Node]) -> u32 {
        let on_way = |ends: &[Node; 2]| {
            way.windows(2).any(|hop| hop == ends || (hop[0] == ends[1] && hop[1] == ends[0]))
        };
        self.links.iter().filter(|(ends, _)| on_way(ends)).map(|(_, mtu)| *mtu).min().unwrap_or(1500)
    }

    pub(super) fn cables(&self) -> Vec<Cable> {
        let end = |node: Node, peer: Node| CableEnd {
            node,
            interface: match node {
                Node::Host(_) => HOST_INTERFACE.to_owned(),
                Node::Switch(_) | Node::Bridge(_) => self.name(peer).to_owned(),
            },
        };
        self.links
            .iter()
            .map(|&([one, other], mtu)| Cable { ends: [end(one, other), end(other, one)], mtu })
            .collect()
    }
}

/// Whether a flow or a clock can have this name: it stands in tables and messages.
pub(super) fn check_label(
    source: &Source<'_>,
    span: &Range<usize>,
    key: &str,
    name: &str,
) -> Result<(), TopologyError> {
    if (1..=LABEL_MAX).contains(&name.chars().count()) && !name.chars().any(char::is_control) {
        return Ok(());
    }
    let short: String = name.chars().take(LABEL_MAX).collect();
    let remedy = format!("write 1 to {LABEL_MAX} characters in one line, or leave it out");
    Err(source.error(Some(span.clone()), key, format!("{short:?} is no name"), remedy))
}

/// Whether an interface can have this name.
pub(super) fn check_name(
    source: &Source<'_>,
    span: &Range<usize>,
    key: &str,
    name: &str,
) -> Result<(), TopologyError> {
    let fail = |problem: String, remedy: String| Err(source.error(Some(span.clone()), key, problem, remedy));
    if name.len() > NAME_MAX {
        let problem = format!("{name:?} has {} octets", name.len());
        return fail(problem, format!("interfaces take names of at most {NAME_MAX}: choose a shorter one"));
    }
    let fits = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if name.is_empty() || !fits || matches!(name, "." | ".." | "lo" | "all" | "default") {
        let remedy = "use letters, digits, - . and _, and neither lo, all nor default".to_owned();
        return fail(format!("{name:?} is no name for an interface"), remedy);
    }
    Ok(())
}
