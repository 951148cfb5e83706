//! The configuration file of a daemon (ptp4l(8)).

use crate::clock::{DelayMechanism, FilterChoice, Transport};
use plimsoll_model::Filter;

/// As linuxptp's gPTP.cfg has it, but for neighborPropDelayThresh.
const GPTP: &str = "transportSpecific 0x1\n\
                    ptp_dst_mac 01:80:C2:00:00:0E\n\
                    gmCapable 1\n\
                    priority1 248\n\
                    priority2 248\n\
                    syncReceiptTimeout 3\n\
                    neighborPropDelayThresh 1000000000\n\
                    min_neighbor_prop_delay -20000000\n\
                    assume_two_step 1\n\
                    path_trace_enabled 1\n\
                    follow_up_info 1\n";

/// Which profile of PTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// The default one of IEEE 1588-2019 annex I.
    #[default]
    Default,
    /// linuxptp's gPTP (IEEE 802.1AS), with its limit on the neighbour's delay of 800 ns raised to 1 s: no switch that
    /// is not itself of the profile is that fast. [`Transport::L2`] and [`DelayMechanism::P2p`] only.
    Gptp,
}

/// What both daemons of a pair are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `network_transport`.
    pub transport: Transport,
    /// `domainNumber`.
    pub domain: u8,
    /// `logSyncInterval` and `logMinDelayReqInterval`: log2 of seconds, -7..=4.
    pub log_interval: i8,
    /// What the client itself makes of the four times: `tsproc_mode raw` is an offset of one Sync and one Delay_Req, the
    /// paper's equation 3; median or mean of the last delays is `tsproc_mode filter` with its `delay_filter`. It has no
    /// other filter, and is raw there. This changes what it logs, not the records.
    pub filter: FilterChoice,
    /// `delay_mechanism`.
    pub delay: DelayMechanism,
    /// What else the profile says.
    pub profile: Profile,
}

impl Settings {
    /// The defaults: domain 0, 64 messages a second, raw, end to end.
    pub const fn new(transport: Transport) -> Self {
        Self {
            transport,
            domain: 0,
            log_interval: -6,
            filter: FilterChoice { filter: Filter::None, window: 1 },
            delay: DelayMechanism::E2e,
            profile: Profile::Default,
        }
    }

    pub(super) fn server(&self, interface: &str) -> String {
        // After two announce intervals without another master it takes the role.
        self.file(interface, "masterOnly 1\nannounceReceiptTimeout 2\nuds_address server\n")
    }

    /// `monitor` is the name of the event monitor's socket.
    pub(super) fn client(&self, interface: &str, monitor: &str) -> String {
        let delays = |filter: &str| {
            format!("filter\ndelay_filter {filter}\ndelay_filter_length {}", self.filter.window)
        };
        let processing = match self.filter.filter {
            Filter::MedianDelay => delays("moving_median"),
            Filter::MeanDelay => delays("moving_average"),
            Filter::None | Filter::MedianOffset | Filter::MeanOffset | Filter::MinRtt => "raw".to_owned(),
        };
        // Announces that a full queue drops do not make it give its server up. While it runs free it looks at the
        // clock once a second, and says so each time if the summary is no longer than the Sync interval.
        let more = format!(
            "slaveOnly 1\n\
             announceReceiptTimeout 255\n\
             uds_address client\n\
             slave_event_monitor {monitor}\n\
             tsproc_mode {processing}\n\
             freq_est_interval 0\n\
             summary_interval {}\n",
            self.log_interval
        );
        self.file(interface, &more)
    }

    fn file(&self, interface: &str, more: &str) -> String {
        let Self { domain, log_interval, .. } = self;
        // NTP is none of ptp4l's: files that ask for it are refused.
        let transport = self.transport.linuxptp_name().unwrap_or("UDPv4");
        let delay = match self.delay {
            DelayMechanism::E2e => "E2E",
            DelayMechanism::P2p => "P2P",
        };
        let profile = match self.profile {
            Profile::Default => "",
            Profile::Gptp => GPTP,
        };
        // Where the machine is late with a transmit timestamp, the port starts again after 0.25 s, not 16 s.
        format!(
            "[global]\n\
             time_stamping software\n\
             free_running 1\n\
             network_transport {transport}\n\
             delay_mechanism {delay}\n\
             domainNumber {domain}\n\
             logSyncInterval {log_interval}\n\
             logMinDelayReqInterval {log_interval}\n\
             logMinPdelayReqInterval {log_interval}\n\
             logAnnounceInterval -2\n\
             tx_timestamp_timeout 50\n\
             fault_reset_interval -2\n\
             use_syslog 0\n\
             verbose 1\n\
             logging_level 6\n\
             {profile}{more}[{interface}]\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_s_file_never_touches_a_clock_and_names_its_monitor() {
        let settings = Settings {
            domain: 3,
            log_interval: -4,
            filter: FilterChoice { filter: Filter::MedianDelay, window: 8 },
            ..Settings::new(Transport::UdpV6)
        };
        let file = settings.client("h2", "events");
        for line in [
            "free_running 1",
            "time_stamping software",
            "network_transport UDPv6",
            "domainNumber 3",
            "logSyncInterval -4",
            "logMinDelayReqInterval -4",
            "summary_interval -4",
            "slaveOnly 1",
            "slave_event_monitor events",
            "tsproc_mode filter",
            "delay_filter moving_median",
            "delay_filter_length 8",
            "tx_timestamp_timeout 50",
        ] {
            assert!(file.lines().any(|found| found == line), "{line} in {file}");
        }
        assert!(file.starts_with("[global]\n") && file.ends_with("\n[h2]\n"), "{file}");
    }

    #[test]
    fn both_files_run_free_and_have_sockets_of_their_own() {
        let settings = Settings::new(Transport::L2);
        let (server, client) = (settings.server("h1"), settings.client("h2", "events"));
        for file in [&server, &client] {
            assert!(file.contains("free_running 1\n") && file.contains("logSyncInterval -6\n"));
        }
        assert!(server.contains("uds_address server\n") && client.contains("uds_address client\n"));
    }
}
