//! The classifier as the kernel runs it: the committed object, loaded, verified and run by BPF_PROG_TEST_RUN on the
//! same table that the native test reads.

#[path = "../../ebpf/classify/tests/table/mod.rs"]
mod table;

use aya::maps::{MapData, PerCpuArray, RingBuf, XskMap};
use aya::programs::{SchedClassifier, TestRun, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use plimsoll_classify::{
    Class, Count, EXPRESS_PRIORITY, MAP_COUNTS, MAP_SOCKETS, MAP_TAP_LOST, MAP_TAP_RECORDS, MAX_QUEUES,
    META_LEN, PROGRAM_CLASSIFY, PROGRAM_CLASSIFY_FRAGS, PROGRAM_TAP, PROGRAM_TAP_EGRESS, PROGRAM_TAP_INGRESS,
    TAP_HEAD, TapPoint, TapRecord, WINDOW, socket_slot,
};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::time::{ClockId, clock_gettime};
use table::frames;

static CLASSIFIER: &[u8] = aya::include_bytes_aligned!("../../ebpf/prebuilt/plimsoll.o");
static TAP: &[u8] = aya::include_bytes_aligned!("../../ebpf/prebuilt/tap.o");

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_REDIRECT: u32 = 4;
/// BPF_PROG_TEST_RUN takes no frame without a whole Ethernet header.
const LEAST: usize = 14;

fn load(object: &'static [u8], configure: impl FnOnce(&mut EbpfLoader<'static>)) -> Ebpf {
    let root = rustix::process::geteuid().is_root();
    assert!(root, "loading BPF programs needs root: run this test as root or by the runner scripts/as-root");
    let mut loader = EbpfLoader::new();
    configure(&mut loader);
    let mut ebpf = loader.load(object).expect("the object loads");
    for (name, program) in ebpf.programs_mut() {
        match program {
            aya::programs::Program::Xdp(program) => program.load(),
            aya::programs::Program::SchedClassifier(program) => program.load(),
            other => panic!("{name} is a {other:?}"),
        }
        .unwrap_or_else(|error| panic!("the verifier refuses {name}: {error:?}"));
    }
    ebpf
}

fn classifier(configure: impl FnOnce(&mut EbpfLoader<'static>)) -> Ebpf {
    load(CLASSIFIER, configure)
}

fn xdp<'a>(ebpf: &'a Ebpf, name: &str) -> &'a Xdp {
    ebpf.program(name).expect("the program is in the object").try_into().expect("an XDP program")
}

/// Runs the program on a frame: its action, and what stands in memory from the metadata on.
fn run(program: &Xdp, frame: &[u8]) -> (u32, Vec<u8>) {
    let mut out = vec![0; META_LEN + frame.len()];
    let mut options = TestRunOptions::new();
    options.data_in = Some(frame);
    options.data_out = Some(&mut out);
    let result = program.test_run(options).expect("BPF_PROG_TEST_RUN");
    out.truncate(result.data_size_out as usize);
    (result.return_value, out)
}

/// What the program wrote before the frame, the frame behind it being unchanged.
fn metadata(out: &[u8], frame: &[u8]) -> (Class, u64) {
    let (metadata, rest) = out.split_first_chunk::<META_LEN>().expect("metadata");
    assert!(rest == frame, "the frame is changed");
    Class::from_meta(metadata).expect("metadata of this version")
}

fn counts(ebpf: &Ebpf) -> Vec<u64> {
    let map: PerCpuArray<&MapData, u64> = ebpf.map(MAP_COUNTS).expect("the map").try_into().expect("per CPU");
    Count::ALL.map(|count| map.get(&(count as u32), 0).expect("a count").iter().sum()).to_vec()
}

/// Puts sockets into these slots. Unbound ones do: test runs decide the redirect and do not carry it out.
fn sockets(ebpf: &mut Ebpf, slots: &[u32]) -> Vec<OwnedFd> {
    let mut map: XskMap<_> = ebpf.map_mut(MAP_SOCKETS).expect("the map").try_into().expect("an XSKMAP");
    slots
        .iter()
        .map(|slot| {
            let fd = socket(AddressFamily::XDP, SocketType::RAW, None).expect("an AF_XDP socket");
            map.set(*slot, fd.as_raw_fd(), 0).expect("the slot takes the socket");
            fd
        })
        .collect()
}

fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[test]
fn the_kernel_says_of_every_frame_what_the_table_says() {
    let mut ebpf = classifier(|_| {});
    let _sockets = sockets(&mut ebpf, &[socket_slot(0, false)]);
    for name in [PROGRAM_CLASSIFY, PROGRAM_CLASSIFY_FRAGS] {
        let program = xdp(&ebpf, name);
        let mut wrong = Vec::new();
        let mut frames = 0;
        for row in table::rows().into_iter().filter(|row| row.frame.len() >= LEAST) {
            let before = monotonic();
            let (action, out) = run(program, &row.frame);
            let after = monotonic();
            let (found, arrival) = metadata(&out, &row.frame);
            assert_eq!(action, XDP_REDIRECT, "{}", row.name);
            assert!(before <= arrival && arrival <= after, "{}: arrival {arrival} is not now", row.name);
            frames += 1;
            if found != row.class {
                wrong.push(format!("{}\n  is    {found:?}\n  wants {:?}", row.name, row.class));
            }
        }
        assert!(wrong.is_empty(), "{name}: {} of {frames} wrong:\n{}", wrong.len(), wrong.join("\n"));
        assert!(frames >= 150, "only {frames} frames");
    }
}

#[test]
fn the_kernel_and_user_space_agree_on_damaged_frames() {
    let mut ebpf = classifier(|_| {});
    let _sockets = sockets(&mut ebpf, &[socket_slot(0, false)]);
    let program = xdp(&ebpf, PROGRAM_CLASSIFY);
    let seed = 0x504C_494D;
    let mut random = SmallRng::seed_from_u64(seed);
    let frames: Vec<Vec<u8>> = table::whole().into_iter().map(|row| row.frame).collect();
    for round in 0..1000 {
        let mut frame = frames.choose(&mut random).expect("frames").clone();
        for _ in 0..random.random_range(1..5) {
            let at = random.random_range(12..frame.len().min(130));
            frame[at] = random.random();
        }
        frame.resize(random.random_range(LEAST..frame.len() + 20), 0x5A);
        let (action, out) = run(program, &frame);
        assert_eq!(action, XDP_REDIRECT);
        let mut window = [0; WINDOW];
        let seen = frame.len().min(WINDOW);
        window[..seen].copy_from_slice(&frame[..seen]);
        let native = plimsoll_classify::classify(&window, frame.len() as u32);
        assert_eq!(metadata(&out, &frame).0, native, "round {round} of seed {seed:#x}: {frame:02x?}");
    }
}

#[test]
fn a_frame_in_several_buffers_is_classified_too() {
    let mut ebpf = classifier(|_| {});
    let _sockets = sockets(&mut ebpf, &[socket_slot(0, false)]);
    let message = [frames::ptp(0, 2, 44), vec![0x5A; 8900]].concat();
    let packet = frames::ipv4(frames::V4::default(), &frames::udp(319, 319, &message));
    let frame = frames::summed(frames::ether(&[], frames::IPV4, &packet), 14, 34, frames::Sum::Partial);
    let (action, out) = run(xdp(&ebpf, PROGRAM_CLASSIFY_FRAGS), &frame);
    let (class, _) = metadata(&out, &frame);
    assert_eq!(action, XDP_REDIRECT);
    assert_eq!((class.kind, class.payload), (plimsoll_classify::Kind::PtpEvent, 42));
    assert!(class.flags.has(plimsoll_classify::Flags::PARTIAL_CHECKSUM));
}

/// Frames that steer: sync, of PCP 5 and 6, and of no priority.
fn steering_frames() -> [Vec<u8>; 4] {
    let arp = |tci| frames::padded(frames::ether(&[(frames::C_TAG, tci)], frames::ARP, &[0; 28]));
    [
        frames::padded(frames::ether(&[], frames::PTP, &frames::ptp(0, 2, 44))),
        arp(5 << 13),
        arp(6 << 13),
        frames::padded(frames::ether(&[], frames::ARP, &[0; 28])),
    ]
}

