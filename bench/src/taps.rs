//! Taps on the hosts' own ends: when frames passed there, by programs that the switch has no part in.

use crate::stage::Host;
use anyhow::{Context, Result, bail};
use aya::{
    Ebpf, EbpfLoader,
    maps::{MapData, PerCpuArray, RingBuf},
    programs::{SchedClassifier, TcAttachType},
};
use plimsoll_classify::{MAP_TAP_LOST, MAP_TAP_RECORDS, PROGRAM_TAP_EGRESS, PROGRAM_TAP_INGRESS, TapRecord};

static OBJECT: &[u8] = aya::include_bytes_aligned!("../../ebpf/prebuilt/tap.o");

/// Taps on any number of hosts, one ring of records.
pub(crate) struct Taps {
    ebpf: Ebpf,
    ring: RingBuf<MapData>,
}

impl Taps {
    /// Loads the taps; nothing is tapped yet.
    pub(crate) fn new() -> Result<Self> {
        let mut ebpf = EbpfLoader::new().load(OBJECT).context("load tap.o")?;
        for name in [PROGRAM_TAP_INGRESS, PROGRAM_TAP_EGRESS] {
            program(&mut ebpf, name)?.load().with_context(|| format!("load {name}"))?;
        }
        let map = ebpf.take_map(MAP_TAP_RECORDS).context("map of records in tap.o")?;
        Ok(Self { ring: map.try_into()?, ebpf })
    }

    /// Records what arrives at the host.
    pub(crate) fn ingress(&mut self, host: &Host) -> Result<()> {
        self.attach(host, PROGRAM_TAP_INGRESS, TcAttachType::Ingress)
    }

    /// Records what the host sends, the last thing before the frame is its port's.
    pub(crate) fn egress(&mut self, host: &Host) -> Result<()> {
        self.attach(host, PROGRAM_TAP_EGRESS, TcAttachType::Egress)
    }

    fn attach(&mut self, host: &Host, name: &str, at: TcAttachType) -> Result<()> {
        let program = program(&mut self.ebpf, name)?;
        host.namespace
            .run_in(|| program.attach(host.interface, at))?
            .with_context(|| format!("attach {name} to {}", host.interface))?;
        Ok(())
    }

    /// Takes what was recorded since the last call, in the order of each CPU's time.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(TapRecord)) {
        while let Some(item) = self.ring.next() {
            if let Some(record) = TapRecord::from_bytes(&item) {
                each(record);
            }
        }
    }

    /// Fails where a tap lost frames: the measurement would be void.
    pub(crate) fn check(&self) -> Result<()> {
        let map = self.ebpf.map(MAP_TAP_LOST).context("map of losses in tap.o")?;
        let lost: PerCpuArray<_, u64> = map.try_into()?;
        let lost: u64 = lost.get(&0, 0)?.iter().sum();
        if lost > 0 {
            bail!("the taps lost {lost} frames: what they saw is not the truth; let nothing else run");
        }
        Ok(())
    }
}

fn program<'e>(ebpf: &'e mut Ebpf, name: &str) -> Result<&'e mut SchedClassifier> {
    let program = ebpf.program_mut(name).with_context(|| format!("program {name} in tap.o"))?;
    Ok(program.try_into()?)
}
