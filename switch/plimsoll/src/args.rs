//! The command line.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use plimsoll_core::Span;
use plimsoll_lab::{
    clock::{DelayMechanism, FilterChoice, INTERVALS, Stamps, Transport},
    record::RecordFile,
};

/// A software switch that marks congestion on PTP and NTP messages, so that clocks can subtract it.
///
/// First steps: `plimsoll lab run one-hop` builds a small network in namespaces, congests it, and prints the clock's
/// error with and without marks. `plimsoll doctor` says what this machine can do.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 110)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a switch on this machine's interfaces until SIGINT or SIGTERM
    Run(Run),
    /// Show what a running switch counts
    Show(Show),
    /// Hold a port's emulated link, or let it serve again: builds a queue of known depth
    Link(Link),
    /// Say what this machine, or an interface, can do, and what stands in the way
    Doctor(Doctor),
    /// Build, run and enter labs: networks of namespaces with real frames
    #[command(subcommand)]
    Lab(Lab),
    /// Find delta and R for known delays by the paper's model, or evaluate one setting
    Plan(Plan),
    /// Simulate a lab in virtual time: the same switch, file and tables, without the machine
    Sim(Sim),
    /// Let this host's unmodified ptp4l and chronyd profit from marks, by BPF programs on an interface
    #[command(subcommand)]
    Host(Host),
    /// Measure with a PTP or NTP clock: a server or a free-running client, which never touches the system's clock
    Clock(Clock),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Run {
    /// File with a [switch] and its ports (TOML); --port adds to it
    pub(crate) file: Option<PathBuf>,
    /// An interface to own: NAME[,KEY=VALUE..] with the keys of [[port]] (e.g. eth1,rate=100mbit,edge): rate, delay,
    /// queue, queue-frames, class, sync-class, mode, release, mark, ecn, edge, transparent-clock, remark, trust, step,
    /// quanta=1500B+3000B (deficit round robin of the lowest classes), storm=FRAMES-PER-SECOND+BURST, pass=0e+00,
    /// vlan=access:10, vlan=trunk:10+20-29, native=1
    #[arg(long = "port", value_name = "NAME[,KEY=VALUE..]")]
    pub(crate) ports: Vec<String>,
    #[command(flatten)]
    pub(crate) marking: Marking,
    /// Constant time from a frame's ideal departure to its release; 100us makes marks exact
    #[arg(long, default_value = None)]
    pub(crate) latency: Option<Span>,
    /// What to do when there is nothing to do
    #[arg(long)]
    pub(crate) idle: Option<IdleArg>,
    /// CPU for the worker to stay on
    #[arg(long)]
    pub(crate) cpu: Option<usize>,
    /// Write ground truth of every frame: to FILE.csv a line each, to FILE.pcapng the frames as they were released,
    /// with depth, r and words as comments (time messages up to 1024 octets, of others the first 128)
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(RecordFile::new))]
    pub(crate) record: Option<RecordFile>,
    /// Name by which `plimsoll show` finds this switch: letters, digits, - and _
    #[arg(long)]
    pub(crate) name: Option<String>,
}

