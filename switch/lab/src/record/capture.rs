//! Reads what `pcapng.rs` wrote: the time messages of a capture, with what their comments tell.

use super::pcapng::{EARLIER, SETTLING};
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::blocks::section_header::SectionHeaderOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use plimsoll_classify::{WINDOW, classify};
use plimsoll_core::wire::identity::TimeMessage;
use std::io::Read;

/// A time message as a switch released it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedMessage<'a> {
    /// The switch.
    pub switch: &'a str,
    /// The port that it came in by.
    pub ingress: &'a str,
    /// The port that it left by.
    pub egress: &'a str,
    /// Which message it is.
    pub message: TimeMessage,
    /// What was ahead of it when it was enqueued, ps of the link, as a CSV has it: what marks are of. In recordings without
    /// it, from the arrival to the start of its service, which holds what overtook too.
    pub delay_ps: u64,
    /// Its arrival, ns of CLOCK_MONOTONIC, or virtual.
    pub arrived_ns: u64,
    /// Its release, on the same clock.
    pub released_ns: u64,
    /// Whether it was released during the measurement.
    pub counted: bool,
}

/// Hands every time message of a recording to `take`, in the order of the file.
///
/// # Errors
/// The file cannot be read, is cut off, or was not written by Plimsoll: what is wrong with it, and the remedy.
pub fn read_pcapng(file: impl Read, mut take: impl FnMut(&CapturedMessage<'_>)) -> Result<(), String> {
    let mut reader = PcapNgReader::new(file)
        .map_err(|e| format!("is no pcapng file ({e}); {}", "give what `--record` wrote"))?;
    let epoch_ns = reader.section().options.iter().find_map(|option| match option {
        SectionHeaderOption::Comment(comment) => number(comment.split_once(EARLIER)?.1),
        _ => None,
    });
    let epoch_ns =
        epoch_ns.ok_or("was not written by `plimsoll --record`; give a recording of Plimsoll's")?;
    let mut names: Vec<(String, String)> = Vec::new();
    let mut packets = 0_u64;
    while let Some(block) = reader.next_block() {
        let block = block.map_err(|e| format!("breaks off after {packets} frames ({e}); record it again"))?;
        match block {
            Block::InterfaceDescription(interface) => {
                let name = interface.options.iter().find_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => name.split_once(':'),
                    _ => None,
                });
                let (switch, port) = name.unwrap_or_default();
                names.push((switch.to_owned(), port.to_owned()));
            }
            Block::EnhancedPacket(packet) => {
                packets += 1;
                if let Some(message) = message(&packet) {
                    let told = names
                        .get(packet.interface_id as usize)
                        .and_then(|(switch, egress)| captured(&packet, [switch, egress], message, epoch_ns));
                    take(
                        &told
                            .ok_or_else(|| format!("tells too little of frame {packets}; record it again"))?,
                    );
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn message(packet: &EnhancedPacketBlock<'_>) -> Option<TimeMessage> {
    let mut window = [0; WINDOW];
    let seen = packet.data.len().min(WINDOW);
    window[..seen].copy_from_slice(&packet.data[..seen]);
    let info = classify(&window, packet.data.len() as u32);
    info.kind.is_sync().then(|| TimeMessage::of(&packet.data, &info))?
}

fn captured<'a>(
    packet: &'a EnhancedPacketBlock<'_>,
    [switch, egress]: [&'a String; 2],
    message: TimeMessage,
    epoch_ns: u64,
) -> Option<CapturedMessage<'a>> {
    let comment = packet.options.iter().find_map(|option| match option {
        EnhancedPacketOption::Comment(comment) => Some(comment),
        _ => None,
    })?;
    let value = |key: &str| comment.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    Some(CapturedMessage {
        switch,
        ingress: value("ingress")?,
        egress,
        message,
        delay_ps: match value("ahead") {
            Some(ahead) => number(ahead)?,
            None => number(value("wait")?)?.checked_mul(1000)?,
        },
        arrived_ns: number(value("arrival")?)?,
        released_ns: (packet.timestamp.as_nanos() as u64).checked_sub(epoch_ns)?,
        counted: !comment.ends_with(SETTLING),
    })
}

/// The number that a text begins with.
fn number(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::wire::ptp::MessageId;
    use std::{borrow::Cow, time::Duration};

    #[test]
    fn the_delay_is_what_was_ahead_as_in_a_csv_not_what_overtook_too() {
        let id = MessageId { domain: 0, message_type: 0, sequence_id: 1, source_port_identity: [0; 10] };
        let names = ["s1".to_owned(), "client".to_owned()];
        let delay = |comment: &str| {
            let packet = EnhancedPacketBlock {
                interface_id: 0,
                timestamp: Duration::from_nanos(2000),
                original_len: 60,
                data: Cow::Borrowed(&[]),
                options: vec![EnhancedPacketOption::Comment(comment.into())],
            };
            captured(&packet, names.each_ref(), TimeMessage::Ptp(id), 1000).map(|told| told.delay_ps)
        };
        let end = "late=0ns ingress=server arrival=400ns mark=marked r=1";
        assert_eq!(delay(&format!("depth=9B ahead=72500ps class=1 wait=500ns {end}")), Some(72_500));
        assert_eq!(delay(&format!("depth=9B class=1 wait=500ns {end}")), Some(500_000), "older recordings");
        assert_eq!(delay(&format!("depth=9B ahead=ps class=1 wait=500ns {end}")), None);
    }
}
