//! The committed object, loaded, verified and run by BPF_PROG_TEST_RUN.

use super::packet::Ran;
use aya::maps::{Array, MapData, PerCpuArray};
use aya::programs::{SchedClassifier, TestRun, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use plimsoll_shim::{Count, MAP_COUNTS, MAP_SETTINGS, Program, Settings};
use std::collections::BTreeMap;

static OBJECT: &[u8] = aya::include_bytes_aligned!("../../../ebpf/prebuilt/shim.o");

const XDP_PASS: u32 = 2;
/// TC_ACT_UNSPEC: programs behind it still run.
const NEXT: u32 = u32::MAX;
/// struct __sk_buff (linux/bpf.h): its length, and where `tstamp` stands in it.
const SKB: usize = 192;
const STAMP: usize = 152;
/// Room for a frame that grows.
const ROOM: usize = 2048;

/// A program in the kernel.
pub(crate) struct Kernel {
    ebpf: Ebpf,
    program: Program,
    counted: Vec<u64>,
}

impl Kernel {
    pub(crate) fn new(program: Program, settings: Settings) -> Self {
        let root = rustix::process::geteuid().is_root();
        assert!(
            root,
            "loading BPF programs needs root: run this test as root or by the runner scripts/as-root"
        );
        let mut ebpf = EbpfLoader::new().load(OBJECT).expect("the object loads");
        let loaded = ebpf.program_mut(program.symbol()).expect("the program");
        match program {
            Program::Correction => <&mut Xdp>::try_from(loaded).expect("XDP").load(),
            _ => <&mut SchedClassifier>::try_from(loaded).expect("tc").load(),
        }
        .unwrap_or_else(|error| panic!("the verifier refuses {program:?}: {error:?}"));
        let map = ebpf.map_mut(MAP_SETTINGS).expect("the map");
        let mut map: Array<_, [u64; plimsoll_shim::SETTINGS_WORDS]> = map.try_into().expect("an array");
        map.set(0, settings.to_words(), 0).expect("the entry");
        let counted = vec![0; Count::ALL.len()];
        Self { ebpf, program, counted }
    }

    pub(crate) fn run(&mut self, frame: &[u8], stamp: u64) -> Ran {
        let mut out = vec![0; ROOM];
        let mut context = [0; SKB];
        context[STAMP..STAMP + 8].copy_from_slice(&stamp.to_ne_bytes());
        let mut context_out = [0; SKB];
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.data_out = Some(&mut out);
        let program = self.ebpf.program(self.program.symbol()).expect("the program");
        let result = if self.program == Program::Correction {
            let result = <&Xdp>::try_from(program).expect("XDP").test_run(options);
            context_out = context;
            result
        } else {
            options.ctx_in = Some(&context);
            options.ctx_out = Some(&mut context_out);
            <&SchedClassifier>::try_from(program).expect("tc").test_run(options)
        };
        let result = result.expect("BPF_PROG_TEST_RUN");
        let passes = if self.program == Program::Correction { XDP_PASS } else { NEXT };
        assert_eq!(result.return_value, passes, "{:?}", self.program);
        out.truncate(result.data_size_out as usize);
        let stamp = u64::from_ne_bytes(context_out[STAMP..STAMP + 8].try_into().expect("8 octets"));
        Ran { frame: out, stamp, counts: self.counts() }
    }

    /// What the last run counted.
    fn counts(&mut self) -> BTreeMap<&'static str, u64> {
        let map: PerCpuArray<&MapData, u64> =
            self.ebpf.map(MAP_COUNTS).expect("the map").try_into().expect("per CPU");
        let mut counts = BTreeMap::new();
        for (count, before) in Count::ALL.into_iter().zip(&mut self.counted) {
            let total: u64 = map.get(&(count as u32), 0).expect("a count").iter().sum();
            if total > *before {
                counts.insert(count.name(), total - *before);
            }
            *before = total;
        }
        counts
    }
}
