//! Programs of the distribution that a measurement needs: `ip`, `tc`, `ethtool`, `ping`, `iperf3`, `dumpcap`, `tshark`.

use crate::stage::Host;
use anyhow::{Context, Result, bail};
use plimsoll_port::namespace::Namespace;
use serde_json::Value;
use std::{
    net::IpAddr,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Runs a tool in a namespace to its end; its arguments are separated by spaces.
pub(crate) fn run(namespace: &Namespace, tool: &str, arguments: &str) -> Result<()> {
    let output = output(namespace, tool, arguments)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{tool} {arguments}: {}: {}", output.status, said.trim());
    }
    Ok(())
}

/// Runs a tool in a namespace to its end and returns what it said.
pub(crate) fn output(namespace: &Namespace, tool: &str, arguments: &str) -> Result<Output> {
    spawn(namespace, tool, arguments)?.wait_with_output().with_context(|| format!("{tool} {arguments}"))
}

/// Starts a tool in a namespace. It is killed when the calling thread ends.
pub(crate) fn spawn(namespace: &Namespace, tool: &str, arguments: &str) -> Result<Child> {
    let mut command = Command::new(tool);
    command.args(arguments.split_whitespace());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    namespace
        .enter_command(&mut command)
        .spawn()
        .with_context(|| format!("start {tool}: install the Debian packages that scripts/test names"))
}

/// Runs iperf3 from one host to another; the client's JSON.
pub(crate) fn iperf3(client: &Host, server: &Host, target: IpAddr, arguments: &str) -> Result<Value> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let mut serving = spawn(&server.namespace, "iperf3", "-s -1")?;
    let until = Instant::now() + PATIENCE;
    let result = loop {
        let output = output(&client.namespace, "iperf3", &format!("-c {target} -J {arguments}"))?;
        let json: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("iperf3: {}", String::from_utf8_lossy(&output.stderr)))?;
        match json.get("error").and_then(Value::as_str) {
            None => break Ok(json),
            // The server is not up yet.
            Some(error) if error.contains("unable to connect") && Instant::now() < until => {
                thread::sleep(Duration::from_millis(50));
            }
            Some(error) => break Err(anyhow::anyhow!("iperf3 to {target}: {error}")),
        }
    };
    if result.is_err() {
        let _ = serving.kill();
    }
    serving.wait().context("iperf3 server")?;
    result
}
