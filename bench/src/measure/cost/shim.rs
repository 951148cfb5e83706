//! The host shims alone, in the kernel's BPF_PROG_TEST_RUN: what each adds to a frame that passes its interface.
//!
//! A frame that stays as it is can be run again and again. One that is compensated cannot, for its count is cleared: it is
//! run once, as is the same message without a count, and the difference of the two is added to what that costs in a row.

use super::GROUP;
use crate::{
    frames::{ETHERTYPE_BULK, ETHERTYPE_PTP, SHORTEST, sync},
    report::{Asked, Row},
    statistics::median,
};
use anyhow::{Context, Result, ensure};
use aya::{
    Ebpf, EbpfLoader,
    maps::Array,
    programs::{SchedClassifier, TestRun as _, TestRunOptions, Xdp},
};
use etherparse::PacketBuilder;
use plimsoll_shim::{MAP_SETTINGS, Program, SETTINGS_WORDS, Settings};

static OBJECT: &[u8] = aya::include_bytes_aligned!("../../../../ebpf/prebuilt/shim.o");

/// Runs in a row.
const REPEAT: u32 = 500_000;
/// Single runs of a message with its count and without, in turn.
const SINGLE: usize = 2_000;
const SETTINGS: Settings = Settings {
    delta_ps: 60_000_000,
    ce_ps: 0,
    counter_max: u32::MAX,
    follow_up: false,
    ntp_field: true,
    ect: 0b10,
};
/// Five marks.
const WORD: [u8; 4] = [0x40, 0, 0, 5];
/// Of a PTP message: where its word stands.
const WORD_AT: usize = 16;
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]];
/// struct __sk_buff (linux/bpf.h): its length, and where `tstamp` stands in it.
const SKB: usize = 192;
const STAMP: usize = 152;
/// Octets that a frame may grow to.
const ROOM: usize = 256;

/// A program, and the message that it acts on: as it comes, and with nothing left to do.
struct Case {
    program: Program,
    at: &'static str,
    message: &'static str,
    fresh: Vec<u8>,
    done: Vec<u8>,
}

impl Case {
    /// The program changes what is fresh, once, and leaves what is done.
    fn check(&self, loaded: &Loaded) -> Result<()> {
        let becomes = |frame: &[u8]| loaded.run(frame, 1).map(|(_, after)| after);
        let (name, message) = (self.program.name(), self.message);
        ensure!(becomes(&self.done)? == self.done, "{name}: {message} changes");
        let once = becomes(&self.fresh)?;
        ensure!(once != self.fresh, "{name}: {message} stays");
        ensure!(becomes(&once)? == once, "{name}: {message} changes twice");
        Ok(())
    }
}

fn cases() -> Result<[Case; 3]> {
    let mut message = sync(MACS[0], MACS[1], ETHERTYPE_PTP, SHORTEST, 1).split_off(14);
    message.truncate(44);
    let with_word = |word: [u8; 4]| {
        let mut message = message.clone();
        message[WORD_AT..WORD_AT + 4].copy_from_slice(&word);
        message
    };
    let ethernet = |word| [&MACS.concat()[..], &ETHERTYPE_PTP.to_be_bytes(), &with_word(word)].concat();
    let request = [&[4 << 3 | 3][..], &[0; 47]].concat();
    let fielded = [&request[..], &plimsoll_classify::ntp::field(0)].concat();
    Ok([
        Case {
            program: Program::Correction,
            at: "XDP",
            message: "Sync over Ethernet",
            fresh: ethernet(WORD),
            done: ethernet([0; 4]),
        },
        Case {
            program: Program::Timestamp,
            at: "tc ingress",
            message: "Sync over UDP",
            fresh: udp(319, 0, &with_word(WORD))?,
            done: udp(319, 0, &with_word([0; 4]))?,
        },
        Case {
            program: Program::Egress,
            at: "tc egress",
            message: "NTP request",
            fresh: udp(123, 0, &request)?,
            done: udp(123, 0b10, &fielded)?,
        },
    ])
}

