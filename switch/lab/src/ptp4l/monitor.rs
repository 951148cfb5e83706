//! What ptp4l's slave event monitor sends: Signaling messages with the times of each Sync and Delay_Req
//! (IEEE 1588-2019 clause 16.11; SLAVE_DELAY_TIMING_DATA_NP is linuxptp's own).

use crate::clock::{DelayRecord, PortIdentity, Recording, SyncRecord, message::read_timestamp};
use plimsoll_core::wire::ptp::{HEADER_LEN, Header};

/// messageType of Signaling (clause 13.12).
const SIGNALING: u8 = 0xC;
/// tlvType SLAVE_RX_SYNC_TIMING_DATA (clause 16.11.4.1).
const SYNC_TIMING: u16 = 0x8004;
/// tlvType SLAVE_DELAY_TIMING_DATA_NP.
const DELAY_TIMING: u16 = 0x7F00;
/// Octets of a record of SYNC_TIMING: sequenceId, syncOriginTimestamp, totalCorrectionField,
/// scaledCumulativeRateOffset, syncEventIngressTimestamp.
const SYNC_RECORD: usize = 2 + 10 + 8 + 4 + 10;
/// Octets of a record of DELAY_TIMING: sequenceId, delayOriginTimestamp, totalCorrectionField,
/// delayResponseTimestamp.
const DELAY_RECORD: usize = 2 + 10 + 8 + 10;

/// Adds what a datagram tells to the recording; `false` where it is none of the monitor's.
pub(super) fn take(datagram: &[u8], recording: &mut Recording) -> bool {
    let Some(header) = Header::new_checked(datagram) else { return false };
    let Some(message) = datagram.get(..usize::from(header.message_length())) else { return false };
    if header.message_type() != SIGNALING {
        return false;
    }
    // The header's source is the client's own clock at port 0, the socket; its one port on the network is port 1.
    let mut client = PortIdentity(header.id().source_port_identity);
    client.0[8..].copy_from_slice(&[0, 1]);
    // targetPortIdentity comes before the TLVs.
    let Some(mut tlvs) = message.get(HEADER_LEN + 10..) else { return false };
    while let Some((&[t0, t1, l0, l1], rest)) = tlvs.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        let (Some(value), Some(after)) = (rest.get(..length), rest.get(length..)) else { return false };
        tlvs = after;
        let Some((&server, records)) = value.split_first_chunk() else { continue };
        match u16::from_be_bytes([t0, t1]) {
            SYNC_TIMING => {
                let (records, _) = records.as_chunks();
                recording
                    .syncs
                    .extend(records.iter().filter_map(|record| sync(PortIdentity(server), record)));
            }
            DELAY_TIMING => {
                let (records, _) = records.as_chunks();
                recording.delays.extend(records.iter().filter_map(|record| delay(client, record)));
            }
            _ => {}
        }
    }
    true
}

fn sync(source: PortIdentity, record: &[u8; SYNC_RECORD]) -> Option<SyncRecord> {
    Some(SyncRecord {
        sequence: sequence(record),
        source,
        t1: read_timestamp(&record[2..12])?,
        t2: read_timestamp(&record[24..34])?,
        correction: correction(record),
        count: 0,
        converted_ns: 0.0,
    })
}

fn delay(source: PortIdentity, record: &[u8; DELAY_RECORD]) -> Option<DelayRecord> {
    Some(DelayRecord {
        sequence: sequence(record),
        source,
        t3: read_timestamp(&record[2..12])?,
        t4: read_timestamp(&record[20..30])?,
        correction: correction(record),
        count: 0,
        count_in_correction: 0,
        converted_ns: 0.0,
    })
}

fn sequence(record: &[u8]) -> u16 {
    u16::from_be_bytes([record[0], record[1]])
}

/// totalCorrectionField, 2^-16 ns.
fn correction(record: &[u8]) -> i64 {
    record[12..20].iter().fold(0, |n, &octet| n << 8 | i64::from(octet))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As linuxptp 3.1.1 sent them.
    const SYNC: &str = "0c02005c0000000000000000000000000000000002aabbfffe00000200000001057fffffffffffffffffffff\
                        8004002c02aabbfffe0000010001007e00006b0da7850096d4b9fffffffffffe80000000000000006b0da7850096da51";
    const DELAY: &str = "0c0200580000000000000000000000000000000002aabbfffe00000200000000057fffffffffffffffffffff\
                         7f00002802aabbfffe0000010001000200006b0da785013f3464000000007530000000006b0da785013f390b";

    fn octets(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
    }

    #[test]
    fn the_records_of_linuxptp_3_1_1_are_read() {
        let mut recording = Recording::default();
        assert!(take(&octets(SYNC), &mut recording));
        assert!(take(&octets(DELAY), &mut recording));
        let second = 0x6B0D_A785 * 1_000_000_000;
        assert_eq!(
            recording.syncs,
            [SyncRecord {
                sequence: 126,
                source: PortIdentity([2, 0xAA, 0xBB, 0xFF, 0xFE, 0, 0, 1, 0, 1]),
                t1: second + 0x0096_D4B9,
                t2: second + 0x0096_DA51,
                correction: -0x1_8000,
                count: 0,
                converted_ns: 0.0,
            }]
        );
        assert_eq!(
            recording.delays,
            [DelayRecord {
                sequence: 2,
                source: PortIdentity([2, 0xAA, 0xBB, 0xFF, 0xFE, 0, 0, 2, 0, 1]),
                t3: second + 0x013F_3464,
                t4: second + 0x013F_390B,
                correction: 30_000 << 16,
                count: 0,
                count_in_correction: 0,
                converted_ns: 0.0,
            }]
        );
    }

    #[test]
    fn a_datagram_cut_anywhere_records_nothing_and_a_foreign_one_is_told() {
        for whole in [octets(SYNC), octets(DELAY)] {
            for length in 0..whole.len() {
                let mut recording = Recording::default();
                assert!(!take(&whole[..length], &mut recording), "{length}");
                assert_eq!(recording, Recording::default());
            }
            // The same, with a messageLength that fits.
            for length in 34..whole.len() {
                let mut cut = whole[..length].to_vec();
                cut[3] = length as u8;
                let mut recording = Recording::default();
                take(&cut, &mut recording);
                assert_eq!(recording, Recording::default(), "{length}");
            }
        }
        let mut sync = octets(SYNC);
        sync[0] = 0x0D;
        assert!(!take(&sync, &mut Recording::default()), "Management");
        let mut other = octets(SYNC);
        other[45] = 0x05;
        let mut recording = Recording::default();
        assert!(
            take(&other, &mut recording) && recording == Recording::default(),
            "another TLV is passed over"
        );
    }
}
