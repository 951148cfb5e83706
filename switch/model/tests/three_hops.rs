//! The paper's optimal thresholds over three hops at R = 1 (VI-C, Fig. 13a, Fig. 14): 24 us for SF, 12 us for SS.

use plimsoll_core::Rate;
use plimsoll_model::{
    Law, Objective, Pair, Rule, Space, search,
    tandem::{FLOWS, Flow, Framing, observe},
};

const GBIT: Rate = Rate(1_000_000_000);

fn best_delta_us(law: &Law) -> f64 {
    let hops = vec![law.clone(); 3];
    let pairs = [Pair { forward: hops.clone(), reverse: hops }];
    let space = Space::around(&pairs, vec![1], 16, Rule::Edge).expect("hops have delays");
    search(&pairs, &space, &Objective::Mean).expect("space is not empty").best.setting.delta_ns() / 1e3
}

fn flow(name: &str) -> &'static Flow {
    FLOWS.iter().find(|flow| flow.name == name).expect("a flow of Table III")
}

#[test]
fn thresholds_of_the_tandem_law_are_the_papers_and_those_of_mm1_are_not() {
    for (name, paper_us, mm1_us) in [("SF", 24.0, 75.5), ("SS", 12.0, 10.9)] {
        let flow = flow(name);
        let seen = observe(flow, GBIT, Framing::UDP, true, 1_000_000, 3).unwrap();
        let waited = seen.waits_ns.iter().copied().filter(|&wait| wait > 0.0).collect();
        let tandem = best_delta_us(&Law::samples(waited).unwrap());
        let strict = best_delta_us(&Law::mm1(flow.size_octets, flow.gap_ns, GBIT).unwrap());
        assert!((tandem / paper_us - 1.0).abs() < 0.06, "{name}: {tandem} us by the tandem law");
        assert!((strict / mm1_us - 1.0).abs() < 0.01, "{name}: {strict} us by M/M/1");
    }
}
