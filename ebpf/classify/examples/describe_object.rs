//! Prints what a loader sees of a BPF object: its maps, globals and instructions, without names of source lines or
//! debug information. `scripts/build-ebpf --check` compares two objects by it.
//!
//! ```text
//! cargo run -p plimsoll-classify --example describe_object -- ebpf/prebuilt/plimsoll.o
//! ```

use aya_obj::Object;
use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::fmt::Write as _;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: describe_object OBJECT")?;
    let bytes = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
    print!("{}", describe(&bytes)?);
    Ok(())
}

fn describe(bytes: &[u8]) -> Result<String, Box<dyn Error>> {
    let mut object = Object::parse(bytes)?;
    let mut text = format!("license {:?}\n", object.license);

    let maps: BTreeMap<String, _> = object.maps.clone().into_iter().collect();
    for (number, (name, map)) in maps.iter().enumerate() {
        let (key, value, entries) = (map.key_size(), map.value_size(), map.max_entries());
        let (kind, flags, pinning) = (map.map_type(), map.map_flags(), map.pinning());
        writeln!(
            text,
            "map {number} {name}: type {kind}, key {key}, value {value}, entries {entries}, flags {flags:#x}, \
             pinning {pinning:?}, data {:?}",
            map.data()
        )?;
    }

    // A loader writes the maps' descriptors into the instructions; here each map's number stands for it.
    let sections: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
    let numbered = maps.iter().enumerate().map(|(number, (name, map))| (name.as_str(), number as i32, map));
    object.relocate_maps(numbered, &sections)?;
    object.relocate_calls(&sections)?;

    let programs: BTreeMap<_, _> = object.programs.iter().collect();
    for (name, program) in programs {
        writeln!(text, "program {name}: {:?}", program.section)?;
        let function = object.functions.get(&program.function_key()).ok_or("a program without a function")?;
        for (at, instruction) in function.instructions.iter().enumerate() {
            let (code, to, from) = (instruction.code, instruction.dst_reg(), instruction.src_reg());
            writeln!(text, "{at:5} {code:02x} r{to} r{from} {:+} {:#x}", instruction.off, instruction.imm)?;
        }
    }
    Ok(text)
}
