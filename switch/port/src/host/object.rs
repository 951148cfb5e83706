//! The built object: a program of it is loaded with its settings; of one that is loaded settings and counters are read.

use super::options::HostOptions;
use crate::error::{Place, PortError};
use crate::program::{damaged, load_error};
use aya::maps::{Array, Map, MapData, MapError, MapInfo, PerCpuArray};
use aya::programs::{ProgramError, ProgramFd, ProgramInfo, SchedClassifier, Xdp};
use aya::{Ebpf, EbpfLoader};
use plimsoll_shim::{Count, MAP_COUNTS, MAP_SETTINGS, Program, SETTINGS_WORDS, Settings};
use std::os::fd::{AsFd, BorrowedFd};

/// Built by scripts/build-ebpf from ebpf/programs.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../../../ebpf/prebuilt/shim.o");

/// A loaded program with maps of its own, attached or not.
pub(super) struct Loaded {
    fd: ProgramFd,
    /// Owns what the kernel would else forget before the program is attached.
    _ebpf: Ebpf,
}

impl Loaded {
    pub(super) fn new(place: Place<'_>, program: Program, options: &HostOptions) -> Result<Self, PortError> {
        let mut ebpf = EbpfLoader::new().load(OBJECT).map_err(|e| load_error(place, &e))?;
        let map = ebpf.map_mut(MAP_SETTINGS).ok_or_else(|| damaged(place, "map of settings"))?;
        let mut settings: Array<_, [u64; SETTINGS_WORDS]> =
            map.try_into().map_err(|_| damaged(place, "type of the map of settings"))?;
        settings.set(0, options.settings().to_words(), 0).map_err(|e| load_error(place, &e))?;
        let loaded = ebpf.program_mut(program.symbol()).ok_or_else(|| damaged(place, "program"))?;
        let wrong = |_| damaged(place, "program type");
        let info = if program == Program::Correction {
            let loaded: &mut Xdp = loaded.try_into().map_err(wrong)?;
            loaded.load().and_then(|()| loaded.info())
        } else {
            let loaded: &mut SchedClassifier = loaded.try_into().map_err(wrong)?;
            loaded.load().and_then(|()| loaded.info())
        };
        let fd = info.and_then(|info| info.fd()).map_err(|e| load_error(place, &e))?;
        Ok(Self { fd, _ebpf: ebpf })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether the kernel's program is this one of ours. Its name alone tells: nobody else has it, and other versions of ours
/// are ours.
pub(super) fn is(info: &ProgramInfo, program: Program) -> bool {
    info.name_as_str() == Some(program.symbol())
}

/// Settings (`None`: of another version) and counters of a loaded program of ours.
pub(super) fn read(info: &ProgramInfo) -> Result<(Option<Settings>, Vec<u64>), ProgramError> {
    let (mut settings, mut counts) = (None, vec![0; Count::ALL.len()]);
    for id in info.map_ids()?.unwrap_or_default() {
        let Ok(map) = MapInfo::from_id(id) else { continue };
        match map.name_as_str() {
            Some(MAP_SETTINGS) => settings = self::settings(id)?,
            Some(MAP_COUNTS) => read_counts(id, &mut counts)?,
            _ => {}
        }
    }
    Ok((settings, counts))
}

fn settings(id: u32) -> Result<Option<Settings>, MapError> {
    let data = MapData::from_id(id)?;
    // That of another version may be of another size.
    if data.info()?.value_size() as usize != size_of::<[u64; SETTINGS_WORDS]>() {
        return Ok(None);
    }
    let map: Array<_, [u64; SETTINGS_WORDS]> = Map::Array(data).try_into()?;
    Ok(Settings::from_words(&map.get(&0, 0)?))
}

fn read_counts(id: u32, counts: &mut [u64]) -> Result<(), MapError> {
    let map: PerCpuArray<_, u64> = Map::PerCpuArray(MapData::from_id(id)?).try_into()?;
    for (index, total) in (0..map.len()).zip(counts) {
        *total = map.get(&index, 0)?.iter().sum();
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use etherparse::{IpHeaders, IpNumber, Ipv4Header, Ipv6Header, PacketBuilder};
    use plimsoll_classify::ntp;
    use std::io;
    use std::os::fd::AsRawFd;

    // linux/bpf.h
    const BPF_PROG_TEST_RUN: libc::c_long = 10;
    /// Seen on Linux 6.18: the sum over the packet is given with it (CHECKSUM_COMPLETE), and must be right afterwards
    /// (EBADMSG).
    const BPF_F_TEST_SKB_CHECKSUM_COMPLETE: u32 = 1 << 2;
    /// struct __sk_buff: its length, and where `tstamp` stands in it.
    const SKB: usize = 192;
    const STAMP: usize = 152;
    const ECN: u8 = 3;

    /// The attributes of BPF_PROG_TEST_RUN.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        prog_fd: u32,
        retval: u32,
        data_size_in: u32,
        data_size_out: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
        ctx_size_in: u32,
        ctx_size_out: u32,
        ctx_in: u64,
        ctx_out: u64,
        flags: u32,
        cpu: u32,
        batch_size: u32,
        _pad: u32,
    }

    /// Runs a tc program on a frame that came with the sum over it; what becomes of it. aya's runs know no such flag.
    fn run(program: &Loaded, frame: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = vec![0_u8; 2048];
        let mut context = [0_u8; SKB];
        context[STAMP..STAMP + 8].copy_from_slice(&1_900_000_000_000_000_000_u64.to_ne_bytes());
        let attributes = Attributes {
            prog_fd: program.fd().as_raw_fd() as u32,
            data_size_in: frame.len() as u32,
            data_size_out: out.len() as u32,
            data_in: frame.as_ptr() as u64,
            data_out: out.as_mut_ptr() as u64,
            repeat: 1,
            ctx_size_in: SKB as u32,
            ctx_in: context.as_ptr() as u64,
            flags: BPF_F_TEST_SKB_CHECKSUM_COMPLETE,
            ..Attributes::default()
        };
        let (from, size) = (std::ptr::from_ref(&attributes), size_of::<Attributes>());
        // SAFETY: the attributes and all that they point to, of the lengths that they say, live through the call.
        let done = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, from, size) };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        out.truncate(frame.len());
        Ok(out)
    }

