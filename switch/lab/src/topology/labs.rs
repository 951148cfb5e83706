//! Labs that are built into the program, by name.

/// A lab that needs no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

/// All of them.
pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn { name: "one-hop", text: include_str!("../../../../scripts/labs/one-hop.toml") },
    BuiltIn { name: "one-hop-ptp4l", text: include_str!("../../../../scripts/labs/one-hop-ptp4l.toml") },
    BuiltIn {
        name: "transparent-clock",
        text: include_str!("../../../../scripts/labs/transparent-clock.toml"),
    },
    BuiltIn { name: "three-hop", text: include_str!("../../../../scripts/labs/three-hop.toml") },
    BuiltIn { name: "motivating", text: include_str!("../../../../scripts/labs/motivating.toml") },
    BuiltIn { name: "on-off", text: include_str!("../../../../scripts/labs/on-off.toml") },
    BuiltIn {
        name: "clocks-three-hop",
        text: include_str!("../../../../scripts/labs/clocks-three-hop.toml"),
    },
    BuiltIn { name: "clocks-p2p", text: include_str!("../../../../scripts/labs/clocks-p2p.toml") },
    BuiltIn { name: "clocks-chrony", text: include_str!("../../../../scripts/labs/clocks-chrony.toml") },
    BuiltIn { name: "clocks-nts", text: include_str!("../../../../scripts/labs/clocks-nts.toml") },
    BuiltIn { name: "clocks-standing", text: include_str!("../../../../scripts/labs/clocks-standing.toml") },
    BuiltIn { name: "idle", text: include_str!("../../../../scripts/labs/idle.toml") },
];