/// Instead of what the file says in [marking]; all its other keys are the file's alone.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub(crate) struct Marking {
    /// Delay that one mark stands for (e.g. 60us); one value per network. Without it, here or in the file, nothing is
    /// counted
    #[arg(long)]
    pub(crate) delta: Option<Span>,
    /// Thresholds per hop, R
    #[arg(long)]
    pub(crate) thresholds: Option<u32>,
    /// Where the thresholds lie
    #[arg(long)]
    pub(crate) rule: Option<RuleArg>,
    /// Largest value of the marking counter, N
    #[arg(long)]
    pub(crate) counter_max: Option<u32>,
    /// How a count is written
    #[arg(long)]
    pub(crate) counter: Option<CounterArg>,
    /// Whether requests and responses have counts of their own (FR)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) forward_reverse: Option<bool>,
    /// Depth, as time on the link, from which on ECN marks packets CE (e.g. 120us)
    #[arg(long)]
    pub(crate) ecn_threshold: Option<Span>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CounterArg {
    /// An integer: N is 2^30 - 1
    Integer,
    /// A thermometer, one bit a mark: N is 29
    BitShift,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum IdleArg {
    /// Always busy: the truest times
    Spin,
    /// Busy for 100 us after the last frame, then asleep
    Adaptive,
    /// Asleep at once: the least CPU
    Sleep,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Show {
    /// What to show
    pub(crate) what: What,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Which switch, where several run
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// With fdb: forget the learnt addresses
    #[arg(long)]
    pub(crate) flush: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Ports: mode, rate, frames in and out, lateness
    Ports,
    /// Queues: scheduling, depth now and at most, by class
    Queues,
    /// Addresses learnt
    Fdb,
    /// Every frame that was lost, by the place and the name of the reason
    Drops,
    /// Marks by count, and why messages were not marked
    Marks,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Link {
    /// What to do with it
    pub(crate) what: Serve,
    /// The port, or SWITCH/PORT where several switches of a lab have one of this name
    pub(crate) port: String,
    /// Which switch or lab, where several run
    #[arg(long)]
    pub(crate) name: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Serve {
    /// Let no further frame start; what comes is queued, until the queue is full
    Hold,
    /// Serve again from now on
    Release,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Doctor {
    /// Interfaces to look at
    pub(crate) interfaces: Vec<String>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Build a lab, run its traffic and clocks, print the tables, and remove everything
    Run(LabRun),
    /// Build a lab and leave it running
    Up(LabUp),
    /// Stop a lab that `up` left running
    Down {
        /// The lab's name
        name: String,
    },
    /// Run a command on a host (or switch) of a running lab
    Exec {
        /// The lab's name
        name: String,
        /// The host
        host: String,
        /// Command and arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
    /// List the labs that are built in and those that run
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a built-in lab's file, to copy and change
    Cat {
        /// The lab's name
        name: String,
    },
    /// Remove what labs that were killed left behind
    Clean,
}

/// What goes before a lab's file.
#[derive(Debug, ClapArgs)]
pub(crate) struct Overriding {
    /// How long to measure (e.g. 20s); the file's own duration otherwise
    #[arg(long)]
    pub(crate) duration: Option<Span>,
    /// Seed of the traffic; the file's own otherwise
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) marking: Marking,
    /// Share of the slowest link that every flow offers (e.g. 0.9; above 1 its queue overflows); the file's own otherwise
    #[arg(long)]
    pub(crate) load: Option<f64>,
}

/// What the tables of a result say, for --help.
const COLUMNS: &str = "Columns of the tables:\n  \
    clock  offset error without marks (raw) and with them (compensated), as rms, rms of the best 99 % and median of\n  \
    \x20      the absolute error; exchanges measured, and those whose counter was full (saturated)\n  \
    flow   offered and delivered rate on the wire; frames sent and lost; latency from host to host; how late the\n  \
    \x20      source sent; how often and how long it stood still, since the machine stopped it\n  \
    port   rate of the emulated link; back to back: the rate of frames that left right behind another, measured at\n  \
    \x20      their release (`-`: too few did); used: share of the rate; depth found by frames, in octets on the wire;\n  \
    \x20      frames dropped by the queue; messages marked; how true releases were: share within 1 us of the ideal\n  \
    \x20      instant, and 99th percentile; inversions: frames that came out of the order of their stamps";

#[derive(Debug, ClapArgs)]
#[command(after_help = COLUMNS)]
pub(crate) struct Sim {
    #[command(flatten)]
    pub(crate) run: LabRun,
    /// Simulate so many seeds, from the given one on, side by side, and print means with their standard errors
    #[arg(long, value_name = "N", conflicts_with_all = ["record", "clocks"], value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: Option<u32>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = COLUMNS)]
pub(crate) struct LabRun {
    /// A built-in lab (`plimsoll lab list`) or a file
    pub(crate) lab: String,
    #[command(flatten)]
    pub(crate) overriding: Overriding,
    /// As JSON, to standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress on standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Write ground truth of every frame: to FILE.csv a line each, to FILE.pcapng the frames as they were released,
    /// with depth, r and words as comments (time messages up to 1024 octets, of others the first 128)
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(RecordFile::new))]
    pub(crate) record: Option<RecordFile>,
    /// Write for each clock its exchanges (NAME.csv), a plot of its offset over time (NAME.svg), and what a daemon said of
    /// itself (NAME-said.csv)
    #[arg(long, value_name = "DIR")]
    pub(crate) clocks: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct LabUp {
    /// A built-in lab or a file
    pub(crate) lab: String,
    /// Also start the lab's flows; clocks are yours to start, by `lab exec LAB HOST -- plimsoll clock ..` or a daemon of
    /// your own
    #[arg(long)]
    pub(crate) traffic: bool,
    /// Stay in the foreground
    #[arg(long)]
    pub(crate) foreground: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Host {
    /// Attach the programs, in place of those of an earlier call; they stay until `detach`, or as long as the interface
    Attach(HostAttach),
    /// Take off whatever of ours is attached
    Detach {
        /// Interface
        interface: String,
    },
    /// Show what is attached, with its counters
    Show {
        /// Interface; all that have something attached otherwise
        interface: Option<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct HostAttach {
    /// Interface
    pub(crate) interface: String,
    /// Delay that one mark stands for (e.g. 60us): the network's
    #[arg(long)]
    pub(crate) delta: Span,
    /// Subtract n*delta from receive timestamps: PTP over UDP, NTP, NTP over PTP; software timestamps. This is what
    /// happens without --timestamp and --correction
    #[arg(long)]
    pub(crate) timestamp: bool,
    /// Add n*delta to correctionField: PTP over Ethernet and UDP, hardware timestamps too. With --timestamp beside it the
    /// timestamps are NTP's
    #[arg(long)]
    pub(crate) correction: bool,
    /// With --correction: correct the follow-ups of two-step messages instead, for clocks that read nothing else (some
    /// 802.1AS stacks)
    #[arg(long)]
    pub(crate) follow_up: bool,
    /// With timestamps: delay that one CE of an NTP message stands for where its field has no count: the ECN
    /// threshold's. Without it delta; 0us for none, as where switches count in the ECN bits
    #[arg(long)]
    pub(crate) ce: Option<Span>,
    /// Largest count that is believed, N; n*delta is at most 1 s in any case
    #[arg(long, value_name = "N", default_value_t = plimsoll_core::config::MAX_COUNT, hide_default_value = true)]
    pub(crate) counter_max: u32,
    /// Make time messages that leave ECN-capable: ECT(0) or ECT(1)
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u8).range(0..=1))]
    pub(crate) ect: Option<u8>,
    /// Append the extension field in which switches count to NTP messages that leave without a MAC, NTS or fields
    #[arg(long)]
    pub(crate) ntp_field: bool,
    /// How --correction is attached
    #[arg(long, default_value = "auto")]
    pub(crate) xdp: XdpArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum XdpArg {
    /// Native where the driver can, generic on veth
    Auto,
    /// In the driver
    Native,
    /// In the network stack
    Generic,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Clock {
    /// Which end of the exchange
    #[arg(long)]
    pub(crate) role: Role,
    /// Interface
    #[arg(long)]
    pub(crate) interface: String,
    /// What carries the exchange: PTP over l2, udp4, udp6; NTP with the marking extension field over ntp4, ntp6
    #[arg(long, default_value = "udp4")]
    pub(crate) transport: Transport,
    /// How a PTP client measures the delay of the path: e2e, to the server, or p2p, to the peer; a server answers both
    /// [default: e2e]
    #[arg(long, value_name = "E2E|P2P")]
    pub(crate) delay_mechanism: Option<DelayMechanism>,
    /// The NTP server's address, which a client over ntp4 or ntp6 asks
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) server: Option<IpAddr>,
    /// Interval of Sync and of requests, 1ms to 10s [default: 15625us]
    #[arg(long, value_parser = interval)]
    pub(crate) interval: Option<Span>,
    /// Delay that one mark stands for. A client compensates with it; a PTP server adds it to the correction of its
    /// Delay_Resps, not of its Pdelay_Resps
    #[arg(long)]
    pub(crate) delta: Option<Span>,
    /// Largest count that a client believes: N, or the sum of all R on the way where that is less. n*delta is at most 1 s in
    /// any case
    #[arg(long, value_name = "N", requires = "delta", value_parser = counter_max)]
    pub(crate) counter_max: Option<u32>,
    /// What a client also makes of its offsets, over the last exchanges [default: none]
    #[arg(long)]
    pub(crate) filter: Option<FilterArg>,
    /// How many exchanges the filter is long, M [default: 10]
    #[arg(long, value_name = "M", requires = "filter", value_parser = window)]
    pub(crate) window: Option<usize>,
    /// Who stamps PTP messages: software (the kernel), or hardware: the interface, by its own clock (untested)
    #[arg(long, value_name = "SOFTWARE|HARDWARE", default_value = "software")]
    pub(crate) timestamps: Stamps,
    /// How long to run; until SIGINT otherwise
    #[arg(long)]
    pub(crate) duration: Option<Span>,
    /// PTP domain [default: 0]
    #[arg(long)]
    pub(crate) domain: Option<u8>,
    /// A client's samples and summary, or a server's counters, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Of a clock's messages: as long as a file may say.
fn interval(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|e| format!("{e}"))?;
    let takes = INTERVALS.contains(&Duration::from_nanos(span.nanos()));
    if takes { Ok(span) } else { Err("write 1ms to 10s".into()) }
}

/// N, as of a switch.
fn counter_max(text: &str) -> Result<u32, String> {
    let most = plimsoll_core::config::MAX_COUNT;
    text.parse()
        .ok()
        .filter(|n| (1..=most).contains(n))
        .ok_or_else(|| format!("write 1 to {most} (2^30 - 1)"))
}

/// M: as many as a file may say.
fn window(text: &str) -> Result<usize, String> {
    let longest = FilterChoice::LONGEST;
    text.parse().ok().filter(|m| (1..=longest).contains(m)).ok_or_else(|| format!("write 1 to {longest}"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FilterArg {
    /// Each exchange's own offset
    None,
    /// The last Sync's delay less the median delay, as ptp4l does it by default
    MedianDelay,
    /// The last Sync's delay less the mean delay
    MeanDelay,
    /// Median of the offsets
    MedianOffset,
    /// Mean of the offsets: a moving average
    MeanOffset,
    /// Offset of the exchange with the least round trip
    MinRtt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Sends Sync, answers Delay_Req
    Server,
    /// Measures its offset from the server
    Client,
}

/// How LAWs are written, for --help.
const LAWS: &str = "LAW, the queueing delay at one hop, is one of\n  \
    mm1(850B/8us@1gbit)            wait in an M/M/1 queue: mean size on the wire, mean gap, rate\n  \
    exp(7us), exp(7us,p=0.34)      exponential of this mean with probability p, else zero\n  \
    gamma(2.5,7us,p=0.34)          gamma: shape, mean; p as above\n  \
    constant(7us)                  always the same\n  \
    points(0us:0.5,10us:0.5)       delays with weights\n  \
    samples(FILE)                  recorded delays, one a line: 12.5us, or a number of nanoseconds; or a CSV\n  \
    \x20                              file with a column depth_ps or delay_ns\n  \
    histogram(FILE)                lines FROM,TO,COUNT\nHops of a path are separated by commas; a path that is not given \
    has no queues.";

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true, after_help = LAWS)]
pub(crate) struct Plan {
    #[command(subcommand)]
    pub(crate) command: Option<PlanCommand>,
    #[command(flatten)]
    pub(crate) search: PlanSearch,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Counter, delay error and improvement of one setting (Algorithm 1)
    Evaluate(PlanEvaluate),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PlanSearch {
    /// Laws of the hops that requests pass; once for each pair of clocks. With --running: the ports that they leave by
    #[arg(long, value_name = "LAW,..")]
    pub(crate) forward: Vec<String>,
    /// Laws of the hops that responses pass, of the pairs in the same order. With --running: ports
    #[arg(long, value_name = "LAW,..")]
    pub(crate) reverse: Vec<String>,
    /// Take pairs and what their messages met from what `lab run`, `sim` or `run` recorded: FILE.csv or FILE.pcapng, PTP
    /// (E2E or P2P) and NTP. Each message counts as a whole, and what was recorded while a lab settled does not
    #[arg(long, value_name = "FILE", conflicts_with_all = ["forward", "reverse", "running"])]
    pub(crate) recording: Option<PathBuf>,
    /// Take laws from the depths that messages of clocks have found since a running switch or lab was started, within
    /// 1/32. --forward and --reverse name ports then (PORT or SWITCH/PORT, ..), where there are more than one pair's
    #[arg(long)]
    pub(crate) running: bool,
    /// With --running: which switch, where several run
    #[arg(long, requires = "running")]
    pub(crate) name: Option<String>,
    /// Values of R to compare
    #[arg(long, value_name = "R,..", value_delimiter = ',', default_value = "1,2,4,8,16,32,64,128")]
    pub(crate) thresholds: Vec<u32>,
    /// Largest value of the marking counter, N; the whole integer word otherwise
    #[arg(long, value_name = "N", default_value_t = plimsoll_core::config::MAX_COUNT)]
    pub(crate) counter_max: u32,
    /// Where thresholds lie
    #[arg(long, default_value = "edge")]
    pub(crate) rule: RuleArg,
    /// What is to be small
    #[arg(long, default_value = "mean")]
    pub(crate) objective: ObjectiveArg,
    /// With --objective surge: how many times as much traffic (M/M/1), or as long delays (other laws)
    #[arg(long, value_name = "FACTOR", default_value_t = 1.2)]
    pub(crate) surge: f64,
    /// With --objective surge: its share of the time, 0..1
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    pub(crate) surge_share: f64,
    /// With --objective uncertainty: the probability to stay within the bound, up to 0.99999
    #[arg(long, value_name = "P", default_value_t = 0.999)]
    pub(crate) coverage: f64,
    /// As JSON; its `marking` is the table of that name in a file
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = LAWS)]
pub(crate) struct PlanEvaluate {
    /// Laws of the hops that requests pass
    #[arg(long, value_name = "LAW,..")]
    pub(crate) forward: String,
    /// Laws of the hops that responses pass; no queues otherwise
    #[arg(long, value_name = "LAW,..", default_value = "", hide_default_value = true)]
    pub(crate) reverse: String,
    /// Delay that one mark stands for (e.g. 60us)
    #[arg(long)]
    pub(crate) delta: Span,
    /// Thresholds per hop, R
    #[arg(long)]
    pub(crate) thresholds: u32,
    /// Largest value of the marking counter, N; the whole integer word otherwise
    #[arg(long, value_name = "N", default_value_t = plimsoll_core::config::MAX_COUNT)]
    pub(crate) counter_max: u32,
    /// Where thresholds lie
    #[arg(long, default_value = "edge")]
    pub(crate) rule: RuleArg,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RuleArg {
    /// Threshold i at i*delta, as in the paper
    Edge,
    /// Threshold i at (i - 1/2)*delta: less bias
    Centred,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectiveArg {
    /// The mean MSE of all pairs
    Mean,
    /// The largest MSE of any pair
    Minimax,
    /// The mean MSE, part of the time in a surge of traffic
    Surge,
    /// The offset error that no pair exceeds with more than a small probability
    Uncertainty,
}
