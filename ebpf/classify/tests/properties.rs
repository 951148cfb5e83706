//! Properties of every frame: random octets, and the table's frames with octets changed, cut and stretched.

mod invariants;
#[path = "table/mod.rs"]
mod table;

use plimsoll_classify::{Class, Flags, Kind};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::sync::LazyLock;

static FRAMES: LazyLock<Vec<(Vec<u8>, Class)>> =
    LazyLock::new(|| table::whole().into_iter().map(|row| (row.frame, row.class)).collect());

/// Those to which a tag can be added: with two already, a third would hide the rest; and what ends near the window's end
/// would leave it.
static TAGGABLE: LazyLock<Vec<(Vec<u8>, Class)>> = LazyLock::new(|| {
    let fits = |class: &Class| {
        class.l3 < 22
            && class.payload.max(class.l4) < 90
            && !class.flags.has(Flags::TRUNCATED)
            && !matches!(class.ethertype, table::frames::C_TAG | table::frames::S_TAG)
    };
    FRAMES.iter().filter(|(_, class)| fits(class)).cloned().collect()
});

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_octets_break_nothing(frame in vec(any::<u8>(), 0..300)) {
        invariants::check(&frame);
    }

    #[test]
    fn changed_frames_break_nothing(
        frame in any::<Index>(),
        changes in vec((0..160usize, any::<u8>()), 0..6),
        length in prop_oneof![3 => Just(None), 1 => (0..400usize).prop_map(Some)],
    ) {
        let mut frame = FRAMES[frame.index(FRAMES.len())].0.clone();
        for (at, octet) in changes {
            if let Some(place) = frame.get_mut(at) {
                *place = octet;
            }
        }
        if let Some(length) = length {
            frame.resize(length, 0x5A);
        }
        invariants::check(&frame);
    }

    /// A tag changes what a tag says, moves what stands behind it, and nothing else.
    #[test]
    fn a_tag_moves_and_changes_nothing_else(
        frame in any::<Index>(),
        tpid in prop_oneof![Just(table::frames::C_TAG), Just(table::frames::S_TAG)],
        tci in any::<u16>(),
    ) {
        let (frame, class) = &TAGGABLE[frame.index(TAGGABLE.len())];
        let mut tagged = frame.clone();
        tagged.splice(12..12, [tpid.to_be_bytes(), tci.to_be_bytes()].concat());
        let moved = |offset: u8| if offset == 0 { 0 } else { offset + 4 };
        let expected = Class {
            priority: (tci >> 13) as u8,
            flags: class.flags.with(Flags::TAGGED),
            l3: class.l3 + 4,
            l4: moved(class.l4),
            payload: moved(class.payload),
            tci,
            ..*class
        };
        prop_assert_eq!(invariants::check(&tagged), expected);
    }
}

#[test]
fn the_table_holds_to_the_invariants_and_reaches_every_kind() {
    let classes: Vec<Class> = table::rows().iter().map(|row| invariants::check(&row.frame)).collect();
    for kind in [Kind::Other, Kind::PtpEvent, Kind::PtpGeneral, Kind::NtpRequest, Kind::NtpResponse] {
        assert!(classes.iter().any(|class| class.kind == kind), "{kind:?}");
    }
}
