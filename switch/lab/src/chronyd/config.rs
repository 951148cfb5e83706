//! The configuration file of a daemon (chrony.conf(5)).

use super::{CERTIFICATE, Certificate, KEYS, METER_PORT, PRIVATE_KEY, SOCKET};
use std::{fmt::Write as _, net::IpAddr};

/// How packets are authenticated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// Not at all.
    #[default]
    None,
    /// By a message authentication code with this key for SHA-256 (RFC 5905 section 7.3): of a lab, so no secret.
    Key([u8; 32]),
    /// By Network Time Security (RFC 8915), the server being who this certificate says.
    Nts(Certificate),
}

/// What both daemons of a pair are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Of both ends.
    pub security: Security,
    /// Interval of the client's requests as log2 of seconds, -7..=24. While answers take more than 10 ms, chronyd waits
    /// 1 s at least.
    pub poll: i8,
    /// Interleaved mode (RFC 9769): answers carry when the one before was really sent.
    pub interleaved: bool,
}

/// What a client is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To follow its server.
    Follow,
    /// To write down every measurement, and to follow nobody: by a clock that it disciplined itself the offsets of a
    /// follower would be told.
    Measure,
}

impl Settings {
    /// Sixteen requests a second, basic mode.
    pub const fn new(security: Security) -> Self {
        Self { security, poll: -4, interleaved: false }
    }

    pub(super) fn server(&self) -> String {
        let mut text = "local stratum 1\nallow\n".to_owned();
        if let Security::Nts(_) = self.security {
            // No helper process, which could outlive the daemon.
            let _ = write!(text, "ntsservercert {CERTIFICATE}\nntsserverkey {PRIVATE_KEY}\nntsprocesses 0\n");
        }
        text + &self.common()
    }

    pub(super) fn client(&self, server: IpAddr, purpose: Purpose) -> String {
        let poll = self.poll;
        let (security, trusted) = match self.security {
            Security::None => ("", String::new()),
            Security::Key(_) => (" key 1", String::new()),
            Security::Nts(_) => (" nts", format!("ntstrustedcerts {CERTIFICATE}\nnosystemcert\n")),
        };
        let mode = if self.interleaved { " xleave" } else { "" };
        let (selection, more) = match purpose {
            Purpose::Follow => ("", String::new()),
            // One port for all requests, so that they are told from those of a follower on the same host.
            Purpose::Measure => (
                " noselect",
                format!(
                    "acquisitionport {METER_PORT}\nlogdir /proc/self/cwd\nlog rawmeasurements\nlogbanner 0\n"
                ),
            ),
        };
        format!(
            "server {server} minpoll {poll} maxpoll {poll}{security}{mode}{selection}\n{trusted}{more}{}",
            self.common()
        )
    }

    fn common(&self) -> String {
        let keys =
            if let Security::Key(_) = self.security { format!("keyfile {KEYS}\n") } else { String::new() };
        format!("{keys}cmdport 0\nbindcmdaddress {SOCKET}\npidfile /proc/self/cwd/pid\nuser root\n")
    }

    /// Its files beside the configuration: name and content.
    pub(super) fn files(&self) -> Vec<(&'static str, String)> {
        match &self.security {
            Security::None => Vec::new(),
            Security::Key(key) => {
                let mut line = "1 SHA256 HEX:".to_owned();
                for octet in key {
                    let _ = write!(line, "{octet:02X}");
                }
                vec![(KEYS, line + "\n")]
            }
            Security::Nts(made) => {
                vec![(CERTIFICATE, made.certificate.clone()), (PRIVATE_KEY, made.private_key.clone())]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(security: Security) -> String {
        Settings::new(security).client(IpAddr::from([10, 0, 0, 1]), Purpose::Follow)
    }

    #[test]
    fn a_client_that_measures_follows_nobody_and_writes_every_measurement_down() {
        let settings = Settings { interleaved: true, poll: -6, ..Settings::new(Security::None) };
        let text = settings.client(IpAddr::from([10, 0, 0, 1]), Purpose::Measure);
        assert!(text.starts_with("server 10.0.0.1 minpoll -6 maxpoll -6 xleave noselect\n"), "{text}");
        for line in ["acquisitionport 1123", "logdir /proc/self/cwd", "log rawmeasurements", "logbanner 0"] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }

    #[test]
    fn a_client_is_told_its_server_and_how_to_trust_it() {
        let first = |text: &str| text.lines().next().unwrap().to_owned();
        assert_eq!(first(&client(Security::None)), "server 10.0.0.1 minpoll -4 maxpoll -4");
        assert_eq!(first(&client(Security::Key([7; 32]))), "server 10.0.0.1 minpoll -4 maxpoll -4 key 1");
        let made = Certificate { certificate: "c".into(), private_key: "k".into() };
        let text = client(Security::Nts(made));
        assert_eq!(first(&text), "server 10.0.0.1 minpoll -4 maxpoll -4 nts");
        assert!(text.contains("\nntstrustedcerts certificate.pem\nnosystemcert\n"), "{text}");
    }

    #[test]
    fn both_ends_have_the_key_and_only_a_socket_of_their_own() {
        let settings = Settings::new(Security::Key([0xAB; 32]));
        assert_eq!(settings.files(), [(KEYS, format!("1 SHA256 HEX:{}\n", "AB".repeat(32)))]);
        for text in [settings.server(), settings.client(IpAddr::from([10, 0, 0, 1]), Purpose::Follow)] {
            for line in ["keyfile keys", "cmdport 0", "bindcmdaddress /proc/self/cwd/socket", "user root"] {
                assert!(text.lines().any(|found| found == line), "{line} in {text}");
            }
        }
    }
}