#[test]
fn sync_and_high_priorities_go_to_the_express_socket() {
    let (bulk, express) = (socket_slot(0, false), socket_slot(0, true));
    for (slots, threshold, actions, expected) in [
        // sync, PCP 5, PCP 6, none; then bulk, express, express as bulk, no socket.
        (vec![bulk, express], None, [XDP_REDIRECT; 4], [3, 1, 0, 0]),
        (vec![bulk], Some(6), [XDP_REDIRECT; 4], [2, 0, 2, 0]),
        (vec![express], Some(6), [XDP_REDIRECT, XDP_DROP, XDP_REDIRECT, XDP_DROP], [0, 2, 0, 2]),
        (vec![], None, [XDP_DROP; 4], [0, 0, 0, 4]),
        (vec![bulk, express], Some(5), [XDP_REDIRECT; 4], [1, 3, 0, 0]),
        (vec![bulk, express], Some(6), [XDP_REDIRECT; 4], [2, 2, 0, 0]),
        // Another queue's sockets are no substitute.
        (vec![socket_slot(1, false), socket_slot(1, true)], None, [XDP_DROP; 4], [0, 0, 0, 4]),
    ] {
        let mut ebpf = classifier(|loader| {
            if let Some(threshold) = &threshold {
                // Leaked so that the loader may borrow it: four octets of a test.
                let threshold: &'static u32 = Box::leak(Box::new(*threshold));
                loader.override_global(EXPRESS_PRIORITY, threshold, true);
            }
        });
        let _sockets = sockets(&mut ebpf, &slots);
        let program = xdp(&ebpf, PROGRAM_CLASSIFY);
        let found: Vec<u32> = steering_frames().iter().map(|frame| run(program, frame).0).collect();
        assert_eq!(found, actions, "sockets {slots:?}, threshold {threshold:?}");
        assert_eq!(counts(&ebpf)[..4], expected, "sockets {slots:?}, threshold {threshold:?}");
        assert_eq!(counts(&ebpf)[4..], [0, 0]);
    }
}

#[test]
fn the_socket_map_has_a_slot_for_every_queue() {
    let mut ebpf = classifier(|_| {});
    let _last = sockets(&mut ebpf, &[socket_slot(MAX_QUEUES - 1, true)]);
    let mut map: XskMap<_> = ebpf.map_mut(MAP_SOCKETS).expect("the map").try_into().expect("an XSKMAP");
    let fd = socket(AddressFamily::XDP, SocketType::RAW, None).expect("an AF_XDP socket");
    assert!(map.set(socket_slot(MAX_QUEUES, false), fd.as_raw_fd(), 0).is_err(), "there is no such queue");
}

#[test]
fn the_taps_record_and_let_pass() {
    let mut ebpf = load(TAP, |loader| {
        loader.map_max_entries(MAP_TAP_RECORDS, 1 << 16);
    });
    let ring = ebpf.take_map(MAP_TAP_RECORDS).expect("the ring");
    let mut ring = RingBuf::try_from(ring).expect("a ring buffer");
    let short = frames::padded(frames::ether(&[], frames::PTP, &frames::ptp(0, 2, 44)));
    let long = frames::ether(&[], frames::IPV4, &[0x5A; 1500]);
    for (name, point) in [
        (PROGRAM_TAP, TapPoint::Xdp),
        (PROGRAM_TAP_INGRESS, TapPoint::Ingress),
        (PROGRAM_TAP_EGRESS, TapPoint::Egress),
    ] {
        for frame in [&short, &long] {
            let before = monotonic();
            let action = if point == TapPoint::Xdp {
                run(xdp(&ebpf, name), frame).0
            } else {
                let program: &SchedClassifier =
                    ebpf.program(name).expect("the program").try_into().expect("tc");
                let mut options = TestRunOptions::new();
                options.data_in = Some(frame);
                program.test_run(options).expect("BPF_PROG_TEST_RUN").return_value
            };
            let after = monotonic();
            // tc: TC_ACT_UNSPEC, so that whatever is attached behind the tap still runs.
            assert_eq!(action, if point == TapPoint::Xdp { XDP_PASS } else { u32::MAX }, "{name}");
            let item = ring.next().expect("a record");
            let record = TapRecord::from_bytes(&item).expect("a record's length");
            assert_eq!(record.point, point as u8);
            assert_eq!(record.len as usize, frame.len());
            assert_eq!(record.head(), &frame[..frame.len().min(TAP_HEAD)]);
            assert!(record.head[record.head().len()..].iter().all(|octet| *octet == 0));
            assert!(before <= record.time && record.time <= after);
            assert!(record.segments <= 1);
        }
    }
    assert!(ring.next().is_none(), "one record a frame");

    // A full ring loses records and says how many.
    let program = xdp(&ebpf, PROGRAM_TAP);
    let runs = 1000;
    for _ in 0..runs {
        assert_eq!(run(program, &short).0, XDP_PASS);
    }
    let kept = std::iter::from_fn(|| ring.next().map(drop)).count() as u64;
    let lost: PerCpuArray<&MapData, u64> =
        ebpf.map(MAP_TAP_LOST).expect("the map").try_into().expect("per CPU");
    let lost: u64 = lost.get(&0, 0).expect("a count").iter().sum();
    assert!(lost > 0, "64 kB hold fewer than {runs} records");
    assert_eq!(kept + lost, runs);
}
