//! What a server of Network Time Security proves itself by.

use crate::daemon::{DaemonError, Program};
use std::net::IpAddr;

const OPENSSL: Program = Program { name: "openssl", package: "openssl", remedy: "install its package again" };

/// A certificate that signs itself, and its private key: for a lab, where nobody else is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// PEM.
    pub(super) certificate: String,
    /// PEM.
    pub(super) private_key: String,
}

impl Certificate {
    /// One for the server at `address`, valid for a day from now; made by the program `openssl`.
    ///
    /// # Errors
    /// [`DaemonError::Missing`], or openssl's own last words.
    pub fn for_server(address: IpAddr) -> Result<Self, DaemonError> {
        let name = format!("subjectAltName=IP:{address}");
        let arguments = [
            ["req", "-x509", "-nodes", "-days", "1", "-subj", "/CN=plimsoll lab"].as_slice(),
            &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
            &["-addext", &name, "-keyout", "-", "-out", "-"],
        ];
        let output = OPENSSL.run(&address.to_string(), &arguments.concat())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let at = text.find("-----BEGIN CERTIFICATE-----").filter(|_| output.status.success());
        let Some((private_key, certificate)) = at.map(|at| text.split_at(at)) else {
            return Err(DaemonError::Ended {
                daemon: OPENSSL.name,
                place: address.to_string(),
                status: output.status.to_string(),
                said: String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("nothing").to_owned(),
                remedy: OPENSSL.remedy,
            });
        };
        Ok(Self { certificate: certificate.to_owned(), private_key: private_key.to_owned() })
    }

    /// Whether what makes one is there.
    pub(super) fn tool() -> Result<(), DaemonError> {
        OPENSSL.version("version").map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_and_its_key_are_apart() {
        let made = Certificate::for_server(IpAddr::from([10, 0, 0, 1])).unwrap();
        assert!(made.certificate.starts_with("-----BEGIN CERTIFICATE-----\n"), "{made:?}");
        assert!(made.private_key.starts_with("-----BEGIN PRIVATE KEY-----\n"), "{made:?}");
        assert_ne!(made, Certificate::for_server(IpAddr::from([10, 0, 0, 1])).unwrap());
        assert!(Certificate::for_server("fd00::1".parse().unwrap()).is_ok());
    }
}
