//! Programs of the distribution that a measurement needs: `ip`, `tc`, `ethtool`, `ping`, `iperf3`.

use anyhow::{Context, Result, bail};
use plimsoll_port::namespace::Namespace;
use std::process::{Child, Command, Output, Stdio};

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
