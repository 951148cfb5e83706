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