/// A datagram to this port, with these ECN bits.
fn udp(port: u16, ecn: u8, message: &[u8]) -> Result<Vec<u8>> {
    let mut ip = etherparse::Ipv4Header::new(0, 64, etherparse::IpNumber::UDP, [10, 0, 0, 1], [10, 0, 0, 2])
        .context("an IPv4 header")?;
    ip.ecn = ecn.try_into().context("ECN bits")?;
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(MACS[1], MACS[0])
        .ip(etherparse::IpHeaders::Ipv4(ip, Default::default()))
        .udp(port, port)
        .write(&mut frame, message)
        .context("a frame")?;
    Ok(frame)
}

/// A loaded program.
struct Loaded(Ebpf, Program);

impl Loaded {
    fn new(program: Program) -> Result<Self> {
        let mut ebpf = EbpfLoader::new().load(OBJECT).context("load shim.o")?;
        let map = ebpf.map_mut(MAP_SETTINGS).context("the map of settings")?;
        let mut map: Array<_, [u64; SETTINGS_WORDS]> = map.try_into()?;
        map.set(0, SETTINGS.to_words(), 0)?;
        let loaded = ebpf.program_mut(program.symbol()).context("the program")?;
        match program {
            Program::Correction => <&mut Xdp>::try_from(loaded)?.load()?,
            _ => <&mut SchedClassifier>::try_from(loaded)?.load()?,
        }
        Ok(Self(ebpf, program))
    }

    /// Runs it on a frame: ns of one run, and what becomes of the frame.
    fn run(&self, frame: &[u8], repeat: u32) -> Result<(f64, Vec<u8>)> {
        let mut out = vec![0; ROOM];
        let mut context = [0; SKB];
        context[STAMP..STAMP + 8].copy_from_slice(&1_900_000_000_000_000_000_u64.to_ne_bytes());
        let mut options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut out),
            repeat,
            ..TestRunOptions::new()
        };
        let program = self.0.program(self.1.symbol()).context("the program")?;
        let result = match self.1 {
            Program::Correction => <&Xdp>::try_from(program)?.test_run(options),
            _ => {
                options.ctx_in = Some(&context);
                <&SchedClassifier>::try_from(program)?.test_run(options)
            }
        }
        .context("BPF_PROG_TEST_RUN")?;
        out.truncate(result.data_size_out as usize);
        Ok((result.duration.as_nanos() as f64, out))
    }
}

pub(super) fn measure(rounds: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let bulk = sync(MACS[0], MACS[1], ETHERTYPE_BULK, SHORTEST, 1);
    for case in cases()? {
        let loaded = Loaded::new(case.program)?;
        case.check(&loaded)?;
        let (mut others, mut untouched, mut acted) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            others.push(loaded.run(&bulk, REPEAT)?.0);
            let in_a_row = loaded.run(&case.done, REPEAT)?.0;
            let mut single = [Vec::new(), Vec::new()];
            for _ in 0..SINGLE {
                for (times, frame) in single.iter_mut().zip([&case.fresh, &case.done]) {
                    times.push(loaded.run(frame, 1)?.0);
                }
            }
            let [fresh, done] = single.map(|times| median(&times));
            untouched.push(in_a_row);
            acted.push(in_a_row + fresh - done);
        }
        let what = |frame: &str| format!("host shim {} ({}), {frame}", case.program.name(), case.at);
        let (nothing, something) = match case.program {
            Program::Egress => ("ECN-capable and with a field", "made ECN-capable and given the field"),
            _ => ("unmarked", "compensated"),
        };
        let row = |frame: &str, times| Row::new(GROUP, what(frame), "ns", Asked::Nothing, times);
        rows.push(row("another frame", others));
        rows.push(row(&format!("{}, {nothing}", case.message), untouched));
        rows.push(row(&format!("{}, {something}", case.message), acted).note("by single runs"));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shim_does_to_its_messages_what_the_rows_say() {
        for case in cases().unwrap() {
            case.check(&Loaded::new(case.program).unwrap()).unwrap();
        }
    }
}
