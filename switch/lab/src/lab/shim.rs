//! What helps a host's daemons: its shims take n*delta from the times that they see, or add it to correctionField.

use super::pair::INTERFACE;
use super::{Lab, LabError};
use crate::clock::Transport;
use crate::topology::{Carrier, ClockPlan, Compensation, HostPlan, Topology};
use plimsoll_core::{Ect, Span};
use plimsoll_port::host::{self, HostOptions};
use plimsoll_port::namespace::Namespace;

/// A host's shims, gone with this value.
#[derive(Debug)]
pub(super) struct Shim {
    host: Namespace,
}

impl Drop for Shim {
    fn drop(&mut self) {
        // Where the lab ends, they would end with the interface anyway.
        let _ = self.host.run_in(|| host::detach(INTERFACE));
    }
}

/// Attaches to every host what its clocks ask for.
pub(super) fn attach(lab: &Lab) -> Result<Vec<Shim>, LabError> {
    let topology = lab.topology();
    let mut shims = Vec::new();
    for (number, plan) in topology.hosts.iter().enumerate() {
        let clocks = topology.clocks.iter().filter(|clock| clock.compensation == Compensation::Host);
        let clocks: Vec<_> = clocks.filter(|clock| [clock.server, clock.client].contains(&number)).collect();
        let Some(options) = options(topology, number, &clocks) else { continue };
        shims.push(attach_to(lab.host(number), plan, &options)?);
    }
    Ok(shims)
}

fn attach_to(namespace: &Namespace, plan: &HostPlan, options: &HostOptions) -> Result<Shim, LabError> {
    namespace
        .run_in(|| host::attach(INTERFACE, options))
        .map_err(LabError::namespace(&plan.name))?
        .map_err(|source| LabError::Shim { host: plan.name.clone(), source: source.into() })?;
    Ok(Shim { host: namespace.clone() })
}

/// What the shims of this host with these clocks are to do; `None` where there is none.
fn options(topology: &Topology, host: usize, clocks: &[&ClockPlan]) -> Option<HostOptions> {
    let first = clocks.first()?;
    let delta = topology.marking.map_or(0, |mark| mark.delta_ps);
    let ce = topology.ecn.map_or(0, |ecn| ecn.threshold_ps);
    // Without counters no word is ever marked; the delta of none is any.
    let delta = Span { ps: if delta > 0 { delta } else { ce } };
    // No more is believed than the ways to this host can say.
    let counter_max = clocks.iter().map(|clock| clock.most_marks_to(host)).max().unwrap_or(0);
    let ntp = clocks.iter().any(|clock| clock.transport.is_ntp());
    // Timestamps of PTP over Ethernet are taken before tc: there correctionField helps.
    let correction = clocks.iter().any(|clock| clock.transport == Transport::L2);
    Some(HostOptions {
        timestamp: clocks.iter().any(|clock| clock.transport != Transport::L2),
        correction,
        ce: Span { ps: if first.carrier == Carrier::Ecn { ce } else { 0 } },
        // Where nothing counts on any of them: the least there is.
        counter_max: counter_max.max(1),
        ect: (ntp && topology.ecn.is_some()).then_some(Ect::Zero),
        // With a field in it, CE of the same packet counts for nothing.
        ntp_field: ntp
            && clocks.iter().any(|clock| clock.transport.is_ntp() && clock.carrier == Carrier::Word),
        ..HostOptions::new(delta)
    })
}

/// Whether n*delta of a message that a shim helped is in its correctionField; else it is in its receive timestamp.
pub(super) fn corrects(topology: &Topology, clock: &ClockPlan) -> bool {
    let at = |host: usize| {
        topology.clocks.iter().any(|other| {
            other.compensation == Compensation::Host
                && other.transport == Transport::L2
                && [other.server, other.client].contains(&host)
        })
    };
    clock.transport == Transport::L2 || at(clock.server) || at(clock.client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Overrides;

    #[test]
    fn a_host_s_shims_do_what_its_clocks_need_and_believe_no_more_than_their_way_can_say() {
        let of = |lab: &str, name: &str| {
            let topology = Topology::load(lab, &Overrides::default()).unwrap();
            let clock = topology.clocks.iter().find(|clock| clock.name == name).unwrap();
            options(&topology, clock.client, &[clock]).unwrap()
        };
        let us = |us: u64| Span { ps: us * 1_000_000 };
        let plain = of("clocks-chrony", "plain");
        assert_eq!((plain.delta, plain.ce, plain.counter_max), (us(10), Span { ps: 0 }, 128));
        assert!(plain.timestamp && !plain.correction && plain.ntp_field);
        let keyed = of("clocks-chrony", "keyed");
        assert_eq!((keyed.ce, keyed.ect, keyed.ntp_field), (us(290), Some(Ect::Zero), false));
        let nts = of("clocks-nts", "nts");
        assert_eq!((nts.delta, nts.ce, nts.counter_max, nts.ntp_field), (us(290), us(290), 1, false));
        let topology = Topology::load("idle", &Overrides::default()).unwrap();
        assert_eq!(options(&topology, 0, &[]), None);
    }

    #[test]
    fn a_host_believes_what_the_way_to_it_can_say_though_the_other_way_says_nothing() {
        let text = "[marking]\ndelta = \"10us\"\nthresholds = 16\n[switch.s1]\n[host.a]\n[host.b]\n\
            [[link]]\nbetween = [\"a\", \"s1\"]\n[[link]]\nbetween = [\"s1\", \"b\"]\nrate = \"100mbit\"\n\
            [[clock]]\nserver = \"a\"\nclient = \"b\"\ndaemon = \"ptp4l\"\ncompensation = \"host\"\n";
        let topology = Topology::parse("t.toml", text, &Overrides::default()).unwrap();
        let clock = &topology.clocks[0];
        // To the host without a rate nothing is marked.
        assert_eq!((clock.saturated_at.to_client, clock.saturated_at.to_server), (16, 0));
        let most = |host| options(&topology, host, &[clock]).unwrap().counter_max;
        assert_eq!((most(clock.client), most(clock.server)), (16, 1));
    }
}
