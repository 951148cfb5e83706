//! The worker between two hosts: links that are held, and clocks' messages that are told their residence. Needs root.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Bench, ip4, small, umem, wait_for};
use plimsoll_core::{Nanos, PortConfig, Rate, SwitchConfig};
use plimsoll_port::worker::{
    Fate, Idle, Node, Record, RecordWhat, Records, ReleaseAt, Residence, Sent, Snapshot, Stall, Worker,
    WorkerConfig, WorkerError,
};
use std::{
    net::UdpSocket,
    thread,
    time::{Duration, Instant},
};

const LATENCY: u64 = 100_000;
const DELAY: u64 = 1500;

/// A worker with one switch of `pa` and `pb`, and its records.
fn start(bench: &Bench, b: PortConfig) -> (Worker, Records) {
    let options = small();
    let mut umem = umem(&options, 1, 2);
    let ports = ["pa", "pb"].map(|name| Some(bench.open(&mut umem, name, &options).unwrap()));
    let switch = SwitchConfig {
        name: "s1".into(),
        ports: vec![PortConfig::new("pa"), PortConfig { name: "pb".into(), ..b }],
        ..SwitchConfig::default()
    };
    let node = Node {
        switch,
        ports: ports.into(),
        release: vec![ReleaseAt::End; 2],
        latency: LATENCY,
        stall: Stall::CatchUp,
        correct_lateness: true,
    };
    let records = Records::new(1024, RecordWhat::All);
    let config = WorkerConfig {
        nodes: vec![node],
        umem,
        cpu: None,
        idle: Idle::Adaptive,
        records: Some(records.clone()),
    };
    (Worker::spawn(config).unwrap(), records)
}

fn shaped() -> PortConfig {
    PortConfig { rate: Some(Rate(100_000_000)), delay: Nanos(DELAY), ..PortConfig::new("") }
}

fn stopped(worker: Worker) -> Snapshot {
    let last = worker.stop().unwrap();
    assert!(last.frames.is_whole() && last.frames.held == 0, "{:?}", last.frames);
    last
}

/// The next record of a frame of this length that left.
fn sent(records: &Records, len: u32) -> (Record, Sent) {
    let mut found = None;
    wait_for("the record", || {
        while found.is_none()
            && let Some(record) = records.pop()
        {
            if let Fate::Sent(sent) = record.fate
                && record.len == len
            {
                found = Some((record, sent));
            }
        }
        found.is_some()
    });
    found.unwrap()
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut octets = [0; 2000];
    let (len, _) = socket.recv_from(&mut octets).unwrap();
    octets[..len].to_vec()
}

/// Frames for `b` that wait: wire octets, and how many.
fn queued(worker: &Worker) -> (u64, u32) {
    let stats = &worker.snapshot().unwrap().switches[0].stats.ports[1];
    (stats.queues.iter().map(|q| q.bytes).sum(), stats.queues.iter().map(|q| q.frames).sum())
}

#[test]
fn a_held_link_keeps_its_frames_until_its_release() {
    let bench = Bench::new();
    for port in [shaped(), PortConfig::new("")] {
        let (worker, records) = start(&bench, port);
        let (from, to) = (bench.udp(&bench.a, ip4(1), 0), bench.udp(&bench.b, ip4(2), 7000));
        assert_eq!(worker.find("pb").unwrap(), (0, 1));
        assert_eq!(worker.find("s1/pb").unwrap(), (0, 1));
        assert!(matches!(worker.find("s2/pb"), Err(WorkerError::NoPort { .. })));
        worker.hold(0, 1).unwrap();
        for _ in 0..3 {
            from.send_to(&[7; 1000 - 66], (ip4(2), 7000)).unwrap();
        }
        wait_for("three frames of 1000 octets", || queued(&worker) == (3000, 3));
        to.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(to.recv_from(&mut [0; 2000]).is_err(), "held");
        assert!(worker.snapshot().unwrap().switches[0].stats.ports[1].held);
        let before = common::now();
        worker.resume(0, 1).unwrap();
        to.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        for number in 0..3 {
            assert_eq!(receive(&to).len(), 1000 - 66);
            let (_, sent) = sent(&records, 976);
            assert_eq!(sent.depth_bytes, 1000 * number, "exactly what was queued");
            assert!(sent.start >= before, "{sent:?}");
        }
        assert!(!worker.snapshot().unwrap().switches[0].stats.ports[1].held);
        stopped(worker);
    }
}

#[test]
fn a_transparent_clock_tells_each_message_its_residence_once() {
    const CORRECTION: i64 = 5 << 16;
    let bench = Bench::new();
    let (worker, records) = start(&bench, PortConfig { transparent_clock: true, ..shaped() });
    let (from, to) = (bench.udp(&bench.a, ip4(1), 0), bench.udp(&bench.b, ip4(2), 319));
    let ntp = bench.udp(&bench.b, ip4(2), 123);
    // An NTP request, which has no field; then a Sync and a Delay_Req. All wait.
    worker.hold(0, 1).unwrap();
    let since = Instant::now();
    let mut request = [0; 48];
    request[0] = 0x23;
    from.send_to(&request, (ip4(2), 123)).unwrap();
    for kind in [0, 1] {
        let mut message = [0; 44];
        (message[0], message[1], message[3]) = (kind, 2, 44);
        message[8..16].copy_from_slice(&CORRECTION.to_be_bytes());
        from.send_to(&message, (ip4(2), 319)).unwrap();
    }
    wait_for("three messages", || queued(&worker).1 == 3);
    thread::sleep(Duration::from_millis(20));
    worker.resume(0, 1).unwrap();
    for kind in [0, 1] {
        // The kernel has looked at the checksum.
        let message = receive(&to);
        let waited = since.elapsed().as_nanos() as u64;
        assert_eq!(message[0], kind);
        let added = i64::from_be_bytes(message[8..16].try_into().unwrap()) - CORRECTION;
        let (record, sent) = sent(&records, 86);
        let residence = sent.residence_ns.unwrap();
        assert_eq!(added, residence << 16);
        assert_eq!(residence as u64, sent.released.0 - record.stamp.0 - DELAY);
        // Nothing is counted twice: neither the wait, nor what the machine was late by.
        let late = sent.lateness_ns as u64 - record.arrived.since(record.stamp);
        assert_eq!(residence as u64, sent.end.0 + LATENCY + late - record.stamp.0 - DELAY);
        assert!((20_000_000..waited).contains(&(residence as u64)), "{residence} of {waited}");
        assert!(sent.corrected);
    }
    assert_eq!(receive(&ntp), request);
    let last = stopped(worker);
    let port = &last.switches[0].ports[1];
    assert_eq!(port.residence, Residence { corrected: 2, saturated: 0, no_field: 1 });
    assert!(port.transparent_clock && !last.switches[0].ports[0].transparent_clock);
}