    /// An NTP answer from port 123 in a CE datagram, its sums right.
    fn answer(is_v6: bool, behind: &[u8]) -> Vec<u8> {
        let mut message = vec![0; ntp::HEADER_LEN];
        message[0] = 4 << 3 | 4;
        message.extend(behind);
        let ip = if is_v6 {
            let header = Ipv6Header {
                traffic_class: ECN,
                next_header: IpNumber::UDP,
                hop_limit: 64,
                ..Ipv6Header::default()
            };
            IpHeaders::Ipv6(header, Default::default())
        } else {
            let mut header = Ipv4Header::new(0, 64, IpNumber::UDP, [7; 4], [7; 4]).unwrap();
            header.ecn = ECN.try_into().unwrap();
            IpHeaders::Ipv4(header, Default::default())
        };
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [2; 6]).ip(ip).udp(123, 1024).write(&mut frame, &message).unwrap();
        frame
    }

    /// Else the kernel logs "hw csum failure" with each such packet of an interface that sums.
    #[test]
    fn the_sum_that_an_interface_gave_with_a_packet_stays_right() {
        let options = HostOptions::new("60us".parse().unwrap());
        let program = Loaded::new(Place::port("test"), Program::Timestamp, &options).unwrap();
        for is_v6 in [false, true] {
            for (behind, word) in [(&[][..], 0), (&ntp::field(0x4000_0003), 0x4000_0003)] {
                let frame = answer(is_v6, behind);
                let after = match run(&program, &frame) {
                    Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                        println!("not judged: this kernel's BPF_PROG_TEST_RUN gives no sum");
                        return;
                    }
                    after => after.unwrap_or_else(|error| panic!("IPv6 {is_v6}, word {word:#x}: {error}")),
                };
                let ecn = if is_v6 { after[15] >> 4 & 3 } else { after[15] & 3 };
                assert_eq!(ecn, 2, "CE became ECT(0)");
            }
        }
    }
}
